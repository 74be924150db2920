"""Arrays in memory of a GPU, of a pool."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, SupportsIndex

from . import _arrays, _dtypes, _native, _ranges, _streams
from ._errors import InvalidArgument

if TYPE_CHECKING:
    from ._pool import DevicePool

_LEGACY, _NO_ORDER = 1, -1  # streams, as the array API and the CUDA array interface write them


def ordinal(device: Any) -> int:
    """The number of a GPU in this process: of an int, "cuda:1", or a device of torch, CuPy or Numba. Without a number
    ("cuda") the current one."""
    number: object = None
    if isinstance(device, int) and not isinstance(device, bool):
        number = device
    elif isinstance(device, str):
        kind, colon, text = device.partition(":")
        if kind == "cuda":
            number = (int(text) if text.isdecimal() else None) if colon else current()
    elif hasattr(device, "type"):  # torch's
        if device.type == "cuda":
            number = current() if device.index is None else device.index
    else:  # CuPy's, Numba's
        number = getattr(device, "id", None)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 1 << 31:
        raise InvalidArgument(f"{device!r} is not a GPU", "BAD_ARGUMENT",
                              'pass its number, "cuda:0", or a device of torch, CuPy or Numba')
    return number


def current() -> int:
    """The number of the current GPU, as torch or CuPy has it where one of them is in use; else 0."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return int(torch.cuda.current_device())
    cupy: Any = sys.modules.get("cupy")
    if cupy is not None and cupy.cuda.is_available():
        return int(cupy.cuda.device.get_device_id())
    return 0


class DeviceArray(_ranges.PoolRange):
    """An array in memory of a GPU, for work that is given to its stream from then on.

    What it is for others: torch.from_dlpack(array), cupy.from_dlpack(array), jax.dlpack.from_dlpack(array), or by the
    CUDA array interface. All share the memory, which goes back to the pool with the last of them, in the order of the
    array's stream. What other streams do with it is waited for, too:

    - a stream that DLPack was asked for begins after the array's, and the array's goes on after that. Only the default
      stream, or one that `record_stream` was given, is waited for on the GPU; for others the host waits as the memory
      goes back, since they may have been destroyed by then;
    - by the CUDA array interface: its stream is unknown, so the host waits.

    `free(stream=…)` spares that wait: it says which stream is the last.
    """

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
        """The handle of the stream that it goes back to; 0 is the default stream."""
        return self._memory.stream

    @property
    def pointer(self) -> int:
        """Its address on the GPU."""
        return self._memory.address + self._offset

    def record_stream(self, stream: Any) -> None:
        """The stream uses it, too: it goes back after what that was given by then. The stream is kept until then; by its
        handle alone it cannot be, and then the host waits for the GPU."""
        self._memory.used_by(_streams.number(stream), None if isinstance(stream, int) else stream)

    def free(self, stream: Any = None) -> None:
        """Gives the memory back now, or with the last view that others have of it; views by the CUDA array interface
        keep this object, and with it the memory. So does a transfer. `stream`: the one that was given the last work on
        it, or waits for that; it comes after the array's own. Without one: as for an array that is dropped. The array
        cannot be used after that."""
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
