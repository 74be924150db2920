"""Protocol buffers, as ORC's files have their footers in: messages as dicts of lists, by the numbers of their fields.

Read here rather than by a library, which would have to be of a version that others in the process can live with.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

_VARINT, _BYTES = 0, 2
_SIZES = {1: 8, _BYTES: 0, 5: 4}

Message = dict[int, list["int | bytes"]]  # what has another type than is asked for does not count


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
        value = 0
        if kind == _VARINT:
            value, at = varint(text, at)
        elif kind in _SIZES:
            size = _SIZES[kind]
            if kind == _BYTES:
                size, begin = varint(text, at)
            at = begin + size
            if at > len(text):
                raise ValueError(f"{size} bytes are announced after byte {begin} of {len(text)}")
        else:
            raise ValueError(f"a field has wire type {kind}, which does not exist")
        if number in wanted and kind in (_VARINT, _BYTES):
            most -= 1
            if most < 0:
                raise ValueError("a message has more fields than allowed")
            fields.setdefault(number, []).append(value if kind == _VARINT else text[begin:at])
    return fields


def number(message: Message, field: int, default: int = 0) -> int:
    """The last one counts."""
    return next((each for each in reversed(message.get(field, ())) if isinstance(each, int)), default)


def texts(message: Message, field: int) -> list[bytes]:
    return [each for each in message.get(field, ()) if isinstance(each, bytes)]


def messages(message: Message, field: int, wanted: Container[int], most: int) -> Iterator[Message]:
    """Repeated; each of at most so many wanted fields."""
    for each in texts(message, field):
        yield read(each, wanted, most)


def numbers(message: Message, field: int, most: int) -> list[int]:
    """Repeated, packed or one by one; at most so many."""
    found: list[int] = []
    for each in message.get(field, []):
        at = 0
        while isinstance(each, bytes) and at < len(each):
            if len(found) == most:
                raise ValueError(f"field {field} occurs more than {most} times")
            value, at = varint(each, at)
            found.append(value)
        if isinstance(each, int):
            found.append(each)
    return found


def varint(text: bytes, at: int) -> tuple[int, int]:
    """The number that is there, and where it ends."""
    value = shift = 0
    while True:
        if at >= len(text):
            raise ValueError("a number does not end")
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
