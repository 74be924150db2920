"""Record batches of Arrow: all buffers of a batch lie in one shared memory, move by one transfer, and are read in place.

    placed = onecopy.arrow.place(node, batch)              # here: into shared memory
    ready = onecopy.arrow.empty(node, placed.layout)       # there: memory for one of the same layout
    node.transfer(placed.memory, ready.memory.endpoint())  # validity, offsets, values of every column at once
    ready.batch                                            # without a copy

Also files of Arrow, whose buffers the daemon moves:

    batches = onecopy.arrow.load(node, "table.arrow", columns=["id"])
    batches[0].batch                                       # in place; of a GPU's memory: layout and memory
    onecopy.arrow.save(node, "copy.arrow", batches)        # or a table, or columns: {"id": array of a GPU}

Needs pyarrow."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .. import _native
from ..core.memory._shared import SharedArray
from ..core.node._loaded import Array, Saved
from ..core.requests import _files
from ..core.values import _errors
from ..core.values._errors import InvalidArgument
from . import _arrow_file, _moving, _opened, _placing, _room

try:
    import pyarrow

    from . import _arrow_loading, _arrow_saving
except ImportError as failure:
    raise ImportError("onecopy.arrow needs pyarrow: pip install pyarrow") from failure

from ._arrow_layout import Laying, Layout as Layout, lay, layout_of as layout_of, rebuild
from ._arrow_saving import Column as Column
from ._arrow_writing import Batch, Node as _Node, Source, Writing

if TYPE_CHECKING:
    from ..core.memory._pool import DevicePool, Pool
    from ..core.node._node import Node
    from ..core.values._transfer import Transfer
    from ..core.values._values import Receipt


_GATHERED = 128 << 10  # bytes of a column; what has more is not copied first


@dataclasses.dataclass(frozen=True)
class Placed:
    """A batch in shared memory, or room for one."""

    memory: SharedArray
    layout: Layout

    @property
    def batch(self) -> pyarrow.RecordBatch:
        """The batch as the memory has it now, in place. It changes when the memory changes, and keeps the memory alive."""
        columns = [rebuild(field.type, part, self.memory)
                   for field, part in zip(self.layout.schema, self.layout.columns, strict=True)]
        return pyarrow.RecordBatch.from_arrays(columns, schema=self.layout.schema)


def place(node: Node, batch: pyarrow.RecordBatch, name: str = "") -> Placed:
    """Copies a batch into shared memory of this process. The processor makes this one copy; no receipt counts it. Data that
    you create in the memory of `empty` needs no such copy."""
    layout, laying = lay(batch)
    placed = empty(node, layout, name)
    target = placed.memory.memory
    for at, buffer in laying.buffers:
        _native.copy_bytes(target[at:at + buffer.size], buffer)
    return placed


def empty(node: Node, layout: Layout, name: str = "") -> Placed:
    """Memory for a batch of this layout, which a transfer can fill."""
    return Placed(node.empty(max(1, layout.bytes), "uint8", name), layout)


# ---- files


@dataclasses.dataclass(frozen=True)
class LoadedBatch:
    """A batch of a file. `layout` says where in the memory each buffer begins."""

    memory: Array
    layout: Layout

    @property
    def batch(self) -> pyarrow.RecordBatch:
        """The batch in place, if it is in host memory. Its structure is checked, but not its values: for a file that you do
        not trust, call RecordBatch.validate(full=True) first. Raises InvalidArgument (BAD_FORMAT)."""
        if not isinstance(self.memory, SharedArray):
            raise InvalidArgument("the batch is in memory of a GPU", "BAD_ARGUMENT",
                                  "make an array of it on that GPU, from memory.pointer and the layout")
        try:
            made = Placed(self.memory, self.layout).batch
            made.validate()
        except KeyError as failure:  # of the number that its class would have
            types = ", ".join(sorted({str(each.type) for each in self.layout.schema}))
            raise _errors.Unimplemented(f"pyarrow cannot make an array for one of {types:.200} (number {failure})", "BAD_FORMAT",
                                        "leave out that column: columns=[…]") from None
        except (pyarrow.ArrowException, ValueError) as failure:
            raise InvalidArgument(f"the batch does not match its schema: {failure}", "BAD_FORMAT",
                                  "download or write the file again") from None
        return made


class LoadedBatches(tuple[LoadedBatch, ...]):
    """The batches that were loaded from a file."""

    schema: pyarrow.Schema
    transfers: tuple[Transfer, ...]

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The receipts of the transfers; empty if there were no bytes to move."""
        return tuple(each.receipt for each in self.transfers)


