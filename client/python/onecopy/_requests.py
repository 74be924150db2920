"""What a transfer's ends are to the daemon, and the requests that name them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from . import _arrays, _device, _layouts, _mapped, _native, _pieces, _pool, _ranges, _registrations, _shared
from ._errors import InvalidArgument, NotFound
from ._numbers import milliseconds
from ._range_arrays import Chosen, Ranges, choose
from ._values import Buffer, Endpoint
from ._views import Wanted

End: TypeAlias = "str | Endpoint | Buffer | _shared.SharedArray | Any"
"""A source or a destination of a transfer: `west:weights@0+4096` or `west:/data/model.bin` as people type it, an Endpoint, a
Buffer, or an array."""

_LOST = ("BUFFER_LOST", "BUFFER_NOT_FOUND")
_MANY = 8  # buffers that are asked for one by one rather than by a list of all

_Ready: TypeAlias = "dict[int, tuple[_arrays.View, _registrations.Owned | None]]"
_T = TypeVar("_T")
OURS = (_shared.SharedArray, _device.DeviceArray, _mapped.MappedArray)


class Place:
    """One end of a transfer, found: a range of a buffer and, of an array with gaps, its pieces in it."""

    __slots__ = ("bytes", "dtype", "endpoint", "keeps", "pool", "registration", "runs", "shape")

    def __init__(self, endpoint: _pieces.Place, bytes: int | None, runs: list[_arrays.Range] | None, keeps: object,
                 registration: _registrations.Registration | None = None, pool: _pool.AnyPool | None = None, *,
                 dtype: str = "", shape: tuple[int, ...] | None = None) -> None:
        self.endpoint = endpoint
        self.bytes = bytes  # None: not known here
        self.runs = runs
        self.keeps = keeps
        self.registration = registration  # of memory that was not made to be shared
        self.pool = pool  # that it lies in
        self.dtype = dtype  # of its elements; "": not known, or plain bytes
        self.shape = shape  # None: not known


class Keeps:
    """What must live as long as a transfer, the pools that it is of, and the registrations of its ends."""

    __slots__ = ("ends", "pools", "registrations")

    def __init__(self, places: Sequence[Place]) -> None:
        self.ends = [each.keeps for each in places]
        self.registrations = [each.registration for each in places]
        self.pools = {each.pool for each in places if each.pool is not None}


class Requests:
    """Of one node: finds the buffers of ends, registers the memory of others' arrays that is not known yet, and makes the
    requests. Does not keep the Node, whose registrations it shares. Any thread."""

    def __init__(self, native: _native.Node, registrations: _registrations.Registrations) -> None:
        self._native = native
        self.registrations = registrations

    def place(self, end: End, what: str, written: bool, ready: _Ready | None = None) -> Place:
        if isinstance(end, str):
            end = Endpoint.parse(end)
        if isinstance(end, Buffer):
            # With its length: what a ring carries must say it.
            return Place((end.node, end.id, 0, end.bytes), end.bytes, None, None, dtype=end.dtype, shape=end.shape)
        if isinstance(end, Endpoint):
            return Place(end._tuple(), end.bytes, None, None)
        if isinstance(end, OURS):
            if end.nbytes == 0:
                raise InvalidArgument(f"{what} has no bytes: its shape is {end.shape}", "BAD_SIZE",
                                      "leave out arrays without elements")
            whole = end.endpoint(0, end.nbytes)._tuple()
            if isinstance(end, _ranges.PoolRange):
                # Its memory, too: free() may take it from the array before the transfer has ended.
                return Place(whole, end.nbytes, end._gaps, (end, end._memory), pool=end._pool, dtype=end._meaning,
                             shape=end.shape)
            return Place(whole, end.nbytes, end._gaps, end, dtype=end._meaning, shape=end.shape)
        found, owned = (ready and ready.get(id(end))) or (_arrays.view(end), None)
        _arrays.check(found, what, written)
        start, bytes = _arrays.extent(found)
        runs = _arrays.runs(found)
        pool: _pool.AnyPool | None = None
        registration: _registrations.Registration | None = None
        shared = _shared.find(start, bytes) if found.on_host else None
        pooled = _pool.find(start, bytes, on_host=found.on_host) if shared is None else None
        if shared is not None:
            node, buffer, offset = shared[0].node, shared[0].id, shared[1]
        elif pooled is not None:
            node, buffer, offset, pool = pooled
        else:
            registration = owned.registration if owned is not None else self.registrations.find(end, found)
            node, buffer, offset = registration.buffer.node, registration.buffer.id, start - registration.start
            found = found._replace(keeps=(found.keeps, registration))
        gaps = None if len(runs) == 1 and runs[0][3] == 1 else runs
        return Place((node, buffer, offset, bytes), found.bytes, gaps, (end, found), registration, pool, dtype=found.dtype,
                     shape=found.shape)

    def wanted(self, arrays: Sequence[Any], before: set[str]) -> list[Wanted]:
        """Where each of these arrays lies, and as what; memory that is not known yet is registered. before: as of
        Registrations.find_all."""
        for number, each in enumerate(arrays):
            if is_empty(each):
                what = "the array" if len(arrays) == 1 else f"array {number}"
                raise InvalidArgument(f"{what} has no bytes: its shape is {tuple(each.shape)}", "BAD_SIZE",
                                      "leave out arrays without elements")
        ready = self._ready(arrays, [], before)
        return [self._wanted(each, ready) for each in arrays]

    def _wanted(self, array: Any, ready: _Ready) -> Wanted:
        if isinstance(array, OURS):
            place = self.place(array, "the array", False)
            # What goes back to a pool, or is unmapped, with the last that uses it.
            owner, buffer, offset = (array, array.buffer, 0) if isinstance(array, _mapped.MappedArray) else (
                array._memory, array.buffer, place.endpoint[2] or 0)
            if array._apart is not None:  # of a view, which views are not made of
                buffer, offset = dataclasses.replace(buffer, id=buffer.view_of), buffer.offset_bytes
            return Wanted(buffer, offset, place.dtype, array._dtype.itemsize, array.shape, array.strides, owner,
                          ends_with_memory=isinstance(array, _shared.SharedArray) and not isinstance(array, _ranges.PoolRange))
        found, owned = ready[id(array)]
        start, bytes = _arrays.extent(found)
        as_array = (found.dtype, found.itemsize, found.shape, found.strides)
        if owned is not None:
            registration = owned.registration
            return Wanted(registration.buffer, start - registration.start, *as_array, owned.owner,
                          None if owned.lasting else found, registration=registration)
        owner = _registrations.owner_of(array)
        keeps = None if _registrations.is_watchable(owner) else found
        shared = _shared.find(start, bytes) if found.on_host else None
        if shared is not None:
            return Wanted(shared[0], shared[1], *as_array, owner, keeps)
        pooled = _pool.find(start, bytes, on_host=found.on_host)
        if pooled is None:
            raise NotFound("the memory of the array was freed in the meantime", "BUFFER_LOST", "keep the array")
        slab = next(each for each in pooled.pool.buffers if each.id == pooled.buffer)
        return Wanted(slab, pooled.offset, *as_array, owner, keeps)

    def _ready(self, sources: Sequence[End], destinations: Sequence[End], before: set[str] | None = None) -> _Ready:
        """The arrays of others among these ends, by their ids; what is not registered yet is so in one go: the one list
        must not make room for the other."""
        ready: _Ready = {}
        missing: dict[int, tuple[Any, _arrays.View]] = {}
        for ends, what, written in ((sources, "source", False), (destinations, "destination", True)):
            for number, end in enumerate(ends):
                if isinstance(end, (str, Buffer, Endpoint, *OURS)) or is_empty(end):
                    continue
                found = _arrays.view(end)
                _arrays.check(found, f"{what} {number}", written)
                ready[id(end)] = found, None
                start, bytes = _arrays.extent(found)
                known = (found.on_host and _shared.find(start, bytes) is not None) or (
                    _pool.find(start, bytes, on_host=found.on_host) is not None)
                if not known:
                    missing[id(end)] = end, found
        for key, made in zip(missing, self.registrations.find_all(missing.values(), before), strict=True):
            ready[key] = ready[key][0], made
        return ready

    def call(self, call: Callable[[_pieces.Request, Keeps], _T], source: End, destination: End, *,
             ranges: Ranges | _layouts.Blocks = (), **options: Any) -> _T:
        """Makes a call that names the memory of arrays; once more where the daemon does not know that any more, as it
        was started since."""
        chosen = ranges if isinstance(ranges, _layouts.Blocks) else choose(ranges)
        request, keeps = self.make(source, destination, chosen=chosen, **options)
        try:
            return call(request, keeps)
        except NotFound as failure:
            again = self.again(failure.reason, request, source, destination, chosen=chosen, **options)
            if again is None:
                raise
        return call(*again)

    def with_length(self, place: _pieces.Place) -> _pieces.Place:
        """The same with its node and, of a buffer that was named without its length, with that."""
        node, buffer, offset, bytes = place
        if bytes is None:
            size: int = json.loads(self._native.get_buffer(node, buffer))["bytes"]
            bytes = max(0, size - (offset or 0))
        return node or self._native.name, buffer, offset, bytes

    def with_known(self, call: Callable[[], _T]) -> _T:
        """Makes a call that finds the places of its ends itself; once more where the daemon does not know one of them any
        more, as it was started since."""
        try:
            return call()
        except NotFound as failure:
            if failure.reason not in _LOST:
                raise
            for id in self.unknown(self.registrations.ids()):
                self.registrations.lose(id)
        return call()

    def again(self, reason: str, before: _pieces.Request, source: End, destination: End,
              **options: Any) -> tuple[_pieces.Request, Keeps] | None:
        """The request built again after a failure; None where it names the same as before. Without the failure itself: one
        that a frame of its traceback has keeps all that those have, arrays, too, until Python looks for cycles."""
        if reason not in _LOST:
            return None
        self._lose_unknown(before)
        for end in (source, destination):
            if isinstance(end, _layouts.Layout):
                end._renew()
        again = self.make(source, destination, **options)
        return None if _pieces.places(again[0]) == _pieces.places(before) else again

    def _lose_unknown(self, request: _pieces.Request) -> None:
        """Forgets the registrations of arrays that a request names, where the daemon has."""
        for id in self.unknown(self.registrations.ids().intersection(each[1] for each in _pieces.places(request))):
            self.registrations.lose(id)

    def unknown(self, ids: set[str]) -> set[str]:
        """Those of these buffers of this node that the daemon does not know."""
        if len(ids) > _MANY:
            return ids - {each["id"] for each in json.loads(self._native.list_buffers(""))}
        return {id for id in ids if not self.knows(id)}

    def knows(self, id: str) -> bool:
        try:
            self._native.get_buffer("", id)
        except NotFound:
            return False
        return True

    def make(self, source: End, destination: End, *, at_most: int | None = None, path: str = "", link: str = "",
             allow_emulated: bool = False, checksum: bool = False, deadline: float | None = None,
             chosen: Chosen | _layouts.Blocks = None, sync: bool = False,
             as_bytes: bool = False) -> tuple[_pieces.Request, Keeps]:
        """What the native part takes, and what must live as long as the transfer. Raises NothingToMove for lists without
        an element, and for no ranges."""
        pieces = None if isinstance(chosen, _layouts.Blocks) else chosen
        if pieces is not None and len(pieces) == 0:
            raise NothingToMove("the list of ranges is empty", "BAD_SIZE", "pass at least one range, or omit ranges= to move everything")
        ends: _pieces.Ends
        if pieces is not chosen or isinstance(source, _layouts.Layout) or isinstance(destination, _layouts.Layout):
            ends, places = _layouts.ends_of(self, source, destination, chosen)
            if len(ends.pieces) == 0:
                raise NothingToMove("the lists of blocks are empty", "BAD_SIZE", "pass at least one of each")
        elif isinstance(source, _SEVERAL) or isinstance(destination, _SEVERAL):
            if pieces is not None:
                raise InvalidArgument("several arrays cannot be combined with ranges=", "BAD_ARGUMENT",
                                      "pass ranges with one source and one destination, or none")
            ends, places = self._many(_Pairs.of(source, destination), as_bytes)
        else:
            from_ = self.place(source, "the source", written=False)
            to = self.place(destination, "the destination", written=True)
            if pieces is None:
                _check_alike(from_, to, "", as_bytes)
            if from_.runs is not None or to.runs is not None:
                if pieces is not None:
                    raise InvalidArgument("an array with gaps cannot be combined with ranges=", "BAD_ARGUMENT",
                                          "pass ranges with arrays without gaps, or none")
                pieces = _joined(from_, to, "")
            elif pieces is None and from_.bytes is not None and to.bytes is not None:
                _check_sizes(from_, to, "")
            ends = _pieces.Ends([from_.endpoint], [to.endpoint], pieces or [])
            places = [from_, to]
        return _pieces.request(ends, path=path, at_most=at_most, link=link, allow_emulated=allow_emulated,
                               checksum=checksum, deadline_ms=milliseconds(deadline, "a deadline"),
                               sync=sync), Keeps(places)

    def _many(self, pairs: _Pairs, as_bytes: bool) -> tuple[_pieces.Ends, list[Place]]:
        """Of pairs of which one goes to the other. A pair that is there twice (tied weights) moves once."""
        joining = _pieces.Joining(self._native.name)
        places: list[Place] = []
        seen: set[object] = set()
        ready = self._ready(pairs.sources, pairs.destinations)
        for label, source, destination in zip(pairs.labels, pairs.sources, pairs.destinations, strict=True):
            if is_empty(source) and is_empty(destination):
                continue
            from_ = self.place(source, f"source{label}", False, ready)
            to = self.place(destination, f"destination{label}", True, ready)
            if from_.bytes is None and to.bytes is None:
                raise InvalidArgument(f"the number of bytes from source{label} to its destination is unknown", "BAD_SIZE",
                                      "pass a Buffer, or write the range: west:weights@0+4096")
            _check_alike(from_, to, label, as_bytes)
            if from_.runs is None and to.runs is None and from_.bytes is not None and to.bytes is not None:
                _check_sizes(from_, to, label)
            pieces = _joined(from_, to, label)
            same = from_.endpoint, to.endpoint, tuple(pieces)
            if same not in seen:
                seen.add(same)
                joining.add(from_.endpoint, to.endpoint, pieces)
            places += [from_, to]
        if not places:
            raise NothingToMove("there is nothing to move: no array has any elements", "BAD_SIZE",
                                "leave out arrays without elements")
        return joining.ends(), places


_SEVERAL = (list, tuple, Mapping)


class NothingToMove(InvalidArgument):
    """Of lists that are empty, or of arrays without elements: a transfer of these succeeds."""


class _Pairs:
    """Ends that belong together: of two lists by their places, of two mappings by their keys."""

    __slots__ = ("destinations", "labels", "sources")

    def __init__(self, labels: list[str], sources: list[End], destinations: list[End]) -> None:
        self.labels = labels  # " 3", " 'weight'": for messages
        self.sources = sources
        self.destinations = destinations

    @classmethod
    def of(cls, sources: Any, destinations: Any) -> _Pairs:
        if isinstance(sources, Mapping) and isinstance(destinations, Mapping):
            for one, other, what in ((sources, destinations, "destination"), (destinations, sources, "source")):
                missing = [key for key in one if key not in other]
                if missing:
                    raise InvalidArgument(f"{missing[0]!r} has no {what}" + _more(len(missing) - 1), "SIZE_MISMATCH",
                                          "pass two mappings with the same keys")
            return cls([f" {key!r}" for key in sources], list(sources.values()), [destinations[key] for key in sources])
        for each, what in ((sources, "source"), (destinations, "destination")):
            if not isinstance(each, (list, tuple)):
                raise InvalidArgument(f"one side has several ends, but the {what} is a single {type(each).__name__}", "BAD_ARGUMENT",
                                      "pass two lists, or two mappings")
        if len(sources) != len(destinations):
            raise InvalidArgument(f"{len(sources)} sources have {len(destinations)} destinations", "SIZE_MISMATCH",
                                  "pass lists of equal length")
        return cls([f" {number}" for number in range(len(sources))], list(sources), list(destinations))


def _more(count: int) -> str:
    return f", nor have {count} others" if count else ""


def is_empty(end: End) -> bool:
    """Whether it is an array without elements."""
    if isinstance(end, OURS):
        return end.nbytes == 0
    shape = None if isinstance(end, (str, Buffer, Endpoint)) else getattr(end, "shape", None)
    return shape is not None and 0 in tuple(shape)


def _named(place: Place, what: str) -> str:
    """Of an array "the source, float32[2, 3]"."""
    return what if place.shape is None else f"{what}, {place.dtype or 'bytes'}{list(place.shape)},"


def _check_alike(source: Place, destination: Place, label: str, as_bytes: bool) -> None:
    """What arrives means what has left: both ends have elements of one type, and one shape, or one of them is flat. What
    is known only as bytes goes with everything."""
    if as_bytes:
        return
    if source.dtype and destination.dtype and source.dtype != destination.dtype:
        raise InvalidArgument(
            f"{_named(source, f'the source{label}')} has elements of type {source.dtype}, and "
            f"{_named(destination, f'the destination{label}')} of type {destination.dtype}", "TYPE_MISMATCH",
            "convert one of them (numpy: array.astype; torch: tensor.to), or pass as_bytes=True to move the bytes as they "
            "are")
    if source.shape is None or destination.shape is None or source.shape == destination.shape:
        return
    one, other = ([length for length in each if length != 1] for each in (source.shape, destination.shape))
    if len(one) > 1 and len(other) > 1 and one != other:
        raise InvalidArgument(
            f"{_named(source, f'the source{label}')} and {_named(destination, f'the destination{label}')} have "
            "different shapes", "SIZE_MISMATCH",
            "reshape one of them, or pass as_bytes=True to move the bytes as they are")


def _check_sizes(source: Place, destination: Place, label: str) -> None:
    """Two whole arrays have as many bytes, and an array fits into what it is put into."""
    assert source.bytes is not None and destination.bytes is not None
    if source.keeps is None and destination.keeps is None:  # the daemon says what is wrong
        return
    if source.bytes > destination.bytes or (destination.keeps is not None and source.bytes != destination.bytes):
        raise _unlike_sizes(source, destination, label)


def _unlike_sizes(source: Place, destination: Place, label: str) -> InvalidArgument:
    return InvalidArgument(
        f"{_named(source, f'the source{label}')} has {source.bytes} bytes, and "
        f"{_named(destination, f'the destination{label}')} {destination.bytes}", "SIZE_MISMATCH",
        "pass ends of equal size: a slice of the longer one")


def _joined(source: Place, destination: Place, label: str) -> list[tuple[_arrays.Range, ...]]:
    """The ranges of two ends of which one, at least, is an array with gaps."""
    size = source.bytes if source.runs is not None or source.keeps is not None else destination.bytes
    if size is None:
        size = source.bytes
    assert size is not None
    for place in (source, destination):
        if place.bytes is not None and place.bytes != size and (place.keeps is not None or place.bytes < size):
            raise _unlike_sizes(source, destination, label)
    plain: list[_arrays.Range] = [(0, size, 0, 1)]
    return list(_arrays.pairs(source.runs or plain, destination.runs or plain))
