"""Pools: arrays in host or GPU memory that lie in a few large buffers."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import threading
import weakref
from typing import Any, NamedTuple, SupportsIndex

from ... import _native
from ..values import _dtypes, _numbers
from ..values._errors import Error, InvalidArgument, NotFound
from ..values._refusal import known
from ..values._values import Buffer
from . import _arrays, _device, _ranges, _shared, _streams

_LEGACY, _NO_ORDER = 1, -1  # streams, as the array API and the CUDA array interface write them


@dataclasses.dataclass(frozen=True)
class PoolStatistics:
    """What a pool has, and what it has done since it was made. bytes_managed: how much of the slabs is managed memory,
    because the GPU was full; bytes_in_use: rounded up to multiples of 256; bytes_asked: without this rounding;
    largest_free: the largest array that needs no new slab; from_recent: arrays in memory that the same stream had freed
    last; from_others: arrays in memory that another stream had freed; synchronized: how often the host waited for the GPU;
    grown, trimmed: slabs added and returned."""

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
    """Like a SharedArray, but a range of a pool's slab. Its memory returns to the pool with its last view."""

    def __init__(self, pool: Pool, piece: _native.PoolPiece, shape: tuple[int, ...], dtype: _dtypes.DType) -> None:
        self._pool: Pool = pool
        self._memory = piece
        self._shape = shape
        self._dtype = dtype

    def close(self) -> None:
        """Does nothing: the memory returns to the pool with its last view."""


class DeviceArray(_ranges.PoolRange):
    """An array in GPU memory, for work that is queued on its stream from then on.

    Other packages use it with torch.from_dlpack(array), cupy.from_dlpack(array), jax.dlpack.from_dlpack(array), or the CUDA
    array interface. All views share the memory. It returns to the pool with the last view, in the order of the array's
    stream. The pool also waits for other streams that use the memory:

    - A stream for which a package asked DLPack: it begins after the array's stream, and later the array's stream continues
      after it. The GPU waits for the default stream and for streams given to `record_stream`. For others, the host waits
      when the memory returns, because these streams may have been destroyed by then.
    - A stream that uses the CUDA array interface: the pool does not know it, so the host waits.

    `free(stream=…)` avoids that wait: it says which stream used the array last."""

    def __init__(self, pool: DevicePool, piece: _native.PoolPiece, shape: tuple[int, ...], dtype: _dtypes.DType) -> None:
        self._pool: DevicePool = pool
        self._piece: _native.PoolPiece | None = piece
        self._lent: _native.PoolPiece | None = None  # by the CUDA array interface, whose views keep this array
        self._shape = shape
        self._dtype = dtype

    @property
    def _memory(self) -> _native.PoolPiece:
        if self._piece is None:
            raise InvalidArgument("this array was freed", "BAD_POINTER", "allocate another array from the pool")
        return self._piece

    @property
    def pool(self) -> DevicePool:
        return self._pool

    @property
    def device(self) -> int:
        """The GPU's number in this process."""
        return self._pool.device

    @property
    def stream(self) -> int:
        """The handle of the array's stream; 0 is the default stream."""
        return self._memory.stream

    @property
    def pointer(self) -> int:
        """The address on the GPU."""
        return self._memory.address + self._offset

    def record_stream(self, stream: Any) -> None:
        """Declares that this stream also uses the array. The memory returns to the pool after the work that is queued on
        the stream by then. The array keeps the stream object alive. A stream given as a handle cannot be kept alive: then
        the host waits for the GPU."""
        self._memory.used_by(_streams.number(stream), None if isinstance(stream, int) else stream)

    def free(self, stream: Any = None) -> None:
        """Returns the memory to the pool now, or with the last view that another package has. Views by the CUDA array
        interface, and transfers, keep this object and its memory. `stream`: the stream that got the last work on the array,
        or that waits for that work; the memory then returns in this stream's order, which must come after the array's own
        stream. Without `stream`, the memory returns as for an array that you drop. You cannot use the array afterwards."""
        piece = self._memory
        if stream is not None:
            piece.move_to(_streams.number(stream), stream)
        self._piece = None

    def __array__(self, *_: object, **__: object) -> Any:
        raise TypeError("NumPy cannot use GPU memory: use cupy.from_dlpack or torch.from_dlpack, or transfer it to a host array")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if not self._dtype.typestr:
            raise AttributeError(f"the CUDA array interface has no type {self._dtype.name}: use DLPack")
        piece = self._memory
        piece.wait_at_end()
        self._lent = piece
        return {"version": 3, "shape": self._shape, "typestr": self._dtype.typestr, "data": (piece.address + self._offset, False),
                "strides": self.strides if self._fortran else None, "stream": piece.stream or _LEGACY}

    def __dlpack_device__(self) -> tuple[int, int]:
        return _arrays.CUDA, self.device

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[SupportsIndex, SupportsIndex] | None = None,
                   dl_device: tuple[SupportsIndex, SupportsIndex] | None = None, copy: bool | None = None) -> object:
        self._check_hand_over(self.__dlpack_device__(), dl_device, copy)
        piece = self._memory
        if stream != _NO_ORDER:
            taker = _taker(stream)
            piece.hand_to(taker)
            piece.used_by(taker, None)
        return self._capsule(piece, piece.address + self._offset, self.__dlpack_device__(), max_version)

    def __repr__(self) -> str:
        where = "freed" if self._piece is None else f"buffer {self.buffer.node}:{self.buffer.name}"
        return f"<onecopy.DeviceArray {self._dtype.name}{list(self._shape)} on cuda:{self.device}, {where}>"


