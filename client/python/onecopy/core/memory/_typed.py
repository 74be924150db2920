"""What onecopy's own arrays have in common, wherever their memory is."""

from __future__ import annotations

import copy as copies
import math
from typing import Any, Self, SupportsIndex

from ... import _native
from ..values import _dtypes
from . import _arrays


class TypedArray:
    """A shape and an element type, without gaps. The last dimension varies fastest or, in Fortran order, the first."""

    _shape: tuple[int, ...]
    _dtype: _dtypes.DType
    _offset = 0  # where in the memory it begins
    _fortran = False
    _apart: tuple[int, ...] | None = None  # its strides in bytes, where it has gaps
    _plain = False  # no caller has said what its bytes are

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> str:
        """The name of the element type."""
        return self._dtype.name

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes from one element to the next, in each dimension."""
        if self._apart is not None:
            return self._apart
        return _arrays.compact(self._shape, self._dtype.itemsize, fortran=self._fortran)

    @property
    def _meaning(self) -> str:
        """As _arrays.View.dtype."""
        return "" if self._plain else self._dtype.name

    @property
    def nbytes(self) -> int:
        return self._dtype.itemsize * math.prod(self._shape)

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of an array without dimensions")
        return self._shape[0]

    @property
    def _gaps(self) -> list[_arrays.Range] | None:
        """Its bytes in order of its elements; None where they lie so."""
        if not self._fortran and self._apart is None:
            return None
        return _arrays.runs_of(self._dtype.itemsize, self._shape, self.strides)

    def _part(self, offset: int, shape: tuple[int, ...], dtype: _dtypes.DType, *, fortran: bool = False) -> Self:
        """Another array, of bytes of this one from there on. It keeps the memory."""
        made = copies.copy(self)
        made._offset = self._offset + offset
        made._shape = shape
        made._dtype = dtype
        made._fortran = fortran
        return made

    def _check_hand_over(self, device: tuple[int, int], wanted: tuple[SupportsIndex, SupportsIndex] | None,
                         copy: bool | None) -> None:
        """Of what DLPack asks for: neither another device nor a copy is possible."""
        if wanted is not None and (int(wanted[0]), int(wanted[1])) != device:
            where = "in host memory" if device[0] == _arrays.CPU else f"on cuda:{device[1]}"
            raise BufferError(f"this array is {where}; copy it to the device with the framework that reads it")
        if copy:
            raise BufferError("this array is handed over without a copy; copy it afterwards")

    def _capsule(self, owner: Any, address: int, device: tuple[int, int],
                 max_version: tuple[SupportsIndex, SupportsIndex] | None) -> object:
        """DLPack's, of the newest kind that is understood; it keeps the owner of the memory."""
        strides = [each // self._dtype.itemsize for each in self.strides]
        return _native.export_tensor(
            owner, address, device, (self._dtype.code, self._dtype.bits, self._dtype.lanes), list(self._shape), strides,
            False, max_version is not None and int(max_version[0]) >= 1)
