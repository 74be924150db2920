"""What arrays have in common that are ranges of a pool's slab."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

from ..values import _dtypes
from ..values._errors import OutOfRange
from ..values._values import Buffer, Endpoint
from ._typed import TypedArray


class Slabs(Protocol):
    """What an array needs of its pool."""

    def _place(self, piece: Any) -> tuple[Buffer, int]:
        """The buffer that a piece of memory lies in, and where."""

    def _hold(self, transfer: str | None, keeps: object) -> None:
        """Keeps what a transfer uses until that has ended; for good, if it is not known which one it is."""


class PoolRange(TypedArray):
    """An array of a pool: its memory goes back to that with its last view."""

    if TYPE_CHECKING:
        _pool: Slabs
        _memory: Any

    def _part(self, offset: int, shape: tuple[int, ...], dtype: _dtypes.DType, *, fortran: bool = False) -> Self:
        # Of a pool, too, rather than as shared memory has parts.
        return TypedArray._part(self, offset, shape, dtype, fortran=fortran)

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
        return buffer.endpoint(start + self._offset + first, size)