def _taker(stream: int | None) -> int:
    """Of the array API: which stream will use an array that is handed over."""
    if stream is None:
        return _LEGACY
    if isinstance(stream, bool) or not isinstance(stream, int) or stream <= 0:
        raise BufferError(f"stream {stream!r} is not a stream of the array API: 1 is the legacy default stream, 2 the "
                          "thread's, -1 means no order, others are handles")
    return stream


class AnyPool:
    """What pools of host memory and of GPU memory have in common. The slabs are kept until trim(), or until the pool and
    all its arrays are gone."""

    def __init__(self, node: _native.Node, native: _native.Pool) -> None:
        self._node = node
        self._native = native
        self._process = os.getpid()
        self._lock = threading.Lock()  # in a child another thread may have it for ever
        self._buffers: dict[str, Buffer] = {}  # by id
        self._lost: list[object] = []  # what transfers may use of which nothing is known
        self._under_way: dict[str, object] = {}  # what transfers use that no call waits for, by their ids
        _note(self)

    def grow(self, size: int | str) -> None:
        """Adds a slab of at least this size: bytes, or "64MiB"."""
        self._native.grow(_numbers.size(size, "a size"))

    def trim(self, keep: int | str = 0) -> int:
        """Returns slabs without arrays to the system, but keeps at least `keep` bytes. Returns how many bytes it gave back.
        """
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

    def _hold(self, transfer: str | None, keeps: object) -> None:
        """Keeps what a transfer uses until that has ended: pieces are had again at once. For as long as the pool lives, if
        it is not known which one it is."""
        if os.getpid() != self._process:
            return
        with self._lock:
            if transfer is None:
                self._lost.append(keeps)
            else:
                self._under_way[transfer] = keeps

    def _let_go(self) -> None:
        if os.getpid() != self._process:
            return
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
    """Host memory that the daemon reads and writes in place, registered in large pieces (slabs) instead of array by array;
    made by Node.pool. Any thread may use it."""

    def empty(self, shape: int | tuple[int, ...], dtype: object = "float32") -> PoolArray:
        """Makes an array. Its memory is not zeroed: it has old contents. Raises ResourceExhausted at the pool's limit, or
        at the daemon's."""
        dims, kind, size = _layout(shape, dtype)
        self._let_go()
        return PoolArray(self, self._piece(size), dims, kind)


class DevicePool(AnyPool):
    """GPU memory that the daemon reads and writes in place, registered in slabs; made by Node.pool(device=…). Any thread
    may use it. When a stream's array returns its memory, that stream can use it again at once; other streams use it in
    order after that stream."""

    @property
    def device(self) -> int:
        """The GPU's number in this process."""
        found = self._native.cuda_device
        assert found is not None
        return found

    def empty(self, shape: int | tuple[int, ...], dtype: object = "float32", *, stream: Any = None) -> DeviceArray:
        """Makes an array for work that is queued on `stream` from now on: a stream of torch, CuPy or Numba, an object with
        __cuda_stream__, or a handle (the stream must then exist until the array is gone); None: the default stream. Its
        memory is not zeroed: it has old contents. Raises ResourceExhausted at the pool's limit, at the daemon's, or if the
        GPU is full."""
        dims, kind, size = _layout(shape, dtype)
        self._let_go()
        return DeviceArray(self, self._piece(size, stream), dims, kind)

    def _empty_idle(self, bytes: int) -> DeviceArray:
        """Bytes that no stream uses any more, for a transfer that is in the order of none: waits for streams
        only where the pool can have no more."""
        dims, kind, size = _layout(bytes, "uint8")
        self._let_go()
        return DeviceArray(self, self._native.allocate_idle(max(1, size), (self, None)), dims, kind)

    def release_stream(self, stream: Any) -> None:
        """Call this before you destroy a stream. Waits for the work that the stream had when it last returned memory; after
        that, every stream can use the memory."""
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
