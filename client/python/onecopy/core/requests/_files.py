"""Files at one end of a copy."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from ... import _native
from ..memory import _arrays
from ..values._errors import InvalidArgument
from ..values._numbers import milliseconds, whole
from ..values._numbers import trace as as_trace
from ..values._transfer import Progress, Transfer
from ..values._values import Buffer, Endpoint
from . import _pieces
from ._ends import OURS, End, Keeps
from ._requests import Requests

Path = str | os.PathLike[str]


def _name(file: Path) -> str:
    name = os.fspath(file)
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidArgument(f"{file!r} is not a file name", "BAD_ARGUMENT", "pass a str or an os.PathLike of text")
    try:
        os.fsencode(name)
    except UnicodeEncodeError as failure:
        raise InvalidArgument(f"{name!r} is not a file name", "BAD_NAME", "pass it as os.fsdecode makes it") from failure
    return name


def _at(offset: int | None, bytes: int | None) -> None:
    for value, what in ((offset, "an offset"), (bytes, "a number of bytes")):
        if value is not None:
            whole(value, what)


def bytes_of(end: End) -> int | None:
    """Of an array: a part of one would be filled without a word."""
    if isinstance(end, (str, Endpoint, Buffer)):
        return None
    return end.nbytes if isinstance(end, OURS) else _arrays.view(end).bytes


def _gaps() -> InvalidArgument:
    return InvalidArgument("a file is one range, and an array with gaps or in Fortran order is not", "BAD_ARGUMENT",
                           "pass an array without gaps: numpy.ascontiguousarray(array)")


def note_of(requests: Requests, progress: Progress | None, keeps: Keeps) -> Callable[[_native.Transfer], None] | None:
    """What the native part calls."""
    if progress is None:
        return None
    call = progress

    def note(update: _native.Transfer) -> None:
        call(Transfer(requests.native, update, keeps))

    return note


def _copy(requests: Requests, stop: _native.Stop, progress: Progress | None, source: End, destination: End, reads: bool,
          offset: int | None, bytes: int | None, options: dict[str, Any], sync: bool = False,
          write_device: bool = False) -> Transfer:
    def run(request: _pieces.Request, keeps: Keeps) -> Transfer:
        if request[2]:
            raise _gaps()
        done = requests.native.copy_file(request, reads, offset, bytes, sync, write_device, note_of(requests, progress, keeps), stop)
        return Transfer(requests.native, done, None)

    return requests.call(run, source, destination, **options)


def read(requests: Requests, stop: _native.Stop, progress: Progress | None, file: Path, destination: End, offset: int,
         bytes: int | None, **options: Any) -> Transfer:
    """See Node.copy_from_file."""
    name = _name(file)
    _at(offset, bytes)
    wanted = bytes if bytes is not None else bytes_of(destination)
    return _copy(requests, stop, progress, Endpoint(name), destination, True, offset, wanted, options)


def read_to_each(requests: Requests, stop: _native.Stop, progress: Progress | None, file: Path, destinations: Sequence[End],
                 offset: int, bytes: int | None, *, at_most: int | None = None, checksum: bool = False,
                 deadline: float | None = None, trace: str = "") -> list[Transfer]:
    """See Node.copy_file_to_each."""
    traced = as_trace(trace)
    name = _name(file)
    _at(offset, bytes)
    if not isinstance(destinations, (list, tuple)):
        raise InvalidArgument(f"the destinations are a {type(destinations).__name__}", "BAD_ARGUMENT", "pass a list of destinations")
    if not destinations:
        raise InvalidArgument("no destination was named", "BAD_ARGUMENT", "name at least one")
    sizes = {size for each in destinations if (size := bytes_of(each)) is not None}
    if bytes is None and len(sizes) > 1:
        raise InvalidArgument(f"the arrays have {min(sizes)} to {max(sizes)} bytes, but all get the same bytes", "SIZE_MISMATCH",
                              "pass arrays of one size, or pass the number of bytes of the file: bytes=")
    wanted = bytes if bytes is not None else next(iter(sizes), None)

    def call() -> list[Transfer]:
        ready = requests._ready([], destinations)
        places = [requests.place(each, f"destination {number}", True, ready)
                  for number, each in enumerate(destinations)]
        if any(each.runs is not None for each in places):
            raise _gaps()
        ends = _pieces.Ends([("", name, None, None)], [each.endpoint for each in places], [])
        request = _pieces.request(ends, at_most=at_most, checksum=checksum, deadline_ms=milliseconds(deadline, "a deadline"),
                                  trace=traced)
        done = requests.native.copy_file_to_each(request, offset, wanted, note_of(requests, progress, Keeps(places)), stop)
        return [Transfer(requests.native, each, None) for each in done]

    return requests.with_known(call)


def write(requests: Requests, stop: _native.Stop, progress: Progress | None, source: End, file: Path, offset: int | None,
          sync: bool, write_device: bool, **options: Any) -> Transfer:
    """See Node.copy_to_file."""
    name = _name(file)
    _at(offset, None)
    return _copy(requests, stop, progress, source, Endpoint(name), False, offset, None, options, sync, write_device)
