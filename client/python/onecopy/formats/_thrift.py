"""Thrift's compact protocol, as far as footers of Parquet need it.

Read here rather than by a library, since these end the process over some footers that are not right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)
MOST_VALUES = 1 << 25  # of a text: a budget, as each takes the time of some bytes
_MOST_DEPTH = 32

Struct = dict[int, Any]


class Many(NamedTuple):
    """A list of structures, or of values of the type `of`. `each` is called as the reader is at each structure, and reads
    it; without it what they have is kept. `begin` gets their number first, and may refuse it."""

    of: int
    each: Callable[[Reader], None] | None = None
    begin: Callable[[int], None] | None = None


# Of a structure, by number: the types of fields that are wanted, of which others are passed over.
Fields = Mapping[int, "int | Many | Fields"]


class Reader:
    """Of bytes from anywhere, from some place on. Raises ValueError for what is not a text of Thrift, and for one of more
    values than the budget. Keeps what is asked for alone."""

    def __init__(self, text: bytes, at: int = 0) -> None:
        self._text = text
        self._left = MOST_VALUES
        self.at = at

    def struct(self, wanted: Fields, depth: int = 0) -> Struct:
        """Of a field that is there twice the last one counts, as with Thrift's own code; one of another type is passed
        over, likewise."""
        _check_depth(depth)
        fields: Struct = {}
        number = 0
        while (kind := (head := self._byte()) & 15) != STOP:
            step = head >> 4
            number = number + step if step else self._zigzag()
            spec = wanted.get(number)
            if spec is None or not _fits(spec, kind):
                self._skip(kind, depth, in_list=False)
            elif isinstance(spec, Many):
                fields[number] = self._many(spec, depth + 1)
            elif isinstance(spec, int):
                fields[number] = kind == TRUE if kind in (TRUE, FALSE) else self._value(kind)
            else:
                fields[number] = self.struct(spec, depth + 1)
        return fields

    def skip_struct(self, depth: int = 0) -> None:
        _check_depth(depth)
        while (kind := (head := self._byte()) & 15) != STOP:
            if head >> 4 == 0:
                self._varint()
            self._skip(kind, depth, in_list=False)

    def _many(self, spec: Many, depth: int) -> list[Any]:
        _check_depth(depth)
        _, count = self._list_head()  # of what it is said to have Thrift's own code takes no notice
        if spec.begin is not None:
            spec.begin(count)
        if spec.each is None:
            return [self._value(spec.of) for _ in range(count)]
        for _ in range(count):
            self._spend()
            spec.each(self)
        return []

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        count = head >> 4
        if count == 15:
            count = self._varint()
        self._check(count)  # each takes a byte at least
        return head & 15, count

    def _value(self, kind: int) -> Any:
        self._spend()
        if kind in (I16, I32, I64):
            return self._zigzag()
        if kind == BINARY:
            size = self._varint()
            self._check(size)
            self.at += size
            return self._text[self.at - size:self.at]
        raise ValueError(f"a value has type {kind}, which is not allowed there")

    def _skip(self, kind: int, depth: int, *, in_list: bool) -> None:
        self._spend()
        if kind in (TRUE, FALSE):
            if in_list:
                self._byte()
        elif kind in (I16, I32, I64):
            self._varint()
        elif kind == BINARY:
            self._pass(self._varint())
        elif kind == STRUCT:
            self.skip_struct(depth + 1)
        elif kind in (LIST, SET):
            self._skip_list(depth + 1)
        elif kind == BYTE:
            self._byte()
        elif kind == DOUBLE:
            self._pass(8)
        elif kind == MAP:
            self._skip_map(depth + 1)
        else:
            raise ValueError(f"a field has type {kind}, which does not exist")

    def _skip_list(self, depth: int) -> None:
        _check_depth(depth)
        kind, count = self._list_head()
        if kind in (TRUE, FALSE, BYTE):
            self._pass(count)
        elif kind == DOUBLE:
            self._pass(8 * count)
        else:
            for _ in range(count):
                self._skip(kind, depth, in_list=True)

    def _skip_map(self, depth: int) -> None:
        _check_depth(depth)
        count = self._varint()
        self._check(count)
        if count == 0:
            return
        kinds = self._byte()
        for _ in range(count):
            self._skip(kinds >> 4, depth, in_list=True)
            self._skip(kinds & 15, depth, in_list=True)

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it has more than {MOST_VALUES} values")

    def _check(self, bytes: int) -> None:
        if bytes > len(self._text) - self.at:
            raise ValueError(f"{bytes} more bytes are announced after byte {self.at} of {len(self._text)}")

    def _pass(self, bytes: int) -> None:
        self._check(bytes)
        self.at += bytes

    def _byte(self) -> int:
        at = self.at
        if at >= len(self._text):
            raise ValueError(f"it ends early, at byte {at}")
        self.at = at + 1
        return self._text[at]

    def _varint(self) -> int:
        byte = self._byte()
        value, shift = byte & 127, 7
        while byte >= 128:
            if shift >= 70:
                raise ValueError("a number has more than 64 bits")
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
        return value

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


def _check_depth(depth: int) -> None:
    if depth > _MOST_DEPTH:
        raise ValueError("structures or lists are nested deeper than allowed")


def _fits(spec: int | Many | Fields, kind: int) -> bool:
    if isinstance(spec, Many):
        return kind == LIST
    if isinstance(spec, int):
        return kind == spec or (spec == TRUE and kind == FALSE)
    return kind == STRUCT
