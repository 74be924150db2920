"""Where the bytes of an array are, and which ranges of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ... import _native
from ..values import _dtypes
from ..values._errors import FailedPrecondition, InvalidArgument

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13  # DLPack's kinds of devices
_ON_HOST = (CPU, CUDA_HOST)
MOST_RANGES = 131072

Range = tuple[int, int, int, int]  # offset, bytes, stride, count


class View(NamedTuple):
    """An array's memory, while this lives. Strides are in bytes. Without elements there is no memory."""

    address: int
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: tuple[int, int]
    read_only: bool
    protocol: str  # that it came by
    keeps: object
    dtype: str = ""  # what its elements are: equal where they mean the same; "" where nothing says so

    @property
    def bytes(self) -> int:
        return self.itemsize * math.prod(self.shape)

    @property
    def on_host(self) -> bool:
        return self.device[0] in _ON_HOST


def is_array(value: object) -> bool:
    """Whether `view` has a way to look at it."""
    kind = type(value)
    if any(hasattr(kind, name) for name in ("__dlpack__", "__cuda_array_interface__", "__array_interface__")):
        return True
    if kind.__name__ == "PyCapsule" or any(
            hasattr(value, name) for name in ("__cuda_array_interface__", "__array_interface__")):
        return True
    try:
        memoryview(value).release()  # type: ignore[arg-type]
    except (TypeError, BufferError):
        return False
    return True


_more: dict[type, str] = {}


def means_more(kind: type) -> str:
    """What arrays of a type have beside their bytes: "a mask", "units"; "" for nothing."""
    more = _more.get(kind)
    if more is None:
        more = "a mask" if any(each.__module__.startswith("numpy.ma") for each in kind.__mro__) else ""
        if not more and any(hasattr(kind, name) for name in ("unit", "units")):
            more = "units"
        _more[kind] = more
    return more


def refuse_more_than_bytes(array: Any) -> None:
    """Refuses by its name what has a mask or units: its bytes alone would be something else on the other side."""
    kind = type(array)
    more = means_more(kind)
    if more == "a mask":
        raise InvalidArgument(f"a {kind.__name__} has a mask beside its data, and onecopy moves only plain bytes", "BAD_ARGUMENT",
                              "pass array.data, then array.mask; or array.filled()")
    if more:
        raise InvalidArgument(f"a {kind.__name__} has units beside its numbers, and onecopy moves only plain bytes", "BAD_ARGUMENT",
                              "pass its plain array (array.value, array.magnitude), and send the unit separately")


def view(array: Any) -> View:
    """The memory of an array of any framework, without a copy.

    Tried in turn: DLPack's C exchange API, the CUDA array interface, DLPack's capsules, the buffer protocol, NumPy's
    array interface.
    """
    refuse_more_than_bytes(array)
    if not hasattr(type(array), "__dlpack_c_exchange_api__"):
        cuda = getattr(array, "__cuda_array_interface__", None)
        if cuda is not None:
            return _of_interface(cuda, (CUDA, _cuda_ordinal(array)), "cuda-array-interface", array)
    try:
        return _of_tensor(_native.import_tensor(array))
    except (TypeError, BufferError, ValueError, RuntimeError) as failure:
        interface = getattr(array, "__array_interface__", None)
        if interface is not None:  # of elements that neither has a word for: dates, structures
            return _of_interface(interface, (CPU, 0), "array-interface", array)
        remedy = "pass an array of NumPy, torch, CuPy, JAX, Numba or Arrow, or anything with a buffer"
        if "grad" in str(failure):
            remedy = "pass array.detach()"
        if "bit is set" in str(failure):
            remedy = "pass array.resolve_conj().resolve_neg()"
        raise InvalidArgument(f"the memory of a {type(array).__name__} cannot be inspected: {failure}",
                              "BAD_ARGUMENT", remedy) from failure


def has_storage(array: object) -> bool:
    """Whether it is a tensor of torch, whose memory belongs to a storage."""
    kind = type(array)
    return hasattr(kind, "untyped_storage") and not is_storage(array)


def is_storage(owner: object) -> bool:
    """Of torch. It has no protocol to look at its memory by."""
    return type(owner).__name__ == "UntypedStorage"


def storage_view(storage: Any, part: View) -> View:
    """All bytes of a storage of torch, which `part` lies in."""
    return View(storage.data_ptr(), 1, (storage.nbytes(),), (1,), part.device, part.read_only, "storage", storage)


