"""Column chunks of Parquet files, with their bytes as they are in the file, for a decoder.

    chunks = onecopy.parquet.load(node, "table.parquet", columns=["id", "price"], row_groups=[0, 1], device=0)
    for chunk in chunks:
        decode(chunk.data, chunk.codec, chunk.column.physical_type, …)   # pages, as the format has them

The processor reads only the footer."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import _native
from . import _moving, _opened, _parquet_footer, _placing, _room, _selection
from ._parquet_footer import Column

if TYPE_CHECKING:
    from ..core.memory._pool import DevicePool, Pool
    from ..core.node._node import Node
    from ..core.values._transfer import Transfer
    from ..core.values._values import Receipt


@dataclasses.dataclass(frozen=True)
class Chunk:
    """The pages of one column in one row group: first the dictionary page, if there is one, then the others. Each page has
    its Thrift header and is compressed by itself."""

    column: Column
    row_group: int
    codec: str  # "UNCOMPRESSED", "SNAPPY", "ZSTD", …
    encodings: tuple[str, ...]
    values: int  # number of them, nulls included
    uncompressed_bytes: int
    dictionary: bool  # whether it begins with a page of a dictionary
    offset: int  # in the file
    data: _room.Array = dataclasses.field(repr=False)  # uint8


class ColumnChunks(tuple[Chunk, ...]):
    """The loaded chunks, ordered by row group and then by column."""

    rows: int
    """The number of rows in the whole file."""
    columns: tuple[Column, ...]
    """All columns of the file."""
    transfers: tuple[Transfer, ...]

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The receipts of the transfers; empty if there were no bytes to move."""
        return tuple(each.receipt for each in self.transfers)


def load(node: Node, file: str | os.PathLike[str], columns: str | Iterable[str] | None = None,
         row_groups: Iterable[int] | None = None, *, device: Any = None, pool: Pool | DevicePool | None = None,
         at_most: int | None = None, checksum: bool = False, deadline: float | None = None) -> ColumnChunks:
    """Loads the chunks of some columns; without names, of all. A name is a column's path, or the beginning of several paths
    ("point" for point.x and point.y). All chunks share one piece of memory and move as ranges of one request. Other
    arguments: see Node.load.

    Raises NotFound if a column or row group does not exist; InvalidArgument (BAD_FORMAT) if the file does not follow its
    format, before anything moves; Unimplemented for an encrypted file. The contents of the pages are not checked."""
    moves = _moving.options(at_most, checksum, deadline)
    room = _room.Room(node, device, pool)
    with _opened.OpenFile(file) as opened:
        tail = opened.read(max(0, opened.size - _parquet_footer.TAIL_BYTES), _parquet_footer.TAIL_BYTES)
        length = _parquet_footer.footer_bytes(opened.name, tail, opened.size)
        footer = _parquet_footer.parse(
            opened.name, opened.read(opened.size - _parquet_footer.TAIL_BYTES - length, length))
        places = _parquet_footer.places(
            opened.name, footer, _selection.parts(opened.name, "row group", footer.row_groups, row_groups),
            _selection.columns(opened.name, [each.path for each in footer.columns], columns), opened.size - length)
        ends: dict[int, int] = {}
        for each in places:
            if each.bytes > 0:  # else it has no values
                ends[each.offset] = max(ends.get(each.offset, 0), each.offset + each.bytes)
        ranges, inside = _placing.joined(ends)
        placed = room.place(room.part(first, end - first, 8) for first, end in ranges)
        memory, base = room.empty(placed.bytes)
        done = _moving.read(node, _native.Stop(), opened, placed.runs, memory, moves, base)
    at = {each: base + placed.at[number] + offset for each, (number, offset) in inside.items()}
    made = ColumnChunks(
        Chunk(each.column, each.row_group, each.codec, each.encodings, each.values, each.uncompressed_bytes, each.dictionary,
              each.offset, _moving.bytes_of(memory, at[each.offset] if each.bytes else 0, each.bytes)) for each in places)
    made.rows = footer.rows
    made.columns = footer.columns
    made.transfers = tuple(done)
    return made


__all__ = ["Chunk", "Column", "ColumnChunks", "load"]
