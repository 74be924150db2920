"""torch allocates from a pool of onecopy, so the daemon already has what an ordinary program allocates.

    import onecopy, onecopy.torch, torch
    pool = onecopy.torch.pool()                    # a torch.cuda.MemPool
    with torch.cuda.use_mem_pool(pool):
        model = Model().cuda()
    onecopy.connect().transfer(model.weight, "west:weight")     # no registration

torch takes segments from the pool, divides them as it divides its own memory, and returns them with empty_cache(). Inside
use_mem_pool, only the calling thread allocates from the pool. Autograd allocates gradients on its own threads, unless you
use torch.autograd.set_multithreading_enabled(False)."""

from __future__ import annotations

import ctypes
import importlib
import os
import threading
from typing import Any

from .. import _native
from ..core.memory import _device
from ..core.memory._pool import DevicePool, PoolStatistics
from ..core.node._node import Node
from ..core.values._errors import AlreadyExists, NotFound
from . import _hooks

_torch: Any = importlib.import_module("torch")  # not for mypy, which would read all of it

_lock = threading.Lock()
_pools: dict[int, DevicePool] = {}  # by the GPU's number
_allocators: dict[str, Any] = {}  # by the name of the function that allocates


def _in_child() -> None:
    """Of a fork: another thread may have been in the midst of making a pool."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_in_child)


def pool(node: Node | DevicePool | None = None, device: Any = None, **options: Any) -> Any:
    """Makes a torch.cuda.MemPool, for torch.cuda.use_mem_pool, out of a pool of `node` (None: of connect()'s) on `device`
    (None: the current GPU). `options` are those of Node.pool; `node` may be such a pool itself. Each GPU has one pool: a
    second call without a node, or with the same pool, makes another MemPool of it. When the pool is full, torch raises
    torch.OutOfMemoryError, and last_error() gives the reason. Without a GPU, raises FailedPrecondition (NO_DRIVER, NO_GPU)."""
    _install(node, device, options)
    return _torch.cuda.MemPool(_allocator("onecopy_torch_malloc").allocator())


def allocator(node: Node | DevicePool | None = None, device: Any = None, **options: Any) -> Any:
    """Makes a CUDAPluggableAllocator for torch.cuda.memory.change_current_allocator. Call it before torch has allocated
    anything: torch then takes all its memory on `device` from the pool, tensor by tensor. If the pool has no more memory,
    the allocation raises MemoryError or RuntimeError with the reason. torch has no statistics, graphs or MemPool with it:
    use `pool` if not all memory must come from onecopy. Arguments: see `pool`. Another GPU needs another call."""
    _install(node, device, options)
    return _allocator("onecopy_torch_malloc_or_throw")


def device_pool(device: Any = None) -> DevicePool:
    """The onecopy pool from which torch takes its memory on a GPU (None: the current one)."""
    number = _number(device)
    with _lock:
        found = _pools.get(number)
    if found is None:
        raise NotFound(f"torch does not have a pool for cuda:{number}", "BUFFER_NOT_FOUND", "call onecopy.torch.pool first")
    return found


def statistics(device: Any = None) -> PoolStatistics:
    """The statistics of that pool. Memory that torch caches counts as in use: torch.cuda.empty_cache() returns it to the
    pool, and device_pool().trim() then returns free slabs."""
    return device_pool(device).statistics


def blocks() -> int:
    """How many blocks of pools torch has, in all: segments of MemPools, or tensors of the allocator."""
    return _native.torch_hooks()[0]


def failures() -> int:
    """How many allocations have failed."""
    return _native.torch_hooks()[1]


def last_error() -> str:
    """Why torch's last allocation failed; empty if none has."""
    return _native.torch_hooks()[2]


def release(device: Any = None) -> None:
    """Releases a GPU's pool. torch gets no more memory from it; what torch has stays, and returns as it is freed."""
    number = _number(device)
    with _lock:
        _native.set_torch_pool(number, None)
        gone = _pools.pop(number, None)
    del gone  # without the lock


def _number(device: Any) -> int:
    return _device.current() if device is None else _device.ordinal(device)


def _install(source: Node | DevicePool | None, device: Any, options: dict[str, Any]) -> None:
    number = source.device if isinstance(source, DevicePool) and device is None else _number(device)
    with _lock:
        present = _pools.get(number)
        if present is not None:
            if present is source or (source is None and not options):
                return
            raise AlreadyExists(f"torch has a pool for cuda:{number} already", "NAME_TAKEN",
                                f"leave out node and options, or call onecopy.torch.release({number}) first")
        made = _hooks.DevicePools(source, number, options).of(number)
        _native.set_torch_pool(number, made._native)
        _pools[number] = made


def _allocator(malloc: str) -> Any:
    """Of the C functions that the module has."""
    with _lock:
        found = _allocators.get(malloc)
        if found is not None:
            return found
        made = _torch.cuda.memory.CUDAPluggableAllocator(_native.__file__, malloc, "onecopy_torch_free")
        functions = ctypes.CDLL(_native.__file__)
        record = ctypes.cast(functions.onecopy_torch_record_stream, ctypes.c_void_p).value
        made.allocator().set_record_stream_fn(record)
        # A MemPool, and each tensor, knows it by its address alone, also when Python has ended: never destroyed.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(made.allocator()))
        _allocators[malloc] = made
        return made


__all__ = ["allocator", "blocks", "device_pool", "failures", "last_error", "pool", "release", "statistics"]
