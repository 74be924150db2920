"""The requests that name the ends of transfers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..memory import _arrays
from ..values._errors import InvalidArgument, NotFound
from ..values._arrival import as_message
from ..values import _numbers
from ..values._numbers import milliseconds
from . import _layouts, _pieces
from ._ends import End, Keeps, NothingToMove, Place, is_empty
from ._places import Places
from ._range_arrays import Chosen, Ranges, choose

_LOST = ("BUFFER_LOST", "BUFFER_NOT_FOUND")


_T = TypeVar("_T")


class Requests(Places):
    """Of one node: makes the requests of transfers. Any thread."""

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

    def make(self, source: End, destination: End, *, at_most: int | None = None, path: str = "", link: str = "",
             allow_emulated: bool = False, checksum: bool = False, deadline: float | None = None,
             chosen: Chosen | _layouts.Blocks = None, sync: bool = False, as_bytes: bool = False,
             message: str | bytes = b"", rate_limit: int | str = 0,
             priority: str = "normal", trace: str = "") -> tuple[_pieces.Request, Keeps]:
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
                               sync=sync, message=as_message(message), rate_limit=_numbers.rate(rate_limit),
                               priority=_numbers.priority(priority), trace=_numbers.trace(trace)), Keeps(places)

    def _many(self, pairs: _Pairs, as_bytes: bool) -> tuple[_pieces.Ends, list[Place]]:
        """Of pairs of which one goes to the other. A pair that is there twice (tied weights) moves once."""
        joining = _pieces.Joining(self.native.name)
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
