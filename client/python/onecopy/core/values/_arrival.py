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
    """One more than that of the arrival before in the same buffer."""
    transfer: str
    """The transfer's id; empty for a message alone."""
    sender: str
    """The user that asked for it: `uid@node`."""
    offset: int
    """In bytes: where the first byte was written."""
    bytes: int
    """From the first byte that was written to the last; 0 for a message alone."""
    payload_bytes: int
    """How many bytes were written: fewer than `bytes` if there are gaps between ranges."""
    message: builtins.bytes
    time: datetime.datetime
    """By the clock of the buffer's node."""

    @classmethod
    def _of(cls, fields: Mapping[str, Any]) -> Arrival:
        return cls(fields["buffer"], fields["buffer_id"], fields["sequence"], fields["transfer"] or "", fields["from"],
                   fields["offset_bytes"], fields["bytes"], fields["payload_bytes"],
                   builtins.bytes.fromhex(fields["message_hex"]), datetime.datetime.fromisoformat(fields["time"]))


def as_message(message: str | bytes) -> bytes:
    """A text is sent as UTF-8. How long it may be, the daemon says."""
    if isinstance(message, str):
        return message.encode()
    if isinstance(message, (bytes, bytearray, memoryview)):
        return bytes(message)
    raise InvalidArgument(f"a message is a {type(message).__name__}", "BAD_ARGUMENT", "pass bytes, or a str")


__all__ = ["Arrival", "as_message"]
