"""What onecopy.arrow.save is given, as the arrays and buffers that a file has."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow

from ..core.memory import _arrays
from ..core.requests._ends import OURS
from ..core.values import _dtypes, _errors
from ..core.values._errors import InvalidArgument
from . import _arrow_file
from ._arrow_layout import Part, field_types
from ._arrow_writing import Node, Source, Writing
from ._flat import Table

_SLACK = 64  # bytes that a buffer may have beyond what its array needs
_TYPES = {each: getattr(pyarrow, each)() for each in (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")}


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of buffers that are arrays of anybody's, of the host or of a GPU, as pyarrow.Array.from_buffers takes them:
    validity (a bit for each element; None: no nulls), offsets where the type has them, values; of a null type none. Those
    of nested types are columns themselves. Of a dictionary's type the buffers are those of its indices."""

    type: pyarrow.DataType
    length: int
    buffers: Sequence[Any]
    null_count: int = 0
    children: Sequence[Column] = ()
    dictionary: Column | pyarrow.Array | None = None


class Laid(NamedTuple):
    """Where the buffers of an array would lie, and they by that place."""

    part: Part
    buffers: Mapping[int, pyarrow.Buffer]


class Dictionaries:
    """Of a file: each is written once, before the first batch that needs it."""

    def __init__(self, writing: Writing, schema: pyarrow.Schema) -> None:
        self._writing = writing
        self._numbers = _numbers(schema)
        self._names = schema.names
        self._known: dict[int, Any] = {}

    def add(self, column: int, values: Any, node: Callable[[], Node], same: Callable[[Any, Any], bool]) -> None:
        """`same`: whether what was added before is what `values` is."""
        number = self._numbers[column]
        assert number is not None  # its type has a dictionary
        if number not in self._known:
            self._known[number] = values
            self._writing.dictionary(number, node())
        elif not same(self._known[number], values):
            raise _errors.Unimplemented(f"column '{self._names[column]}' has a different dictionary in each batch",
                                        "BAD_ARGUMENT", "unify them: table.unify_dictionaries()")


def begin(schema: pyarrow.Schema) -> Writing:
    """A file without batches so far."""
    sink = io.BytesIO()
    with pyarrow.ipc.new_file(sink, schema):
        pass
    whole = sink.getvalue()
    length = int.from_bytes(whole[-10:-6], "little")
    return Writing(schema.serialize().to_pybytes(), whole[-10 - length:-10])


def _numbers(schema: pyarrow.Schema) -> list[int | None]:
    """Of the dictionary of each column."""
    message = schema.serialize().to_pybytes()
    described = Table.root(message[8:]).table(2)
    assert described is not None  # pyarrow made it
    return _arrow_file.dictionary_numbers(described)


def check_type(name: str, type: pyarrow.DataType) -> None:
    """Whether `load` takes it, too."""
    kinds = pyarrow.types
    if isinstance(type, pyarrow.ExtensionType):
        type = type.storage_type
    if (kinds.is_string_view(type) or kinds.is_binary_view(type) or kinds.is_union(type) or kinds.is_run_end_encoded(type)
            or kinds.is_list_view(type) or kinds.is_large_list_view(type)):
        raise _errors.Unimplemented(f"column '{name}' is of {type}, which onecopy cannot save", "BAD_ARGUMENT",
                                    "cast it first: column.cast(pyarrow.string())")
    for number in range(0 if kinds.is_dictionary(type) else type.num_fields):
        inner = type.field(number).type
        if kinds.is_dictionary(inner):
            raise _errors.Unimplemented(f"column '{name}' has a dictionary inside it", "BAD_ARGUMENT",
                                        "decode it first: column.dictionary_decode()")
        check_type(name, inner)


def of_array(array: pyarrow.Array, lay: Callable[[pyarrow.Array], Laid]) -> Node:
    """Of one in memory of the host. What is a slice is copied first."""
    if isinstance(array, pyarrow.ExtensionArray):
        array = array.storage
    if pyarrow.types.is_dictionary(array.type):
        array = array.indices
    laid = lay(array)
    if _is_slice(laid.part) or sum(each.size for each in laid.buffers.values()) > array.nbytes + _SLACK * len(laid.buffers):
        array = pyarrow.concat_arrays([array])
        laid = lay(array)
    return of_part(laid.part, array.type, lambda at, bytes: Source(laid.buffers[at], bytes))


def _is_slice(part: Part) -> bool:
    return part.offset != 0 or any(_is_slice(each) for each in part.children)


def of_part(part: Part, type: pyarrow.DataType, source: Callable[[int, int], Source]) -> Node:
    """Of an array whose buffers lie somewhere."""
    if isinstance(type, pyarrow.ExtensionType):
        type = type.storage_type
    buffers = tuple(None if each is None else source(*each) if each[1] else Source(None, 0) for each in part.buffers)
    children = tuple(of_part(child, each, source) for child, each in zip(part.children, field_types(type), strict=True))
    return Node(part.length, part.null_count, () if pyarrow.types.is_null(type) else buffers, children)


# ---- columns by name


