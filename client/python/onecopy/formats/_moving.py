"""The bytes of files on their way to arrays, and from them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .. import _native
from ..core.memory import _arrays, _pool, _shared
from ..core.node._loaded import Saved
from ..core.requests import _pieces
from ..core.requests._ends import OURS, End, is_empty
from ..core.values import _dtypes, _numbers
from ..core.values._transfer import Transfer
from . import _opened, _placing, _room

if TYPE_CHECKING:
    from ..core.memory._registrations import Owned
    from ..core.node._node import Node


class Options(NamedTuple):
    """Of what is moved. `end`: by the clock time.monotonic()."""

    at_most: int | None = None
    checksum: bool = False
    end: float | None = None

    def request(self, file: str) -> _pieces.Request:
        place = ("", file, None, None)
        return _pieces.request(_pieces.Ends([place], [place], []), at_most=self.at_most, checksum=self.checksum,
                               deadline_ms=self.left())

    def left(self) -> int | None:
        """Milliseconds."""
        return None if self.end is None else max(1, math.ceil((self.end - time.monotonic()) * 1000))

    @property
    def by_client(self) -> bool:
        """Whether the client may move small parts itself: what asks for less, or for more, asks the daemon."""
        return self.at_most is None and not self.checksum


def options(at_most: int | None, checksum: bool, deadline: float | None) -> Options:
    if at_most is not None:
        at_most = _numbers.whole(at_most, "at_most", most=_numbers.MOST_COPIES)
    return Options(at_most, checksum, None if deadline is None else time.monotonic() + _numbers.seconds(deadline, "a deadline"))


def bytes_of(memory: _room.Array, offset: int, bytes: int) -> _room.Array:
    """A part of an array of bytes."""
    return memory._part(offset, (bytes,), _dtypes.of("uint8"))


def read(node: Node, stop: _native.Stop, file: _opened.OpenFile, runs: Sequence[_placing.Run], memory: _room.Array,
         moves: Options, base: int = 0) -> list[Transfer]:
    """Moves these bytes of the file into an array that has room for them from `base` on."""
    if not runs:
        return []
    if moves.by_client and isinstance(memory, _shared.SharedArray) and sum(each.bytes for each in runs) <= _room.SMALL:
        start = memory._memory.address + memory._offset + base
        own = [(each.offset, start + each.at, each.bytes) for each in runs]
        end = max(each.at + each.bytes for each in runs)
        done = node._native.read_own(file.name, file.fd, own, memory.endpoint(base, end)._tuple(), moves.left())
        return [Transfer(node._native, done, None)]
    pieces: list[tuple[tuple[object, ...], int]] = [
        (memory.endpoint(base + each.at, each.bytes)._tuple(), each.offset) for each in runs]
    moved = node._native.copy_pieces(moves.request(file.name), file.fd, True, [], pieces, False, None, stop)
    return [Transfer(node._native, each, None) for each in moved]


class Part(NamedTuple):
    """Of a file that is written: what its bytes are called and where they are, their place in the file, and, of an array
    of others that has been looked at, what was found: it is compact."""

    what: str
    end: End
    at: int
    found: _arrays.View | None = None


class _Sorted(NamedTuple):
    """Parts that the client writes itself, by their addresses; and those that the daemon moves."""

    own: list[tuple[int, int, int]]
    rest: list[Part]
    keeps: list[object]  # the memory of the former


def _sort(parts: Sequence[Part], moves: Options) -> _Sorted:
    """What is small, and of memory that the daemon does not know, is written by the client: a registration and a request
    for each would take far longer. What the daemon knows is one request for each buffer, unless all of it is small."""
    if not moves.by_client:
        return _Sorted([], list(parts), [])
    known: list[Part] = []
    found = _Sorted([], [], [])
    size = 0
    for part in parts:
        place = _host_place(part)
        if place is None:
            found.rest.append(part)
            continue
        address, bytes, is_known, keeps = place
        if is_known:
            known.append(part)
            size += bytes
        elif bytes > _room.SMALL:
            found.rest.append(part)
            continue
        found.own.append((part.at, address, bytes))
        found.keeps.append(keeps)
    if size > _room.SMALL:
        places = {each.at for each in known}
        return _Sorted([each for each in found.own if each[0] not in places], found.rest + known, found.keeps)
    return found


def _host_place(part: Part) -> tuple[int, int, bool, object] | None:
    """The address and the bytes of what lies in memory of the host in one piece, whether the daemon knows that memory, and
    what keeps it."""
    found = part.found
    if found is None:
        if isinstance(part.end, _shared.SharedArray):
            return part.end._memory.address + part.end._offset, part.end.nbytes, True, part.end
        if isinstance(part.end, (str, *OURS)) or not _arrays.is_array(part.end):
            return None
        found = _arrays.view(part.end)
        _arrays.check(found, part.what, written=False)
        if not _arrays.is_compact(found):
            return None
    if not found.on_host:
        return None
    is_known = (_shared.find(found.address, found.bytes) is not None
                or _pool.find(found.address, found.bytes, on_host=True) is not None)
    return found.address, found.bytes, is_known, found


def write(node: Node, stop: _native.Stop, name: str, texts: list[tuple[int, bytes]], parts: Iterable[Part], sync: bool,
          moves: Options, *, as_they_lie: bool = False) -> Saved:
    """Writes a file of texts, by their places in it, and of arrays or ranges of buffers. One request for each buffer that
    they lie in. `as_they_lie`: arrays are compact, in either order; else in C's."""
    requests = node._requests
    own, rest, _keeps = _sort([each for each in parts if not is_empty(each.end)], moves)
    full = [each._replace(end=_flat(each.end)) if as_they_lie else each for each in rest]

    def call() -> Saved:
        ready = requests._ready([each.end for each in full], [])
        if as_they_lie:
            _turn(ready)
        pieces: list[tuple[tuple[object, ...], int]] = [
            (requests.place(each.end, each.what, False, ready).endpoint, each.at) for each in full]
        done = node._native.copy_pieces(moves.request(name), -1, False, texts, pieces, sync, None, stop, own)
        return Saved(Transfer(node._native, each, None) for each in done)

    return requests.with_known(call)


def _flat(end: End) -> End:
    """The same bytes, in the order that they lie in, of an array of ours."""
    return end._part(0, (end.nbytes,), _dtypes.of("uint8")) if isinstance(end, OURS) and end._fortran else end


def _turn(ready: dict[int, tuple[_arrays.View, Owned | None]]) -> None:
    """Makes of arrays in Fortran order such in C's."""
    for key, (found, registration) in ready.items():
        if not _arrays.is_compact(found):
            ready[key] = found._replace(shape=found.shape[::-1], strides=found.strides[::-1]), registration


__all__ = ["Options", "Part", "Saved", "bytes_of", "options", "read", "write"]
