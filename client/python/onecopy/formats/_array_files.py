"""Files of arrays: loaded into memory of the host or of a GPU, and saved, without a copy by Python."""

from __future__ import annotations

import concurrent.futures
import fnmatch
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _native
from ..core.memory import _arrays, _pool
from ..core.node._loaded import Array, Loaded, Saved
from ..core.requests import _files
from ..core.requests._ends import OURS
from ..core.values import _dtypes, _errors
from ..core.values._errors import InvalidArgument
from ..core.values._transfer import Transfer
from . import _moving, _npy, _placing, _room, _safetensors
from ._moving import Options, options
from ._opened import OpenFile, OpenFiles
from ._room import Room

if TYPE_CHECKING:
    from ..core.node._node import Node

_MOST_AT_ONCE = 8  # files
_MOST_MEMORIES = 64  # of one call: each takes a descriptor, here and of the daemon
_MODULES = {".parquet": "parquet", ".orc": "orc", ".arrow": "arrow", ".feather": "arrow"}


# ---- load


class Wanted(NamedTuple):
    """What is loaded of one file."""

    file: OpenFile
    tensors: list[_safetensors.Tensor]
    metadata: Mapping[str, str]


def format_of(name: str, format: str | None, known: Sequence[str]) -> str:
    if format is not None:
        if format in known:
            return format
        raise InvalidArgument(f"{format!r} is not a format of onecopy", "BAD_ARGUMENT", f"use one of {', '.join(known)}")
    lower = name.lower()
    if lower.endswith(".index.json") and "index" in known:
        return "index"
    suffix = os.path.splitext(lower)[1]
    if suffix[1:] in known and suffix != ".index":
        return suffix[1:]
    remedy = f"name it: format=, one of {', '.join(known)}"
    module = _MODULES.get(suffix)
    if module is not None:
        saved = "index" not in known
        remedy = f"use onecopy.{module}.{'save' if saved else 'load'}"
        if saved and module != "arrow":
            remedy = f"onecopy cannot write it; use pyarrow.{module}"
    raise InvalidArgument(f"the name of {name} does not tell its format", "BAD_ARGUMENT", remedy)


def load(node: Node, stop: _native.Stop, file: _files.Path, device: Any, pool: _pool.Pool | _pool.DevicePool | None,
         only: str | Iterable[str] | None, format: str | None, moves: Options) -> Loaded:
    """See Node.load."""
    name = _files._name(file)
    kind = format_of(name, format, ("safetensors", "index", "npy"))
    patterns = [only] if isinstance(only, str) else None if only is None else list(only)
    room = Room(node, device, pool)
    with OpenFiles() as files:
        wanted = list(_index(files, name) if kind == "index" else [open_one(files, name, kind)])
        _select(name, wanted, patterns)
        # Nothing moves, and no memory is taken, before all heads are known to be right.
        return _load(node, stop, files, room, wanted, moves)


def open_one(files: OpenFiles, name: str, kind: str) -> Wanted:
    """A file whose head has been looked at."""
    file = files.open(name)
    if kind == "npy":
        head = file.read(0, _npy.header_bytes(name, file.read(0, _npy.FIRST_BYTES), file.size))
        array = _npy.parse(name, head, file.size)
        stem = os.path.basename(name)
        stem = stem[:-4] if stem.lower().endswith(".npy") else stem
        return Wanted(file, [_safetensors.Tensor(stem, "", array.dtype, array.shape, array.offset, array.bytes,
                                                 array.fortran)], {})
    header = _safetensors.read(file)
    return Wanted(file, header.tensors, header.metadata)


def read_index(name: str) -> dict[str, str]:
    """Of each tensor the name of its file, which lies beside the index."""
    with OpenFile(name) as index:
        return _safetensors.parse_index(name, index.read(0, min(index.size, _safetensors.MOST_HEADER_BYTES + 1)))


def _index(files: OpenFiles, name: str) -> Iterator[Wanted]:
    tensors: dict[str, set[str]] = {}
    for tensor, file in read_index(name).items():
        tensors.setdefault(file, set()).add(tensor)
    for file, names in tensors.items():
        found = open_one(files, os.path.join(os.path.dirname(name), file), "safetensors")
        missing = names - {each.name for each in found.tensors}
        if missing:
            raise _safetensors.bad(found.file.name, f"{name} says that it has '{min(missing)}', which is not in it")
        yield found._replace(tensors=[each for each in found.tensors if each.name in names])


