"""What goes wrong, as exceptions: a class for each code, with the stable reason and what to do about it."""

from __future__ import annotations

import json
from typing import ClassVar

from ._refusal import Refusal, known


class Error(Exception):
    """A failure: what failed, on what, why; `remedy` says what to do about it, and may be empty.

    `reason` is a stable name, as in docs/api.md; `refused` says of each path why it was not taken, where the planner
    was asked. Each code has a class of its own, which is also the built-in exception that is nearest to it.
    """

    code: ClassVar[str] = "UNKNOWN"

    def __init__(self, message: str, reason: str = "", remedy: str = "", refused: tuple[Refusal, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.remedy = remedy
        self.refused = refused

    def __str__(self) -> str:
        text = f"{self.reason}: {self.message}" if self.reason else self.message
        lines = [f"{text} ({self.remedy})" if self.remedy else text]
        lines += [f"  not {each.path}: {each.reason}: {each.detail}" for each in self.refused]
        return "\n".join(lines)

    def __reduce__(self) -> tuple[type[Error], tuple[str, str, str, tuple[Refusal, ...]]]:
        return type(self), (self.message, self.reason, self.remedy, self.refused)


class Cancelled(Error):
    """The transfer was cancelled."""

    code = "CANCELLED"


class Unknown(Error):
    """A failure of a kind that this package does not know."""

    code = "UNKNOWN"


class InvalidArgument(Error, ValueError):
    """Something that was passed is wrong by itself."""

    code = "INVALID_ARGUMENT"


class DeadlineExceeded(Error, TimeoutError):
    """It took longer than it may."""

    code = "DEADLINE_EXCEEDED"


class NotFound(Error, LookupError):
    """There is no such buffer, peer, transfer, device, …"""

    code = "NOT_FOUND"


class AlreadyExists(Error, ValueError):
    """The name is taken."""

    code = "ALREADY_EXISTS"


class PermissionDenied(Error, PermissionError):
    """The caller may not."""

    code = "PERMISSION_DENIED"


class ResourceExhausted(Error):
    """A limit is reached, or memory is short."""

    code = "RESOURCE_EXHAUSTED"


class FailedPrecondition(Error):
    """It cannot be done as things are; a policy that no path meets, for one."""

    code = "FAILED_PRECONDITION"


class Aborted(Error):
    """Something that it needs went away: the owner of the memory, a peer's daemon."""

    code = "ABORTED"


class OutOfRange(Error, IndexError):
    """A range is not inside its buffer."""

    code = "OUT_OF_RANGE"


class Unimplemented(Error, NotImplementedError):
    """The daemon does not serve this."""

    code = "UNIMPLEMENTED"


class Internal(Error):
    """A fault of onecopy's own."""

    code = "INTERNAL"


class Unavailable(Error, ConnectionError):
    """The daemon, a peer or a link cannot be reached; trying again may help."""

    code = "UNAVAILABLE"


class DataLoss(Error):
    """The checksums of both ends differ."""

    code = "DATA_LOSS"


class Unauthenticated(Error, PermissionError):
    """The daemon cannot identify the caller."""

    code = "UNAUTHENTICATED"


CLASSES: dict[str, type[Error]] = {
    each.code: each
    for each in (
        Cancelled, Unknown, InvalidArgument, DeadlineExceeded, NotFound, AlreadyExists, PermissionDenied,
        ResourceExhausted, FailedPrecondition, Aborted, OutOfRange, Unimplemented, Internal, Unavailable, DataLoss,
        Unauthenticated)
}

_GET_A_DAEMON = (
    "start one: `onecopyd --name NAME`, or the service of the Debian package onecopy (docs/setup.md); the wheel "
    "does not include the daemon. If a daemon runs with another run directory, name it: connect(run_dir=…) or "
    "ONECOPY_RUN_DIR")


def build(document: str) -> Error:
    """The exception for an error as `onecopy --json` prints it."""
    fields = json.loads(document)["error"]
    refused = tuple(known(Refusal, each) for each in fields["refused"])
    remedy = fields["remedy"]
    if fields["reason"] == "DAEMON_UNREACHABLE":
        remedy = f"{remedy}; {_GET_A_DAEMON}" if remedy else _GET_A_DAEMON
    return CLASSES.get(fields["code"], Unknown)(fields["message"], fields["reason"], remedy, refused)
