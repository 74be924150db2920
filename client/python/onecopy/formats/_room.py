"""Where arrays of files go: memory of the host or of a GPU."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..core.memory import _device, _pool
from ..core.node._loaded import Array as Array
from ..core.values._errors import InvalidArgument
from . import _placing, _safetensors

if TYPE_CHECKING:
    from ..core.node._node import Node

SMALL = 1 << 20  # bytes that move in less time than a request for them takes
_SLAB = 4 << 20  # of pools for what is small
_TRIM_EVERY = 256  # of those that come out of one
_GPU_ALIGNMENT = 16  # bytes, which kernels read at once


def is_host(device: Any) -> bool:
    return device is None or device == "cpu" or getattr(device, "type", None) == "cpu"


class _Small:
    """A node's pool for what is small, as a registration for each would take far longer than its bytes."""

    def __init__(self, node: Node) -> None:
        self._pool = node.pool(slab=_SLAB)
        self._made = 0

    def empty(self, bytes: int) -> Array:
        self._made += 1
        if self._made % _TRIM_EVERY == 0:
            self._pool.trim(_SLAB)
        return self._pool.empty(bytes, "uint8")


_small: weakref.WeakKeyDictionary[Node, _Small] = weakref.WeakKeyDictionary()


class Room:
    """Makes room: in a pool where one is given, else in memory of its own, or, for what is small, in a pool of the node's."""

    def __init__(self, node: Node, device: Any, pool: _pool.Pool | _pool.DevicePool | None) -> None:
        self._node = node
        self._pool = pool
        self._device = None if is_host(device) else _device.ordinal(device)
        if pool is None:
            return
        if pool._node.name != node.name:
            raise InvalidArgument(f"the pool is of node {pool._node.name}, and this is {node.name}", "BAD_ARGUMENT",
                                  "pass a pool of the node that loads the file")
        of = pool.device if isinstance(pool, _pool.DevicePool) else None
        if device is not None and of != self._device:
            where = "the host" if of is None else f"cuda:{of}"
            raise InvalidArgument(f"the pool is on {where}, and the device is {device!r}", "BAD_ARGUMENT",
                                  "pass one of the two")
        self._device = of

    @property
    def on_host(self) -> bool:
        return self._device is None

    def empty(self, bytes: int) -> tuple[Array, int]:
        """Room for that many bytes, and where in it they may begin: with a page of the host, or with what a GPU has."""
        wanted = max(1, bytes)
        if self._pool is None and self._device is None:
            if wanted <= SMALL:
                return self._empty_small(wanted), 0
            return self._node.empty(wanted, "uint8"), 0
        pool = self._pool or self._node.pool(device=self._device, slab=wanted)
        if isinstance(pool, _pool.DevicePool):
            return pool._empty_idle(wanted), 0
        if wanted <= SMALL:
            return pool.empty(wanted, "uint8"), 0
        made = pool.empty(wanted + _placing.PAGE, "uint8")
        return made, -made._memory.address % _placing.PAGE

    def place(self, parts: Iterable[_placing.Part]) -> _placing.Placed:
        return _placing.place(parts, pages=self.on_host)

    def part(self, offset: int, bytes: int, itemsize: int) -> _placing.Part:
        return _part(offset, bytes, itemsize, self.on_host)

    def _empty_small(self, bytes: int) -> Array:
        small = _small.get(self._node) or _small.setdefault(self._node, _Small(self._node))
        return small.empty(bytes)


def _part(offset: int, bytes: int, itemsize: int, on_host: bool) -> _placing.Part:
    return _placing.Part(offset, bytes, itemsize if on_host else max(itemsize, _GPU_ALIGNMENT))


def place(tensors: Iterable[_safetensors.Tensor], *, on_host: bool) -> _placing.Placed:
    """Where tensors of a file lie in one memory."""
    return _placing.place((_part(each.offset, each.bytes, each.dtype.itemsize, on_host) for each in tensors if each.dtype),
                          pages=on_host)


__all__ = ["SMALL", "Array", "Room", "is_host", "place"]
