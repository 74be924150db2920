"""Files of arrays: loaded into memory of the host or of a GPU, and saved, without a copy by Python."""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import fnmatch
import math
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _arrays, _device, _dtypes, _errors, _files, _native, _npy, _numbers, _pieces, _placing, _pool
from . import _safetensors, _shared
from ._errors import Error, InvalidArgument
from ._requests import OURS, End, is_empty
from ._transfer import Transfer
from ._values import Receipt

if TYPE_CHECKING:
    from ._node import Node

_MOST_AT_ONCE = 8  # files
_GPU_ALIGNMENT = 16  # bytes, which kernels read at once
_MODULES = {".parquet": "parquet", ".orc": "orc", ".arrow": "arrow", ".feather": "arrow"}

Array = _shared.SharedArray | _device.DeviceArray


class Loaded(dict[str, Array]):
    """The arrays of a file, or of several, by their names, in order of their bytes. They share one memory for each file,
    which goes with the last of them."""

    def __init__(self, arrays: Mapping[str, Array], metadata: Mapping[str, str], transfers: Sequence[Transfer]) -> None:
        super().__init__(arrays)
        self.metadata = dict(metadata)
        """What the file says of itself: texts by their names; of several files what all say."""
        self.transfers = tuple(transfers)
        """What was moved."""

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """What really happened to the bytes; empty where there were none."""
        return tuple(each.receipt for each in self.transfers)

    @property
    def array(self) -> Array:
        """The only one, as of a .npy file."""
        if len(self) != 1:
            raise InvalidArgument(f"there are {len(self)} arrays", "BAD_ARGUMENT", "name one of them")
        return next(iter(self.values()))


class Saved(tuple[Transfer, ...]):
    """What was moved into a file: a transfer for each buffer that the arrays lie in."""

    __slots__ = ()

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        return tuple(each.receipt for each in self)


class Options(NamedTuple):
    """Of what is moved. `end`: by the clock time.monotonic()."""

    at_most: int | None = None
    checksum: bool = False
    end: float | None = None

    def request(self, file: str) -> _pieces.Request:
        left = None
        if self.end is not None:
            left = max(1, math.ceil((self.end - time.monotonic()) * 1000))
        place = ("", file, None, None)
        return _pieces.request(_pieces.Ends([place], [place], []), at_most=self.at_most, checksum=self.checksum,
                               deadline_ms=left)


def options(at_most: int | None, checksum: bool, deadline: float | None) -> Options:
    if at_most is not None:
        at_most = _numbers.whole(at_most, "at_most", most=_numbers.MOST_COPIES)
    return Options(at_most, checksum, None if deadline is None else time.monotonic() + _numbers.seconds(deadline, "a deadline"))


# ---- files


class OpenFile:
    """A regular file of this machine, open: what gets its name meanwhile is another one."""

    def __init__(self, file: _files.Path) -> None:
        self.name = _files._name(file)
        with system_errors(f"opening {self.name}"):
            self.fd = os.open(self.name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            facts = os.fstat(self.fd)
            if not stat.S_ISREG(facts.st_mode):
                what = "a folder" if stat.S_ISDIR(facts.st_mode) else "no regular file"
                raise InvalidArgument(f"{self.name} is {what}", "BAD_ARGUMENT", "name a file")
            self.size = facts.st_size
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self.fd)

    def read(self, offset: int, bytes: int) -> bytes:
        """These bytes; fewer only where the file ends."""
        parts = []
        with system_errors(f"reading {self.name}"):
            while bytes > 0 and (part := os.pread(self.fd, min(bytes, 1 << 30), offset)):
                parts.append(part)
                offset += len(part)
                bytes -= len(part)
        return b"".join(parts)


@contextlib.contextmanager
def system_errors(what: str) -> Iterator[None]:
    """What the system says, as the library does."""
    try:
        yield
    except OSError as failure:
        kind, reason = {
            errno.ENOENT: (_errors.NotFound, "FILE_NOT_FOUND"), errno.ENOTDIR: (_errors.NotFound, "FILE_NOT_FOUND"),
            errno.EACCES: (_errors.PermissionDenied, "ACCESS_DENIED"),
            errno.EPERM: (_errors.PermissionDenied, "ACCESS_DENIED"),
            errno.ENAMETOOLONG: (InvalidArgument, "BAD_ARGUMENT"), errno.ELOOP: (InvalidArgument, "BAD_ARGUMENT"),
            errno.ENXIO: (InvalidArgument, "BAD_ARGUMENT"),
            errno.EMFILE: (_errors.ResourceExhausted, "OPEN_FILES"), errno.ENFILE: (_errors.ResourceExhausted, "OPEN_FILES"),
        }.get(failure.errno or 0, (_errors.Internal, "IO_ERROR"))
        raise kind(f"{what}: {failure.strerror}", reason) from failure


