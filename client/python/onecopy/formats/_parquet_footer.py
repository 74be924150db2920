"""The footer of a Parquet file: which column chunk lies where."""

from __future__ import annotations

import array
import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.values._errors import InvalidArgument, Unimplemented
from . import _thrift
from ._thrift import BINARY, I32, I64, STRUCT, Many, Reader, Struct

MAGIC = b"PAR1"
_ENCRYPTED = b"PARE"  # with which a file begins and ends whose footer is encrypted
TAIL_BYTES = 8  # the footer's length, and the format's name
# Budgets: of a footer, of its schema, and of the paths of columns beyond the bytes of the footer, as a path repeats the
# names of what it is below.
MOST_BYTES = 256 << 20
_MOST_COLUMNS = 1 << 18
_MOST_DEPTH = 256
_MOST_PATHS = 1 << 20
_MOST_ENCODINGS = 256
_MOST = 1 << 63

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
_NOTHING: _thrift.Fields = {}
_ELEMENT: _thrift.Fields = {
    1: I32, 2: I32, 3: I32, 4: BINARY, 5: I32, 6: I32, 7: I32, 8: I32,
    10: {**dict.fromkeys(range(1, 64), _NOTHING), 5: {1: I32, 2: I32}}}


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
    row_groups: int
    text: bytes
    starts: array.array[int]  # in the text, of what is said of each column of the first row group, of the second, …


def bad(name: str, why: object) -> InvalidArgument:
    return InvalidArgument(f"{name} is not a valid Parquet file: {why}", "BAD_FORMAT", "download or write the file again")


def footer_bytes(name: str, tail: bytes, size: int) -> int:
    """How long the footer is, by the file's last 8 bytes."""
    if size >= TAIL_BYTES and tail[4:] == _ENCRYPTED:
        raise Unimplemented(f"the footer of {name} is encrypted", "BAD_FORMAT", "decrypt the file first")
    if size < TAIL_BYTES or tail[4:] != MAGIC:  # how it begins, no reader looks at
        raise bad(name, "it does not end with PAR1")
    length = int.from_bytes(tail[:4], "little")
    if length > min(size - TAIL_BYTES, MOST_BYTES):
        raise bad(name, f"it announces a footer of {length} bytes, and the whole file has {size}")
    return length


def parse(name: str, text: bytes) -> Footer:
    """Of the footer's bytes. Columns of row groups are looked at as they are asked for: there may be many more than
    anybody wants."""
    try:
        return _Parsing(text).footer()
    except (ValueError, TypeError) as failure:
        raise bad(name, f"its footer cannot be read: {failure}") from None


