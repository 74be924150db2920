"""Moves memory between machines by the shortest path that works, and proves how many copies it took.

    import onecopy
    node = onecopy.connect()
    array = node.empty((1024, 1024), "float32")
    done = node.transfer(array, "west:weights", at_most=3)
    print(done.receipt)
"""

from __future__ import annotations

import importlib
import os
from pkgutil import extend_path as _extend_path
from typing import TYPE_CHECKING, Any

from .core.memory._mapped import MappedArray
from .core.memory._pool import DeviceArray, DevicePool, Pool, PoolArray, PoolStatistics
from .core.memory._shared import SharedArray
from .core.memory._streams import Queued
from .core.node._connect import connect
from .core.node._loaded import Loaded, Saved
from .core.node._node import Node
from .core.node._watch import AsyncWatch, Watch
from .core.requests._ends import End
from .core.requests._layouts import Layout
from .core.requests._prepared import Prepared
from .core.values._arrival import Arrival
from .core.values._broadcast import BroadcastCopy, BroadcastOrigin
from .core.values._errors import (
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
from .core.values._program import diagnose, program
from .core.values._refusal import Refusal
from .core.values._transfer import Transfer
from .core.values._values import (
    Attempt,
    Buffer,
    Checksum,
    Diagnosis,
    Endpoint,
    Export,
    Finding,
    Grant,
    Lane,
    Plan,
    Receipt,
    Step,
    Sum,
)

if TYPE_CHECKING:
    from . import aio

    __version__: str

__path__ = _extend_path(__path__, __name__)  # so that onecopy.v1, which protoc generates elsewhere, is found


def doctor() -> Diagnosis:
    """Finds what keeps this machine from the one-copy path. Works with or without a running daemon."""
    return diagnose()


def load(file: str | os.PathLike[str], *, node: Node | None = None, device: Any = None, **options: Any) -> Loaded:
    """Calls Node.load of `node`; without a node, of this machine's node (see connect)."""
    return (node or connect()).load(file, device=device, **options)


def save(file: str | os.PathLike[str], arrays: Any, *, node: Node | None = None, **options: Any) -> Saved:
    """Calls Node.save of `node`; without a node, of this machine's node (see connect)."""
    return (node or connect()).save(file, arrays, **options)


# Modules that a program can use without an import of its own, as `onecopy.torch.pool()`.
_MODULES = frozenset(("aio", "arrow", "cupy", "numba", "orc", "parquet", "ray", "rmm", "torch", "vllm"))


def __getattr__(name: str) -> Any:
    """Imports a module, or finds the version, when a program first uses it."""
    if name in _MODULES:
        try:
            return importlib.import_module(f"onecopy.{name}")
        except ImportError as failure:  # so that hasattr() is False
            raise AttributeError(f"onecopy.{name} cannot be imported: {failure}") from failure
    if name == "__version__":
        from importlib.metadata import version

        globals()[name] = found = version("onecopy")
        return found
    raise AttributeError(f"module 'onecopy' has no attribute {name!r}")


__all__ = [
    "Aborted", "AlreadyExists", "Arrival", "AsyncWatch", "Attempt", "BroadcastCopy", "BroadcastOrigin", "Buffer", "Cancelled", "Checksum",
    "DataLoss", "DeadlineExceeded",
    "DeviceArray", "DevicePool", "Diagnosis", "End", "Endpoint", "Error", "Export", "FailedPrecondition", "Finding", "Grant",
    "Internal", "InvalidArgument", "Lane", "Layout", "Loaded", "MappedArray", "Node", "NotFound", "OutOfRange",
    "PermissionDenied", "Plan", "Pool", "PoolArray", "PoolStatistics", "Prepared", "Queued", "Receipt", "Refusal",
    "ResourceExhausted", "Saved", "SharedArray", "Step", "Sum", "Transfer", "Unauthenticated", "Unavailable",
    "Unimplemented", "Unknown", "Watch", "aio", "connect", "doctor", "load", "program", "save",
]