def type_of(name: str, array: Any) -> pyarrow.DataType:
    """Arrow's, of an array's elements."""
    shape = tuple(getattr(array, "shape", ()))
    if len(shape) != 1:
        raise InvalidArgument(f"column '{name}' is a {type(array).__name__} of shape {shape}", "BAD_ARGUMENT",
                              "pass arrays of one dimension, or an onecopy.arrow.Column")
    dtype = _dtypes.of(array.dtype).name
    if dtype not in _TYPES:
        raise InvalidArgument(f"column '{name}' is of {dtype}, which is not a type of Arrow", "BAD_ARGUMENT",
                              "convert it, or pass an onecopy.arrow.Column; note that Arrow's bool packs 8 values in a byte")
    return _TYPES[dtype]


def of_plain(name: str, array: Any, type: pyarrow.DataType) -> Node:
    count = int(array.shape[0])
    bytes = count * type.bit_width // 8
    if count == 0:
        return Node(0, 0, (None, Source(None, 0)))
    _check_plain(f"column '{name}'", array, bytes, exact=True)
    return Node(count, 0, (None, Source(array, bytes)))


def of_column(name: str, column: Column) -> Node:
    """Of buffers that have what the type needs, as far as that can be known without a look at values."""
    what = f"column '{name}'"
    kind = column.type.storage_type if isinstance(column.type, pyarrow.ExtensionType) else column.type
    inner = field_types(kind)
    wanted = 0 if pyarrow.types.is_null(kind) else kind.num_buffers
    if len(column.buffers) != wanted or len(column.children) != len(inner):
        raise InvalidArgument(f"{what} of {kind} has {wanted} buffers and {len(inner)} children, and was given "
                              f"{len(column.buffers)} and {len(column.children)}", "BAD_ARGUMENT",
                              "pass them in the order of pyarrow.Array.from_buffers: validity, offsets, values")
    if column.length < 0 or not 0 <= column.null_count <= column.length:
        raise InvalidArgument(f"{what} has {column.length} elements, {column.null_count} of them null", "BAD_ARGUMENT",
                              "pass numbers of at least 0")
    if wanted and column.null_count and column.buffers[0] is None:
        raise InvalidArgument(f"{what} has {column.null_count} nulls, but no validity buffer", "BAD_ARGUMENT",
                              "pass the validity buffer, or null_count=0")
    least = _least(kind, column.length)
    sources = []
    for number, (buffer, bytes) in enumerate(zip(column.buffers, least, strict=True)):
        if buffer is None or _bytes(buffer) == 0:
            if number > 0 and bytes > 0:
                raise InvalidArgument(f"buffer {number} of {what} is missing", "BAD_ARGUMENT", "pass it")
            sources.append(None if number == 0 and buffer is None else Source(None, 0))
            continue
        _check_plain(f"buffer {number} of {what}", buffer, bytes, exact=False)
        sources.append(Source(buffer, _bytes(buffer)))
    children = tuple(of_column(name, child) for child in column.children)
    for child, type in zip(column.children, inner, strict=True):
        if child.type != type:
            raise InvalidArgument(f"a child of {what} is of {child.type}, and not of {type}", "BAD_ARGUMENT",
                                  "pass children of the types in the column's type")
    return Node(column.length, column.null_count, tuple(sources), children)


def _least(type: pyarrow.DataType, length: int) -> list[int]:
    """Bytes that each buffer has at least."""
    kinds = pyarrow.types
    if kinds.is_null(type):
        return []
    found = [-(-length // 8)]
    if kinds.is_dictionary(type):
        return [*found, length * type.index_type.bit_width // 8]
    if kinds.is_string(type) or kinds.is_binary(type) or kinds.is_list(type) or kinds.is_map(type):
        found.append((length + 1) * 4 if length else 0)
    elif kinds.is_large_string(type) or kinds.is_large_binary(type) or kinds.is_large_list(type):
        found.append((length + 1) * 8 if length else 0)
    elif type.num_buffers > 1:
        found.append(-(-length * type.bit_width // 8))
    return found + [0] * (type.num_buffers - len(found))  # the characters, which the offsets tell of


def _bytes(buffer: Any) -> int:
    return int(buffer.nbytes) if isinstance(buffer, OURS) else _arrays.view(buffer).bytes


def _check_plain(what: str, array: Any, bytes: int, *, exact: bool) -> None:
    if not isinstance(array, OURS):
        found = _arrays.view(array)
        _arrays.check(found, what, written=False)
        runs = _arrays.runs(found)
        if len(runs) != 1 or runs[0][3] != 1:
            raise InvalidArgument(f"{what} has gaps: its strides are {found.strides}", "BAD_ARGUMENT",
                                  "pass it without gaps: numpy.ascontiguousarray(array), tensor.contiguous()")
    size = _bytes(array)
    if size < bytes or (exact and size != bytes):
        raise InvalidArgument(f"{what} has {size} bytes, and needs {bytes}", "SIZE_MISMATCH", "pass a long enough buffer")


__all__ = ["Column", "Dictionaries", "begin", "check_type", "of_array", "of_column", "of_part", "of_plain", "type_of"]
