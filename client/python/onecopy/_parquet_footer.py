"""The footer of a Parquet file: which column chunk lies where."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from ._errors import InvalidArgument, Unimplemented
from ._thrift import Reader, Struct

MAGIC = b"PAR1"
TAIL_BYTES = 8  # the footer's length, and the format's name
MOST_BYTES = 256 << 20
_MOST = 1 << 63
_MOST_DEPTH = 256

_PHYSICAL = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
_ENCODINGS = ("PLAIN", "GROUP_VAR_INT", "PLAIN_DICTIONARY", "RLE", "BIT_PACKED", "DELTA_BINARY_PACKED",
              "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "RLE_DICTIONARY", "BYTE_STREAM_SPLIT")
_LOGICAL = {1: "STRING", 2: "MAP", 3: "LIST", 4: "ENUM", 5: "DECIMAL", 6: "DATE", 7: "TIME", 8: "TIMESTAMP", 10: "INTEGER",
            11: "UNKNOWN", 12: "JSON", 13: "BSON", 14: "UUID", 15: "FLOAT16", 16: "VARIANT", 17: "GEOMETRY", 18: "GEOGRAPHY"}
_CONVERTED = ("UTF8", "MAP", "MAP_KEY_VALUE", "LIST", "ENUM", "DECIMAL", "DATE", "TIME_MILLIS", "TIME_MICROS",
              "TIMESTAMP_MILLIS", "TIMESTAMP_MICROS", "UINT_8", "UINT_16", "UINT_32", "UINT_64", "INT_8", "INT_16", "INT_32",
              "INT_64", "JSON", "BSON", "INTERVAL")
_OPTIONAL, _REPEATED = 1, 2


@dataclasses.dataclass(frozen=True)
class Column:
    """A leaf of the schema."""

    path: str
    physical_type: str
    type_length: int  # bytes, of FIXED_LEN_BYTE_ARRAY; else 0
    logical_type: str
    max_definition_level: int
    max_repetition_level: int


@dataclasses.dataclass(frozen=True)
class Place:
    """A chunk."""

    row_group: int
    column: Column
    codec: str
    encodings: tuple[str, ...]
    values: int
    uncompressed_bytes: int
    dictionary: bool
    offset: int
    bytes: int


class Footer(NamedTuple):
    rows: int
    columns: tuple[Column, ...]
    row_groups: tuple[Struct, ...]


def bad(name: str, why: object) -> InvalidArgument:
    return InvalidArgument(f"{name} is no whole Parquet file: {why}", "BAD_FORMAT", "get or write the file anew")


def footer_bytes(name: str, first: bytes, tail: bytes, size: int) -> int:
    """How long the footer is, by the file's first 4 and last 8 bytes."""
    if size < len(MAGIC) + TAIL_BYTES or first != MAGIC or tail[4:] not in (MAGIC, b"PARE"):
        raise bad(name, "it does not begin or end as one")
    if tail[4:] != MAGIC:
        raise Unimplemented(f"the footer of {name} is encrypted", "BAD_FORMAT", "decrypt the file first")
    length = int.from_bytes(tail[:4], "little")
    if length > min(size - len(MAGIC) - TAIL_BYTES, MOST_BYTES):
        raise bad(name, f"its footer is said to have {length} bytes, and the whole file has {size}")
    return length


def parse(name: str, text: bytes) -> Footer:
    """Of the footer's bytes."""
    try:
        fields = Reader(text).struct()
        columns = _columns(_typed(fields, 2, list))
        return Footer(_count(fields, 3), tuple(columns), tuple(_typed(fields, 4, list)))
    except (ValueError, TypeError, RecursionError) as failure:
        raise bad(name, f"its footer cannot be read: {failure}") from None


def places(name: str, footer: Footer, groups: Sequence[int], columns: Sequence[int], size: int) -> list[Place]:
    """The chunks of these columns in these row groups, which share no bytes and lie before the footer."""
    last = size - TAIL_BYTES
    try:
        found = [_place(name, group, footer, column) for group in groups for column in columns]
    except (ValueError, TypeError) as failure:
        raise bad(name, f"its footer cannot be read: {failure}") from None
    end = len(MAGIC)
    for each in sorted(found, key=lambda each: (each.offset, each.bytes)):
        if each.offset < end or each.bytes == 0 or each.bytes > last - each.offset:
            raise bad(name, f"column '{each.column.path:.100}' of row group {each.row_group} is said to have "
                            f"{each.bytes} bytes at {each.offset}, where there is no room for it between the others")
        end = each.offset + each.bytes
    return found


