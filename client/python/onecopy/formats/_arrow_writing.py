"""Files of Arrow: the metadata of record batches whose buffers others write."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from . import _arrow_file, _flat

_MAGIC = b"ARROW1\0\0"
_END = b"\xff\xff\xff\xff\0\0\0\0"  # of the messages
_ALIGNMENT = 64  # bytes, of each buffer in the file
_PAGE = 4096
_WORTH_A_PAGE = 1 << 20  # bytes of a body that begins with a page
_VERSION = 4  # V5


class Source(NamedTuple):
    """A buffer: what has it, as an array or a range, and how many bytes."""

    end: Any
    bytes: int


@dataclasses.dataclass(frozen=True)
class Node:
    """An array: its buffers in Arrow's order, None for a validity that is not there, and its children."""

    length: int
    null_count: int
    buffers: tuple[Source | None, ...]
    children: tuple[Node, ...] = ()

    def all(self) -> Iterator[Node]:
        """Itself, and each child after what it is a child of."""
        yield self
        for child in self.children:
            yield from child.all()


class Batch(NamedTuple):
    rows: int
    columns: Sequence[Node]


class Writing:
    """A file's texts, and where in it each buffer belongs."""

    def __init__(self, schema: bytes, footer: bytes) -> None:
        """`schema`: its message; `footer`: of a file of that schema that has no batches."""
        self._footer = footer
        self.texts = [(0, _MAGIC + schema)]
        self.buffers: list[tuple[Source, int]] = []
        self._end = len(_MAGIC) + len(schema)
        self._blocks: tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]] = ([], [])  # dictionaries, batches

    def dictionary(self, number: int, values: Node) -> None:
        self._add(Batch(values.length, [values]), number)

    def batch(self, batch: Batch) -> None:
        self._add(batch, None)

    def encoded(self, message: Any) -> None:
        """A batch as Arrow has put it together: its metadata, and after them its body."""
        text = memoryview(message).cast("B")
        size = 8 + int.from_bytes(text[4:8], "little")
        start = -(-self._end // _ALIGNMENT) * _ALIGNMENT
        body = len(text) - size
        self.texts.append((start, bytes(text[:size])))
        if body > 0:
            self.buffers.append((Source(text[size:], body), start + size))
        self._blocks[1].append((start, size, body))
        self._end = start + len(text)

    def end(self) -> None:
        dictionaries, batches = self._blocks
        footer = _flat.with_vectors(self._footer, {2: (_arrow_file.BLOCK, dictionaries), 3: (_arrow_file.BLOCK, batches)})
        footer += bytes(-len(footer) % 8)
        self.texts.append((self._end, _END + footer + len(footer).to_bytes(4, "little") + _MAGIC[:6]))

    def _add(self, batch: Batch, dictionary: int | None) -> None:
        nodes = [node for column in batch.columns for node in column.all()]
        described, at = [], 0
        placed: list[tuple[Source, int]] = []
        for node in nodes:
            for each in node.buffers:
                bytes = 0 if each is None else each.bytes
                described.append((at, bytes))
                if each is not None and bytes > 0:
                    placed.append((each, at))
                    at += -(-bytes // _ALIGNMENT) * _ALIGNMENT
        header: _flat.Fields = {
            0: ("<q", batch.rows), 1: (_arrow_file.PAIR, [(node.length, node.null_count) for node in nodes]),
            2: (_arrow_file.PAIR, described)}
        kind = _arrow_file.BATCH
        if dictionary is not None:
            header, kind = {0: ("<q", dictionary), 1: (_flat.TABLE, header)}, _arrow_file.DICTIONARY
        message = _flat.Writing.root({0: ("<h", _VERSION), 1: ("<B", kind), 2: (_flat.TABLE, header), 3: ("<q", at)})
        grain = _PAGE if at >= _WORTH_A_PAGE else _ALIGNMENT
        body = -(-(self._end + 8 + len(message)) // grain) * grain
        size = body - self._end - 8
        self.texts.append((self._end, b"\xff\xff\xff\xff" + size.to_bytes(4, "little") + message.ljust(size, b"\0")))
        self.buffers += [(source, body + offset) for source, offset in placed]
        self._blocks[dictionary is None].append((self._end, body - self._end, at))
        self._end = body + at
