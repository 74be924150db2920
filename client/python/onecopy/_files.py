"""Files at one end of a copy."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _arrays, _native, _pieces
from ._errors import InvalidArgument
from ._requests import OURS, Keeps
from ._transfer import Transfer
from ._values import Buffer, Endpoint

if TYPE_CHECKING:
    from ._node import End, Node, Progress

Path = str | os.PathLike[str]


def _name(file: Path) -> str:
    name = os.fspath(file)
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidArgument(f"{file!r} is no name of a file", "BAD_ARGUMENT", "pass a str or an os.PathLike of text")
    try:
        name.encode()
    except UnicodeEncodeError as failure:
        raise InvalidArgument(f"{name!r} is not UTF-8", "BAD_ARGUMENT", "rename the file, or reach it by a link") from failure
    return name


def _at(offset: int | None, bytes: int | None) -> None:
    for value, what in ((offset, "an offset"), (bytes, "a number of bytes")):
        if value is not None and not 0 <= value < 1 << 63:
            raise InvalidArgument(f"{what} of {value} is none", "BAD_ARGUMENT", "count bytes from 0 on")


def _bytes_of(end: End) -> int | None:
    """Of an array: a part of one would be filled without a word."""
    if isinstance(end, (str, Endpoint, Buffer)):
        return None
    return end.nbytes if isinstance(end, OURS) else _arrays.view(end).bytes


def _copy(node: Node, stop: _native.Stop, progress: Progress | None, source: End, destination: End, reads: bool,
          offset: int | None, bytes: int | None, sync: bool, options: dict[str, Any]) -> Transfer:
    def run(request: _pieces.Request, keeps: Keeps) -> Transfer:
        if request[2]:
            raise InvalidArgument("an array with gaps is no one range, as a file is", "BAD_ARGUMENT",
                                  "pass one without: numpy.ascontiguousarray(array)")
        note: Callable[[_native.Transfer], None] | None = None
        if progress is not None:
            call = progress

            def note(update: _native.Transfer) -> None:
                call(Transfer(node._native, update, keeps))

        return Transfer(node._native, node._native.copy_file(request, reads, offset, bytes, sync, note, stop), None)

    return node._requests.call(run, source, destination, **options)


def read(node: Node, stop: _native.Stop, progress: Progress | None, file: Path, destination: End, offset: int,
         bytes: int | None, **options: Any) -> Transfer:
    """See Node.copy_from_file."""
    name = _name(file)
    _at(offset, bytes)
    wanted = bytes if bytes is not None else _bytes_of(destination)
    return _copy(node, stop, progress, Endpoint(name), destination, True, offset, wanted, False, options)


def write(node: Node, stop: _native.Stop, progress: Progress | None, source: End, file: Path, offset: int | None,
          sync: bool, **options: Any) -> Transfer:
    """See Node.copy_to_file."""
    name = _name(file)
    _at(offset, None)
    return _copy(node, stop, progress, source, Endpoint(name), False, offset, None, sync, options)
