"""Arrow's file format: where the buffers of each record batch lie."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import NamedTuple

from ..core.values._errors import InvalidArgument, Unimplemented
from ._flat import Table
from ._opened import OpenFile

_MAGIC = b"ARROW1"
_TAIL_BYTES = len(_MAGIC) + 4
# A budget of the footer, and of each message; all messages together have no more than the file, which is so for those that
# share no bytes.
_MOST_METADATA = 64 << 20
BLOCK = "<qi4xq"  # offset, bytes of metadata, bytes of the body
PAIR = "<qq"
DICTIONARY, BATCH = 2, 3  # kinds of messages
_LITTLE = 0
_VERSIONS = 3, 4  # V4, V5, of which the latter is the first that has a word for compression
_COMPRESSION = b"ARROW:experimental_compression"  # of files before that one
_MOST_PADDING = 64


class Node(NamedTuple):
    """An array, or a child of one."""

    length: int
    null_count: int


class Batch(NamedTuple):
    """Its arrays, each before its children; their buffers likewise, as offset in the file and bytes; and where the
    padding of each buffer ends, which is moved with it, or 0 for a buffer that does not lie in the batch."""

    rows: int
    nodes: list[Node]
    buffers: list[tuple[int, int]]
    ends: list[int]


class File:
    """Its footer."""

    def __init__(self, file: OpenFile, footer_at: int, schema: Table, batches: list[tuple[int, int, int]],
                 dictionaries: list[tuple[int, int, int]]) -> None:
        self.footer_at = footer_at
        self.schema = schema
        self.batches = batches
        self.dictionaries = dictionaries
        self._file = file
        self._left = file.size

    def message(self, block: tuple[int, int, int]) -> Table:
        """What is said of a block. Raises ValueError."""
        offset, metadata, body = block
        if (offset < 8 or metadata < 8 or body < 0 or metadata > _MOST_METADATA or offset + metadata + body > self.footer_at
                or (offset | metadata | body) % 8 != 0):
            raise ValueError(f"a block of {metadata} and {body} bytes at {offset} does not lie in the file")
        self._left -= metadata
        if self._left < 0:
            raise ValueError("its messages have more bytes than the file")
        text = self._file.read(offset, metadata)
        first = 8 if text[:4] == b"\xff\xff\xff\xff" else 4  # older files have the length alone
        if int.from_bytes(text[first - 4:first], "little") != metadata - first:
            raise ValueError(f"the message at {offset} does not have the length that the footer states")
        return Table.root(text[first:])


def bad(name: str, why: object) -> InvalidArgument:
    return InvalidArgument(f"{name} is not a valid Arrow file: {why}", "BAD_FORMAT", "download or write the file again")


def open_footer(file: OpenFile) -> File:
    tail = file.read(max(0, file.size - _TAIL_BYTES), _TAIL_BYTES)
    if file.size < 8 + _TAIL_BYTES or tail[4:] != _MAGIC:  # how it begins, no reader looks at
        raise bad(file.name, "it does not end with Arrow's magic bytes (Arrow streams and Feather 1 are other formats)")
    length = int.from_bytes(tail[:4], "little", signed=True)
    if not 0 < length <= min(file.size - 8 - _TAIL_BYTES, _MOST_METADATA):
        raise bad(file.name, f"it announces a footer of {length} bytes, and the whole file has {file.size}")
    at = file.size - _TAIL_BYTES - length
    try:
        footer = Table.root(file.read(at, length))
        schema = footer.table(1)
        if schema is None:
            raise ValueError("it has no schema")
        if schema.number(0, "<h") != _LITTLE:
            raise Unimplemented(f"{file.name} was written in another byte order", "BAD_FORMAT", "write it again on this machine")
        return File(file, at, schema, footer.structs(3, BLOCK), footer.structs(2, BLOCK))
    except ValueError as failure:
        if isinstance(failure, InvalidArgument):
            raise
        raise bad(file.name, f"its footer cannot be read: {failure}") from None


def read_batch(file: OpenFile, footer: File, block: tuple[int, int, int]) -> Batch:
    """Of a record batch's block."""
    try:
        return _batch(file.name, _header(file, footer, block, BATCH), block)
    except ValueError as failure:
        if isinstance(failure, InvalidArgument):
            raise
        raise bad(file.name, f"a record batch cannot be read: {failure}") from None


def read_dictionaries(file: OpenFile, footer: File) -> Iterator[tuple[int, Batch]]:
    """The dictionaries' numbers, and what they have."""
    seen = set()
    try:
        for block in footer.dictionaries:
            message = _header(file, footer, block, DICTIONARY)
            number, data = message.number(0, "<q"), message.table(1)
            if data is None:
                raise ValueError("a dictionary has no data")
            if message.number(2, "<b") or number in seen:
                raise Unimplemented(f"{file.name} has a dictionary in parts", "BAD_FORMAT",
                                    "write it with unified dictionaries: table.unify_dictionaries()")
            seen.add(number)
            yield number, _batch(file.name, data, block)
    except ValueError as failure:
        if isinstance(failure, InvalidArgument):
            raise
        raise bad(file.name, f"a dictionary cannot be read: {failure}") from None


def dictionary_numbers(schema: Table) -> list[int | None]:
    """Of each column of the schema; None where it has no dictionary."""
    found: list[int | None] = []
    for field in schema.tables(1):
        dictionary = field.table(4)
        found.append(None if dictionary is None else dictionary.number(0, "<q"))
    return found


def _header(file: OpenFile, footer: File, block: tuple[int, int, int], kind: int) -> Table:
    """Of a message of that kind."""
    message = footer.message(block)
    header = message.table(2)
    if message.number(1, "<B") != kind or header is None or message.number(3, "<q") != block[2]:
        raise ValueError(f"the message at {block[0]} is not of the kind that the footer states")
    version = message.number(0, "<h")
    if version not in _VERSIONS:
        raise ValueError(f"a message has the unknown version {version}")
    if version == _VERSIONS[0] and any(each.text(0) == _COMPRESSION for each in message.tables(4)):
        raise _compressed(file.name)
    return header


def _compressed(name: str) -> Unimplemented:
    return Unimplemented(f"the buffers of {name} are compressed", "BAD_FORMAT",
                         "write it without compression: pyarrow.ipc.IpcWriteOptions(compression=None)")


def _batch(name: str, header: Table, block: tuple[int, int, int]) -> Batch:
    if header.table(3) is not None:
        raise _compressed(name)
    offset, metadata, body = block
    start = offset + metadata
    buffers, ends = [], []
    described = header.structs(2, PAIR)
    starts = sorted({at for at, bytes in described if bytes > 0} | {body})
    for at, bytes in described:
        buffers.append((start + at, bytes))
        if at < 0 or bytes < 0 or at + bytes > body:
            ends.append(0)
            continue
        following = starts[min(bisect.bisect_left(starts, at + bytes), len(starts) - 1)]
        ends.append(start + (following if following - at - bytes < _MOST_PADDING else at + bytes))
    nodes = [Node(*each) for each in header.structs(1, PAIR)]
    rows = header.number(0, "<q")
    if rows < 0 or any(each.length < 0 or not 0 <= each.null_count <= each.length for each in nodes):
        raise ValueError("an array has a negative number of elements, or more nulls than elements")
    return Batch(rows, nodes, buffers, ends)
