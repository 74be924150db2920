"""Numba's memory from a pool (an EMM plug-in): its device arrays are registered with the daemon already.

    import onecopy.numba
    onecopy.numba.use()                            # before Numba first uses a GPU

or NUMBA_CUDA_MEMORY_MANAGER=onecopy.numba in the environment.
"""

from __future__ import annotations

import ctypes
import importlib
from typing import Any

from .. import _native
from ..core.memory._pool import DevicePool
from ..core.node._node import Node
from ..core.values._errors import FailedPrecondition, ResourceExhausted
from . import _hooks

_cuda: Any = importlib.import_module("numba.cuda")  # not for mypy, which would read all of it
_driver: Any = importlib.import_module("numba.cuda.cudadrv.driver")

_default = _hooks.DevicePools(None, None, {})


class Manager(_cuda.GetIpcHandleMixin, _cuda.HostOnlyCUDAMemoryManager):  # type: ignore[misc]
    """The memory manager of one context: GPU memory comes from the pool, host memory as usual in Numba.

    Numba does not say which streams used an array that is dropped. So its memory returns when the GPU has finished all
    queued work. As with Numba's own memory, this happens later, for a few arrays at a time, and not within `defer_cleanup`.
    """

    pools = _default

    def initialize(self) -> None:
        if self.deallocations.memory_capacity == _driver._SizeNotSet:
            self.deallocations.memory_capacity = self.get_memory_info().total

    def memalloc(self, size: int) -> Any:
        pool = self.pools.of(int(self.context.device.id))
        try:
            piece = pool._piece(size)
        except ResourceExhausted:  # what was dropped, and has not gone back yet
            self.deallocations.clear()
            piece = pool._piece(size)
        piece.wait_at_end()
        address = piece.address
        self.allocations[address] = piece
        return _cuda.MemoryPointer(self.context, ctypes.c_void_p(address), size,
                                   finalizer=_finalizer(self.allocations, self.deallocations, address, size))

    def get_ipc_handle(self, memory: Any) -> Any:
        raise FailedPrecondition("an array of a pool cannot be shared by CUDA IPC: many arrays share its slab",
                                 "NOT_SHAREABLE", "use a transfer: node.transfer(array, …)")

    def get_memory_info(self) -> Any:
        """The GPU's free and total memory; the free memory includes what is free in the pool."""
        known = _driver.NumbaCUDAMemoryManager.get_memory_info(self)
        pool = self.pools.made.get(int(self.context.device.id))
        if pool is None:
            return known
        now = pool.statistics
        return _driver.MemoryInfo(free=known.free + now.bytes_reserved - now.bytes_in_use, total=known.total)

    @property
    def interface_version(self) -> int:
        return 1


def _finalizer(allocations: Any, deallocations: Any, address: int, size: int) -> Any:
    """Which knows nothing of the manager: that has the memory."""

    def finalize() -> None:
        piece = allocations.pop(address, None)  # none: the context was reset meanwhile
        if piece is not None:
            deallocations.add_item(_let_go, [piece], size)

    return finalize


def _let_go(kept: list[_native.PoolPiece]) -> None:
    kept.clear()


def use(node: Node | DevicePool | None = None, device: Any = None, **options: Any) -> type[Manager]:
    """Makes Numba allocate from pools of `node` (None: of onecopy.connect()'s), or from a given pool. Call this before
    Numba first uses a GPU: existing contexts keep their memory manager. `options`: see Node.pool. If a pool has no more
    memory, the call that allocates raises ResourceExhausted."""
    pools = _hooks.DevicePools(node, device, options)
    made = type("Manager", (Manager,), {"pools": pools, "__doc__": Manager.__doc__})
    _cuda.set_memory_manager(made)
    return made


_numba_memory_manager = Manager  # what Numba looks for

__all__ = ["Manager", "use"]
