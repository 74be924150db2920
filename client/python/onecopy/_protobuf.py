"""Protocol buffers, as ORC's files have their footers in: messages as dicts of lists, by the numbers of their fields.

Read here rather than by a library, which would have to be of a version that others in the process can live with.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5

Message = dict[int, list[Any]]


def read(text: bytes, wanted: Container[int], most: int) -> Message:
    """The wanted fields of one message, at most so many values, as each takes more memory than it does there; messages
    inside it are bytes so far. Raises ValueError for what is not a message, and for more."""
    fields: Message = {}
    at = 0
    while at < len(text):
        head, at = varint(text, at)
        number, kind = head >> 3, head & 7
        if number == 0:
            raise ValueError("a field has no number")
        begin = at
        value: Any
        if kind == _VARINT:
            value, at = varint(text, at)
        else:
            if kind == _BYTES:
                size, begin = varint(text, at)
            elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
                size = 8 if kind == _EIGHT_BYTES else 4
            else:
                raise ValueError(f"a field has wire type {kind}, which does not exist")
            at = begin + size
            if at > len(text):
                raise ValueError(f"{size} bytes are said to follow byte {begin} of {len(text)}")
        if number in wanted:
            most -= 1
            if most < 0:
                raise ValueError("a message has more fields than any does")
            fields.setdefault(number, []).append(value if kind == _VARINT else text[begin:at])
    return fields


def number(message: Message, field: int, default: int = 0) -> int:
    """The last one counts."""
    value = message.get(field, [default])[-1]
    if not isinstance(value, int):
        raise ValueError(f"field {field} is not a number")
    return value


def texts(message: Message, field: int) -> list[bytes]:
    found = message.get(field, [])
    if not all(isinstance(each, bytes) for each in found):
        raise ValueError(f"field {field} has no bytes")
    return found


def messages(message: Message, field: int, wanted: Container[int], most: int) -> Iterator[Message]:
    """Repeated; each of at most so many wanted fields."""
    for each in texts(message, field):
        yield read(each, wanted, most)


def numbers(message: Message, field: int, most: int) -> list[int]:
    """Repeated, packed or one by one; at most so many."""
    found: list[int] = []
    for each in message.get(field, []):
        if isinstance(each, int):
            found.append(each)
            continue
        at = 0
        while at < len(each):
            if len(found) == most:
                raise ValueError(f"field {field} is there more often than {most} times")
            value, at = varint(each, at)
            found.append(value)
    return found


def varint(text: bytes, at: int) -> tuple[int, int]:
    """The number that is there, and where it ends."""
    value = shift = 0
    while True:
        if at >= len(text):
            raise ValueError("a number has no end")
        byte = text[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift >= 70:
            raise ValueError("a number has more than 64 bits")
    if value >= 1 << 64:
        raise ValueError("a number has more than 64 bits")
    return value, at
