"""Which buffers of an Arrow file are wanted, and where they lie."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow

from ..core.values import _errors
from . import _arrow_file, _opened
from ._arrow_layout import Part, field_types


class _Kind(NamedTuple):
    """What is asked of a type for each batch, once."""

    has_buffers: bool
    buffers: int
    children: tuple[_Kind, ...]
    dictionary: int | None


def _kind(name: str, type: pyarrow.DataType, dictionary: int | None) -> _Kind:
    """dictionary: the number of a column's. `name`: of the file."""
    if isinstance(type, pyarrow.ExtensionType):
        return _kind(name, type.storage_type, dictionary)
    kinds = pyarrow.types
    if (kinds.is_string_view(type) or kinds.is_binary_view(type) or kinds.is_union(type) or kinds.is_run_end_encoded(type)
            or kinds.is_list_view(type) or kinds.is_large_list_view(type)):
        raise _errors.Unimplemented(f"{name} has a column of {type}, which onecopy cannot load", "BAD_FORMAT",
                                    "cast it before you write the file, as with column.cast(pyarrow.string())")
    if kinds.is_dictionary(type) and dictionary is None:
        raise _errors.Unimplemented(f"{name} has a dictionary inside a nested column", "BAD_FORMAT",
                                    "decode it before you write the file: column.dictionary_decode()")
    return _Kind(not kinds.is_null(type), type.num_buffers, tuple(_kind(name, each, None) for each in field_types(type)),
                 dictionary if kinds.is_dictionary(type) else None)


class _Walk:
    """Goes through what a batch has, array by array."""

    def __init__(self, name: str, batch: _arrow_file.Batch, dictionaries: dict[int, Part]) -> None:
        self._name = name
        self._batch = batch
        self._dictionaries = dictionaries
        self._node = self._buffer = 0
        self.ends: dict[int, int] = {}  # of what is wanted, by offset in the file

    def column(self, kind: _Kind, wanted: bool) -> Part:
        if self._node >= len(self._batch.nodes):
            raise _arrow_file.bad(self._name, "a batch has fewer arrays than its schema")
        node = self._batch.nodes[self._node]
        self._node += 1
        own = tuple(self._place(none=number == 0 and node.null_count == 0, wanted=wanted)
                    for number in range(kind.buffers)) if kind.has_buffers else (None,)
        children = tuple(self.column(each, wanted) for each in kind.children)
        values = None
        if kind.dictionary is not None:
            values = self._dictionaries.get(kind.dictionary)
            if wanted and values is None:
                raise _arrow_file.bad(self._name, f"dictionary {kind.dictionary} is missing")
        return Part(node.length, node.null_count, 0, own, children, values)

    def _place(self, *, none: bool, wanted: bool) -> tuple[int, int] | None:
        """none: it says which are null, and none is: there need not be such a buffer."""
        if self._buffer >= len(self._batch.buffers):
            raise _arrow_file.bad(self._name, "a batch has fewer buffers than its schema")
        at, bytes = self._batch.buffers[self._buffer]
        end = self._batch.ends[self._buffer]
        self._buffer += 1
        if none:
            return None
        if wanted and bytes != 0:
            if end == 0:
                raise _arrow_file.bad(self._name, f"a buffer of {bytes} bytes at {at} does not lie in its batch")
            self.ends[at] = max(self.ends.get(at, 0), end)
        return at, bytes

    def end(self) -> None:
        if (self._node, self._buffer) != (len(self._batch.nodes), len(self._batch.buffers)):
            raise _arrow_file.bad(self._name, "a batch has more arrays or buffers than its schema")


def moved(part: Part, at: dict[int, int]) -> Part:
    """Of places in a file those in memory."""
    buffers = tuple(None if each is None else (at.get(each[0], 0) if each[1] else 0, each[1]) for each in part.buffers)
    return Part(part.length, part.null_count, part.offset, buffers, tuple(moved(each, at) for each in part.children),
                None if part.dictionary is None else moved(part.dictionary, at))


def schema_of(file: _opened.OpenFile, footer: _arrow_file.File) -> pyarrow.Schema:
    """As pyarrow has it, of the footer alone."""
    tail = file.read(footer.footer_at, file.size - footer.footer_at)
    try:
        with pyarrow.ipc.open_file(pyarrow.py_buffer(b"ARROW1\0\0" + tail)) as opened:
            return opened.schema
    except (pyarrow.ArrowException, ValueError, OSError, MemoryError) as failure:
        raise _arrow_file.bad(file.name, str(failure)[:500]) from None


def wanted_columns(name: str, schema: pyarrow.Schema, columns: str | Iterable[str] | None) -> list[bool]:
    if columns is None:
        return [True] * len(schema)
    names = [columns] if isinstance(columns, str) else list(columns)
    for each in names:
        if each not in schema.names:
            some = ", ".join(schema.names[:5]) + (", …" if len(schema) > 5 else "")
            raise _errors.NotFound(f"{name} has no column {each!r}", "BAD_ARGUMENT", f"it has {some}")
    return [each in names for each in schema.names]


def walk(file: _opened.OpenFile, footer: _arrow_file.File, schema: pyarrow.Schema, wanted: list[bool],
         batches: Iterable[int] | None) -> tuple[dict[int, int], list[tuple[list[Part], int]]]:
    """Where what is wanted ends in the file, by where it begins; and the columns of each batch, with its rows."""
    try:
        numbers = _arrow_file.dictionary_numbers(footer.schema)
    except ValueError as failure:
        raise _arrow_file.bad(file.name, failure) from None
    if len(numbers) != len(schema):
        raise _arrow_file.bad(file.name, "its schema has a different number of columns each time it is read")
    ends: dict[int, int] = {}
    dictionaries: dict[int, Part] = {}
    types = {number: field.type.value_type for number, field, is_wanted in zip(numbers, schema, wanted, strict=True)
             if number is not None and is_wanted and pyarrow.types.is_dictionary(field.type)}
    for number, batch in _arrow_file.read_dictionaries(file, footer) if types else ():
        if number in types:
            walk = _Walk(file.name, batch, {})
            dictionaries[number] = walk.column(_kind(file.name, types[number], None), True)
            walk.end()
            _join(ends, walk.ends)
    kinds = [_kind(file.name, field.type, number) for field, number in zip(schema, numbers, strict=True)]
    chosen = list(range(len(footer.batches))) if batches is None else list(batches)
    found: dict[int, tuple[list[Part], int]] = {}
    for index in chosen:
        if not isinstance(index, int) or not 0 <= index < len(footer.batches):
            raise _errors.NotFound(f"{file.name} has no batch {index!r}", "BAD_ARGUMENT",
                                   f"it has {len(footer.batches)}, numbered from 0")
        if index in found:
            continue
        batch = _arrow_file.read_batch(file, footer, footer.batches[index])
        walk = _Walk(file.name, batch, dictionaries)
        columns = [walk.column(kind, is_wanted) for kind, is_wanted in zip(kinds, wanted, strict=True)]
        walk.end()
        if any(each.length != batch.rows for each in columns):
            raise _arrow_file.bad(file.name, f"batch {index} of {batch.rows} rows has a column of a different length")
        _join(ends, walk.ends)
        found[index] = [each for each, is_wanted in zip(columns, wanted, strict=True) if is_wanted], batch.rows
    return ends, [found[each] for each in chosen]


def _join(ends: dict[int, int], more: dict[int, int]) -> None:
    for at, end in more.items():
        ends[at] = max(end, ends.get(at, 0))


__all__ = ["moved", "schema_of", "walk", "wanted_columns"]