def load(node: Node, file: str | os.PathLike[str], columns: str | Iterable[str] | None = None,
         batches: Iterable[int] | None = None, *, device: Any = None, pool: Pool | DevicePool | None = None,
         at_most: int | None = None, checksum: bool = False, deadline: float | None = None) -> LoadedBatches:
    """Loads record batches of a file of Arrow (IPC, Feather 2), with all columns or some. Their buffers, including
    dictionaries, move into one piece of memory, as ranges of one request. A buffer that is aligned to 64 bytes in the file
    is also aligned there. The processor reads only metadata. Other arguments: see Node.load.

    Raises NotFound if a column or batch does not exist; InvalidArgument (BAD_FORMAT) if the file does not follow its
    format, before anything moves; Unimplemented for compressed buffers, dictionaries in parts or inside nested columns,
    views, unions and run ends."""
    moves = _moving.options(at_most, checksum, deadline)
    room = _room.Room(node, device, pool)
    with _opened.OpenFile(file) as opened:
        footer = _arrow_file.open_footer(opened)
        schema = _arrow_loading.schema_of(opened, footer)
        wanted = _arrow_loading.wanted_columns(opened.name, schema, columns)
        ends, found = _arrow_loading.walk(opened, footer, schema, wanted, batches)
        ranges, places = _placing.joined(ends)
        placed = room.place(_placing.Part(first, end - first, 64 if first % 64 == 0 else 8) for first, end in ranges)
        memory, base = room.empty(placed.bytes)
        done = _moving.read(node, _native.Stop(), opened, placed.runs, memory, moves, base)
    whole = _moving.bytes_of(memory, base, placed.bytes)
    at = {each: placed.at[number] + offset for each, (number, offset) in places.items()}
    chosen = pyarrow.schema([each for each, is_wanted in zip(schema, wanted, strict=True) if is_wanted], schema.metadata)
    made = LoadedBatches(
        LoadedBatch(whole, Layout(chosen, count, placed.bytes, tuple(_arrow_loading.moved(part, at) for part in columns)))
        for columns, count in found)
    made.schema = chosen
    made.transfers = tuple(done)
    return made


def save(node: Node, file: str | os.PathLike[str], table: Any, *, sync: bool = False, at_most: int | None = None,
         checksum: bool = False, deadline: float | None = None) -> Saved:
    """Saves a file of Arrow (IPC), without compression. `table`: a Table or RecordBatch of pyarrow; batches that `load` or
    `place` returned, also in GPU memory; a list of these; or columns by name: one-dimensional arrays in host or GPU memory,
    and Columns. The daemon writes the buffers, with one request for each piece of memory that has some. The processor
    writes schema and metadata. Slices are copied first. Does not wait for CUDA streams: synchronise first.

    The file gets its name only at the end: a failed save leaves the old file intact and no new file. Other arguments: see
    Node.save. Raises InvalidArgument for columns of different lengths, batches of different schemas and buffers that are
    too short; Unimplemented for what `load` does not support, and for dictionaries that change; ResourceExhausted
    (NO_SPACE) if the disk is full."""
    moves = _moving.options(at_most, checksum, deadline)
    name = _files._name(file)
    schema, batches = _given(table)
    for field in schema:
        _arrow_saving.check_type(field.name, field.type)
    writing = _arrow_saving.begin(schema)
    dictionaries = _arrow_saving.Dictionaries(writing, schema)
    for each in batches:
        if isinstance(each, Mapping):
            writing.batch(_of_columns(each, schema, dictionaries))
        elif isinstance(each, pyarrow.RecordBatch):
            _add(writing, each, dictionaries, gather=moves.by_client)
        else:
            writing.batch(_of_memory(each, dictionaries))
    writing.end()
    parts = [_moving.Part("a buffer of the table", source.end, at) for source, at in writing.buffers]
    return _moving.write(node, _native.Stop(), name, writing.texts, parts, sync, moves)


def _given(table: Any) -> tuple[pyarrow.Schema, list[Any]]:
    """The schema, and the batches: a RecordBatch in memory of the host, columns, or what lies in a GPU's."""
    if isinstance(table, Mapping):
        fields = [(name, each.type if isinstance(each, Column) else _arrow_saving.type_of(name, each))
                  for name, each in table.items()]
        return pyarrow.schema(fields), [table]
    if isinstance(table, pyarrow.Table):
        return table.schema, table.to_batches()
    if isinstance(table, (pyarrow.RecordBatch, LoadedBatch, Placed)):
        table = [table]
    if not isinstance(table, (list, tuple)):
        raise InvalidArgument(f"a {type(table).__name__} is not a table", "BAD_ARGUMENT",
                              "pass a Table or RecordBatch of pyarrow, batches of onecopy.arrow, or a dict of columns")
    batches = []
    for each in table:
        if isinstance(each, Placed) or (isinstance(each, LoadedBatch) and isinstance(each.memory, SharedArray)):
            batches.append(each.batch)
        elif isinstance(each, (pyarrow.RecordBatch, LoadedBatch)):
            batches.append(each)
        else:
            raise InvalidArgument(f"a {type(each).__name__} is not a batch", "BAD_ARGUMENT",
                                  "pass batches of pyarrow or of onecopy.arrow")
    schemas = [table.schema] if isinstance(table, LoadedBatches) else []
    schemas += [each.layout.schema if isinstance(each, LoadedBatch) else each.schema for each in batches]
    if not schemas:
        raise InvalidArgument("an empty list of batches has no schema", "BAD_ARGUMENT", "pass a Table: schema.empty_table()")
    for each in schemas:
        if not each.equals(schemas[0]):
            raise InvalidArgument(f"the batches have different schemas: {schemas[0]}, and {each}", "BAD_ARGUMENT",
                                  "cast them to one schema: batch.cast(schema)")
    return schemas[0], batches