def _select(name: str, wanted: list[Wanted], patterns: list[str] | None) -> None:
    if patterns is not None:
        every = {each.name: None for one in wanted for each in one.tensors}
        chosen: set[str] = set()
        for pattern in patterns:
            if not isinstance(pattern, str):
                raise InvalidArgument(f"{pattern!r} is not the name of a tensor", "BAD_ARGUMENT",
                                      "pass names, or patterns such as '*.bias'")
            found = [pattern] if pattern in every else fnmatch.filter(every, pattern)
            if not found:
                some = ", ".join(list(every)[:5]) + (", …" if len(every) > 5 else "")
                raise _errors.NotFound(f"{name} has no tensor '{pattern}'", "BAD_ARGUMENT", f"it has {some}")
            chosen.update(found)
        for one in wanted:
            one.tensors[:] = [each for each in one.tensors if each.name in chosen]
    for one in wanted:
        check_types(one, "leave it out with only=[…], or store it packed, as U8")


def check_types(one: Wanted, remedy: str) -> None:
    """Whether an array can have elements of each type."""
    for each in one.tensors:
        if each.dtype is None:
            raise _errors.Unimplemented(
                f"tensor '{each.name}' of {one.file.name} is of {each.code} and shape {each.shape}, with elements of less "
                "than a byte that are not pairs of F4", "BAD_FORMAT", remedy)


def _load(node: Node, stop: _native.Stop, files: OpenFiles, room: Room, wanted: list[Wanted], moves: Options) -> Loaded:
    arrays: dict[str, Array] = {}
    calls: list[Callable[[], list[Transfer]]] = []
    having = [one for one in wanted if one.tensors]
    placed = [_room.place(one.tensors, on_host=room.on_host) for one in having]
    for one, place, (memory, base) in zip(having, placed, _memories(room, placed), strict=True):
        for each, at in zip(one.tensors, place.at, strict=True):
            assert each.dtype is not None  # _select has seen to that
            arrays[each.name] = memory._part(base + at, each.shape, each.dtype, fortran=each.fortran)
        calls.append(functools.partial(_read, node, stop, files, one.file, place, memory, base, moves))
    done = at_once(stop, calls)
    metadata = dict(wanted[0].metadata) if wanted else {}
    for one in wanted[1:]:
        metadata = {key: text for key, text in metadata.items() if one.metadata.get(key) == text}
    return Loaded(arrays, metadata, [each for transfers in done for each in transfers])


