"""The footers of an ORC file: which stream of which column lies where."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..core.values._errors import InvalidArgument, Unimplemented
from . import _orc_blocks, _protobuf

if TYPE_CHECKING:
    from ._opened import OpenFile

MAGIC = b"ORC"
_MOST_TAIL = 256  # bytes of what says where the footer is
_MOST_BLOCK = 8 << 20  # that a block's head can tell of
_MOST = 1 << 63
# Budgets: of each footer, as it is in the file; of columns, whose paths repeat the names of what they are below; of stripes,
# and the streams of one.
_MOST_BYTES = _orc_blocks.MOST_BYTES
_MOST_COLUMNS = 1 << 18
_MOST_PATHS = 32 << 20
_MOST_STRIPES = 1 << 17
_MOST_STREAMS = 1 << 20
_MOST_FIELDS = 64  # of a small message
_MOST_DEPTH = 256

_CODECS = ("NONE", "ZLIB", "SNAPPY", "LZO", "LZ4", "ZSTD", "BROTLI")
_KINDS = ("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "STRING", "BINARY", "TIMESTAMP", "LIST", "MAP", "STRUCT",
          "UNION", "DECIMAL", "DATE", "VARCHAR", "CHAR", "TIMESTAMP_INSTANT", "GEOMETRY", "GEOGRAPHY")
_ENCODINGS = ("DIRECT", "DICTIONARY", "DIRECT_V2", "DICTIONARY_V2")
_STREAMS = ("PRESENT", "DATA", "LENGTH", "DICTIONARY_DATA", "DICTIONARY_COUNT", "SECONDARY", "ROW_INDEX", "BLOOM_FILTER",
            "BLOOM_FILTER_UTF8", "ENCRYPTED_INDEX", "ENCRYPTED_DATA")
_INDEXES = ("ROW_INDEX", "BLOOM_FILTER", "BLOOM_FILTER_UTF8", "ENCRYPTED_INDEX")


@dataclasses.dataclass(frozen=True)
class Column:
    """A node of the schema, which may have others below it."""

    number: int  # among all of them; 0 is the root
    path: str  # of a list's elements "….item", of a map "….key" and "….value", of a union "….0", …
    kind: str  # "LONG", "STRING", "LIST", …
    length: int  # most, of VARCHAR and CHAR; else 0
    precision: int
    scale: int  # of DECIMAL
    parent: int | None


@dataclasses.dataclass(frozen=True)
class Stripe:
    number: int
    rows: int
    timezone: str  # of the writer; "" where it does not say
    offset: int
    bytes: int


class Place(NamedTuple):
    """A stream."""

    stripe: int
    column: int
    kind: str
    offset: int
    bytes: int


class Encoding(NamedTuple):
    kind: str
    dictionary_size: int  # elements


class Footer(NamedTuple):
    codec: str
    block_bytes: int  # most that a compressed block has once it is decompressed
    rows: int
    columns: tuple[Column, ...]
    stripes: tuple[tuple[Stripe, int, int], ...]  # with the place of its footer, and that one's bytes
    blocks: _orc_blocks.Blocks  # of all footers


def bad(name: str, why: object) -> InvalidArgument:
    return InvalidArgument(f"{name} is not a valid ORC file: {why}", "BAD_FORMAT", "download or write the file again")


def open_footer(file: OpenFile) -> Footer:
    tail = file.read(max(0, file.size - _MOST_TAIL), _MOST_TAIL)
    if not tail or not len(MAGIC) <= tail[-1] < len(tail):
        raise bad(file.name, "it does not end with ORC's magic bytes")
    end = file.size - 1 - tail[-1]
    script = tail[-1 - tail[-1]:-1]
    # Files of the first writers have the magic at their beginning alone.
    if not script.endswith(MAGIC) and file.read(0, len(MAGIC)) != MAGIC:
        raise bad(file.name, "it neither begins nor ends with ORC's magic bytes")
    with _reading(file.name, "its postscript"):
        fields = _protobuf.read(script, (1, 2, 3), _MOST_FIELDS)
        length = _protobuf.number(fields, 1)
        codec = _name_of(_CODECS, _protobuf.number(fields, 2))
        block = _protobuf.number(fields, 3, 256 << 10)
    if length > min(end, _MOST_BYTES):
        raise bad(file.name, f"it announces a footer of {length} bytes, and the whole file has {file.size}")
    if codec != "NONE" and not 0 < block <= _MOST_BLOCK:
        raise bad(file.name, f"it announces blocks of {block} bytes")
    blocks = _orc_blocks.Blocks(file.name, codec, block)
    with _reading(file.name, "its footer"):
        fields = _protobuf.read(blocks.decompressed(file.read(end - length, length)), (3, 4, 6, 10),
                                _MOST_COLUMNS + _MOST_STRIPES)
        if 10 in fields:
            raise Unimplemented(f"{file.name} is encrypted", "BAD_FORMAT", "decrypt the file first")
        if len(_protobuf.texts(fields, 4)) > _MOST_COLUMNS or len(_protobuf.texts(fields, 3)) > _MOST_STRIPES:
            raise ValueError("it has more columns or stripes than allowed")
        columns = _columns(_protobuf.messages(fields, 4, range(1, 7), 2 * _MOST_COLUMNS), len(_protobuf.texts(fields, 4)))
        stripes = _stripes(_protobuf.messages(fields, 3, range(1, 6), _MOST_FIELDS), end - length)
        return Footer(codec, block, _count(_protobuf.number(fields, 6)), tuple(columns), tuple(stripes), blocks)


def streams(file: OpenFile, footer: Footer, number: int) -> tuple[Stripe, list[Encoding], list[Place]]:
    """Of a stripe, by its own footer: what its streams are, and the encodings of all columns."""
    stripe, at, length = footer.stripes[number]
    with _reading(file.name, f"the footer of stripe {number}"):
        fields = _protobuf.read(footer.blocks.decompressed(file.read(at, length)), range(1, 5), _MOST_STREAMS)
        if 4 in fields:
            raise Unimplemented(f"{file.name} is encrypted", "BAD_FORMAT", "decrypt the file first")
        encodings = [Encoding(_name_of(_ENCODINGS, _protobuf.number(each, 1)), _count(_protobuf.number(each, 2)))
                     for each in _protobuf.messages(fields, 2, (1, 2), _MOST_FIELDS)]
        if len(encodings) != len(footer.columns):
            raise ValueError(f"it has {len(encodings)} columns, and the file {len(footer.columns)}")
        timezone = b"".join(_protobuf.texts(fields, 3)[-1:]).decode()
        places, offset = [], stripe.offset
        for each in _protobuf.messages(fields, 1, (1, 2, 3), _MOST_FIELDS):
            column, bytes = _protobuf.number(each, 2), _protobuf.number(each, 3)
            if column >= len(footer.columns) or bytes > stripe.offset + stripe.bytes - offset:
                raise ValueError(f"a stream of column {column} is announced with {bytes} bytes at {offset}, outside the "
                                 "file's data")
            places.append(Place(number, column, _name_of(_STREAMS, _protobuf.number(each, 1)), offset, bytes))
            offset += bytes
    return dataclasses.replace(stripe, timezone=timezone), encodings, places


def is_index(place: Place) -> bool:
    """Whether it tells where to begin reading others."""
    return place.kind in _INDEXES


def with_parents(columns: Sequence[Column], chosen: Sequence[int]) -> set[int]:
    """Those, and what says how many elements they have and which are null."""
    found: set[int] = set()
    for each in chosen:
        number: int | None = each
        while number is not None and number not in found:
            found.add(number)
            number = columns[number].parent
    return found


@contextlib.contextmanager
def _reading(name: str, what: str) -> Iterator[None]:
    """What is wrong with a part, as an error of the file."""
    try:
        yield
    except (ValueError, TypeError) as failure:
        if isinstance(failure, InvalidArgument):
            raise
        raise bad(name, f"{what} cannot be read: {failure}") from None


def _count(value: int) -> int:
    if value >= _MOST:
        raise ValueError(f"{value} is not a valid number")
    return value


def _name_of(names: Sequence[str], number: int) -> str:
    return names[number] if number < len(names) else str(number)  # of a newer format


def _columns(types: Iterable[_protobuf.Message], count: int) -> Iterator[Column]:
    """The tree, which is written from its root on, each node before what is below it."""
    if count == 0:
        raise ValueError("it has no schema")
    named: dict[int, tuple[str, int | None, int]] = {0: ("", None, 0)}
    left = _MOST_PATHS
    for number, fields in enumerate(types):
        if number not in named:
            raise ValueError(f"type {number} does not belong to an earlier type")
        path, parent, depth = named.pop(number)
        kind = _name_of(_KINDS, _protobuf.number(fields, 1))
        below = _protobuf.numbers(fields, 2, count)
        for each, name in zip(below, _names(kind, fields, len(below)), strict=True):
            if each <= number or each in named or each >= count or depth >= _MOST_DEPTH:
                raise ValueError(f"type {each} is below type {number},which cannot contain it")
            named[each] = (f"{path}.{name}" if path else name, number, depth + 1)
            left -= len(named[each][0])
            if left < 0:
                raise ValueError("the paths of its columns are longer than allowed")
        yield Column(number, path, kind, _count(_protobuf.number(fields, 4)), _count(_protobuf.number(fields, 5)),
                     _count(_protobuf.number(fields, 6)), parent)


def _names(kind: str, fields: _protobuf.Message, count: int) -> list[str]:
    if kind == "STRUCT":
        names = [each.decode() for each in _protobuf.texts(fields, 3)]
    else:
        names = {"LIST": ["item"], "MAP": ["key", "value"], "UNION": [str(each) for each in range(count)]}.get(kind, [])
    if len(names) != count:
        raise ValueError(f"a type {kind} has {count} children, and {len(names)} names for them")
    return names


def _stripes(described: Iterable[_protobuf.Message], last: int) -> Iterator[tuple[Stripe, int, int]]:
    end = len(MAGIC)
    for number, fields in enumerate(described):
        offset, index, data, footer, rows = (_count(_protobuf.number(fields, each)) for each in (1, 2, 3, 4, 5))
        bytes = index + data
        if offset < end or bytes + footer > last - offset or footer > _MOST_BYTES:
            raise ValueError(f"stripe {number} is announced with {bytes} bytes at {offset} and a footer of {footer}, "
                             "outside the file's data")
        end = offset + bytes + footer
        yield Stripe(number, rows, "", offset, bytes), offset + bytes, footer