def read(node: Node, stop: _native.Stop, file: OpenFile, runs: Iterable[_placing.Run], memory: Array, moves: Options,
         base: int = 0) -> list[Transfer]:
    """Moves these bytes of the file into an array that has room for them from `base` on."""
    pieces: list[tuple[tuple[object, ...], int]] = [
        (memory.endpoint(base + each.at, each.bytes)._tuple(), each.offset) for each in runs]
    if not pieces:
        return []
    done = node._native.copy_pieces(moves.request(file.name), file.fd, True, [], pieces, False, None, stop)
    return [Transfer(node._native, each, None) for each in done]


def bytes_of(memory: Array, offset: int, bytes: int) -> Array:
    """A part of an array of bytes."""
    return memory._part(offset, (bytes,), _dtypes.of("uint8"))


# ---- memory


class Room:
    """Where arrays go: memory of the host or of a GPU, of a pool where one is given."""

    def __init__(self, node: Node, device: Any, pool: _pool.Pool | _pool.DevicePool | None) -> None:
        self._node = node
        self._pool = pool
        self._device = None if is_host(device) else _device.ordinal(device)
        if pool is None:
            return
        if pool._node.name != node.name:
            raise InvalidArgument(f"the pool is of node {pool._node.name}, and this is {node.name}", "BAD_ARGUMENT",
                                  "pass a pool of the node that loads")
        of = pool.device if isinstance(pool, _pool.DevicePool) else None
        if device is not None and of != self._device:
            where = "the host" if of is None else f"cuda:{of}"
            raise InvalidArgument(f"the pool is of {where}, and the device is {device!r}", "BAD_ARGUMENT",
                                  "pass one of the two")
        self._device = of

    @property
    def on_host(self) -> bool:
        return self._device is None

    def empty(self, bytes: int) -> tuple[Array, int]:
        """Room for that many bytes, and where in it they may begin: with a page of the host, or with what a GPU has."""
        wanted = max(1, bytes)
        if self._pool is None and self._device is None:
            return self._node.empty(wanted, "uint8"), 0
        pool = self._pool or self._node.pool(device=self._device, slab=wanted)
        if isinstance(pool, _pool.DevicePool):
            return pool._empty_idle(wanted), 0
        made = pool.empty(wanted + (_placing.PAGE if bytes > 0 else 0), "uint8")
        return made, -made._memory.address % _placing.PAGE if bytes > 0 else 0

    def place(self, parts: Iterable[_placing.Part]) -> _placing.Placed:
        return _placing.place(parts, pages=self.on_host)

    def part(self, offset: int, bytes: int, itemsize: int) -> _placing.Part:
        return _part(offset, bytes, itemsize, self.on_host)


def _part(offset: int, bytes: int, itemsize: int, on_host: bool) -> _placing.Part:
    return _placing.Part(offset, bytes, itemsize if on_host else max(itemsize, _GPU_ALIGNMENT))


def place(tensors: Iterable[_safetensors.Tensor], *, on_host: bool) -> _placing.Placed:
    """Where tensors of a file lie in one memory."""
    return _placing.place((_part(each.offset, each.bytes, each.dtype.itemsize, on_host) for each in tensors if each.dtype),
                          pages=on_host)


def is_host(device: Any) -> bool:
    return device is None or device == "cpu" or getattr(device, "type", None) == "cpu"


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
        raise InvalidArgument(f"no format is named {format!r}", "BAD_ARGUMENT", f"use one of {', '.join(known)}")
    lower = name.lower()
    if lower.endswith(".index.json") and "index" in known:
        return "index"
    suffix = os.path.splitext(lower)[1]
    if suffix[1:] in known and suffix != ".index":
        return suffix[1:]
    remedy = f"say which it is: format=, one of {', '.join(known)}"
    module = _MODULES.get(suffix)
    if module is not None:
        saved = "index" not in known
        remedy = f"use onecopy.{module}.{'save' if saved else 'load'}"
        if saved and module != "arrow":
            remedy = f"write it by pyarrow.{module}: onecopy saves none"
    raise InvalidArgument(f"the name of {name} does not say which format it has", "BAD_ARGUMENT", remedy)