def _of_tensor(tensor: _native.Tensor) -> View:
    if tensor.bits % 8 != 0:
        raise InvalidArgument(
            f"elements of {tensor.bits} bits are less than a byte", "BAD_ARGUMENT",
            "view the array as bytes first: array.view(uint8)")
    address, itemsize, shape, strides, device, read_only, protocol, type = tensor.fields()
    return View(address, itemsize, shape, strides, device, read_only, protocol, tensor, _dtypes.name_of(type, itemsize))


def _of_interface(fields: Mapping[str, Any], device: tuple[int, int], protocol: str, array: object) -> View:
    """NumPy's array interface and CUDA's (version 3) have the same fields."""
    if fields.get("mask") is not None:
        raise InvalidArgument("an array with a mask has two blocks of memory", "BAD_ARGUMENT", "pass its data, then its mask")
    if fields.get("data") is None:
        raise InvalidArgument(f"a {type(array).__name__} does not provide the address of its data", "BAD_ARGUMENT",
                              "pass the array from which it was made")
    address, read_only = fields["data"]
    kind, length = fields["typestr"][1], fields["typestr"][2:].partition("[")[0]  # "<M8[s]"
    if kind in ("O", "T") or getattr(getattr(array, "dtype", None), "hasobject", False) or _has_objects(fields.get("descr")):
        raise InvalidArgument("an array of Python objects contains pointers, not the bytes themselves", "BAD_ARGUMENT",
                              "convert it to a numeric type, or to bytes: pickle.dumps")
    itemsize = int(length) * (4 if kind == "U" else 1)  # NumPy counts these in characters
    shape = tuple(fields["shape"])
    strides = fields.get("strides")
    # A structure's fields are what it means.
    dtype = str(fields["descr"]) if kind == "V" and fields.get("descr") else _dtypes.name_of_typestr(fields["typestr"])
    return View(address or 0, itemsize, shape, tuple(strides) if strides is not None else compact(shape, itemsize),
                device, read_only, protocol, array, dtype)


def _has_objects(descr: Any) -> bool:
    """Whether a structure of the array interface has a field of Python objects, at whatever depth."""
    return isinstance(descr, list) and any(
        _has_objects(field[1]) if isinstance(field[1], list) else str(field[1])[1:2] == "O"
        for field in descr if isinstance(field, tuple) and len(field) > 1)


def _cuda_ordinal(array: Any) -> int:
    device = getattr(array, "device", None)
    found = getattr(device, "id", getattr(device, "index", None))
    return int(found) if isinstance(found, int) else 0


def compact(shape: tuple[int, ...], itemsize: int, *, fortran: bool = False) -> tuple[int, ...]:
    """Strides of an array without gaps, the last dimension fastest or, in Fortran order, the first."""
    strides: list[int] = []
    step = itemsize
    for length in shape if fortran else reversed(shape):
        strides.append(step)
        step *= length
    return tuple(strides if fortran else reversed(strides))


def check(found: View, what: str, written: bool) -> None:
    """Refuses what cannot be moved, before anything happens. `what`: "the source"."""
    if found.itemsize == 0 or 0 in found.shape:
        raise InvalidArgument(f"{what} has no bytes: its shape is {found.shape}", "BAD_SIZE",
                              "leave out arrays without elements")
    if written and found.read_only:
        raise InvalidArgument(f"{what} is read-only", "BAD_ARGUMENT",
                              "pass a writable array: array.copy(), or onecopy.empty")
    for length, stride in zip(found.shape, found.strides, strict=True):
        if length > 1 and stride < 0:
            raise InvalidArgument(f"{what} runs backwards: its strides are {found.strides}", "BAD_ARGUMENT",
                                  "pass it in forward order, or a copy: numpy.ascontiguousarray(array)")
        if length > 1 and stride == 0:
            raise InvalidArgument(f"{what} repeats its elements: its strides are {found.strides}", "BAD_ARGUMENT",
                                  "pass the array from before it was broadcast, or a copy")
    if found.device[0] not in (CPU, CUDA, CUDA_HOST, CUDA_MANAGED):
        raise FailedPrecondition(
            f"{what} is on a device of DLPack's kind {found.device[0]}, which onecopy cannot reach", "NOT_SHAREABLE",
            "copy it to the CPU or to an NVIDIA GPU first")


