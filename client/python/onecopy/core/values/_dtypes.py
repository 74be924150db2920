"""Types of elements by name, as DLPack and NumPy's array interface write them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import NamedTuple

from ._errors import InvalidArgument

_ORDER = "<" if sys.byteorder == "little" else ">"


class DType(NamedTuple):
    """`code`, `bits` and `lanes` are DLPack's; `typestr` is NumPy's, "" where NumPy has no such type; `format` is the
    struct module's, "" likewise."""

    name: str
    code: int
    bits: int
    lanes: int
    typestr: str
    format: str

    @property
    def itemsize(self) -> int:
        return self.bits * self.lanes // 8


_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6
_FLOAT8 = {"float8_e4m3fn": 10, "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13,
           "float8_e8m0fnu": 14}
_FLOAT4 = 17

_TYPES = {
    each.name: each
    for each in (
        *(DType(f"int{bits}", _INT, bits, 1, f"{_ORDER}i{bits // 8}", code)
          for bits, code in ((8, "b"), (16, "h"), (32, "i"), (64, "q"))),
        *(DType(f"uint{bits}", _UINT, bits, 1, f"{_ORDER}u{bits // 8}", code)
          for bits, code in ((8, "B"), (16, "H"), (32, "I"), (64, "Q"))),
        *(DType(f"float{bits}", _FLOAT, bits, 1, f"{_ORDER}f{bits // 8}", code)
          for bits, code in ((16, "e"), (32, "f"), (64, "d"))),
        DType("bfloat16", _BFLOAT, 16, 1, "", ""),
        *(DType(name, code, 8, 1, "", "") for name, code in _FLOAT8.items()),
        DType("float4_e2m1fn_x2", _FLOAT4, 4, 2, "", ""),  # two in a byte, which are one element: as torch has it
        *(DType(f"complex{bits}", _COMPLEX, bits, 1, f"{_ORDER}c{bits // 8}", "") for bits in (64, 128)),
        DType("bool", _BOOL, 8, 1, "|b1", "?"),
    )
}
_NAMES = {(each.code, each.bits, each.lanes): each.name for each in _TYPES.values()}
_TYPESTRS = {each.typestr: each.name for each in _TYPES.values() if each.typestr}
_KINDS = {**dict.fromkeys("bhilqn", "i"), **dict.fromkeys("BHILQN", "u"), **dict.fromkeys("efd", "f"), "?": "b",
          "Zf": "c", "Zd": "c"}  # of the struct module's formats, as NumPy writes them
_OTHER_NAMES = {"int": "int64", "float": "float64", "complex": "complex128", "half": "float16", "double": "float64"}


def every() -> Iterable[DType]:
    return _TYPES.values()


def name_of(type: tuple[int, int, int] | str, itemsize: int) -> str:
    """What elements are, of a type as DLPack or the struct module writes it: equal where they mean the same; "" for
    bytes that say nothing of what they mean."""
    if not isinstance(type, str):
        return _NAMES.get(type) or f"dlpack({', '.join(map(str, type))})"
    if type in ("B", "c"):
        return ""
    order, code = (type[0], type[1:]) if type[:1] in "@=<>!" else ("@", type)
    kind = _KINDS.get(code)
    if kind is None:
        return type
    swapped = itemsize > 1 and (order in ">!") == (_ORDER == "<") and order not in "@="
    return name_of_typestr(f"{'|' if kind == 'b' else ('>' if _ORDER == '<' else '<') if swapped else _ORDER}{kind}{itemsize}")


def name_of_typestr(typestr: str) -> str:
    """The same of NumPy's."""
    if typestr[0] == "|" and typestr[1] in "iu":
        typestr = _ORDER + typestr[1:]
    return _TYPESTRS.get(typestr, typestr)


def find(name: str) -> DType | None:
    """By its name alone."""
    return _TYPES.get(name)


def of(dtype: object) -> DType:
    """For a name, a Python type (`float`), or a type of NumPy, torch, JAX, …, which all print with their name."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype)
    name = name.rpartition(".")[2]  # torch.float32
    found = _TYPES.get(_OTHER_NAMES.get(name, name))
    if found is None:
        found = next((each for each in _TYPES.values() if each.typestr and each.typestr == name), None)
    if found is None:
        raise InvalidArgument(
            f"'{name}' is not an element type", "BAD_ARGUMENT", f"use one of {', '.join(_TYPES)}")
    return found
