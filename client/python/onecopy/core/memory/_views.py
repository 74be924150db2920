"""Names of arrays for others: views of memory that the daemon knows already."""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import _native
from ..values._errors import Error
from ..values._values import Buffer
from . import _arrays
from ._registrations import Registration, Registrations

_MOST = 4096  # in one call of the daemon
_MOST_DTYPE = 64  # characters

# Where an array lies in a buffer, and how: its first byte there, dtype, bytes of an element, shape, strides in bytes.
_Place = tuple[str, int, str, int, tuple[int, ...], tuple[int, ...]]


class Wanted(NamedTuple):
    """An array that is to be a buffer of its own."""

    buffer: Buffer  # that has its memory
    offset: int  # of its first byte there
    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    owner: Any  # with whose end the memory may be another array's
    keeps: object = None  # where that end cannot be seen: what the view keeps instead
    ends_with_memory: bool = False  # the buffer goes when the owner does, and the daemon ends its views with it
    registration: Registration | None = None  # of memory that was not made to be shared

    @property
    def place(self) -> _Place:
        dtype = self.dtype if len(self.dtype) <= _MOST_DTYPE else f"V{self.itemsize}"
        return self.buffer.id, self.offset, dtype, self.itemsize, self.shape, self.strides

    @property
    def is_whole(self) -> bool:
        """Whether the array is all of its buffer, as bytes in a row."""
        whole = self.offset == 0 and self.buffer.bytes == self.itemsize * math.prod(self.shape)
        return whole and self.strides == _arrays.compact(self.shape, self.itemsize)


class _Watch(weakref.ref[Any]):
    """Of an array's owner, until the view ends."""

    __slots__ = ("of", "view")

    of: weakref.ref[Views]
    view: str


def _ended(watch: weakref.ref[Any]) -> None:
    assert isinstance(watch, _Watch)
    views = watch.of()
    if views is not None:
        views._owner_ended(watch.view)


class _Kept(NamedTuple):
    made: Buffer
    place: _Place
    owner: int
    keeps: object  # its watch, the owner, or nothing
    registration: Registration | None
    by_daemon: bool  # which ends it with its memory


class Views:
    """Of one node: each lives until its memory's owner ends, before that memory can be anything else; until it is
    forgotten; or until the daemon is started again, which knows none of them. Any thread. A child of the process that
    made it leaves all to that."""

    def __init__(self, native: _native.Node, registrations: Registrations) -> None:
        self._process = os.getpid()
        self._native = native
        self._registrations = registrations
        self._lock = threading.RLock()  # a finalizer may run while it is held
        self._session = native.session
        self._of: dict[str, _Kept] = {}  # by their ids
        self._resting: dict[int, set[str]] = {}  # on a registration, by its identity
        registrations.on_end = self._registration_ended
        self._unnamed: dict[_Place, str] = {}
        self._self = weakref.ref(self)
        self._tell_end = _native.Undisturbed(_ended)  # its own: beside torch the module's outlived Python's end

    def _forked(self) -> bool:
        return os.getpid() != self._process

    def make(self, wanted: Sequence[Wanted], name: str = "") -> list[Buffer]:
        """A buffer for each; without a name the one that was made for the same array before, if there is one."""
        found: list[Buffer | None] = [None if name else self._find(each.place) for each in wanted]
        missing = [number for number, each in enumerate(found) if each is None]
        for first in range(0, len(missing), _MOST):
            part = missing[first:first + _MOST]
            made = json.loads(self._native.create_views([(name, *wanted[number].place) for number in part]))
            for number, document in zip(part, made, strict=True):
                found[number] = self._keep(wanted[number], Buffer._of(document), bool(name))
        return [each for each in found if each is not None]

    def ids(self) -> set[str]:
        """Of the views."""
        if self._forked():
            return set()
        with self._lock:
            return set(self._of)

    def lose(self, view: str) -> None:
        """The daemon does not know it any more."""
        if self._forked():
            return
        with self._lock:
            self._forget(view)

    def end_of(self, owner: Any, within: tuple[str, int, int] | None = None) -> bool:
        """Ends the views of the memory of `owner`, or those in these bytes of a buffer: its id, and where they begin and
        end. False where there was none."""
        if self._forked():
            return False
        with self._lock:
            gone = [view for view, each in self._of.items() if each.owner == id(owner) and (
                within is None or (each.place[0] == within[0] and within[1] <= each.place[1] < within[2]))]
        for view in gone:
            self._end(view)
        return bool(gone)

    def _find(self, place: _Place) -> Buffer | None:
        if self._forked():
            return None
        with self._lock:
            self._look_at_session()
            view = self._unnamed.get(place)
            return None if view is None else self._of[view].made

    def _keep(self, wanted: Wanted, made: Buffer, named: bool) -> Buffer:
        if self._forked():
            return made
        with self._lock:
            self._look_at_session()
            if made.id in self._of:  # made before
                return made
            # One owner's registration ends with it, and takes its views along; that of a GPU's allocation has many.
            registration, keeps = wanted.registration, wanted.keeps
            by_daemon = wanted.ends_with_memory or (registration is not None and not registration.of_allocation)
            if keeps is not None:
                keeps = wanted.owner, keeps
            elif registration is None or not by_daemon:
                keeps = watch = _Watch(wanted.owner, self._tell_end)
                watch.of, watch.view = self._self, made.id
            self._of[made.id] = _Kept(made, wanted.place, id(wanted.owner), keeps, registration, by_daemon)
            if not named:
                self._unnamed[wanted.place] = made.id
            if registration is not None:
                self._resting.setdefault(id(registration), set()).add(made.id)
                self._registrations.pin(registration)
        return made

    def _owner_ended(self, view: str) -> None:
        if self._forked():
            return
        with self._lock:
            kept = self._of.get(view)
            if kept is not None and kept.by_daemon:
                return self._forget(view)
        self._end(view)

    def _registration_ended(self, registration: Registration) -> None:
        if self._forked():
            return
        with self._lock:
            for view in self._resting.pop(id(registration), ()):
                self._forget(view)

    def _end(self, view: str) -> None:
        """At once, and before the memory is anything else's."""
        if self._forked():
            return
        with self._lock:
            if view not in self._of:
                return
        with contextlib.suppress(Error):  # it has gone with the daemon, or with its memory
            self._native.release_buffer(view, True)
        with self._lock:
            self._forget(view)

    def _forget(self, view: str) -> None:
        kept = self._of.pop(view, None)
        if kept is None:
            return
        if self._unnamed.get(kept.place) == view:
            del self._unnamed[kept.place]
        if kept.registration is not None:
            self._resting.get(id(kept.registration), set()).discard(view)
            self._registrations.unpin(kept.registration)

    def _look_at_session(self) -> None:
        if self._session == self._native.session:
            return
        self._session = self._native.session
        for view in list(self._of):
            self._forget(view)


__all__ = ["Views", "Wanted"]
