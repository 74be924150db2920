"""How record batches lie in memory: where each buffer of each column is."""

from __future__ import annotations

import base64
import ctypes
import dataclasses
import json
from typing import Any

import pyarrow

from ..core.memory._shared import SharedArray
from ..core.values._errors import InvalidArgument

_ALIGNMENT = 64  # bytes, as Arrow recommends


class _CArray(ctypes.Structure):
    """Arrow's C data interface: what an array looks like to other libraries."""


_CArray._fields_ = [
    ("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64), ("n_children", ctypes.c_int64), ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_CArray))), ("dictionary", ctypes.POINTER(_CArray)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_CArray))), ("private_data", ctypes.c_void_p)]


@dataclasses.dataclass(frozen=True)
class Part:
    """One array of a batch, or of another array: where its buffers are. None: it has no such buffer."""

    length: int
    null_count: int
    offset: int
    buffers: tuple[tuple[int, int] | None, ...]  # where in the memory each begins, and its bytes
    children: tuple[Part, ...]
    dictionary: Part | None

    @classmethod
    def _read(cls, fields: Any) -> Part:
        length, null_count, offset, buffers, children, dictionary = fields
        return cls(length, null_count, offset, tuple(None if each is None else (each[0], each[1]) for each in buffers),
                   tuple(cls._read(each) for each in children), None if dictionary is None else cls._read(dictionary))

    def _written(self) -> list[Any]:
        return [self.length, self.null_count, self.offset, list(self.buffers), [each._written() for each in self.children],
                None if self.dictionary is None else self.dictionary._written()]


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a batch lies in memory: what the other side has to know, and can be sent as text."""

    schema: pyarrow.Schema
    rows: int
    bytes: int
    columns: tuple[Part, ...]

    def to_json(self) -> str:
        schema = base64.b64encode(self.schema.serialize()).decode()
        return json.dumps({"schema": schema, "rows": self.rows, "bytes": self.bytes,
                           "columns": [each._written() for each in self.columns]})

    @classmethod
    def from_json(cls, text: str) -> Layout:
        """Raises InvalidArgument for what is none."""
        try:
            fields = json.loads(text)
            schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(base64.b64decode(fields["schema"])))
            made = cls(schema, int(fields["rows"]), int(fields["bytes"]),
                       tuple(Part._read(each) for each in fields["columns"]))
        except (ValueError, KeyError, TypeError, pyarrow.ArrowException) as failure:
            raise InvalidArgument(f"this is not a layout of a batch: {failure}", "BAD_ARGUMENT",
                                  "pass what Layout.to_json returned") from failure
        if len(made.schema) != len(made.columns):
            raise InvalidArgument(f"a layout of {len(made.columns)} columns has a schema of {len(made.schema)}",
                                  "BAD_ARGUMENT", "pass what Layout.to_json returned")
        for part in made.columns:
            _check(part, made.bytes)
        return made


def _check(part: Part, total: int) -> None:
    for place in part.buffers:
        if place is not None and (place[0] < 0 or place[1] < 0 or place[0] + place[1] > total):
            raise InvalidArgument(f"a layout of {total} bytes has a buffer of {place[1]} at {place[0]}", "BAD_ARGUMENT",
                                  "pass what Layout.to_json returned")
    for child in (*part.children, *(() if part.dictionary is None else (part.dictionary,))):
        _check(child, total)


def field_types(type: pyarrow.DataType) -> list[pyarrow.DataType]:
    if pyarrow.types.is_map(type):
        return [pyarrow.struct([type.key_field, type.item_field])]
    if pyarrow.types.is_dictionary(type):
        return []
    return [type.field(i).type for i in range(type.num_fields)]


class Laying:
    """Gives each buffer a place."""

    def __init__(self) -> None:
        self.bytes = 0
        self.buffers: list[tuple[int, pyarrow.Buffer]] = []

    def place(self, buffer: pyarrow.Buffer | None) -> tuple[int, int] | None:
        if buffer is None:
            return None
        at = self.bytes
        self.bytes += (buffer.size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        self.buffers.append((at, buffer))
        return at, buffer.size

    def array(self, array: pyarrow.Array) -> Part:
        exported = _CArray()
        array._export_to_c(ctypes.addressof(exported))
        try:
            return self._part(array.type, exported, list(reversed(array.buffers())), array)
        finally:
            exported.release(ctypes.byref(exported))

    def _part(self, type: pyarrow.DataType, exported: _CArray, buffers: list[pyarrow.Buffer | None],
              array: pyarrow.Array | None) -> Part:
        """`buffers`: of this array, then of its children, from the end; `array`: where it is a column."""
        if isinstance(type, pyarrow.ExtensionType):
            type = type.storage_type
        if pyarrow.types.is_string_view(type) or pyarrow.types.is_binary_view(type):
            raise InvalidArgument(f"a column of {type} cannot be placed", "BAD_ARGUMENT",
                                  "cast it first: column.cast(pyarrow.string())")
        own = tuple(self.place(buffers.pop()) for _ in range(type.num_buffers))
        children = tuple(self._part(each, exported.children[number].contents, buffers, None)
                         for number, each in enumerate(field_types(type)))
        dictionary = None
        if pyarrow.types.is_dictionary(type):
            if array is None:
                raise InvalidArgument("a dictionary inside a nested column cannot be placed", "BAD_ARGUMENT",
                                      "decode it first: column.dictionary_decode()")
            dictionary = self.array(array.dictionary)
        return Part(exported.length, exported.null_count, exported.offset, own, children, dictionary)


def rebuild(type: pyarrow.DataType, part: Part, memory: SharedArray) -> pyarrow.Array:
    base = memory.memory
    address = memory.__array_interface__["data"][0]
    buffers = [None if place is None else pyarrow.foreign_buffer(address + place[0], place[1], base)
               for place in part.buffers]
    if isinstance(type, pyarrow.ExtensionType):
        return pyarrow.ExtensionArray.from_storage(type, rebuild(type.storage_type, part, memory))
    if part.dictionary is not None:
        values = rebuild(type.value_type, part.dictionary, memory)
        return pyarrow.DictionaryArray.from_buffers(type, part.length, buffers, values, part.null_count, part.offset)
    children = [rebuild(each, child, memory) for each, child in zip(field_types(type), part.children, strict=True)]
    return pyarrow.Array.from_buffers(type, part.length, buffers, part.null_count, part.offset, children or None)


def layout_of(batch: pyarrow.RecordBatch) -> Layout:
    """How the batch will lie in memory. A slice brings the whole buffers that it is a slice of."""
    return lay(batch)[0]


def lay(batch: pyarrow.RecordBatch) -> tuple[Layout, Laying]:
    laying = Laying()
    columns = tuple(laying.array(each) for each in batch.columns)
    return Layout(batch.schema, batch.num_rows, laying.bytes, columns), laying
