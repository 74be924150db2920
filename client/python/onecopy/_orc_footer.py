"""The footers of an ORC file: which stream of which column lies where."""

from __future__ import annotations

import contextlib
import dataclasses
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _protobuf
from ._errors import InvalidArgument, Unimplemented

if TYPE_CHECKING:
    from ._opened import OpenFile

MAGIC = b"ORC"
_MOST_TAIL = 256  # bytes of what says where the footer is
_MOST_BYTES = 64 << 20  # of a footer, as it is in the file and as it is decompressed
_MOST_BLOCK = 8 << 20  # that a block's head can tell of
_MOST = 1 << 63
_MOST_ENTRIES = 1 << 20  # columns, stripes, streams of a stripe
_MOST_DEPTH = 256

_CODECS = ("NONE", "ZLIB", "SNAPPY", "LZO", "LZ4", "ZSTD", "BROTLI")
_KINDS = ("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "STRING", "BINARY", "TIMESTAMP", "LIST", "MAP", "STRUCT",
          "UNION", "DECIMAL", "DATE", "VARCHAR", "CHAR", "TIMESTAMP_INSTANT", "GEOMETRY", "GEOGRAPHY")
_ENCODINGS = ("DIRECT", "DICTIONARY", "DIRECT_V2", "DICTIONARY_V2")
_STREAMS = ("PRESENT", "DATA", "LENGTH", "DICTIONARY_DATA", "DICTIONARY_COUNT", "SECONDARY", "ROW_INDEX", "BLOOM_FILTER",
            "BLOOM_FILTER_UTF8", "ENCRYPTED_INDEX", "ENCRYPTED_DATA")
_INDEXES = ("ROW_INDEX", "BLOOM_FILTER", "BLOOM_FILTER_UTF8", "ENCRYPTED_INDEX")
_LZ4_FRAME = b"\x04\x22\x4d\x18\x60\x70\x73"  # head of a frame of blocks of up to 4 MiB, without checksums


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
    block_bytes: int  # most that a compressed block has when it is none any more
    rows: int
    columns: tuple[Column, ...]
    stripes: tuple[tuple[Stripe, int, int], ...]  # with the place of its footer, and that one's bytes


def bad(name: str, why: object) -> InvalidArgument:
    return InvalidArgument(f"{name} is no whole ORC file: {why}", "BAD_FORMAT", "get or write the file anew")


def open_footer(file: OpenFile) -> Footer:
    tail = file.read(max(0, file.size - _MOST_TAIL), _MOST_TAIL)
    if file.size < 2 * len(MAGIC) + 2 or file.read(0, len(MAGIC)) != MAGIC or tail[-1] >= len(tail):
        raise bad(file.name, "it does not begin and end as one")
    with _reading(file.name, "its postscript"):
        script = _protobuf.read(tail[-1 - tail[-1]:-1])
        if _protobuf.texts(script, 8000)[-1:] != [MAGIC]:
            raise ValueError("it does not end as one")
        length, metadata = _protobuf.number(script, 1), _protobuf.number(script, 5)
        codec = _name_of(_CODECS, _protobuf.number(script, 2))
        block = _protobuf.number(script, 3, 256 << 10)
    end = file.size - 1 - tail[-1]
    if length > min(end - len(MAGIC), _MOST_BYTES) or metadata > end - length - len(MAGIC):
        raise bad(file.name, f"its footer is said to have {length} bytes, {metadata} of statistics before it, and the whole "
                             f"file has {file.size}")
    if codec != "NONE" and not 0 < block <= _MOST_BLOCK:
        raise bad(file.name, f"its blocks are said to have {block} bytes")
    with _reading(file.name, "its footer"):
        fields = _protobuf.read(decompressed(file.name, file.read(end - length, length), codec, block))
        if 10 in fields:
            raise Unimplemented(f"{file.name} is encrypted", "BAD_FORMAT", "decrypt the file first")
        columns = _columns(_protobuf.messages(fields, 4, _MOST_ENTRIES))
        stripes = _stripes(_protobuf.messages(fields, 3, _MOST_ENTRIES), end - length - metadata)
        return Footer(codec, block, _count(_protobuf.number(fields, 6)), tuple(columns), tuple(stripes))


def streams(file: OpenFile, footer: Footer, number: int) -> tuple[Stripe, list[Encoding], list[Place]]:
    """Of a stripe, by its own footer: what its streams are, and the encodings of all columns."""
    stripe, at, length = footer.stripes[number]
    with _reading(file.name, f"the footer of stripe {number}"):
        fields = _protobuf.read(decompressed(file.name, file.read(at, length), footer.codec, footer.block_bytes))
        if 4 in fields:
            raise Unimplemented(f"{file.name} is encrypted", "BAD_FORMAT", "decrypt the file first")
        encodings = [Encoding(_name_of(_ENCODINGS, _protobuf.number(each, 1)), _count(_protobuf.number(each, 2)))
                     for each in _protobuf.messages(fields, 2, _MOST_ENTRIES)]
        if len(encodings) != len(footer.columns):
            raise ValueError(f"it has {len(encodings)} columns, and the file {len(footer.columns)}")
        timezone = b"".join(_protobuf.texts(fields, 3)[-1:]).decode()
        places, offset = [], stripe.offset
        for each in _protobuf.messages(fields, 1, _MOST_ENTRIES):
            column, bytes = _protobuf.number(each, 2), _protobuf.number(each, 3)
            if column >= len(footer.columns) or bytes > stripe.offset + stripe.bytes - offset:
                raise ValueError(f"a stream of column {column} is said to have {bytes} bytes at {offset}, where there is no "
                                 "room for it")
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
    except (ValueError, TypeError, RecursionError) as failure:
        if isinstance(failure, InvalidArgument):
            raise
        raise bad(name, f"{what} cannot be read: {failure}") from None


