"""What the system says, as errors of the package."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from . import _errors
from ._errors import InvalidArgument


@contextlib.contextmanager
def system_errors(what: str) -> Iterator[None]:
    """Of an OSError the error that the library has for it. `what` was tried."""
    try:
        yield
    except OSError as failure:
        kind, reason, remedy = {
            errno.ENOENT: (_errors.NotFound, "FILE_NOT_FOUND", ""), errno.ENOTDIR: (_errors.NotFound, "FILE_NOT_FOUND", ""),
            errno.EACCES: (_errors.PermissionDenied, "ACCESS_DENIED", ""),
            errno.EPERM: (_errors.PermissionDenied, "ACCESS_DENIED", ""),
            errno.ENAMETOOLONG: (InvalidArgument, "BAD_ARGUMENT", ""), errno.ELOOP: (InvalidArgument, "BAD_ARGUMENT", ""),
            errno.ENXIO: (InvalidArgument, "BAD_ARGUMENT", ""),
            errno.EMFILE: (_errors.ResourceExhausted, "OPEN_FILES", "close some files, or raise the limit: ulimit -n"),
            errno.ENFILE: (_errors.ResourceExhausted, "OPEN_FILES", "raise the machine's limit: sysctl fs.file-max"),
        }.get(failure.errno or 0, (_errors.Internal, "IO_ERROR", ""))
        raise kind(f"{what}: {failure.strerror}", reason, remedy) from failure


__all__ = ["system_errors"]