def _typed(fields: Any, number: int, kind: type, default: Any = None) -> Any:
    value = fields.get(number, default) if isinstance(fields, dict) else None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise ValueError(f"field {number} of a structure is no {kind.__name__}")
    return value


def _count(fields: Any, number: int, default: int | None = None) -> int:
    value: int = _typed(fields, number, int, default)
    if not 0 <= value < _MOST:
        raise ValueError(f"{value} is no number of anything")
    return value


def _name_of(names: Sequence[str], number: object) -> str:
    if not isinstance(number, int) or number < 0:
        raise ValueError(f"{number} is no type, codec or encoding")
    return names[number] if number < len(names) else str(number)  # of a newer format


def _columns(elements: list[Any]) -> list[Column]:
    """The leaves of the tree, which is written from its root on, each node before its children."""
    found: list[Column] = []
    open_nodes: list[list[Any]] = []  # path, definition and repetition level, and children that are still to come
    for number, element in enumerate(elements):
        while open_nodes and open_nodes[-1][3] == 0:
            open_nodes.pop()
        if number > 0 and not open_nodes:
            raise ValueError("the schema has more than one root")
        if open_nodes:
            open_nodes[-1][3] -= 1
        path, definition, repetition = open_nodes[-1][:3] if open_nodes else ((), 0, 0)
        children = _count(element, 5, 0)
        if number > 0:
            kind = _typed(element, 3, int, 0)
            path = (*path, _typed(element, 4, bytes).decode())
            definition += kind in (_OPTIONAL, _REPEATED)
            repetition += kind == _REPEATED
        if children > 0 or number == 0:
            if len(open_nodes) >= _MOST_DEPTH:
                raise ValueError("the schema is deeper than any is")
            open_nodes.append([path, definition, repetition, children])
        else:
            found.append(Column(".".join(path), _name_of(_PHYSICAL, element.get(1)), _count(element, 2, 0), _logical(element),
                                definition, repetition))
    if not elements or any(each[3] for each in open_nodes):
        raise ValueError("the schema ends early")
    return found


def _logical(element: Struct) -> str:
    kinds = _typed(element, 10, dict, {})
    if kinds:
        kind, fields = next(iter(kinds.items()))
        if kind == 5:
            return f"DECIMAL({_count(fields, 2)}, {_count(fields, 1)})"
        return _LOGICAL.get(kind, str(kind))
    converted = element.get(6)
    if converted is None:
        return "NONE"
    name = _name_of(_CONVERTED, converted)
    return f"DECIMAL({_count(element, 8)}, {_count(element, 7, 0)})" if name == "DECIMAL" else name


def _place(name: str, group: int, footer: Footer, number: int) -> Place:
    chunks = _typed(footer.row_groups[group], 1, list)
    if len(chunks) != len(footer.columns):
        raise ValueError(f"row group {group} has {len(chunks)} columns, and the schema {len(footer.columns)}")
    chunk, column = chunks[number], footer.columns[number]
    if 1 in chunk:
        raise Unimplemented(f"{name} has its columns in other files, such as {chunk[1]!r:.100}", "BAD_FORMAT",
                            "load those files")
    if 8 in chunk:
        raise Unimplemented(f"column '{column.path:.100}' of {name} is encrypted", "BAD_FORMAT", "decrypt the file first")
    described = _typed(chunk, 3, dict)
    path = ".".join(_typed({1: each}, 1, bytes).decode() for each in _typed(described, 3, list))
    if path != column.path:
        raise ValueError(f"row group {group} has column '{path:.100}' where the schema has '{column.path:.100}'")
    first = _count(described, 9)
    dictionary = 0 < _count(described, 11, 0) < first
    if dictionary:
        first = _count(described, 11)
    return Place(group, column, _name_of(_CODECS, described.get(4)),
                 tuple(_name_of(_ENCODINGS, each) for each in _typed(described, 2, list)), _count(described, 5),
                 _count(described, 6), dictionary, first, _count(described, 7))