def _count(value: int) -> int:
    if value >= _MOST:
        raise ValueError(f"{value} is no number of anything")
    return value


def _name_of(names: Sequence[str], number: int) -> str:
    return names[number] if number < len(names) else str(number)  # of a newer format


def _columns(types: list[_protobuf.Message]) -> Iterator[Column]:
    """The tree, which is written from its root on, each node before what is below it."""
    if not types:
        raise ValueError("there is no schema")
    named: dict[int, tuple[str, int | None, int]] = {0: ("", None, 0)}
    for number, fields in enumerate(types):
        if number not in named:
            raise ValueError(f"type {number} belongs to none before it")
        path, parent, depth = named[number]
        kind = _name_of(_KINDS, _protobuf.number(fields, 1))
        below = _protobuf.numbers(fields, 2)
        for each, name in zip(below, _names(kind, fields, len(below)), strict=True):
            if each <= number or each in named or each >= len(types) or depth >= _MOST_DEPTH:
                raise ValueError(f"type {each} is below type {number}, where it cannot be")
            named[each] = (f"{path}.{name}" if path else name, number, depth + 1)
        yield Column(number, path, kind, _count(_protobuf.number(fields, 4)), _count(_protobuf.number(fields, 5)),
                     _count(_protobuf.number(fields, 6)), parent)


def _names(kind: str, fields: _protobuf.Message, count: int) -> list[str]:
    if kind == "STRUCT":
        names = [each.decode() for each in _protobuf.texts(fields, 3)]
    else:
        names = {"LIST": ["item"], "MAP": ["key", "value"], "UNION": [str(each) for each in range(count)]}.get(kind, [])
    if len(names) != count:
        raise ValueError(f"a type {kind} has {count} below it, and {len(names)} names for them")
    return names


def _stripes(described: list[_protobuf.Message], last: int) -> Iterator[tuple[Stripe, int, int]]:
    end = len(MAGIC)
    for number, fields in enumerate(described):
        offset, index, data, footer, rows = (_count(_protobuf.number(fields, each)) for each in (1, 2, 3, 4, 5))
        bytes = index + data
        if offset < end or bytes + footer > last - offset or footer > _MOST_BYTES:
            raise ValueError(f"stripe {number} is said to have {bytes} bytes at {offset} and a footer of {footer}, where there "
                             "is no room for it")
        end = offset + bytes + footer
        yield Stripe(number, rows, "", offset, bytes), offset + bytes, footer


# ---- compressed footers


def decompressed(name: str, text: bytes, codec: str, block: int) -> bytes:
    """What blocks have, each with a head of 3 bytes: its length, and whether it is as it was."""
    if codec == "NONE":
        return text
    parts, total, at = [], 0, 0
    while at < len(text):
        head = int.from_bytes(text[at:at + 3], "little")
        at += 3
        if at > len(text) or head >> 1 > len(text) - at:
            raise ValueError(f"a block of {head >> 1} bytes does not lie in it")
        part = text[at:at + (head >> 1)]
        at += head >> 1
        parts.append(part if head & 1 else _decoder(name, codec)(part, block))
        total += len(parts[-1])
        if total > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES} bytes")
    return b"".join(parts)


def _decoder(name: str, codec: str) -> Callable[[bytes, int], bytes]:
    found = {"ZLIB": _inflate, "SNAPPY": _snappy, "LZ4": _lz4, "ZSTD": _zstd}.get(codec)
    if found is None:
        raise Unimplemented(f"the footers of {name} are compressed by {codec}", "BAD_FORMAT",
                            "write it with ZLIB, SNAPPY, LZ4, ZSTD, or without")
    return found


def _inflate(part: bytes, most: int) -> bytes:
    inflating = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        made = inflating.decompress(part, most + 1)
    except zlib.error as failure:
        raise ValueError(failure) from None
    if len(made) > most or not inflating.eof:
        raise ValueError(f"a block does not end, or has more than {most} bytes")
    return made


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as failure:
        raise ImportError("onecopy.orc needs pyarrow for the footers of files that are compressed by other codecs than ZLIB: "
                          "pip install pyarrow") from failure
    return pyarrow


def _snappy(part: bytes, most: int) -> bytes:
    size, _ = _protobuf.varint(part, 0)
    if size > most:
        raise ValueError(f"a block has {size} bytes, more than {most}")
    pyarrow = _pyarrow()
    try:
        made: bytes = pyarrow.Codec("snappy").decompress(part, decompressed_size=size, asbytes=True)
    except (pyarrow.ArrowException, OSError) as failure:
        raise ValueError(failure) from None
    return made


def _zstd(part: bytes, most: int) -> bytes:
    return _stream("zstd", part, most)


def _lz4(part: bytes, most: int) -> bytes:
    """In a frame, which ends where the block does."""
    if most > 4 << 20:
        raise Unimplemented(f"blocks of LZ4 have up to {most} bytes", "BAD_FORMAT", "write them with 4 MiB at most")
    return _stream("lz4", _LZ4_FRAME + len(part).to_bytes(4, "little") + part + bytes(4), most)


def _stream(codec: str, part: bytes, most: int) -> bytes:
    pyarrow = _pyarrow()
    try:
        with pyarrow.CompressedInputStream(pyarrow.BufferReader(part), codec) as opened:
            made: bytes = opened.read(most + 1)
    except (pyarrow.ArrowException, OSError) as failure:
        raise ValueError(failure) from None
    if len(made) > most:
        raise ValueError(f"a block has more than {most} bytes")
    return made
