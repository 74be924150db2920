"""Moves memory between machines by the shortest path that works, and proves how many copies it took.

    import onecopy
    node = onecopy.connect()
    array = node.empty((1024, 1024), "float32")
    done = node.transfer(array, "west:weights", at_most=3)
    print(done.receipt)
"""

import os
from importlib.metadata import version as _version
from pkgutil import extend_path as _extend_path
from typing import Any

from . import aio
from ._connect import connect
from ._device import DeviceArray
from ._errors import (
    Aborted,
    AlreadyExists,
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    Error,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    Unknown,
)
from ._formats import Loaded, Saved
from ._layouts import Layout
from ._mapped import MappedArray
from ._node import End, Node
from ._pool import DevicePool, Pool, PoolArray, PoolStatistics
from ._prepared import Prepared
from ._program import diagnose, program
from ._shared import SharedArray
from ._streams import Queued
from ._transfer import Transfer
from ._values import (
    Attempt,
    Buffer,
    Checksum,
    Diagnosis,
    Endpoint,
    Finding,
    Grant,
    Lane,
    Plan,
    Receipt,
    Refusal,
    Step,
    Sum,
)

__version__ = _version("onecopy")
__path__ = _extend_path(__path__, __name__)  # so that onecopy.v1, which protoc generates elsewhere, is found


def doctor() -> Diagnosis:
    """What keeps this machine from the one-copy path, whether or not a daemon runs."""
    return diagnose()


def load(file: str | os.PathLike[str], *, node: Node | None = None, device: Any = None, **options: Any) -> Loaded:
    """Node.load of that node or, without one, of this machine's (see connect)."""
    return (node or connect()).load(file, device=device, **options)


def save(file: str | os.PathLike[str], arrays: Any, *, node: Node | None = None, **options: Any) -> Saved:
    """Node.save, likewise."""
    return (node or connect()).save(file, arrays, **options)


__all__ = [
    "Aborted", "AlreadyExists", "Attempt", "Buffer", "Cancelled", "Checksum", "DataLoss", "DeadlineExceeded",
    "DeviceArray", "DevicePool", "Diagnosis", "End", "Endpoint", "Error", "FailedPrecondition", "Finding", "Grant",
    "Internal", "InvalidArgument", "Lane", "Layout", "Loaded", "MappedArray", "Node", "NotFound", "OutOfRange",
    "PermissionDenied", "Plan", "Pool", "PoolArray", "PoolStatistics", "Prepared", "Queued", "Receipt", "Refusal",
    "ResourceExhausted", "Saved", "SharedArray", "Step", "Sum", "Transfer", "Unauthenticated", "Unavailable",
    "Unimplemented", "Unknown", "aio", "connect", "doctor", "load", "program", "save",
]
