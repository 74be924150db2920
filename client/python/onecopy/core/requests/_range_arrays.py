"""Values of the argument `ranges=`: pairs of ranges, or arrays of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from ... import _native
from ..memory import _arrays
from ..values import _numbers
from ..values._errors import InvalidArgument

# Either pairs of ranges, or two integer arrays (source, destination). Arrays of offsets are followed by the length of each
# range. An empty tuple means all bytes.
Ranges: TypeAlias = "Iterable[tuple[Sequence[int], Sequence[int]]] | tuple[Any, Any] | tuple[Any, Any, int] | _native.Ranges"

# The form that the native module accepts. None: all bytes.
Chosen: TypeAlias = "list[tuple[_arrays.Range, ...]] | _native.Ranges | None"  # in pairs

_Fields: TypeAlias = "tuple[int, int, bool, tuple[int, ...], tuple[int, ...]]"

_SIGNED = {"int32": True, "int64": True, "uint32": False, "uint64": False}


def choose(ranges: Ranges) -> Chosen:
    """Copies the ranges into the form that the native module accepts. The caller may change its arrays afterwards."""
    if isinstance(ranges, _native.Ranges):
        return ranges
    if isinstance(ranges, tuple):
        if not ranges:
            return None
        if len(ranges) in (2, 3) and all(_arrays.is_array(each) for each in ranges[:2]):
            source, destination = (fields_of(each, side) for each, side in zip(ranges, ("source", "destination"), strict=False))
            bytes = None if len(ranges) == 2 else _numbers.size(ranges[2], "the bytes of a range")
            return _native.pack_ranges(source, destination, bytes)
    return [_pair(each) for each in ranges]


def fields_of(array: Any, side: str, what: str = "ranges") -> _Fields:
    """Where the numbers of an array are, for the native module. `what`: what they are numbers of."""
    found = _arrays.view(array)
    if found.dtype not in _SIGNED:
        raise InvalidArgument(f"the {side}'s {what} are an array of {found.dtype or 'an unknown type'}", "TYPE_MISMATCH",
                              f"pass one of {', '.join(_SIGNED)}")
    if not found.on_host:
        raise InvalidArgument(f"the {side}'s {what} are in the memory of a GPU", "BAD_ARGUMENT",
                              "pass an array in the CPU's memory: array.cpu()")
    return found.address, found.itemsize, _SIGNED[found.dtype], found.shape, found.strides


def _pair(pair: Any) -> tuple[_arrays.Range, ...]:
    try:
        (source, destination), _ = pair, [len(each) for each in pair]
    except (TypeError, ValueError):
        raise InvalidArgument(f"{pair!r} is not a pair of ranges", "BAD_ARGUMENT",
                              "write ((offset, bytes), (offset, bytes)) for each, or pass two arrays") from None
    return _piece(source), _piece(destination)


def _piece(fields: Sequence[int]) -> _arrays.Range:
    if len(fields) == 2:
        return fields[0], fields[1], 0, 1
    if len(fields) == 4:
        return fields[0], fields[1], fields[2], fields[3]
    raise InvalidArgument(f"{tuple(fields)} is not a range", "BAD_ARGUMENT",
                          "write (offset, bytes), or (offset, bytes, stride, count)")
