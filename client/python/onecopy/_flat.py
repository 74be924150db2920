"""Flatbuffers, as Arrow's files have their metadata in: tables, read field by field."""

from __future__ import annotations

import struct
from typing import Any


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
            raise ValueError(f"a list of {count} does not lie in the metadata")
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
        raise ValueError(f"byte {at} is not among the {len(text)} of the metadata")
    return struct.unpack_from(format, text, at)[0]
