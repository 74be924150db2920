"""Arrays in memory that this process and the daemon both map."""

from __future__ import annotations

import bisect
import contextlib
import json
import math
import os
import threading
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, SupportsIndex

from ... import _native
from ..values import _dtypes
from ..values._errors import InvalidArgument, OutOfRange, Unavailable
from ..values._numbers import MOST_BYTES, whole
from ..values._values import Buffer, Endpoint
from . import _arrays
from ._typed import TypedArray

if TYPE_CHECKING:
    import numpy

_lock = threading.RLock()  # a finalizer may run while it is held
_starts: list[int] = []
_blocks: dict[int, _Block] = {}  # by address


class _Memory(weakref.ref[Any]):
    """Of shared memory; tells of its end."""

    __slots__ = ("start",)

    start: int


def _ended(memory: weakref.ref[Any]) -> None:
    assert isinstance(memory, _Memory)
    _forget(memory.start)


_tell_end = _native.Undisturbed(_ended)


class _Block:
    """Shared memory, which it does not keep."""

    __slots__ = ("_buffer", "_memory", "end", "start")

    def __init__(self, memory: Any) -> None:
        self.start = memory.address
        self.end = memory.address + memory.bytes
        self._memory = _Memory(memory, _tell_end)
        self._memory.start = self.start
        self._buffer = Buffer._of(json.loads(memory.document()))

    def buffer(self) -> Buffer | None:
        """As the daemon of now knows it; None where the memory has gone."""
        memory = self._memory()
        if memory is None:
            return None
        if memory.id != self._buffer.id:  # the library has registered it with a new daemon
            self._buffer = Buffer._of(json.loads(memory.document()))
        return self._buffer


def _note(memory: Any) -> _Block:
    start = memory.address
    block = _Block(memory)
    with _lock:
        bisect.insort(_starts, start)
        _blocks[start] = block
    return block


def _in_child() -> None:
    """Of a fork: another thread may have been in the midst of it. What the parent shares, the child cannot move."""
    global _lock
    _lock = threading.RLock()
    _starts.clear()
    _blocks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def _forget(start: int) -> None:
    with _lock:
        if start in _blocks:  # in this order: it may be begun twice
            if start in _starts:
                _starts.remove(start)
            del _blocks[start]


def find(address: int, bytes: int) -> tuple[Buffer, int] | None:
    """The buffer of the living shared memory that has these bytes, and where in it they begin; None where none has. The
    caller keeps the memory alive."""
    with _lock:
        at = bisect.bisect_right(_starts, address) - 1
        if at < 0:
            return None
        block = _blocks[_starts[at]]
        if address + bytes > block.end:
            return None
    buffer = block.buffer()
    return None if buffer is None else (buffer, address - block.start)


class SharedArray(TypedArray):
    """An array whose memory the daemon reads and writes in place: transfers need no copy on this side.

    NumPy, torch and others use it with numpy.asarray(array), torch.from_dlpack(array), memoryview(array.memory). All share
    the memory and keep it alive. It is freed with the last of them. close() ends its registration earlier."""

    def __init__(self, memory: Any, shape: tuple[int, ...], dtype: _dtypes.DType) -> None:
        self._memory = memory
        self._shape = shape
        self._dtype = dtype
        self._block = _note(memory)

    @property
    def buffer(self) -> Buffer:
        """The buffer of this array. After a restart of the daemon, the id is another one from the next call on."""
        buffer = self._block.buffer()
        assert buffer is not None  # its memory is kept here
        return buffer

    @property
    def memory(self) -> memoryview:
        """The bytes."""
        exporter: Any = self._memory  # with a slot for views, which types do not show
        return memoryview(exporter)[self._offset:self._offset + self.nbytes]

    def endpoint(self, offset: int | None = None, bytes: int | None = None) -> Endpoint:
        """A range of the bytes, for a transfer."""
        return self.buffer.endpoint(offset, bytes)

    def _part(self, offset: int, shape: tuple[int, ...], dtype: _dtypes.DType, *, fortran: bool = False) -> SharedArray:
        made = SharedPart.__new__(SharedPart)
        made.__dict__.update(self.__dict__)
        made._offset = self._offset + offset
        made._shape = shape
        made._dtype = dtype
        made._fortran = fortran
        return made

    def numpy(self) -> numpy.ndarray[Any, Any]:
        """The same memory as a NumPy array."""
        import numpy

        return numpy.asarray(self)

    def close(self) -> None:
        """Cancels the transfers that use the array, waits for their end, and ends the registration. The memory stays while
        it has views."""
        _forget(self._memory.address)
        with contextlib.suppress(Unavailable):  # the daemon has gone, and the registration with it
            self._memory.close()

    def __enter__(self) -> SharedArray:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if not self._dtype.typestr:
            raise AttributeError(f"NumPy does not have the type {self._dtype.name}: use torch.from_dlpack, or memory")
        return {"version": 3, "shape": self._shape, "typestr": self._dtype.typestr,
                "data": (self._memory.address + self._offset, False), "strides": self.strides if self._fortran else None}

    def __dlpack_device__(self) -> tuple[int, int]:
        return _arrays.CPU, 0

    def __dlpack__(self, *, stream: object = None, max_version: tuple[SupportsIndex, SupportsIndex] | None = None,
                   dl_device: tuple[SupportsIndex, SupportsIndex] | None = None, copy: bool | None = None) -> object:
        if stream is not None:
            raise BufferError("CPU memory has no stream: leave out stream")
        self._check_hand_over((_arrays.CPU, 0), dl_device, copy)
        return self._capsule(self._memory, self._memory.address + self._offset, (_arrays.CPU, 0), max_version)

    def __repr__(self) -> str:
        return (f"<onecopy.{type(self).__name__} {self._dtype.name}{list(self._shape)}, "
                f"buffer {self.buffer.node}:{self.buffer.name}>")


class SharedPart(SharedArray):
    """A range of the memory of another array, which it keeps alive."""

    def endpoint(self, offset: int | None = None, bytes: int | None = None) -> Endpoint:
        first = offset or 0
        size = self.nbytes - first if bytes is None else bytes
        if first < 0 or size < 0 or first + size > self.nbytes:  # others' bytes lie there
            raise OutOfRange(f"{size} bytes from {first} on do not lie in this array, which has {self.nbytes}",
                             "RANGE_OUT_OF_BUFFER", "pass a range inside it")
        return self.buffer.endpoint(self._offset + first, size)

    def close(self) -> None:
        """Does nothing: others share the memory, which is freed with the last of them."""


def dimensions(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    """A shape as a tuple."""
    lengths: Iterable[Any] = shape if isinstance(shape, Iterable) else (shape,)
    dims = tuple(whole(each, "a length of a shape", reason="BAD_SIZE") for each in lengths)
    if math.prod(each or 1 for each in dims) > MOST_BYTES:
        raise InvalidArgument(f"an array cannot have the shape {dims}", "BAD_SIZE", "this is more memory than any machine has")
    return dims


def empty(node: _native.Node, shape: int | tuple[int, ...], dtype: object, name: str) -> SharedArray:
    """See Node.empty."""
    dims = dimensions(shape)
    kind = _dtypes.of(dtype)
    memory = node.create_memory(name, max(1, math.prod(dims) * kind.itemsize))
    return SharedArray(memory, dims, kind)
