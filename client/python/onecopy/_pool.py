"""Arrays in pieces of few buffers."""

from __future__ import annotations

import dataclasses
import json
import math
import threading
from typing import Any

from . import _dtypes, _native, _shared
from ._errors import Error, NotFound, OutOfRange
from ._values import Buffer, Endpoint, known


@dataclasses.dataclass(frozen=True)
class PoolStatistics:
    """What a pool has (bytes_in_use: rounded up to the alignment of 256, bytes_asked: as asked for; largest_free: what an
    array can have without a new slab), and what it has done since it was made (from_recent: arrays in memory that was
    freed just before; grown, trimmed: slabs)."""

    slabs: int
    bytes_reserved: int
    bytes_in_use: int
    bytes_asked: int
    peak_bytes: int
    largest_free: int
    blocks_in_use: int
    allocations: int
    deallocations: int
    failures: int
    from_recent: int
    grown: int
    trimmed: int


class PoolArray(_shared.SharedArray):
    """As a SharedArray, but a range of a pool's slab: its memory goes back to the pool with its last view."""

    def __init__(self, pool: Pool, piece: _native.PoolPiece, shape: tuple[int, ...], dtype: _dtypes.DType) -> None:
        self._pool = pool
        super().__init__(piece, shape, dtype, pool)

    @property
    def buffer(self) -> Buffer:
        """That of the slab."""
        return self._pool._place(self._memory)[0]

    def endpoint(self, offset: int | None = None, bytes: int | None = None) -> Endpoint:
        """A range of its bytes, for a transfer."""
        buffer, start = self._pool._place(self._memory)
        first = offset or 0
        size = self.nbytes - first if bytes is None else bytes
        if first < 0 or size < 0 or first + size > self.nbytes:  # others' arrays lie there
            raise OutOfRange(f"{size} bytes from {first} on do not lie in this array, which has {self.nbytes}",
                             "RANGE_OUT_OF_BUFFER", "pass a range inside it")
        return buffer.endpoint(start + first, size)

    def close(self) -> None:
        """Does nothing: the memory goes back to the pool with its last view."""


class Pool:
    """Memory that the daemon reads and writes in place, registered in slabs, once, rather than for each array; made by
    Node.pool. Any thread may use it. The slabs are kept until trim(), or until the pool and all its arrays are gone."""

    def __init__(self, node: _native.Node, native: _native.Pool) -> None:
        self._node = node
        self._native = native
        self._lock = threading.Lock()
        self._buffers: dict[str, Buffer] = {}  # by id
        self._under_way: dict[str, object] = {}  # what transfers use that nobody waits for, by their ids

    def empty(self, shape: int | tuple[int, ...], dtype: object = "float32") -> PoolArray:
        """An array whose bytes are what was there before. Raises ResourceExhausted at the pool's limit, or the daemon's."""
        dims = _shared.dimensions(shape)
        kind = _dtypes.of(dtype)
        self._let_go()
        return PoolArray(self, self._native.allocate(max(1, math.prod(dims) * kind.itemsize)), dims, kind)

    def grow(self, size: int | str) -> None:
        """A slab more, of that size at least: bytes, or "64MiB"."""
        self._native.grow(_bytes(size))

    def trim(self, keep: int | str = 0) -> int:
        """Gives back slabs of which no array is left, as long as `keep` are; the bytes that went."""
        self._let_go()
        return self._native.trim(_bytes(keep))

    @property
    def buffers(self) -> list[Buffer]:
        """The slabs, as the daemon knows them."""
        return [Buffer._of(json.loads(each)) for each in self._native.slabs()]

    @property
    def statistics(self) -> PoolStatistics:
        return known(PoolStatistics, json.loads(self._native.statistics()))

    def __repr__(self) -> str:
        now = self.statistics
        return f"<onecopy.Pool {now.bytes_asked} of {now.bytes_reserved} bytes in {now.slabs} slabs>"

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
            except Error:  # nobody knows just now
                ended = False
            if ended:
                with self._lock:
                    gone = self._under_way.pop(id, None)
                del gone  # without the lock


def _bytes(size: int | str) -> int:
    return _native.parse_bytes(size) if isinstance(size, str) else size


def create(node: _native.Node, name: str, slab: int | str, initial: int | str, limit: int | str | None) -> Pool:
    """See Node.pool."""
    most = (1 << 64) - 1 if limit is None else _bytes(limit)
    return Pool(node, node.create_pool(name, _bytes(slab), _bytes(initial), most))

