"""Arrays in memory of other processes or of the daemon, used in place."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

from ... import _native
from ..values import _dtypes
from ..values._errors import Cancelled, InvalidArgument
from ..values._values import Buffer, Endpoint
from . import _arrays, _device, _shared
from ._typed import TypedArray

if TYPE_CHECKING:
    import numpy

    _Array: TypeAlias = numpy.ndarray[Any, Any]


class MappedArray(TypedArray):
    """The memory of a buffer as an array, without a copy; made by Node.map.

    In host memory: numpy.asarray(array), torch.from_dlpack(array), memoryview(array.memory). On a GPU: torch.from_dlpack,
    cupy.asarray, or any package that supports __cuda_array_interface__; kernels use the memory in place.

    Each of these is a view that keeps the memory mapped. After close(), the array makes no more views; the memory is
    unmapped, and the daemon informed, with the last view. A view by __cuda_array_interface__ keeps this array instead, so
    close() cannot know when it ends: the memory then stays mapped until this array is gone.

    The daemon can revoke the mapping: see check()."""

    def __init__(self, native: _native.Mapped, shape: tuple[int, ...], dtype: _dtypes.DType,
                 strides: tuple[int, ...] | None = None, *, plain: bool = False) -> None:
        self._native: _native.Mapped | None = native
        self._buffer = Buffer._of(json.loads(native.document()))
        self._device = native.cuda_device
        self._shape = shape
        self._dtype = dtype
        self._apart = strides
        self._plain = plain
        self._kept: _native.Mapped | None = None  # for views that keep this array

    @property
    def buffer(self) -> Buffer:
        """The buffer as it was when it was mapped."""
        return self._buffer

    @property
    def _gaps(self) -> list[_arrays.Range] | None:
        """None: its buffer is this array, without the gaps that lie between its elements in memory."""
        return None

    @property
    def device(self) -> int | None:
        """The GPU that uses the memory, by its number in this process; None for host memory."""
        return self._device

    @property
    def memory(self) -> memoryview:
        """The bytes, for host memory. For an array with gaps: from its first byte to its last."""
        exporter: Any = self._open()  # with a slot for views, which types do not show
        gaps = self._apart is not None
        return memoryview(exporter)[:_arrays.span(self._dtype.itemsize, self._shape, self.strides) if gaps else self.nbytes]

    @property
    def valid(self) -> bool:
        """Whether you may still use the memory; False once closed. Takes one system call."""
        return self._native is not None and self._native.valid

    def check(self) -> None:
        """Raises an error if you may no longer use the memory, with the reason: its owner's process has ended (OWNER_DIED),
        the buffer was removed (BUFFER_NOT_FOUND), the right has ended (NOT_OWNER, GRANT_EXPIRED), the daemon is ending
        (DRAINING) or has ended (DAEMON_UNREACHABLE). Then close the array and drop its views: nothing else unmaps the
        memory."""
        self._open().check()

    @property
    def revocation_fd(self) -> int:
        """A descriptor that becomes readable when `valid` becomes False: for select, or a loop's add_reader. Do not read
        from it and do not close it."""
        return self._open().revocation_fd

    def endpoint(self, offset: int | None = None, bytes: int | None = None) -> Endpoint:
        """A range of the bytes, for a transfer."""
        return self._buffer.endpoint(offset, bytes)

    def numpy(self) -> _Array:
        """The same memory as a NumPy array."""
        import numpy

        return numpy.asarray(self)

    def close(self) -> None:
        """Unmaps the memory, now or with the last view. GPU work on it must have ended. You can call it again."""
        self._native = None

    def __enter__(self) -> MappedArray:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> _Array:
        import numpy

        if self._device is not None:
            raise TypeError("this array is in a GPU's memory: use cupy.asarray, or torch.from_dlpack")
        if not self._dtype.typestr:
            raise TypeError(f"NumPy does not have the type {self._dtype.name}: use torch.from_dlpack, or memory")
        view: _Array = numpy.ndarray(self._shape, numpy.dtype(self._dtype.typestr), buffer=self.memory,
                                     strides=self.strides)
        wanted = view.dtype if dtype is None else numpy.dtype(dtype)
        if wanted != view.dtype:
            if copy is False:
                raise ValueError(f"elements of type {view.dtype} become {wanted} only by a copy")
            return view.astype(wanted)
        return view.copy() if copy else view

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._device is None:
            raise AttributeError("this array is in host memory")
        if not self._dtype.typestr:
            raise AttributeError(f"the CUDA array interface has no type {self._dtype.name}: use torch.from_dlpack")
        native = self._open()
        self._kept = native
        return {"version": 3, "shape": self._shape, "typestr": self._dtype.typestr, "data": (native.address, False),
                "strides": self._apart, "stream": None}

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_arrays.CPU, 0) if self._device is None else (_arrays.CUDA, self._device)

    def __dlpack__(self, *, stream: object = None, max_version: tuple[SupportsIndex, SupportsIndex] | None = None,
                   dl_device: tuple[SupportsIndex, SupportsIndex] | None = None, copy: bool | None = None) -> object:
        device = self.__dlpack_device__()
        if stream is not None and self._device is None:
            raise BufferError("CPU memory has no stream: leave out stream")
        self._check_hand_over(device, dl_device, copy)
        native = self._open()
        # Nothing of ours is queued on any stream that a consumer would have to wait for.
        return self._capsule(native, native.address, device, max_version)

    def __repr__(self) -> str:
        where = "host memory" if self._device is None else f"cuda:{self._device}"
        state = "" if self._native is not None else ", closed"
        return (f"<onecopy.MappedArray {self._dtype.name}{list(self._shape)} in {where}, "
                f"buffer {self._buffer.node}:{self._buffer.name}{state}>")

    def _open(self) -> _native.Mapped:
        if self._native is None:
            raise Cancelled(f"the mapping of buffer {self._buffer.name} was closed", "CANCELLED", "map it again")
        return self._native


def create(node: _native.Node, buffer: str | Buffer, shape: int | tuple[int, ...] | None, dtype: object,
         device: int | str | None) -> MappedArray:
    """See Node.map."""
    name = f"{buffer.node}:{buffer.id}" if isinstance(buffer, Buffer) else buffer
    native = node.map_buffer(name, None if device is None else _device.ordinal(device))
    named = Buffer._of(json.loads(native.document()))
    if shape is None and dtype is None and named.shape is not None:
        own = _dtypes.find(named.dtype)
        if own is not None and own.itemsize * math.prod(named.shape) == named.bytes:
            gaps = named.strides != _arrays.compact(named.shape, own.itemsize)
            return MappedArray(native, named.shape, own, named.strides if gaps else None)
    if named.shape is not None and named.strides != _arrays.compact(named.shape, named.bytes // math.prod(named.shape)):
        raise InvalidArgument(f"buffer {named.name} is an array with gaps, {named.dtype}{list(named.shape)}", "BAD_ARGUMENT",
                              "map it without a shape and a dtype, or map the buffer under it: "
                              f"{named.node}:{named.view_of}")
    kind = _dtypes.of("uint8" if dtype is None else dtype)
    dims = None if shape is None else _shared.dimensions(shape)
    if dims is None:
        if native.bytes % kind.itemsize != 0:
            raise InvalidArgument(
                f"the {native.bytes} bytes of the buffer are not a whole number of {kind.name}", "SIZE_MISMATCH",
                "pass the shape, or another type")
        dims = (native.bytes // kind.itemsize,)
    if kind.itemsize * math.prod(dims) > native.bytes:
        raise InvalidArgument(
            f"an array {kind.name}{list(dims)} has {kind.itemsize * math.prod(dims)} bytes, and the buffer "
            f"{native.bytes}", "SIZE_MISMATCH", "map it with a smaller shape, or without one")
    return MappedArray(native, dims, kind, plain=dtype is None)