class _Parsing:
    """Of one footer. Raises ValueError."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._schema = _Schema(len(text) + _MOST_PATHS)
        self._columns: tuple[Column, ...] | None = None
        self._groups = 0
        self._starts = array.array("Q")

    def footer(self) -> Footer:
        fields = Reader(self._text).struct({2: Many(STRUCT, self._element), 3: I64, 4: Many(STRUCT, self._group)})
        if 2 not in fields or 4 not in fields:
            raise ValueError("it lacks a schema or a list of row groups")
        return Footer(_count(fields, 3), self._all_columns(), self._groups, self._text, self._starts)

    def _element(self, reader: Reader) -> None:
        if self._columns is not None:
            raise ValueError("its schema comes after row groups")
        self._schema.add(reader.struct(_ELEMENT))

    def _all_columns(self) -> tuple[Column, ...]:
        if self._columns is None:
            self._columns = self._schema.columns()
        return self._columns

    def _group(self, reader: Reader) -> None:
        if 1 not in reader.struct({1: Many(STRUCT, self._chunk, self._begin)}):
            raise ValueError(f"row group {self._groups} has no columns")
        self._groups += 1

    def _begin(self, chunks: int) -> None:
        if chunks != len(self._all_columns()):
            raise ValueError(f"row group {self._groups} has {chunks} columns, and the schema {len(self._all_columns())}")

    def _chunk(self, reader: Reader) -> None:
        self._starts.append(reader.at)
        reader.skip_struct()


def places(name: str, footer: Footer, groups: Sequence[int], columns: Sequence[int], size: int) -> list[Place]:
    """The chunks of these columns in these row groups, which lie before the footer."""
    last = size - TAIL_BYTES
    try:
        found = [_place(name, group, footer, column) for group in groups for column in columns]
    except (ValueError, TypeError) as failure:
        raise bad(name, f"its footer cannot be read: {failure}") from None
    for each in found:
        if each.bytes > max(0, last - each.offset):
            raise bad(name, f"column '{each.column.path:.100}' of row group {each.row_group} is announced with "
                            f"{each.bytes} bytes at {each.offset}, but the footer begins at {last}")
    return found


def _typed(fields: Any, number: int, kind: type, default: Any = None) -> Any:
    value = fields.get(number, default) if isinstance(fields, dict) else None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise ValueError(f"a structure lacks its field {number}")
    return value


def _count(fields: Any, number: int, default: int | None = None) -> int:
    value: int = _typed(fields, number, int, default)
    if not 0 <= value < _MOST:
        raise ValueError(f"{value} is not a valid number")
    return value


def _name_of(names: Sequence[str], number: object) -> str:
    if not isinstance(number, int) or number < 0:
        raise ValueError(f"{number} is not a type, codec or encoding")
    return names[number] if number < len(names) else str(number)  # of a newer format


class _Node(NamedTuple):
    """Of the tree of the schema, on the way to its leaves."""

    path: str
    definition: int
    repetition: int


class _Schema:
    """The tree, which is written from its root on, each node before its children. `most_paths`: bytes of all paths."""

    def __init__(self, most_paths: int) -> None:
        self._left = most_paths
        self._open: list[tuple[_Node, int]] = []  # nodes, and children that are still to come
        self._has_root = False
        self._leaves: list[Column] = []

    def add(self, element: Struct) -> None:
        parent = self._parent()
        children = _count(element, 5, 0)
        if parent is None:
            self._enter(_Node("", 0, 0), children)
            return
        kind = _typed(element, 3, int, 0)
        name = _typed(element, 4, bytes).decode()
        node = _Node(f"{parent.path}.{name}" if len(self._open) > 1 else name,
                     parent.definition + (kind in (_OPTIONAL, _REPEATED)), parent.repetition + (kind == _REPEATED))
        self._left -= len(node.path)
        if self._left < 0 or len(self._leaves) == _MOST_COLUMNS:
            raise ValueError("the schema has more columns, or longer paths, than allowed")
        if children > 0:
            self._enter(node, children)
            return
        self._leaves.append(Column(node.path, _name_of(_PHYSICAL, element.get(1)), _count(element, 2, 0), _logical(element),
                                   node.definition, node.repetition))

    def columns(self) -> tuple[Column, ...]:
        if not self._has_root or any(children for _, children in self._open):
            raise ValueError("the schema ends early")
        return tuple(self._leaves)

    def _parent(self) -> _Node | None:
        """Whose child comes next; None for the root."""
        if not self._has_root:
            self._has_root = True
            return None
        while self._open and self._open[-1][1] == 0:
            self._open.pop()
        if not self._open:
            raise ValueError("the schema has more than one root")
        node, children = self._open[-1]
        self._open[-1] = node, children - 1
        return node

    def _enter(self, node: _Node, children: int) -> None:
        if len(self._open) >= _MOST_DEPTH:
            raise ValueError("the schema is deeper than allowed")
        self._open.append((node, children))


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


def _begin(count: int) -> None:
    if count > _MOST_ENCODINGS:
        raise ValueError(f"a column has {count} encodings")


_CHUNK: _thrift.Fields = {
    1: BINARY, 8: _NOTHING, 9: BINARY,
    3: {2: Many(I32, None, _begin), **dict.fromkeys((5, 6, 7, 9, 11), I64), 4: I32}}


def _place(name: str, group: int, footer: Footer, number: int) -> Place:
    column = footer.columns[number]
    chunk = Reader(footer.text, footer.starts[group * len(footer.columns) + number]).struct(_CHUNK)
    if 1 in chunk:
        raise Unimplemented(f"{name} has its columns in other files, such as {chunk[1]!r:.100}", "BAD_FORMAT",
                            "load those files")
    if 8 in chunk:
        raise Unimplemented(f"column '{column.path:.100}' of {name} is encrypted", "BAD_FORMAT", "decrypt the file first")
    described = _typed(chunk, 3, dict)
    first = _count(described, 9)
    beginning = _count(described, 11, 0)
    # A column whose values are all in the dictionary, as one without values, has no page of data.
    dictionary = 0 < beginning and (beginning < first or first == 0)
    return Place(group, column, _name_of(_CODECS, described.get(4)),
                 tuple(_name_of(_ENCODINGS, each) for each in _typed(described, 2, list)), _count(described, 5),
                 _count(described, 6), dictionary, beginning if dictionary else first, _count(described, 7))
