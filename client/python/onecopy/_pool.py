"""Arrays in pieces of few buffers."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import threading
import weakref
from typing import Any, NamedTuple

from . import _device, _dtypes, _native, _numbers, _ranges, _shared, _streams
from ._errors import Error, InvalidArgument, NotFound
from ._values import Buffer, known


@dataclasses.dataclass(frozen=True)
class PoolStatistics:
    """What a pool has (bytes_managed: of its slabs, managed memory, for which the GPU had no room; bytes_in_use: rounded
    up to the alignment of 256, bytes_asked: as asked for; largest_free: what an array can have without a new slab), and
    what it has done since it was made (from_recent: arrays in memory that was freed just before, from_others: in what
    another stream had freed; synchronized: waits of the host for the GPU; grown, trimmed: slabs)."""

    slabs: int
    bytes_reserved: int
    bytes_managed: int
    bytes_in_use: int
    bytes_asked: int
    peak_bytes: int
    largest_free: int
    blocks_in_use: int
    allocations: int
    deallocations: int
    failures: int
    from_recent: int
    from_others: int
    synchronized: int
    grown: int
    trimmed: int


class PoolArray(_ranges.PoolRange, _shared.SharedArray):
    """As a SharedArray, but a range of a pool's slab: its memory goes back to the pool with its last view."""

    def __init__(self, pool: Pool, piece: _native.PoolPiece, shape: tuple[int, ...], dtype: _dtypes.DType) -> None:
        self._pool: Pool = pool
        self._memory = piece
        self._shape = shape
        self._dtype = dtype

    def close(self) -> None:
        """Does nothing: the memory goes back to the pool with its last view."""


class AnyPool:
    """What pools of the host and of GPUs have in common. The slabs are kept until trim(), or until the pool and all its
    arrays are gone."""

    def __init__(self, node: _native.Node, native: _native.Pool) -> None:
        self._node = node
        self._native = native
        self._lock = threading.Lock()
        self._buffers: dict[str, Buffer] = {}  # by id
        self._under_way: dict[str, object] = {}  # what transfers use that no call waits for, by their ids
        _note(self)

    def grow(self, size: int | str) -> None:
        """A slab more, of that size at least: bytes, or "64MiB"."""
        self._native.grow(_numbers.size(size, "a size"))

    def trim(self, keep: int | str = 0) -> int:
        """Gives back slabs of which no array is left, as long as `keep` are; the bytes that went."""
        self._let_go()
        return self._native.trim(_numbers.size(keep, "a size"))

    @property
    def buffers(self) -> list[Buffer]:
        """The slabs, as the daemon knows them."""
        return [Buffer._of(json.loads(each)) for each in self._native.slabs()]

    @property
    def statistics(self) -> PoolStatistics:
        return known(PoolStatistics, json.loads(self._native.statistics()))

    def __repr__(self) -> str:
        now = self.statistics
        return (f"<onecopy.{type(self).__name__} {now.bytes_asked} of {now.bytes_reserved} bytes in {now.slabs} slabs>")

    def _piece(self, bytes: int, stream: Any = None) -> _native.PoolPiece:
        """Memory that goes back with what is returned, which keeps the pool and the stream."""
        return self._native.allocate(max(1, bytes), 0 if stream is None else _streams.number(stream), (self, stream))

    def _place(self, piece: Any) -> tuple[Buffer, int]:
        """The buffer that the piece lies in, as the present session knows it, and where."""
        while True:  # again where the session changed just now
            id, offset = piece.place()
            with self._lock:
                known_as = self._buffers.get(id)
            if known_as is not None:
                return known_as, offset
            now = {each.id: each for each in self.buffers}
            with self._lock:
                self._buffers = now

    def _hold(self, transfer: str, keeps: object) -> None:
        """Keeps what a transfer uses until that has ended: pieces are had again at once."""
        with self._lock:
            self._under_way[transfer] = keeps

    def _let_go(self) -> None:
        with self._lock:
            ids = list(self._under_way)
        for id in ids:
            try:
                ended = self._node.get_transfer(id).is_final
            except NotFound:  # long ago, or with an earlier daemon
                ended = True
            except Error:  # unknown at the moment
                ended = False
            if ended:
                with self._lock:
                    gone = self._under_way.pop(id, None)
                del gone  # without the lock


