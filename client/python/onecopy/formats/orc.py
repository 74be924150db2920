"""Columns of ORC files, stream by stream, with their bytes as they are in the file, for a decoder.

    chunks = onecopy.orc.load(node, "table.orc", columns=["id", "price"], stripes=[0, 1], device=0)
    for chunk in chunks:
        decode({each.kind: each.data for each in chunk.streams}, chunk.encoding, chunk.column.kind, chunks.codec)

The processor reads only footers. Needs pyarrow if footers are compressed by another codec than ZLIB."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import _native
from . import _moving, _opened, _orc_footer, _room, _selection
from ._orc_footer import Column, Stripe

if TYPE_CHECKING:
    from ..core.memory._pool import DevicePool, Pool
    from ..core.node._node import Node
    from ..core.values._transfer import Transfer
    from ..core.values._values import Receipt


@dataclasses.dataclass(frozen=True)
class Stream:
    """The bytes of one kind that a column has in a stripe, in blocks that are compressed one by one."""

    kind: str  # "PRESENT", "DATA", "LENGTH", "DICTIONARY_DATA", "SECONDARY", …
    offset: int  # in the file
    data: _room.Array = dataclasses.field(repr=False)  # uint8


@dataclasses.dataclass(frozen=True)
class Chunk:
    """A column in a stripe."""

    column: Column
    stripe: Stripe
    encoding: str  # "DIRECT_V2", "DICTIONARY_V2", …
    dictionary_size: int  # elements; 0 without one
    streams: tuple[Stream, ...]


class ColumnStreams(tuple[Chunk, ...]):
    """The loaded chunks, ordered by stripe and then by column."""

    rows: int
    """The number of rows in the whole file."""
    columns: tuple[Column, ...]
    """All columns of the file, the root first."""
    codec: str
    """The codec of the streams' blocks: "NONE", "ZLIB", "SNAPPY", "ZSTD", …"""
    block_bytes: int
    """The largest size of a block after decompression."""
    transfers: tuple[Transfer, ...]

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The receipts of the transfers; empty if there were no bytes to move."""
        return tuple(each.receipt for each in self.transfers)

    def column(self, path: str) -> list[Chunk]:
        """The chunks of one column, one for each stripe."""
        return [each for each in self if each.column.path == path]


def load(node: Node, file: str | os.PathLike[str], columns: str | Iterable[str] | None = None,
         stripes: Iterable[int] | None = None, *, indexes: bool = False, device: Any = None,
         pool: Pool | DevicePool | None = None, at_most: int | None = None, checksum: bool = False,
         deadline: float | None = None) -> ColumnStreams:
    """Loads the streams of some columns; without names, of all. A name also stands for the columns below it ("point" for
    point.x and point.y). The streams of the columns above it are loaded too, because they say which elements are null. All
    streams share one piece of memory and move as ranges of one request. indexes: also load row indexes and Bloom filters.
    Other arguments: see Node.load.

    Raises NotFound if a column or stripe does not exist; InvalidArgument (BAD_FORMAT) if the file does not follow its
    format, before anything moves; Unimplemented for an encrypted file and for footers compressed by LZO or Brotli. The
    contents of the streams are not checked."""
    moves = _moving.options(at_most, checksum, deadline)
    room = _room.Room(node, device, pool)
    with _opened.OpenFile(file) as opened:
        footer = _orc_footer.open_footer(opened)
        chosen = sorted(_orc_footer.with_parents(
            footer.columns, _selection.columns(opened.name, [each.path for each in footer.columns], columns)))
        found = [_orc_footer.streams(opened, footer, number)
                 for number in _selection.parts(opened.name, "stripe", len(footer.stripes), stripes)]
        wanted = set(chosen)
        places = [each for _, _, all in found for each in all
                  if each.column in wanted and (indexes or not _orc_footer.is_index(each))]
        placed = room.place(room.part(each.offset, each.bytes, 8) for each in places)
        memory, base = room.empty(placed.bytes)
        done = _moving.read(node, _native.Stop(), opened, placed.runs, memory, moves, base)
    made_of: dict[tuple[int, int], list[Stream]] = {}
    for place, at in zip(places, placed.at, strict=True):
        made_of.setdefault((place.stripe, place.column), []).append(
            Stream(place.kind, place.offset, _moving.bytes_of(memory, base + at, place.bytes)))
    made = ColumnStreams(
        Chunk(footer.columns[number], stripe, *encodings[number], tuple(made_of.get((stripe.number, number), [])))
        for stripe, encodings, _ in found for number in chosen)
    made.rows = footer.rows
    made.columns = footer.columns
    made.codec = footer.codec
    made.block_bytes = footer.block_bytes
    made.transfers = tuple(done)
    return made


__all__ = ["Chunk", "Column", "ColumnStreams", "Stream", "Stripe", "load"]
