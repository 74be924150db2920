"""Flatbuffers, as Arrow's files have their metadata in: tables, read and written field by field."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

TABLE = ""  # a table's format


class Table:
    """One, in bytes from anywhere. Raises ValueError for what lies outside them."""

    def __init__(self, text: bytes, at: int) -> None:
        self._text = text
        self._at = at
        self._fields = at - int(self._number("<i", at))
        self._size = int(self._number("<H", self._fields))

    @classmethod
    def root(cls, text: bytes) -> Table:
        return cls(text, int(_unpack("<I", text, 0)))

    def number(self, field: int, format: str, default: int = 0) -> int:
        at = self._place(field)
        return default if at is None else int(self._number(format, at))

    def table(self, field: int) -> Table | None:
        at = self._place(field)
        return None if at is None else Table(self._text, self._follow(at))

    def tables(self, field: int) -> list[Table]:
        return [Table(self._text, self._follow(at)) for at in self._elements(field, 4)]

    def text(self, field: int) -> bytes:
        """Of a field of text, or of bytes."""
        places = self._elements(field, 1)
        return self._text[places.start:places.stop]

    def structs(self, field: int, format: str) -> list[tuple[Any, ...]]:
        """A vector of structures of that format of the struct module."""
        return [struct.unpack_from(format, self._text, at) for at in self._elements(field, struct.calcsize(format))]

    def _elements(self, field: int, size: int) -> range:
        at = self._place(field)
        if at is None:
            return range(0)
        vector = self._follow(at)
        count = int(self._number("<I", vector))
        if count * size > len(self._text) - vector - 4:
            raise ValueError(f"a list of {count} does not lie inside the metadata")
        return range(vector + 4, vector + 4 + count * size, size)

    def _place(self, field: int) -> int | None:
        entry = 4 + 2 * field
        if entry + 2 > self._size:
            return None
        offset = int(self._number("<H", self._fields + entry))
        return self._at + offset if offset else None

    def _follow(self, at: int) -> int:
        return at + int(self._number("<I", at))

    def _number(self, format: str, at: int) -> Any:
        return _unpack(format, self._text, at)


def _unpack(format: str, text: bytes, at: int) -> Any:
    if at < 0 or at + struct.calcsize(format) > len(text):
        raise ValueError(f"byte {at} lies outside the {len(text)} of the metadata")
    return struct.unpack_from(format, text, at)[0]


class Writing:
    """Of tables, each before what it names."""

    def __init__(self) -> None:
        self.text = bytearray(4)

    @classmethod
    def root(cls, fields: Fields) -> bytes:
        """A whole one, whose root this table is."""
        made = cls()
        struct.pack_into("<I", made.text, 0, made._table(fields))
        return bytes(made.text)

    def vector(self, format: str, structures: Sequence[tuple[Any, ...]]) -> int:
        """Of structures of that format of the struct module; where it is."""
        self._pad(8, 4)
        at = len(self.text)
        self.text += struct.pack("<I", len(structures))
        for each in structures:
            self.text += struct.pack(format, *each)
        return at

    def _pad(self, grain: int, before: int) -> None:
        self.text += bytes(-(len(self.text) + before) % grain)

    def _table(self, fields: Fields) -> int:
        places, end = {}, 4
        for number, (format, _) in sorted(fields.items(), key=lambda each: -_width(each[1][0])):
            width = _width(format)
            places[number] = -(-end // width) * width
            end = places[number] + width
        head = struct.pack("<HH", 4 + 2 * (max(fields) + 1), end) + b"".join(
            struct.pack("<H", places.get(number, 0)) for number in range(max(fields) + 1))
        self._pad(8, len(head))
        self.text += head
        table = len(self.text)
        self.text += struct.pack("<i", len(head)).ljust(end, b"\0")
        for number, (format, value) in fields.items():
            at = table + places[number]
            if isinstance(value, int):
                struct.pack_into(format, self.text, at, value)
            else:
                made = self._table(value) if isinstance(value, dict) else self.vector(format, value)
                struct.pack_into("<I", self.text, at, made - at)
        return table


# By their numbers: numbers, tables and lists of structures, whose format that is.
Fields: TypeAlias = "dict[int, tuple[str, int | Fields | Sequence[tuple[Any, ...]]]]"


def _width(format: str) -> int:
    return struct.calcsize(format) if len(format) == 2 else 4  # of a structure or table: where it is


def with_vectors(text: bytes, vectors: dict[int, tuple[str, Sequence[tuple[Any, ...]]]]) -> bytes:
    """The table with other lists of structures in fields that it has lists in."""
    writing = Writing()
    writing.text = bytearray(text)
    root = Table.root(text)
    for field, (format, structures) in vectors.items():
        at = root._place(field)
        if at is None:
            raise ValueError(f"the table has no field {field}")
        made = writing.vector(format, structures)
        struct.pack_into("<I", writing.text, at, made - at)
    return bytes(writing.text)
