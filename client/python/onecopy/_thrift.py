"""Thrift's compact protocol, as far as footers of Parquet have it: structures as dicts by the numbers of their fields.

Read here rather than by a library, since these end the process over some footers that are not right.
"""

from __future__ import annotations

from typing import Any

_MOST_DEPTH = 32
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)

Struct = dict[int, Any]


class Reader:
    """Of bytes from anywhere. Raises ValueError for what is none; what it makes is not much larger than they are."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._at = 0

    def struct(self, depth: int = 0) -> Struct:
        if depth > _MOST_DEPTH:
            raise ValueError("structures lie deeper in each other than any do")
        fields: Struct = {}
        number = 0
        while (head := self._byte()) & 15 != _STOP:
            step = head >> 4
            number = number + step if step else self._zigzag()
            fields[number] = self._value(head & 15, depth, in_list=False)
        return fields

    def _value(self, kind: int, depth: int, *, in_list: bool) -> Any:
        if kind in (_TRUE, _FALSE):
            return (self._byte() if in_list else kind) == _TRUE
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _BINARY:
            return self._take(self._varint())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            return self._list(depth + 1)
        if kind == _BYTE:
            return self._byte()
        if kind == _DOUBLE:
            return self._take(8)
        if kind == _MAP:
            return self._map(depth + 1)
        raise ValueError(f"a field has type {kind}, which is none")

    def _list(self, depth: int) -> list[Any]:
        if depth > _MOST_DEPTH:
            raise ValueError("lists lie deeper in each other than any do")
        head = self._byte()
        count = head >> 4
        if count == 15:
            count = self._varint()
        self._check(count)  # each takes a byte at least
        return [self._value(head & 15, depth, in_list=True) for _ in range(count)]

    def _map(self, depth: int) -> list[tuple[Any, Any]]:
        if depth > _MOST_DEPTH:
            raise ValueError("maps lie deeper in each other than any do")
        count = self._varint()
        self._check(count)
        if count == 0:
            return []
        kinds = self._byte()
        return [(self._value(kinds >> 4, depth, in_list=True), self._value(kinds & 15, depth, in_list=True))
                for _ in range(count)]

    def _check(self, bytes: int) -> None:
        if bytes > len(self._text) - self._at:
            raise ValueError(f"{bytes} more are said to follow byte {self._at} of {len(self._text)}")

    def _take(self, bytes: int) -> bytes:
        self._check(bytes)
        self._at += bytes
        return self._text[self._at - bytes:self._at]

    def _byte(self) -> int:
        self._check(1)
        self._at += 1
        return self._text[self._at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift >= 70:
                raise ValueError("a number has more than 64 bits")

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
