"""The head of a file of NumPy's, without NumPy: how it is read, and made."""

from __future__ import annotations

import ast
import io
import math
import re
import tokenize
from typing import Any, NamedTuple

from ..core.values import _dtypes
from ..core.values._errors import InvalidArgument, Unimplemented

_MAGIC = b"\x93NUMPY"
_MOST_HEADER = 10_000  # characters, as of NumPy: what Python takes for longer ones has no bound
_MOST_DIMENSIONS = 64  # as of NumPy
_MOST_BYTES = 1 << 63
FIRST_BYTES = 12  # that say how long the head is
_ALIGNMENT = 64

# Types as NumPy writes them, and as it takes them besides: a letter for each, or a name.
_TYPE = re.compile(r"[<>=|]?(?:(?P<kind>[biufc])0*(?P<bytes>[1-9][0-9]?)|(?P<letter>[?bBhHiIlLqQpPnNefdFD]))")
_LETTERS = dict(zip("?bBhHiIlLqQpPnNefdFD", (
    "b1 i1 u1 i2 u2 i4 u4 i8 u8 i8 u8 i8 u8 i8 u8 f2 f4 f8 c8 c16").split(), strict=True))
_NAMES = {
    "bool": "b1", "bool_": "b1", "byte": "i1", "ubyte": "u1", "short": "i2", "ushort": "u2", "intc": "i4", "uintc": "u4",
    "int": "i8", "int_": "i8", "uint": "u8", "long": "i8", "ulong": "u8", "longlong": "i8", "ulonglong": "u8", "intp": "i8",
    "uintp": "u8", "half": "f2", "single": "f4", "float": "f8", "double": "f8", "csingle": "c8", "complex": "c16",
    "cdouble": "c16", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4", "int64": "i8",
    "uint64": "u8", "float16": "f2", "float32": "f4", "float64": "f8", "complex64": "c8", "complex128": "c16"}
_KINDS = {each.typestr[1:]: each for each in _dtypes.every() if each.typestr}


class Array(NamedTuple):
    """Where its bytes are, from the beginning of the file on."""

    dtype: _dtypes.DType
    shape: tuple[int, ...]
    offset: int
    bytes: int
    fortran: bool  # the first dimension is the fastest


def bad(file: str, why: str) -> InvalidArgument:
    return InvalidArgument(f"{file} is not a valid .npy file: {why}", "BAD_FORMAT", "download or write the file again: numpy.save")


def header_bytes(file: str, first: bytes, size: int) -> int:
    """How long the head is, by its first bytes."""
    if len(first) < FIRST_BYTES or first[:6] != _MAGIC:
        raise bad(file, "it does not begin with .npy's magic bytes")
    major, minor = first[6], first[7]
    if major not in (1, 2, 3) or minor != 0:
        raise bad(file, f"it has version {major}.{minor}, and onecopy knows 1.0 to 3.0")
    start, length = (10, int.from_bytes(first[8:10], "little")) if major == 1 else (
        12, int.from_bytes(first[8:12], "little"))
    if length > 4 * _MOST_HEADER:  # bytes of a character, at most
        raise bad(file, f"its length field announces a head of {length} bytes, more than the {_MOST_HEADER} characters "
                        "that are allowed")
    if start + length > size:
        raise bad(file, f"its length field announces a head of {length} bytes, and the whole file has {size}")
    return start + length


def parse(file: str, head: bytes, size: int) -> Array:
    """Of the whole head, of a file of that size. What follows the array is passed over, as NumPy does."""
    fields = _fields(file, head)
    if not isinstance(fields, dict) or fields.keys() != {"descr", "fortran_order", "shape"}:
        raise bad(file, "its head does not have exactly descr, fortran_order and shape")
    shape = fields["shape"]
    if not isinstance(shape, tuple) or len(shape) > _MOST_DIMENSIONS or not all(
            type(each) is int and 0 <= each < _MOST_BYTES for each in shape):
        raise bad(file, f"its shape is not a tuple of at most {_MOST_DIMENSIONS} lengths")
    if not isinstance(fields["fortran_order"], bool):
        raise bad(file, "fortran_order is neither True nor False")
    kind = _kind(file, fields["descr"])
    if math.prod(each or 1 for each in shape) * kind.itemsize >= _MOST_BYTES:
        raise bad(file, f"an array of shape {shape} is too large")
    bytes = kind.itemsize * math.prod(shape)
    if size - len(head) < bytes:
        raise bad(file, f"an array of {kind.name} and shape {shape} has {bytes} bytes, and the file has {size - len(head)}")
    turned = fields["fortran_order"] and sum(each != 1 for each in shape) > 1 and 0 not in shape  # else either order
    return Array(kind, shape, len(head), bytes, turned)


def _fields(file: str, head: bytes) -> Any:
    start, encoding = (10, "latin-1") if head[6] == 1 else (12, "utf-8" if head[6] == 3 else "latin-1")
    try:
        text = head[start:].decode(encoding)
    except UnicodeDecodeError as failure:
        raise bad(file, f"its head is not UTF-8: {failure.reason} at byte {failure.start}") from None
    if len(text) > _MOST_HEADER:
        raise bad(file, f"its head has {len(text)} characters, more than the {_MOST_HEADER} of any array")
    try:
        try:
            return ast.literal_eval(text)
        except SyntaxError:
            if head[6] == 3:
                raise
            return ast.literal_eval(_without_long(text))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError, tokenize.TokenError) as failure:
        raise bad(file, f"its head is not a dictionary: {failure!s:.200}") from None


def _without_long(text: str) -> str:
    """Of Python 2, which writes long numbers as 2L."""
    words: list[tokenize.TokenInfo] = []
    for word in tokenize.generate_tokens(io.StringIO(text).readline):
        if not (word.string == "L" and words and words[-1].type == tokenize.NUMBER):
            words.append(word)
    return tokenize.untokenize(words)


def _kind(file: str, descr: object) -> _dtypes.DType:
    if isinstance(descr, str):
        found = _TYPE.fullmatch(descr)
        name = _NAMES.get(descr, "") if found is None else _LETTERS.get(found["letter"]) or found["kind"] + found["bytes"]
        kind = _KINDS.get(name)
        if kind is not None and (descr[0] != ">" or kind.itemsize == 1):
            return kind
    raise Unimplemented(f"{file} has elements of {descr!r:.80}, which are not numbers in this machine's byte order",
                        "BAD_FORMAT", "convert the array, as with array.astype('<f4'), and write it again")


def write(kind: _dtypes.DType, shape: tuple[int, ...], *, fortran: bool) -> bytes:
    """The head of a file of such an array."""
    if not kind.typestr:
        raise InvalidArgument(f"NumPy does not have the type {kind.name}", "BAD_ARGUMENT", "write a .safetensors file")
    text = repr({"descr": kind.typestr, "fortran_order": fortran, "shape": shape}).encode("latin-1")
    size = -(-(len(_MAGIC) + 4 + len(text) + 1) // _ALIGNMENT) * _ALIGNMENT
    text = text.ljust(size - len(_MAGIC) - 5) + b"\n"
    return _MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text