def _memories(room: Room, placed: Sequence[_placing.Placed]) -> Iterator[tuple[Array, int]]:
    """Room for each file, and where in that it begins: a memory for each or, of many, for some that follow one another."""
    least = 0 if len(placed) <= _MOST_MEMORIES else -(-sum(each.bytes for each in placed) // _MOST_MEMORIES)
    first = 0
    while first < len(placed):
        starts, end = [0], placed[first].bytes
        while end < least and first + len(starts) < len(placed):
            starts.append(-(-end // _placing.PAGE) * _placing.PAGE)
            end = starts[-1] + placed[first + len(starts) - 1].bytes
        memory, base = room.empty(end)
        yield from ((memory, base + start) for start in starts)
        first += len(starts)


def _read(node: Node, stop: _native.Stop, files: OpenFiles, file: OpenFile, placed: _placing.Placed, memory: Array, base: int,
          moves: Options) -> list[Transfer]:
    with files.use(file):
        return _moving.read(node, stop, file, placed.runs, memory, moves, base)


def at_once(stop: _native.Stop, calls: Sequence[Callable[[], list[Transfer]]]) -> list[list[Transfer]]:
    """Makes all calls, several at a time. Where one fails, or a signal's handler raises, the others are stopped and waited
    for, and the first failure is raised."""
    if len(calls) == 1:  # on this thread, which hears of Ctrl-C by itself
        return [calls[0]()]
    with concurrent.futures.ThreadPoolExecutor(max(1, min(_MOST_AT_ONCE, len(calls))), "onecopy-load") as threads:
        begun = [threads.submit(call) for call in calls]
        try:
            for each in concurrent.futures.as_completed(begun):
                each.result()
        except BaseException:
            for each in begun:
                each.cancel()
            stop.request()
            del each  # with its failure, which a frame of its own traceback would keep
            begun.clear()
            raise
        return [each.result() for each in begun]


# ---- save


def save(node: Node, stop: _native.Stop, file: _files.Path, arrays: Any, metadata: Mapping[str, str] | None,
         format: str | None, sync: bool, moves: Options) -> Saved:
    """See Node.save."""
    name = _files._name(file)
    kind = format_of(name, format, ("safetensors", "npy"))
    if not isinstance(arrays, Mapping):
        if kind != "npy":
            raise InvalidArgument(f"{name} holds arrays with names, and this is a {type(arrays).__name__}",
                                  "BAD_ARGUMENT", "pass a dict: {'name': array}")
        arrays = {"": arrays}
    kinds: dict[object, _dtypes.DType] = {}
    looked_at = {each: _described(each, array, kinds) for each, array in arrays.items()}
    if kind == "npy":
        if len(looked_at) != 1 or metadata:
            raise InvalidArgument("a .npy file has one array, and no metadata", "BAD_ARGUMENT", "write a .safetensors file")
        (only, one), = looked_at.items()
        head = _npy.write(one.dtype, one.shape, fortran=one.fortran)
        places = {only: len(head)}
    else:
        for each, one in looked_at.items():
            if one.fortran:
                raise _gaps(each, _arrays.compact(one.shape, one.dtype.itemsize, fortran=True))
        head, places = _safetensors.write({each: (one.dtype, one.shape) for each, one in looked_at.items()}, metadata or {})
    parts = [_moving.Part(f"'{each}'", arrays[each], places[each], one.found) for each, one in looked_at.items()]
    return _moving.write(node, stop, name, [(0, head)], parts, sync, moves, as_they_lie=kind == "npy")


def _gaps(name: str, strides: object) -> InvalidArgument:
    return InvalidArgument(f"'{name}' has gaps, or another order than the file needs: its strides are {strides}", "BAD_ARGUMENT",
                           "pass an array without gaps: numpy.ascontiguousarray(array), tensor.contiguous()")


class _Described(NamedTuple):
    """An array that is to be saved. `fortran`: its first dimension is the fastest, and not the last; `found`: of an array of
    others with elements."""

    dtype: _dtypes.DType
    shape: tuple[int, ...]
    fortran: bool = False
    found: _arrays.View | None = None


def _described(name: object, array: Any, kinds: dict[object, _dtypes.DType]) -> _Described:
    """kinds: of the types that were met so far."""
    if not isinstance(name, str):
        raise InvalidArgument(f"{name!r} is not the name of an array", "BAD_ARGUMENT", "pass a dict with names as str")
    if not hasattr(array, "dtype") or not hasattr(array, "shape"):
        raise InvalidArgument(f"'{name}' is a {type(array).__name__}, which does not tell its element type",
                              "BAD_ARGUMENT", "pass an array of NumPy, torch, CuPy, JAX or onecopy")
    shape = tuple(map(int, array.shape))
    try:
        kind = kinds[array.dtype]
    except KeyError:
        kind = kinds[array.dtype] = _dtypes.of(array.dtype)
    except TypeError:  # it is not hashable
        kind = _dtypes.of(array.dtype)
    if 0 in shape:
        return _Described(kind, shape)
    if isinstance(array, OURS):
        return _Described(kind, shape, array._fortran)
    found = _arrays.view(array)
    _arrays.check(found, f"'{name}'", written=False)
    if found.itemsize != kind.itemsize or found.shape != shape:
        raise InvalidArgument(f"'{name}' claims the type {kind.name}, but has elements of {found.itemsize} bytes",
                              "BAD_ARGUMENT", "convert it: array.astype")
    if _arrays.is_compact(found):
        return _Described(kind, shape, False, found)
    if not _arrays.is_compact(found, fortran=True):
        raise _gaps(name, found.strides)
    return _Described(kind, shape, True, found)


__all__ = ["load", "options", "save"]
