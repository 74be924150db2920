"""The head of a safetensors file: how it is read, strictly, and made."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _dtypes
from ._errors import InvalidArgument

MOST_HEADER_BYTES = 100_000_000  # as of the format's own library
_LENGTH_BYTES = 8
_MOST_BYTES = 1 << 63
_METADATA = "__metadata__"
_PAGE = 4096
_WORTH_A_PAGE = 1 << 20  # bytes of payload for which the head is made to end with a page

_NAMES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
}
_CODES = {name: code for code, name in _NAMES.items()}
_LESS_THAN_A_BYTE = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}  # bits


class Tensor(NamedTuple):
    """Where a tensor's bytes are, from the beginning of the file on."""

    name: str
    code: str  # of its elements, as the format has it
    dtype: _dtypes.DType | None  # None: of elements of less than a byte
    shape: tuple[int, ...]
    offset: int
    bytes: int
    fortran: bool = False  # the first dimension is the fastest: of another format


class Header(NamedTuple):
    """Of one file: its tensors, in order of their bytes, and what else it says of itself."""

    tensors: tuple[Tensor, ...]
    metadata: Mapping[str, str]


def bad(file: str, why: str) -> InvalidArgument:
    return InvalidArgument(f"{file} is no whole safetensors file: {why}", "BAD_FORMAT",
                           "get or write the file anew; `safetensors` says what it should be like")


def header_bytes(file: str, first: bytes, size: int) -> int:
    """How long the head's text is, by the first 8 bytes of a file of that size."""
    if size < _LENGTH_BYTES or len(first) < _LENGTH_BYTES:
        raise bad(file, f"it has {size} bytes, and the length of its head alone takes {_LENGTH_BYTES}")
    length = int.from_bytes(first[:_LENGTH_BYTES], "little")
    if length > MOST_HEADER_BYTES:
        raise bad(file, f"its head is said to have {length} bytes, more than the {MOST_HEADER_BYTES} of any")
    if _LENGTH_BYTES + length > size:
        raise bad(file, f"its head is said to have {length} bytes, and the whole file has {size}")
    return length


def _pairs(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"'{next(each for each in names if names.count(each) > 1)}' is in it twice")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def parse_json(file: str, text: bytes, what: str) -> dict[str, Any]:
    """An object, whose names are there once each."""
    try:
        found = json.loads(text.decode("utf-8"), object_pairs_hook=_pairs, parse_constant=_no_number)
    except UnicodeDecodeError as failure:
        raise bad(file, f"{what} is not UTF-8: {failure.reason} at byte {failure.start}") from None
    except (ValueError, RecursionError) as failure:
        raise bad(file, f"{what} is no JSON: {failure}") from None
    if not isinstance(found, dict):
        raise bad(file, f"{what} is a {type(found).__name__}, and no object")
    return found


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_BYTES


def parse(file: str, text: bytes, size: int) -> Header:
    """Of the head's text, of a file of that size. What overlaps, leaves holes, or lies outside is refused."""
    if text[:1] != b"{":
        raise bad(file, "its head does not begin with '{'")
    fields = parse_json(file, text, "its head")
    metadata = fields.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(each, str) for each in metadata.values()):
        raise bad(file, f"{_METADATA} is no object of texts")
    start = _LENGTH_BYTES + len(text)
    tensors = sorted((_tensor(file, name, each, start) for name, each in fields.items()),
                     key=lambda each: (each.offset, each.bytes))
    end = start
    for each in tensors:
        if each.offset != end:
            how = "shares bytes with another" if each.offset < end else "leaves a hole before it"
            raise bad(file, f"tensor '{each.name}' begins at byte {each.offset - start} of the payload and {how}")
        end += each.bytes
    if end != size:
        raise bad(file, f"its tensors have {end - start} bytes, and {size - start} are there")
    return Header(tuple(tensors), metadata)