def extent(found: View) -> tuple[int, int]:
    """The first address, and the number of bytes to the end of the last element. Strides must not be negative."""
    return found.address, span(found.itemsize, found.shape, found.strides)


def span(itemsize: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Bytes from the first element's to the last one's, of an array with elements."""
    end = itemsize
    for length, stride in zip(shape, strides, strict=True):
        end += (length - 1) * stride
    return end


def is_compact(found: View, *, fortran: bool = False) -> bool:
    """Whether its bytes lie without gaps, the last dimension fastest or, in Fortran order, the first."""
    step = found.itemsize
    dimensions = list(zip(found.shape, found.strides, strict=True))
    for length, stride in dimensions if fortran else reversed(dimensions):
        if length > 1 and stride != step:
            return False
        step *= length
    return True


def runs(found: View) -> list[Range]:
    """The array's bytes in order of its elements, as ranges from its first address; one where it has no gaps."""
    return runs_of(found.itemsize, found.shape, found.strides)


def runs_of(itemsize: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> list[Range]:
    """Likewise, of an array with elements."""
    length = itemsize
    outer: list[tuple[int, int]] = []  # (count, stride) of what is not part of one run, the fastest first
    for count, stride in zip(reversed(shape), reversed(strides), strict=True):
        if count == 1:
            continue
        if not outer and stride == length:
            length *= count
        elif outer and outer[-1][0] * outer[-1][1] == stride:
            outer[-1] = (outer[-1][0] * count, outer[-1][1])
        else:
            outer.append((count, stride))
    if not outer:
        return [(0, length, 0, 1)]
    (count, stride), rest = outer[0], outer[1:]
    total = math.prod(each for each, _ in rest)
    if total > MOST_RANGES:
        raise InvalidArgument(
            f"this array is {total} pieces, and no common stride joins them, and a transfer takes {MOST_RANGES}", "BAD_SIZE",
            "move it in parts, or move a copy without gaps: numpy.ascontiguousarray(array)")
    return [(offset, length, stride, count) for offset in _offsets(rest)]


def _offsets(outer: list[tuple[int, int]]) -> Iterator[int]:
    """Of every combination, the first of `outer` fastest."""
    if not outer:
        yield 0
        return
    for slow in _offsets(outer[1:]):
        for index in range(outer[0][0]):
            yield slow + index * outer[0][1]


def _size(piece: Range) -> int:
    return piece[1] * piece[3]


def _elements(offset: int, length: int, stride: int, count: int) -> Range:
    return offset, length, stride if count > 1 else 0, count


def _fit(piece: Range, size: int) -> int:
    """The most bytes up to `size` with which a piece can begin as one range: a part of one element, or whole ones."""
    _, length, _, count = piece
    return size if count == 1 or size < length else size - size % length


def _cut(piece: Range, size: int) -> tuple[Range, list[Range]]:
    """The piece's first bytes, as many as fit, and what is left."""
    offset, length, stride, count = piece
    if size == _size(piece):
        return piece, []
    if size < length:
        left = [(offset + size, length - size, 0, 1)]
        if count > 1:
            left.append(_elements(offset + stride, length, stride, count - 1))
        return (offset, size, 0, 1), left
    whole = size // length
    return _elements(offset, length, stride, whole), [
        _elements(offset + whole * stride, length, stride, count - whole)]


def pairs(source: list[Range], destination: list[Range]) -> list[tuple[Range, Range]]:
    """Ranges of two arrays of as many bytes, cut so that each has its like."""
    made: list[tuple[Range, Range]] = []
    ends = [list(reversed(source)), list(reversed(destination))]
    while ends[0]:
        tops = [each.pop() for each in ends]
        size, before = min(map(_size, tops)), 0
        while size != before:
            before = size
            size = min(_fit(each, size) for each in tops)
        heads = []
        for end, top in zip(ends, tops, strict=True):
            head, left = _cut(top, size)
            heads.append(head)
            end.extend(reversed(left))
        made.append((heads[0], heads[1]))
        if len(made) > MOST_RANGES:
            raise InvalidArgument(
                f"the two arrays have more than {MOST_RANGES} pieces in common", "BAD_SIZE",
                "give both the same layout, or move a copy without gaps: numpy.ascontiguousarray(array)")
    return made