def load(node: Node, stop: _native.Stop, file: _files.Path, device: Any, pool: _pool.Pool | _pool.DevicePool | None,
         only: str | Iterable[str] | None, format: str | None, moves: Options) -> Loaded:
    """See Node.load."""
    name = _files._name(file)
    kind = format_of(name, format, ("safetensors", "index", "npy"))
    patterns = [only] if isinstance(only, str) else None if only is None else list(only)
    room = Room(node, device, pool)
    with contextlib.ExitStack() as opened:
        wanted = list(_index(opened, name) if kind == "index" else [open_one(opened, name, kind)])
        _select(name, wanted, patterns)
        # Nothing moves, and no memory is taken, before all heads are known to be right.
        return _load(node, stop, room, wanted, moves)


def _open(opened: contextlib.ExitStack, name: _files.Path) -> OpenFile:
    file = OpenFile(name)
    opened.callback(file.close)
    return file


def open_one(opened: contextlib.ExitStack, name: str, kind: str) -> Wanted:
    file = _open(opened, name)
    if kind == "npy":
        head = file.read(0, _npy.header_bytes(name, file.read(0, _npy.FIRST_BYTES), file.size))
        array = _npy.parse(name, head, file.size)
        stem = os.path.basename(name)
        stem = stem[:-4] if stem.lower().endswith(".npy") else stem
        return Wanted(file, [_safetensors.Tensor(stem, "", array.dtype, array.shape, array.offset, array.bytes,
                                                 array.fortran)], {})
    length = _safetensors.header_bytes(name, file.read(0, 8), file.size)
    header = _safetensors.parse(name, file.read(8, length), file.size)
    return Wanted(file, list(header.tensors), header.metadata)


def _index(opened: contextlib.ExitStack, name: str) -> Iterator[Wanted]:
    index = OpenFile(name)
    with contextlib.closing(index):
        if index.size > _safetensors.MOST_HEADER_BYTES:
            raise _safetensors.bad(name, f"it has {index.size} bytes, more than the {_safetensors.MOST_HEADER_BYTES} of any")
        files = _safetensors.parse_index(name, index.read(0, index.size))
    tensors: dict[str, set[str]] = {}
    for tensor, file in files.items():
        tensors.setdefault(file, set()).add(tensor)
    for file, names in tensors.items():
        found = open_one(opened, os.path.join(os.path.dirname(name), file), "safetensors")
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
                raise InvalidArgument(f"{pattern!r} is no name of a tensor", "BAD_ARGUMENT",
                                      "pass names, or patterns as '*.bias'")
            found = [pattern] if pattern in every else fnmatch.filter(every, pattern)
            if not found:
                some = ", ".join(list(every)[:5]) + (", …" if len(every) > 5 else "")
                raise _errors.NotFound(f"{name} has no tensor '{pattern}'", "BAD_ARGUMENT", f"it has {some}")
            chosen.update(found)
        for one in wanted:
            one.tensors[:] = [each for each in one.tensors if each.name in chosen]
    for one in wanted:
        check_types(one, "leave it out by only=[…], or store it packed, as U8")


def check_types(one: Wanted, remedy: str) -> None:
    """Whether an array can have elements of each type."""
    for each in one.tensors:
        if each.dtype is None:
            raise _errors.Unimplemented(
                f"tensor '{each.name}' of {one.file.name} is of {each.code}, whose elements are less than a byte",
                "BAD_FORMAT", remedy)


