"""One payload into buffers of many nodes."""

from __future__ import annotations

from collections.abc import Sequence

from ... import _native
from ..values._broadcast import BroadcastCopy, BroadcastOrigin
from ..values._errors import Error, InvalidArgument
from ..values import _numbers
from ..values._numbers import milliseconds, whole
from ..values._transfer import Progress, Transfer
from . import _pieces
from ._ends import End, Keeps
from ._files import bytes_of, note_of
from ._requests import Requests


def broadcast(requests: Requests, stop: _native.Stop, progress: Progress | None, source: End, destinations: Sequence[End], *,
              at_most: int | None = None, path: str = "", link: str = "", allow_emulated: bool = False, checksum: bool = False,
              deadline: float | None = None, retry_for: float = 30, piece_bytes: int = 0, trace: str = "") -> list[BroadcastCopy]:
    """See Node.broadcast."""
    if not isinstance(destinations, (list, tuple)):
        raise InvalidArgument(f"the destinations are a {type(destinations).__name__}", "BAD_ARGUMENT", "pass a list of destinations")
    if not destinations:
        raise InvalidArgument("no destination was named", "BAD_ARGUMENT", "name at least one")
    whole(piece_bytes, "piece_bytes")
    traced = _numbers.trace(trace)
    retry_ms = milliseconds(retry_for, "retry_for") if retry_for else 0
    wanted = bytes_of(source)
    for each in destinations:
        have = bytes_of(each)
        if wanted is not None and have is not None and have != wanted:
            raise InvalidArgument(f"the source has {wanted} bytes, and a destination {have}", "SIZE_MISMATCH",
                                  "pass arrays of one size")

    def call() -> list[BroadcastCopy]:
        ready = requests._ready([source], destinations)
        first = requests.place(source, "the source", False, ready)
        places = [requests.place(each, f"destination {number}", True, ready) for number, each in enumerate(destinations)]
        if any(each.runs is not None for each in (first, *places)):
            raise InvalidArgument("a broadcast moves one range, and an array with gaps or in Fortran order is not", "BAD_ARGUMENT",
                                  "pass an array without gaps: numpy.ascontiguousarray(array)")
        ends = _pieces.Ends([first.endpoint], [each.endpoint for each in places], [])
        request = _pieces.request(ends, at_most=at_most, path=path, link=link, allow_emulated=allow_emulated, checksum=checksum,
                                  deadline_ms=milliseconds(deadline, "a deadline"), trace=traced)
        done = requests.native.broadcast(request, retry_ms or 0, piece_bytes, note_of(requests, progress, Keeps([first, *places])),
                                         stop)
        return [BroadcastCopy(Transfer(requests.native, transfer, None),
                     [BroadcastOrigin(name, bytes, left if isinstance(left, Error) else None) for name, bytes, left in origins])
                for transfer, origins in done]

    return requests.with_known(call)