def _tensor(file: str, name: str, fields: Any, start: int) -> Tensor:
    if not isinstance(fields, dict):
        raise bad(file, f"tensor '{name}' is a {type(fields).__name__}, and no object")
    if set(fields) != {"dtype", "shape", "data_offsets"}:
        raise bad(file, f"tensor '{name}' does not have dtype, shape and data_offsets, and these alone")
    code, shape, offsets = (fields.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(code, str) or (code not in _NAMES and code not in _LESS_THAN_A_BYTE):
        raise bad(file, f"tensor '{name}' is of dtype {code!r}, which is none of {', '.join(_NAMES)}")
    if not isinstance(shape, list) or not all(_is_count(each) for each in shape):
        raise bad(file, f"tensor '{name}' has the shape {shape!r}")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_count(each) for each in offsets):
        raise bad(file, f"tensor '{name}' has the data_offsets {offsets!r}")
    begin, end = offsets
    kind = _dtypes.of(_NAMES[code]) if code in _NAMES else None
    bits = (_LESS_THAN_A_BYTE[code] if kind is None else kind.bits) * math.prod(shape)
    bytes = bits // 8
    if bits % 8 != 0 or end - begin != bytes:
        raise bad(file, f"tensor '{name}' of {code} and shape {shape} has {bytes} bytes, and data_offsets of {end - begin}")
    return Tensor(name, code, kind, tuple(shape), start + begin, bytes)


def parse_index(file: str, text: bytes) -> dict[str, str]:
    """Of a model in many files: the name of each tensor's file, which lies beside the index."""
    fields = parse_json(file, text, "it")
    files = fields.get("weight_map")
    if not isinstance(files, dict) or not files:
        raise bad(file, "an index has a 'weight_map', of each tensor's file")
    for name, each in files.items():
        if not isinstance(each, str) or not each or each in (".", "..") or "/" in each or "\0" in each:
            raise bad(file, f"tensor '{name}' is said to be in {each!r}, which is no file beside the index")
    return files


def write(tensors: Mapping[str, tuple[_dtypes.DType, tuple[int, ...]]], metadata: Mapping[str, str]) -> tuple[
        bytes, dict[str, int]]:
    """The head of a file of these tensors, and where in the file the bytes of each belong. The largest elements come
    first, so that each lies at a multiple of its elements' size."""
    for name, text in metadata.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise InvalidArgument(f"metadata {name!r}: {text!r} are not both texts", "BAD_ARGUMENT", "pass a dict of str")
    order = sorted(tensors, key=lambda name: (-tensors[name][0].itemsize, tensors[name][0].name, name))
    fields: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    at, places = 0, {}
    for name in order:
        kind, shape = tensors[name]
        if name == _METADATA:
            raise InvalidArgument(f"no tensor can have the name {_METADATA}", "BAD_ARGUMENT", "choose another one")
        code = _CODES.get(kind.name)
        if code is None:
            raise InvalidArgument(f"'{name}' is of {kind.name}, for which safetensors has no type", "BAD_ARGUMENT",
                                  f"convert it to one of {', '.join(_CODES)}")
        bytes = kind.itemsize * math.prod(shape)
        fields[name] = {"dtype": code, "shape": list(shape), "data_offsets": [at, at + bytes]}
        places[name] = at
        at += bytes
    try:
        head = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as failure:
        raise InvalidArgument(f"a name is not UTF-8: {failure.object!r:.80}", "BAD_ARGUMENT", "rename the tensor") from None
    grain = _PAGE if at >= _WORTH_A_PAGE else 8
    start = -(-(_LENGTH_BYTES + len(head)) // grain) * grain
    head = head.ljust(start - _LENGTH_BYTES)
    if len(head) > MOST_HEADER_BYTES:
        raise InvalidArgument(f"the head would have {len(head)} bytes, and {MOST_HEADER_BYTES} is the most", "BAD_SIZE",
                              "write the tensors into several files")
    return len(head).to_bytes(_LENGTH_BYTES, "little") + head, {name: start + each for name, each in places.items()}
