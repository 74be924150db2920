"""The head of a file of NumPy's, without NumPy: how it is read, and made."""

from __future__ import annotations

import ast
import math
from typing import NamedTuple

from . import _dtypes
from ._errors import InvalidArgument, Unimplemented

_MAGIC = b"\x93NUMPY"
_MOST_HEADER_BYTES = 65536  # of an array without fields, which are refused, some hundreds
FIRST_BYTES = 12  # that say how long the head is
_ALIGNMENT = 64


class Array(NamedTuple):
    """Where its bytes are, from the beginning of the file on."""

    dtype: _dtypes.DType
    shape: tuple[int, ...]
    offset: int
    bytes: int
    fortran: bool  # the first dimension is the fastest


def bad(file: str, why: str) -> InvalidArgument:
    return InvalidArgument(f"{file} is no whole .npy file: {why}", "BAD_FORMAT", "get or write the file anew: numpy.save")


def header_bytes(file: str, first: bytes, size: int) -> int:
    """How long the head is, by its first bytes."""
    if len(first) < FIRST_BYTES or first[:6] != _MAGIC:
        raise bad(file, "it does not begin as one")
    major, minor = first[6], first[7]
    if major not in (1, 2, 3) or minor != 0:
        raise bad(file, f"it is of version {major}.{minor}, and 1.0 to 3.0 are known")
    if major == 1:
        length = 10 + int.from_bytes(first[8:10], "little")
    else:
        length = 12 + int.from_bytes(first[8:12], "little")
    if length > _MOST_HEADER_BYTES:
        raise bad(file, f"its head is said to have {length} bytes, more than the {_MOST_HEADER_BYTES} of any array")
    if length > size:
        raise bad(file, f"its head is said to have {length} bytes, and the whole file has {size}")
    return length


def parse(file: str, head: bytes, size: int) -> Array:
    """Of the whole head, of a file of that size."""
    start = 10 if head[6] == 1 else 12
    try:
        text = head[start:].decode("utf-8" if head[6] == 3 else "latin-1")
        fields = ast.literal_eval(text.rstrip(" \n"))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as failure:
        raise bad(file, f"its head is no dictionary: {failure}") from None
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        raise bad(file, "its head does not have descr, fortran_order and shape, and these alone")
    descr, shape = fields["descr"], fields["shape"]
    if not isinstance(shape, tuple) or not all(
            isinstance(each, int) and not isinstance(each, bool) and 0 <= each < 1 << 63 for each in shape):
        raise bad(file, f"it has the shape {shape!r}")
    if not isinstance(fields["fortran_order"], bool):
        raise bad(file, f"fortran_order is {fields['fortran_order']!r}")
    kind = _kind(file, descr)
    bytes = kind.itemsize * math.prod(shape)
    if size - len(head) != bytes:
        raise bad(file, f"an array of {kind.name} and shape {shape} has {bytes} bytes, and {size - len(head)} are there")
    turned = fields["fortran_order"] and sum(each != 1 for each in shape) > 1 and 0 not in shape  # else either order
    return Array(kind, shape, len(head), bytes, turned)


def _kind(file: str, descr: object) -> _dtypes.DType:
    if isinstance(descr, str):
        wanted = descr.replace("=", "<") if len(descr) > 2 else descr
        for each in _dtypes.every():
            if each.typestr and (each.typestr == wanted or (each.itemsize == 1 and each.typestr[1:] == wanted[1:])):
                return each
    raise Unimplemented(f"{file} has elements of {descr!r:.80}, which are no numbers in this machine's byte order",
                        "BAD_FORMAT", "convert the array, as by array.astype('<f4'), and write it anew")


def write(kind: _dtypes.DType, shape: tuple[int, ...], *, fortran: bool) -> bytes:
    """The head of a file of such an array."""
    if not kind.typestr:
        raise InvalidArgument(f"NumPy has no type {kind.name}", "BAD_ARGUMENT", "write a .safetensors file")
    text = repr({"descr": kind.typestr, "fortran_order": fortran, "shape": shape}).encode("latin-1")
    size = -(-(len(_MAGIC) + 4 + len(text) + 1) // _ALIGNMENT) * _ALIGNMENT
    text = text.ljust(size - len(_MAGIC) - 5) + b"\n"
    return _MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text