def _load(node: Node, stop: _native.Stop, room: Room, wanted: list[Wanted], moves: Options) -> Loaded:
    arrays: dict[str, Array] = {}
    calls: list[Callable[[], list[Transfer]]] = []
    for one in wanted:
        if not one.tensors:
            continue
        placed = place(one.tensors, on_host=room.on_host)
        memory, base = room.empty(placed.bytes)
        for each, at in zip(one.tensors, placed.at, strict=True):
            assert each.dtype is not None  # _select has seen to that
            arrays[each.name] = memory._part(base + at, each.shape, each.dtype, fortran=each.fortran)
        calls.append(lambda one=one, placed=placed, memory=memory, base=base: read(  # type: ignore[misc]
            node, stop, one.file, placed.runs, memory, moves, base))
    done = at_once(stop, calls)
    metadata = dict(wanted[0].metadata) if wanted else {}
    for one in wanted[1:]:
        metadata = {key: text for key, text in metadata.items() if one.metadata.get(key) == text}
    return Loaded(arrays, metadata, [each for transfers in done for each in transfers])


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
            raise InvalidArgument(f"{name} is a file of arrays with names, and this is a {type(arrays).__name__}",
                                  "BAD_ARGUMENT", "pass a dict: {'name': array}")
        arrays = {"": arrays}
    looked_at = {each: _described(each, array) for each, array in arrays.items()}
    if kind == "npy":
        if len(looked_at) != 1 or metadata:
            raise InvalidArgument("a .npy file has one array, and no metadata", "BAD_ARGUMENT", "write a .safetensors file")
        (only, (dtype, shape, fortran)), = looked_at.items()
        head = _npy.write(dtype, shape, fortran=fortran)
        places = {only: len(head)}
    else:
        for each, (dtype, shape, fortran) in looked_at.items():
            if fortran:
                raise _gaps(each, _arrays.compact(shape, dtype.itemsize, fortran=True))
        head, places = _safetensors.write({each: (dtype, shape) for each, (dtype, shape, _) in looked_at.items()},
                                          metadata or {})
    return write(node, stop, name, [(0, head)], [(f"'{each}'", arrays[each], places[each]) for each in looked_at], sync, moves,
                 as_they_lie=kind == "npy")


def _gaps(name: str, strides: object) -> InvalidArgument:
    return InvalidArgument(f"'{name}' has gaps, or another order than the file: its strides are {strides}", "BAD_ARGUMENT",
                           "pass one without: numpy.ascontiguousarray(array), tensor.contiguous()")


def _described(name: object, array: Any) -> tuple[_dtypes.DType, tuple[int, ...], bool]:
    """Its type, its shape, and whether its first dimension is the fastest and not the last."""
    if not isinstance(name, str):
        raise InvalidArgument(f"{name!r} is no name of an array", "BAD_ARGUMENT", "pass a dict with names as str")
    if not hasattr(array, "dtype") or not hasattr(array, "shape"):
        raise InvalidArgument(f"'{name}' is a {type(array).__name__}, which does not say what its elements are",
                              "BAD_ARGUMENT", "pass an array of NumPy, torch, CuPy, JAX or onecopy")
    shape = tuple(int(each) for each in array.shape)
    kind = _dtypes.of(array.dtype)
    if 0 in shape:
        return kind, shape, False
    if isinstance(array, OURS):
        return kind, shape, array._fortran
    found = _arrays.view(array)
    _arrays.check(found, f"'{name}'", written=False)
    if found.itemsize != kind.itemsize or found.shape != shape:
        raise InvalidArgument(f"'{name}' says it is of {kind.name}, and has elements of {found.itemsize} bytes",
                              "BAD_ARGUMENT", "convert it: array.astype")
    if _arrays.is_compact(found):
        return kind, shape, False
    if not _arrays.is_compact(found, fortran=True):
        raise _gaps(name, found.strides)
    return kind, shape, True


def _flat(end: End) -> End:
    """The same bytes, in the order that they lie in, of an array of ours."""
    return end._part(0, (end.nbytes,), _dtypes.of("uint8")) if isinstance(end, OURS) and end._fortran else end


def write(node: Node, stop: _native.Stop, name: str, texts: list[tuple[int, bytes]], ends: Sequence[tuple[str, End, int]],
          sync: bool, moves: Options, *, as_they_lie: bool = False) -> Saved:
    """Writes a file of texts, by their places in it, and of arrays or ranges of buffers: what each is called, it, and its
    place. One request for each buffer that they lie in. `as_they_lie`: arrays are compact, in either order."""
    requests = node._requests
    full = [(what, _flat(end) if as_they_lie else end, at) for what, end, at in ends if not is_empty(end)]

    def call() -> Saved:
        ready = requests._ready([end for _, end, _ in full], [])
        for key, (found, registration) in ready.items() if as_they_lie else ():
            if not _arrays.is_compact(found):
                turned = found._replace(shape=found.shape[::-1], strides=found.strides[::-1])
                ready[key] = turned, registration
        places = [requests.place(end, what, False, ready) for what, end, _ in full]
        pieces: list[tuple[tuple[object, ...], int]] = [
            (place.endpoint, at) for place, (_, _, at) in zip(places, full, strict=True)]
        done = node._native.copy_pieces(moves.request(name), -1, False, texts, pieces, sync, None, stop)
        return Saved(Transfer(node._native, each, None) for each in done)

    return requests.with_known(call)


__all__ = ["Error", "Loaded", "Saved", "load", "save"]
