"""Errors as exceptions: a class for each code, with a stable reason and a remedy."""

from __future__ import annotations

import json
from typing import ClassVar

from ._refusal import Refusal, known


class Error(Exception):
    """A failure. The message says what failed, on what, and why. `remedy` says what to do about it, and can be empty.

    `reason` is a stable name, listed in docs/api.md. If the planner was asked, `refused` says for each path why it was not
    taken. Each code has its own class, which also derives from the closest built-in exception."""

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
    """An argument is wrong in itself."""

    code = "INVALID_ARGUMENT"


class DeadlineExceeded(Error, TimeoutError):
    """The call took longer than its limit."""

    code = "DEADLINE_EXCEEDED"


class NotFound(Error, LookupError):
    """The buffer, peer, transfer or device does not exist, or the caller has no access to it."""

    code = "NOT_FOUND"


class AlreadyExists(Error, ValueError):
    """The name is taken."""

    code = "ALREADY_EXISTS"


class PermissionDenied(Error, PermissionError):
    """The caller does not have the right."""

    code = "PERMISSION_DENIED"


class ResourceExhausted(Error):
    """A limit is reached, or memory is short."""

    code = "RESOURCE_EXHAUSTED"


class FailedPrecondition(Error):
    """The state of the system does not allow it: for example, no path meets the policy."""

    code = "FAILED_PRECONDITION"


class Aborted(Error):
    """Something that the call needs went away: the owner of the memory, or a peer's daemon."""

    code = "ABORTED"


class OutOfRange(Error, IndexError):
    """A range is not inside its buffer."""

    code = "OUT_OF_RANGE"


class Unimplemented(Error, NotImplementedError):
    """The daemon does not serve this."""

    code = "UNIMPLEMENTED"


class Internal(Error):
    """A fault of onecopy itself."""

    code = "INTERNAL"


class Unavailable(Error, ConnectionError):
    """The daemon, a peer or a link cannot be reached. Trying again may help."""

    code = "UNAVAILABLE"


class DataLoss(Error):
    """The checksums of both ends differ, or a file changed while it was read."""

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