class Pool(AnyPool):
    """Memory of the host that the daemon reads and writes in place, registered in slabs, once, rather than for each
    array; made by Node.pool. Any thread may use it."""

    def empty(self, shape: int | tuple[int, ...], dtype: object = "float32") -> PoolArray:
        """An array whose bytes are what was there before. Raises ResourceExhausted at the pool's limit, or the daemon's."""
        dims, kind, size = _layout(shape, dtype)
        self._let_go()
        return PoolArray(self, self._piece(size), dims, kind)


class DevicePool(AnyPool):
    """Memory of a GPU that the daemon reads and writes in place, registered in slabs; made by Node.pool(device=…). Any
    thread may use it. Memory that a stream's arrays gave back is had again by that stream at once, and by others in
    order after it."""

    @property
    def device(self) -> int:
        """The GPU's number in this process."""
        found = self._native.cuda_device
        assert found is not None
        return found

    def empty(self, shape: int | tuple[int, ...], dtype: object = "float32", *, stream: Any = None) -> _device.DeviceArray:
        """An array for work that is given to `stream` from now on: one of torch, CuPy or Numba, what has __cuda_stream__,
        or a handle, whose stream must then stay until the array has gone; None: the default stream. Its bytes are what
        was there before. Raises ResourceExhausted at the pool's limit, the daemon's, or where the GPU is full."""
        dims, kind, size = _layout(shape, dtype)
        self._let_go()
        return _device.DeviceArray(self, self._piece(size, stream), dims, kind)

    def _empty_idle(self, bytes: int) -> _device.DeviceArray:
        """Bytes that no stream uses any more, for a transfer that is in the order of none: waits for streams
        only where the pool can have no more."""
        dims, kind, size = _layout(bytes, "uint8")
        self._let_go()
        return _device.DeviceArray(self, self._native.allocate_idle(max(1, size), (self, None)), dims, kind)

    def release_stream(self, stream: Any) -> None:
        """Before a stream is destroyed: waits for what it had to do when it last gave memory back, and all of that is
        anybody's then."""
        self._native.release_stream(_streams.number(stream))


class Found(NamedTuple):
    """Where memory lies that is of a pool."""

    node: str
    buffer: str  # its id
    offset: int
    pool: AnyPool


_all: list[weakref.ref[AnyPool]] = []  # replaced, never changed: others go through it meanwhile
_all_lock = threading.RLock()  # a pool may end while it is held


def _note(pool: AnyPool) -> None:
    global _all
    with _all_lock:
        _all = [each for each in _all if each() is not None] + [weakref.ref(pool)]


def _in_child() -> None:
    """Of a fork: another thread may have been in the midst of it, and what pools have is the parent's."""
    global _all, _all_lock
    _all, _all_lock = [], threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def find(address: int, bytes: int, *, on_host: bool) -> Found | None:
    """The range of a pool that these bytes are, of any kind of array; None where they are of none. The caller
    keeps the memory alive."""
    for each in _all:
        pool = each()
        if pool is None or isinstance(pool, Pool) != on_host:
            continue
        found = pool._native.find(address, bytes)
        if found is not None:
            return Found(pool._node.name, found[0], found[1], pool)
    return None


def _layout(shape: int | tuple[int, ...], dtype: object) -> tuple[tuple[int, ...], _dtypes.DType, int]:
    dims = _shared.dimensions(shape)
    kind = _dtypes.of(dtype)
    return dims, kind, math.prod(dims) * kind.itemsize


def _create(node: _native.Node, name: str, device: int | None, pinned: bool, managed_overflow: bool, slab: int | str,
            initial: int | str, limit: int | str | None) -> _native.Pool:
    most = (1 << 64) - 1 if limit is None else _numbers.size(limit, "a limit")
    return node.create_pool(name, device, pinned, managed_overflow, _numbers.size(slab, "a slab's size"),
                            _numbers.size(initial, "an initial size"), most)


def create(node: _native.Node, name: str, *, device: Any, pinned: bool, managed_overflow: bool, slab: int | str,
           initial: int | str, limit: int | str | None) -> Pool | DevicePool:
    """See Node.pool."""
    if device is None:
        if managed_overflow:
            raise InvalidArgument("managed memory can replace only GPU memory, and this pool has host memory", "BAD_ARGUMENT",
                                  "name a GPU: pool(device=0, managed_overflow=True)")
        return Pool(node, _create(node, name, None, pinned, False, slab, initial, limit))
    if pinned:
        raise InvalidArgument("only host memory can be pinned, and this pool has GPU memory", "BAD_ARGUMENT",
                              "leave out pinned or device")
    return DevicePool(node, _create(node, name, _device.ordinal(device), False, managed_overflow, slab, initial, limit))
