"""CuPy's memory from a pool: its arrays are registered with the daemon already.

    import cupy, onecopy.cupy
    with onecopy.cupy.use() as allocator:          # or use() alone, until allocator.restore()
        array = cupy.zeros((1024, 1024))
"""

from __future__ import annotations

import importlib
from typing import Any

from ..core.memory._pool import DevicePool
from ..core.node._node import Node
from . import _hooks

_cupy: Any = importlib.import_module("cupy")  # not for mypy, which would read all of it


class Allocator:
    """The allocator that CuPy uses; made by `use`."""

    def __init__(self, pools: _hooks.DevicePools) -> None:
        self._pools = pools
        self._before: Any = _cupy.cuda.get_allocator()
        self._set = False

    def __call__(self, size: int) -> Any:
        """Allocates for the current stream of the current GPU. As with CuPy's own pool, the memory returns in the order of
        that stream."""
        device = int(_cupy.cuda.device.get_device_id())
        if not self._pools.serves(device):
            return self._before(size)
        if size == 0:
            return _cupy.cuda.MemoryPointer(_cupy.cuda.UnownedMemory(0, 0, self, device), 0)
        piece = self._pools.of(device)._piece(size, _cupy.cuda.get_current_stream())
        return _cupy.cuda.MemoryPointer(_cupy.cuda.UnownedMemory(piece.address, size, piece, device), 0)

    @property
    def pools(self) -> dict[int, DevicePool]:
        """The pools so far, by the GPU's number."""
        return self._pools.made

    def set(self) -> Allocator:
        """Makes CuPy use this allocator, on every thread."""
        if not self._set:
            self._before = _cupy.cuda.get_allocator()
            _cupy.cuda.set_allocator(self)
            self._set = True
        return self

    def restore(self) -> None:
        """Makes CuPy allocate as before. Existing arrays keep their memory."""
        if self._set:
            _cupy.cuda.set_allocator(self._before)
            self._set = False

    def __enter__(self) -> Allocator:
        return self.set()

    def __exit__(self, *_: object) -> None:
        self.restore()


def use(node: Node | DevicePool | None = None, device: Any = None, **options: Any) -> Allocator:
    """Makes CuPy allocate from pools of `node` (None: of onecopy.connect()'s), or from a given pool; until restore(), or
    the end of a `with` block. `device`: only for this GPU; CuPy allocates as before on others; None: all GPUs. `options`:
    see Node.pool. If a pool has no more memory, the call that allocates raises ResourceExhausted."""
    return Allocator(_hooks.DevicePools(node, device, options)).set()


__all__ = ["Allocator", "use"]
