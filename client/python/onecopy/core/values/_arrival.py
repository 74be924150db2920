"""What arrives in a buffer, and messages."""

from __future__ import annotations

import builtins
import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from ._errors import InvalidArgument

@dataclasses.dataclass(frozen=True)
class Arrival:
    """A transfer that has written into a buffer, or a message alone."""

    buffer: str
    buffer_id: str
    sequence: int
    """Counts the arrivals of the buffer: 1 more than that of the one before."""
    transfer: str
    """The transfer's id; empty for a message alone."""
    sender: str
    """The owner that requested it: `uid@node`."""
    offset: int
    """Where the first byte was written, in bytes."""
    bytes: int
    """The distance from the first byte written to the last; 0 for a message alone."""
    payload_bytes: int
    """How many bytes were written: fewer than `bytes` if there are gaps between ranges."""
    message: builtins.bytes
    time: datetime.datetime
    """When it arrived, by the clock of the buffer's node."""

    @classmethod
    def _of(cls, fields: Mapping[str, Any]) -> Arrival:
        return cls(fields["buffer"], fields["buffer_id"], fields["sequence"], fields["transfer"] or "", fields["from"],
                   fields["offset_bytes"], fields["bytes"], fields["payload_bytes"],
                   builtins.bytes.fromhex(fields["message_hex"]), datetime.datetime.fromisoformat(fields["time"]))


def as_message(message: str | bytes) -> bytes:
    """The bytes of a message; text becomes UTF-8. The daemon checks the length."""
    if isinstance(message, str):
        return message.encode()
    if isinstance(message, (bytes, bytearray, memoryview)):
        return bytes(message)
    raise InvalidArgument(f"a message is a {type(message).__name__}", "BAD_ARGUMENT", "pass bytes, or a str")


__all__ = ["Arrival", "as_message"]