def _laid(array: pyarrow.Array) -> _arrow_saving.Laid:
    laying = Laying()
    return _arrow_saving.Laid(laying.array(array), dict(laying.buffers))


def _add(writing: Writing, batch: pyarrow.RecordBatch, dictionaries: _arrow_saving.Dictionaries, *, gather: bool) -> None:
    """gather: Arrow puts together what has small buffers, as a look at each would take far longer than its bytes."""
    if not gather or batch.nbytes > max(_room.SMALL, _GATHERED * batch.num_columns):
        writing.batch(_of_arrays(batch, dictionaries))
        return
    for number, column in enumerate(batch.columns):
        _add_dictionary(number, column, dictionaries)
    writing.encoded(batch.serialize())


def _add_dictionary(number: int, column: pyarrow.Array, dictionaries: _arrow_saving.Dictionaries) -> pyarrow.Array:
    """The column as it is stored."""
    storage = column.storage if isinstance(column, pyarrow.ExtensionArray) else column
    if pyarrow.types.is_dictionary(storage.type):
        values = storage.dictionary
        dictionaries.add(number, values, lambda: _arrow_saving.of_array(values, _laid),
                         lambda one, other: bool(one.equals(other)))
    return storage


def _of_arrays(batch: pyarrow.RecordBatch, dictionaries: _arrow_saving.Dictionaries) -> Batch:
    return Batch(batch.num_rows, [_arrow_saving.of_array(_add_dictionary(number, column, dictionaries), _laid)
                                  for number, column in enumerate(batch.columns)])


def _of_memory(loaded: LoadedBatch, dictionaries: _arrow_saving.Dictionaries) -> Batch:
    def source(at: int, bytes: int) -> Source:
        return Source(_moving.bytes_of(loaded.memory, at, bytes), bytes)

    nodes = []
    for number, (field, part) in enumerate(zip(loaded.layout.schema, loaded.layout.columns, strict=True)):
        if part.dictionary is not None:
            kind = field.type.storage_type if isinstance(field.type, pyarrow.ExtensionType) else field.type
            values = part.dictionary
            dictionaries.add(
                number, (loaded.memory, values),
                lambda values=values, kind=kind: _arrow_saving.of_part(values, kind.value_type, source),  # type: ignore[misc]
                lambda one, other: one[0] is other[0] and one[1] == other[1])
        nodes.append(_arrow_saving.of_part(part, field.type, source))
    return Batch(loaded.layout.rows, nodes)


def _of_columns(columns: Mapping[str, Any], schema: pyarrow.Schema, dictionaries: _arrow_saving.Dictionaries) -> Batch:
    nodes: list[_Node] = []
    for number, (name, each) in enumerate(columns.items()):
        if not isinstance(each, Column):
            nodes.append(_arrow_saving.of_plain(name, each, schema.field(number).type))
            continue
        values = each.dictionary
        if pyarrow.types.is_dictionary(each.type) != (values is not None):
            raise InvalidArgument(f"column '{name}' is of {each.type}, and has {'no' if values is None else 'a'} dictionary",
                                  "BAD_ARGUMENT", "pass a dictionary exactly if the type has one")
        if values is not None:
            if values.type != each.type.value_type:
                raise InvalidArgument(f"the dictionary of column '{name}' is of {values.type}, not {each.type.value_type}",
                                      "BAD_ARGUMENT", "pass one of the type's value type")
            made = (_arrow_saving.of_column(name, values) if isinstance(values, Column)
                    else _arrow_saving.of_array(values, _laid))
            dictionaries.add(number, values, lambda made=made: made, lambda one, other: one is other)  # type: ignore[misc]
        nodes.append(_arrow_saving.of_column(name, each))
    lengths = {each.length for each in nodes}
    if len(lengths) > 1:
        raise InvalidArgument(f"the columns have {min(lengths)} to {max(lengths)} elements", "SIZE_MISMATCH",
                              "pass columns of equal length")
    return Batch(nodes[0].length if nodes else 0, nodes)


__all__ = ["Column", "Layout", "LoadedBatch", "LoadedBatches", "Placed", "empty", "layout_of", "load", "place", "save"]
