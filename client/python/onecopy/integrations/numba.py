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
    """Of one context: memory of a GPU is of the pool, memory of the host as Numba makes it.

    Numba does not say which streams used an array that is dropped. So it goes back when the GPU has done all that it was
    given, as with Numba's own memory, and like that not at once: a few at a time, and not within `defer_cleanup`.
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
        """Of the GPU, and what is free in the pool already."""
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
    """Makes Numba allocate from pools of `node` (None: of onecopy.connect()'s), or from that pool. To be called before
    Numba first uses a GPU: contexts that there are keep their memory manager. `options`: as Node.pool's. Raises
    ResourceExhausted, from the call that allocates, where a pool has no more."""
    pools = _hooks.DevicePools(node, device, options)
    made = type("Manager", (Manager,), {"pools": pools, "__doc__": Manager.__doc__})
    _cuda.set_memory_manager(made)
    return made


_numba_memory_manager = Manager  # what Numba looks for

__all__ = ["Manager", "use"]
