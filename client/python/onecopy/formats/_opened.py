"""Files that are read, of which few are open at a time."""

from __future__ import annotations

import collections
import contextlib
import os
import stat
import threading
from collections.abc import Callable, Iterator
from typing import Self, TypeVar

from ..core.requests import _files
from ..core.values import _errors
from ..core.values._errors import InvalidArgument
from ..core.values._system import system_errors

_MOST_IDLE = 16  # that stay open while they are not read
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

_T = TypeVar("_T")


class OpenFile:
    """A regular file of this machine. What gets its name meanwhile is another one, and is not read. Read by one thread at a
    time."""

    def __init__(self, file: _files.Path) -> None:
        self.name = _files._name(file)
        self._fd: int | None = None
        facts = self._open()
        self.size = facts.st_size
        self._was = _identity(facts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def fd(self) -> int:
        """Its descriptor; opened again after `close`. Raises DataLoss where its name stands for another file by then, or
        it has changed."""
        if self._fd is None:
            if _identity(self._open()) != self._was:
                self.close()
                raise _errors.DataLoss(f"{self.name} was changed or replaced while it was loaded", "IO_ERROR",
                                       "load it again while no program writes it")
        assert self._fd is not None
        return self._fd

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def read(self, offset: int, bytes: int) -> bytes:
        """These bytes; fewer only where the file ends."""
        parts = []
        with system_errors(f"reading {self.name}"):
            while bytes > 0 and (part := os.pread(self.fd, min(bytes, 1 << 30), offset)):
                parts.append(part)
                offset += len(part)
                bytes -= len(part)
        return b"".join(parts)

    def _open(self) -> os.stat_result:
        with system_errors(f"opening {self.name}"):
            self._fd = os.open(self.name, _FLAGS)
        try:
            facts = os.fstat(self._fd)
            if not stat.S_ISREG(facts.st_mode):
                what = "a folder" if stat.S_ISDIR(facts.st_mode) else "not a regular file"
                raise InvalidArgument(f"{self.name} is {what}", "BAD_ARGUMENT", "name a file")
        except BaseException:
            self.close()
            raise
        return facts


def _identity(facts: os.stat_result) -> tuple[int, ...]:
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


class OpenFiles:
    """The files of one call: open while they are used, and of the others those that were used last. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: collections.OrderedDict[int, OpenFile] = collections.OrderedDict()  # by identity, the oldest first

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, name: _files.Path) -> OpenFile:
        """To be read before the next one is opened, and by `use` after that."""
        file = self._with_room(lambda: OpenFile(name))
        self._rest(file)
        return file

    @contextlib.contextmanager
    def use(self, file: OpenFile) -> Iterator[None]:
        with self._lock:
            self._idle.pop(id(file), None)
        try:
            self._with_room(lambda: file.fd)
            yield
        finally:
            self._rest(file)

    def close(self) -> None:
        self._keep(0)

    def _rest(self, file: OpenFile) -> None:
        with self._lock:
            self._idle[id(file)] = file
        self._keep(_MOST_IDLE)

    def _keep(self, most: int) -> None:
        with self._lock:
            while len(self._idle) > most:
                self._idle.popitem(last=False)[1].close()

    def _with_room(self, call: Callable[[], _T]) -> _T:
        """Opens a file, and closes unread ones if there are no descriptors left."""
        try:
            return call()
        except _errors.ResourceExhausted:
            self._keep(0)
        return call()


__all__ = ["OpenFile", "OpenFiles"]
