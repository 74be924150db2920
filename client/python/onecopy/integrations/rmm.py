"""A memory resource for RMM that uses a pool: the daemon already has what RAPIDS allocates.

    import onecopy.rmm, rmm
    rmm.mr.set_current_device_resource(onecopy.rmm.resource())

RMM calls Python for each allocation, which takes some microseconds. To avoid that, put RMM's own pool before it:
rmm.mr.PoolMemoryResource(onecopy.rmm.resource(), initial_pool_size=…)."""

from __future__ import annotations

import contextlib
import importlib
import warnings
from typing import Any

from ..core.memory import _streams
from ..core.memory._pool import DevicePool
from ..core.node._node import Node
from ..core.values._errors import Error, ResourceExhausted
from . import _hooks

_mr: Any = importlib.import_module("rmm.mr")  # not for mypy, which would read all of it


class Resource(_mr.CallbackMemoryResource):  # type: ignore[misc]
    """The memory resource of one GPU; made by `resource`. It keeps the pool."""

    def __init__(self, pool: DevicePool) -> None:
        native = pool._native

        def allocate(size: int, stream: Any) -> int:
            try:
                return native.allocate_bytes(max(1, size), _streams.number(stream))
            except ResourceExhausted as failure:  # what RMM knows as std::bad_alloc
                raise MemoryError(str(failure)) from failure

        def deallocate(address: int, size: int, stream: Any) -> None:
            try:
                native.deallocate(address, max(1, size), _streams.number(stream))
            except Error as failure:  # RMM has no way to hear of it
                with contextlib.suppress(Warning):
                    warnings.warn(f"memory of {pool!r} was not freed: {failure}", RuntimeWarning, stacklevel=2)

        super().__init__(allocate, deallocate)
        self.pool = pool


def resource(node: Node | DevicePool | None = None, device: Any = None, **options: Any) -> Resource:
    """Makes a memory resource from a pool of `node` (None: of onecopy.connect()'s), or from a given pool. `device`: its
    GPU; None: the current one; `options`: see Node.pool. If the pool has no more memory, the call that allocates raises
    MemoryError."""
    return Resource(_hooks.DevicePools(node, device, options).first())


__all__ = ["Resource", "resource"]
