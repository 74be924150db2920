"""The head of a safetensors file: how it is read, by the code that the command line has, and made."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from .. import _native
from ..core.values import _dtypes
from ..core.values._errors import InvalidArgument
from ._opened import OpenFile

MOST_HEADER_BYTES = _native.MOST_SAFETENSORS_HEADER_BYTES
_LENGTH_BYTES = 8
_METADATA = "__metadata__"
_PAGE = 4096
_WORTH_A_PAGE = 1 << 20  # bytes of payload for which the head is made to end with a page

_NAMES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
}
_PAIRS = "F4"  # of which an array has two in an element, as torch does, and half as many in its last dimension
_PAIRS_TYPE = _dtypes.of("float4_e2m1fn_x2")
_TYPES = {code: _dtypes.of(name) for code, name in _NAMES.items()}
_CODES = {name: code for code, name in _NAMES.items()} | {_PAIRS_TYPE.name: _PAIRS}


class Tensor(NamedTuple):
    """Where a tensor's bytes are, from the beginning of the file on."""

    name: str
    code: str  # of its elements, as the format has it
    dtype: _dtypes.DType | None  # None: of elements that no array can have
    shape: tuple[int, ...]
    offset: int
    bytes: int
    fortran: bool = False  # the first dimension is the fastest: of another format


class Header(NamedTuple):
    """Of one file: its tensors, in order of their bytes, and what else it says of itself."""

    tensors: list[Tensor]
    metadata: Mapping[str, str]


def bad(file: str, why: str) -> InvalidArgument:
    return InvalidArgument(f"{file} is not a valid safetensors file: {why}", "BAD_FORMAT", "download or write the file again")


def read(file: OpenFile) -> Header:
    """Raises InvalidArgument (BAD_FORMAT) for what is not a safetensors file, by the rules of client/formats/safetensors.h."""
    described, metadata = _native.safetensors_head(file.name, file.fd)
    return Header([_tensor(*each) for each in described], metadata)


def _tensor(name: str, code: str, shape: tuple[int, ...], offset: int, bytes: int) -> Tensor:
    kind = _TYPES.get(code)
    if code == _PAIRS and shape and shape[-1] % 2 == 0:
        kind, shape = _PAIRS_TYPE, (*shape[:-1], shape[-1] // 2)
    return Tensor(name, code, kind, shape, offset, bytes)


def parse_index(file: str, text: bytes) -> dict[str, str]:
    """Of a model in many files: the name of each tensor's file, which lies beside the index."""
    return _native.safetensors_index(file, text)


def write(tensors: Mapping[str, tuple[_dtypes.DType, tuple[int, ...]]], metadata: Mapping[str, str]) -> tuple[
        bytes, dict[str, int]]:
    """The head of a file of these tensors, and where in the file the bytes of each belong. The largest elements come
    first, so that each lies at a multiple of its elements' size."""
    for name, text in metadata.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise InvalidArgument(f"metadata {name!r}: {text!r} are not both strings", "BAD_ARGUMENT", "pass a dict of str")
    order = sorted(tensors, key=lambda name: (-tensors[name][0].itemsize, tensors[name][0].name, name))
    fields: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    at, places = 0, {}
    for name in order:
        kind, shape = tensors[name]
        if name == _METADATA:
            raise InvalidArgument(f"a tensor cannot have the name {_METADATA}", "BAD_ARGUMENT", "choose another name")
        code = _CODES.get(kind.name)
        if code is None:
            raise InvalidArgument(f"'{name}' is of {kind.name}, which is not a type of safetensors", "BAD_ARGUMENT",
                                  f"convert it to one of {', '.join(_CODES)}")
        bytes = kind.itemsize * math.prod(shape)
        if code == _PAIRS:
            if not shape:
                raise InvalidArgument(f"'{name}' is a single pair of {code}, which has no shape there", "BAD_ARGUMENT",
                                      "give it a dimension: tensor.reshape(1)")
            shape = (*shape[:-1], shape[-1] * 2)
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
        raise InvalidArgument(f"the head would have {len(head)} bytes, and {MOST_HEADER_BYTES} is the limit", "BAD_SIZE",
                              "write the tensors into several files")
    return len(head).to_bytes(_LENGTH_BYTES, "little") + head, {name: start + each for name, each in places.items()}
