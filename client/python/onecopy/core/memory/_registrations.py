"""Memory of other people's arrays, registered once for each allocation."""

from __future__ import annotations

import bisect
import collections
import contextlib
import dataclasses
import json
import os
import threading
import weakref
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, NamedTuple

from ... import _native
from ..values._errors import Error, FailedPrecondition, build
from ..values._values import Buffer
from . import _arrays

_Key = tuple[int, int, int]  # the owner's, or less than 0 the allocation's; where its memory begins, and its bytes
Piece = tuple[str, int, int, bool, bool]  # no name, an address, bytes, whether on a GPU, whether it may be written


def owner_of(array: Any) -> Any:
    """The object that owns the memory which `array` is a view of: the last of what NumPy calls its base, and torch's
    storage, which tensors share that know nothing of each other (detach)."""
    for _ in range(64):  # of a chain that has no end by mistake
        if _arrays.has_storage(array):
            return array.untyped_storage()
        if isinstance(array, memoryview) and array.obj is not None:
            array = array.obj
            continue
        base = getattr(array, "base", None)
        # A capsule is an array no longer once another one was made of it, which then keeps the memory.
        if base is None:
            return array
        if type(base) is not type(array) and (type(base).__name__ == "PyCapsule" or not _arrays.is_array(base)):
            return array
        array = base
    return array


def registering(native: _native.Node) -> Callable[[list[Piece]], list[Buffer | Error]]:
    """Registers memory at a node's daemon. Does not keep the Node: its end is that of its registrations."""

    def register(pieces: list[Piece]) -> list[Buffer | Error]:
        return [build(json.dumps(each)) if "error" in each else Buffer._of(each)
                for each in json.loads(native.register_all(pieces))]

    return register


@dataclasses.dataclass(eq=False)
class Registration:
    """A range of memory that the daemon knows as a buffer."""

    start: int
    bytes: int
    buffer: Buffer
    pins: int = 0  # by those who told others of the buffer
    of_allocation: bool = False  # of a GPU, which arrays of several owners lie in
    owners: dict[int, _Watch] = dataclasses.field(default_factory=dict)  # with the last it ends

    def is_of(self, owner: Any) -> bool:
        """Whether it lasts at least as long as this owner of memory."""
        known = self.owners.get(id(owner))
        return known is not None and known() is owner


class _Watch(weakref.ref[Any]):
    """Of an owner, until it is dropped: tells the registrations of the owner's end. There may be thousands, of which a
    weakref.finalize each would take far longer to make, and would drop what a signal's handler raises meanwhile."""

    __slots__ = ("key", "of", "owner")

    key: _Key
    of: weakref.ref[Registrations]
    owner: int


def _ended(watch: weakref.ref[Any]) -> None:
    assert isinstance(watch, _Watch)
    registrations = watch.of()
    if registrations is not None:
        registrations._disown(watch.key, watch.owner)


_tell_end = _native.Undisturbed(_ended)


class _Temporary(weakref.ref[Registration]):
    """Of a registration that only its user keeps: ends it at the daemon when it goes."""

    __slots__ = ("buffer", "of")

    buffer: str
    of: Registrations


_temporaries: dict[int, _Temporary] = {}  # by their own identity: a reference that has gone compares with nothing


def _ended_temporary(watch: weakref.ref[Registration]) -> None:
    assert isinstance(watch, _Temporary)
    watch.of._end(watch.buffer, True)
    _temporaries.pop(id(watch), None)


_tell_temporary_end = _native.Undisturbed(_ended_temporary)


class _Wanted(NamedTuple):
    """The memory that an array needs known."""

    owner: Any
    whole: _arrays.View
    key: _Key
    start: int
    bytes: int
    lasting: bool
    extent: tuple[int, int] | None  # where all memory of the owner begins and ends; None: unknown

    @property
    def of_allocation(self) -> bool:
        return self.key[0] < 0

    @property
    def piece(self) -> Piece:
        on_gpu = self.whole.device[0] in (_arrays.CUDA, _arrays.CUDA_MANAGED)
        return "", self.start, self.bytes, on_gpu, not self.whole.read_only


class Owned(NamedTuple):
    """The registration that an array lies in, and what owns the array's memory."""

    registration: Registration
    owner: Any
    lasting: bool  # whether the owner's end can be seen


# What owners have and where that is, and whether that is all they have, by their identity, of those that a call has seen
# and keeps.
_Wholes = dict[int, tuple[_arrays.View, int, int, bool]]


class _Allocations:
    """What a GPU's driver says of addresses, asked once for each allocation while its arrays are kept."""

    def __init__(self, ask: Callable[[int, int], tuple[int, int, int] | None]) -> None:
        self._ask = ask
        self._starts: list[int] = []
        self._keys: list[_Key] = []

    def find(self, start: int, bytes: int) -> _Key | None:
        """The key of what the range lies in, or None."""
        at = bisect.bisect_right(self._starts, start) - 1
        if at >= 0 and start + bytes <= self._starts[at] + self._keys[at][2]:
            return self._keys[at]
        found = self._ask(start, bytes)
        if found is None or start + bytes > found[0] + found[1]:
            return None
        key = -found[2], found[0], found[1]
        at = bisect.bisect_right(self._starts, found[0])
        self._starts.insert(at, found[0])
        self._keys.insert(at, key)
        return key


def _is_lasting(owner: Any, whole: _arrays.View) -> bool:
    """Whether memory stays where it is while its owner lives, and the owner's end can be seen. What has a buffer and no
    more (bytearray, array) may take other memory as it grows."""
    return whole.protocol != "buffer" and is_watchable(owner)


def is_watchable(owner: Any) -> bool:
    """Whether an object's end can be seen."""
    try:
        weakref.ref(owner)
    except TypeError:
        return False
    return True


def _whole(owner: Any, part: _arrays.View) -> _arrays.View:
    """All the memory of the owner of an array, which `part` is of that."""
    return _arrays.storage_view(owner, part) if _arrays.is_storage(owner) else _arrays.view(owner)


def _must(result: Buffer | Error) -> Buffer:
    if isinstance(result, Error):
        try:
            raise result
        finally:
            del result  # a failure that its own traceback has is kept, with all that is there
    return result


class Registrations:
    """Of one node: found by what owns the memory and by where that is now, so that memory which has gone and come again
    elsewhere is another one; slices share it. On a GPU all arrays of an allocation share it, which the driver's number
    tells from a later one at the same address. It ends with the owner, or the last of these; where there are too many,
    those go that were not used for longest. Any thread. A child of the process that made it leaves all to that: the lock may be held there by a
    thread that the child lacks."""

    def __init__(self, register: Callable[[list[Piece]], list[Buffer | Error]], delete: Callable[[str, bool], None],
                 session: Callable[[], int], allocation: Callable[[int, int], tuple[int, int, int] | None],
                 most: int) -> None:
        """register: what each piece came to, in their order; session: the number of the present session with the daemon,
        with which all registrations end; allocation: the start, the bytes and the number of what so many bytes from an
        address of a GPU on lie in."""
        self._process = os.getpid()
        self._register = register
        self._delete = delete
        self._session = session
        self._known_session = session()
        self._allocation = allocation
        self._most = most
        self.on_end: Callable[[Registration], None] = lambda _: None  # what rests on a registration ends with it
        self._lock = threading.RLock()  # a finalizer may run while it is held
        self._holds = 0  # how often the thread that has the lock has taken it
        self._gone: list[Registration] = []  # of which on_end is still to be told
        self._of: collections.OrderedDict[_Key, Registration] = collections.OrderedDict()
        self._keys: dict[int, set[_Key]] = {}  # of what each owner has, by its identity
        self._self = weakref.ref(self)

    def _forked(self) -> bool:
        return os.getpid() != self._process

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """With the lock. Afterwards, without it, on_end hears what has ended meanwhile: it takes a lock of its own, which
        others hold as they take this one."""
        gone: list[Registration] = []
        try:
            with self._lock:
                self._holds += 1
                try:
                    yield
                finally:
                    self._holds -= 1
                    if self._holds == 0:
                        gone, self._gone = self._gone, []
        finally:
            for each in gone:
                self.on_end(each)

    def __len__(self) -> int:
        if self._forked():
            return 0
        with self._held():
            return len(self._of)

    def __del__(self) -> None:
        try:
            self.clear()
        except Exception:  # Python may be ending, and contextlib have gone
            pass

    def find(self, array: Any, found: _arrays.View) -> Registration:
        """Of the memory of `array`, which `found` describes; made where there is none yet. What cannot be watched lasts
        as long as what is returned."""
        return self.find_all([(array, found)])[0].registration

    def find_all(self, arrays: Iterable[tuple[Any, _arrays.View]], before: set[str] | None = None) -> list[Owned]:
        """Of each; those that there are not yet are made in one go. Raises the first failure, and keeps what was made.
        before: where the ids of the buffers are put that there were already."""
        allocations = _Allocations(self._allocation)
        wholes: _Wholes = {}
        wanted = [self._look(array, found, allocations, wholes) for array, found in arrays]
        if self._forked():
            results = self._register([each.piece for each in wanted])  # which say so
            return [Owned(Registration(each.start, each.bytes, _must(result)), each.owner, each.lasting)
                    for each, result in zip(wanted, results, strict=True)]
        with self._held():
            self._look_at_session()
            self._leave(wanted)
            found = {each.key: self._of[each.key] for each in wanted if each.key in self._of}
            if before is not None:
                before.update(each.buffer.id for each in found.values())
            missing = {each.key: each for each in wanted if each.key not in found}
            if missing:
                found.update(self._make(missing))
            for each in wanted:
                if each.key in self._of:
                    self._of.move_to_end(each.key)
                    if each.lasting:
                        self._own(found[each.key], each.key, each.owner)
            if missing:
                self._make_room(found)
            return [Owned(found[each.key], each.owner, each.lasting) for each in wanted]

    def _leave(self, wanted: Iterable[_Wanted]) -> None:
        """Ends what is registered of owners that have other memory by now (resize_): theirs may have come to others. What
        they still have a part of stays, and so does what is in use: an owner may show two buffers in turn."""
        for each in wanted:
            if not each.lasting or each.extent is None:
                continue
            first, last = each.extent
            for key in self._keys.get(id(each.owner), set()) - {each.key}:
                begin, end = key[1], key[1] + key[2]
                if (end <= first or last <= begin) and self._of[key].pins == 0:
                    with contextlib.suppress(FailedPrecondition):  # a transfer uses it
                        self._disown(key, id(each.owner), force=False)

    def _make(self, missing: dict[_Key, _Wanted]) -> dict[_Key, Registration]:
        made: dict[_Key, Registration] = {}
        failures: list[Error] = []
        results = self._register([each.piece for each in missing.values()])
        for (key, wanted), result in zip(missing.items(), results, strict=True):
            if isinstance(result, Error):
                failures.append(result)
                continue
            made[key] = Registration(wanted.start, wanted.bytes, result, of_allocation=wanted.of_allocation)
            if not wanted.lasting:
                watch = _Temporary(made[key], _tell_temporary_end)
                watch.buffer, watch.of = result.id, self
                _temporaries[id(watch)] = watch
                continue
            self._own(made[key], key, wanted.owner)
            self._of[key] = made[key]
        if failures:
            del results, result  # as in _must
            raise failures.pop(0)
        return made

    def _look(self, array: Any, found: _arrays.View, allocations: _Allocations, wholes: _Wholes) -> _Wanted:
        owner = owner_of(array)
        start, bytes = _arrays.extent(found)
        known = wholes.get(id(owner))
        if known is None:
            whole = found if owner is array else _whole(owner, found)
            if min(whole.strides, default=0) < 0:
                known = whole, start, bytes, False  # of this part alone
            else:
                known = wholes[id(owner)] = whole, *_arrays.extent(whole), True
        whole, first, size, all_of_it = known
        if not first <= start <= start + bytes <= first + size:  # its base is not what it says
            owner, whole, first, size, all_of_it = array, found, start, bytes, False
        lasting = _is_lasting(owner, whole)
        key = None
        if lasting and found.device[0] == _arrays.CUDA:
            key = allocations.find(start, bytes)
        if key is None:
            key = id(owner), first, size
        return _Wanted(owner, whole, key, key[1], key[2], lasting, (first, first + size) if all_of_it else None)

    def _look_at_session(self) -> None:
        """Forgets all where the daemon was started again, and knows none of them."""
        if self._session() != self._known_session:
            self._known_session = self._session()
            self.clear()

    def _own(self, registration: Registration, key: _Key, owner: Any) -> None:
        """The registration lives as long as this owner, too."""
        if registration.is_of(owner):
            return
        watch = _Watch(owner, _tell_end)
        watch.key, watch.of, watch.owner = key, self._self, id(owner)
        registration.owners[id(owner)] = watch
        self._keys.setdefault(id(owner), set()).add(key)

    def _disown(self, key: _Key, owner: int, *, force: bool = True) -> None:
        """The registration ends if it has no other owner. Not force: raises FailedPrecondition if a transfer uses it."""
        if self._forked():
            return
        with self._held():
            known = self._of.get(key)
            if known is None or owner not in known.owners:
                return
            if len(known.owners) == 1:  # it stays noted until that is done, which may be begun twice
                self._drop(key, force=force)
            else:
                del known.owners[owner]
                self._forget(key, owner)

    def _forget(self, key: _Key, owner: int) -> None:
        """This registration is none of that owner's any more."""
        keys = self._keys.get(owner, set())
        keys.discard(key)
        if not keys:
            self._keys.pop(owner, None)

    def _forget_owners(self, key: _Key, registration: Registration) -> None:
        for owner in list(registration.owners):
            self._forget(key, owner)
        registration.owners.clear()

    def ids(self) -> set[str]:
        """Of the buffers."""
        if self._forked():
            return set()
        with self._held():
            return {each.buffer.id for each in self._of.values()}

    def pin(self, registration: Registration) -> None:
        """Keeps it from making room for others, until as many unpins. Its owner's end ends it nevertheless."""
        if self._forked():
            return
        with self._held():
            registration.pins += 1

    def unpin(self, registration: Registration, *, end: bool = False) -> None:
        """end: also ends the registration if no other code has pinned it, and it is not an allocation that other arrays
        may lie in; transfers that use it are cancelled, and waited for."""
        if self._forked():
            return
        with self._held():
            registration.pins -= 1
            if end and registration.pins == 0 and not registration.of_allocation:
                for key in [key for key, each in self._of.items() if each is registration]:
                    self._drop(key, force=True)

    def forget(self, array: Any) -> bool:
        """Ends the registration of the memory that `array` is a view of, if there is one."""
        if self._forked():
            return False
        wanted = id(owner_of(array))
        with self._held():
            keys = [key for key, each in self._of.items() if key[0] == wanted or wanted in each.owners]
            for key in keys:
                self._drop(key, force=True)
        return bool(keys)

    def clear(self) -> None:
        if self._forked():
            return
        with self._held():
            for key in list(self._of):
                self._drop(key, force=True)

    def lose(self, id: str) -> bool:
        """The daemon does not know that buffer any more: its memory is registered again when it is next used. False
        where it is none of these."""
        if self._forked():
            return False
        with self._held():
            gone = [key for key, each in self._of.items() if each.buffer.id == id]
            dropped = [self._of.pop(key) for key in gone]
            for key, each in zip(gone, dropped, strict=True):
                self._forget_owners(key, each)
            self._gone += dropped
        if dropped:
            self._end(id, True)  # the library may hold on to the memory still
        return bool(dropped)

    def _make_room(self, kept: Container[_Key]) -> None:
        """Ends the oldest of the others that no transfer uses."""
        for key in list(self._of):
            if len(self._of) <= self._most:
                return
            if key not in kept and self._of[key].pins == 0:
                with contextlib.suppress(FailedPrecondition):  # it is in use
                    self._drop(key, force=False)

    def _drop(self, key: _Key, *, force: bool) -> None:
        if self._forked():
            return
        with self._held():
            gone = self._of.get(key)
            if gone is None:
                return
            self._end(gone.buffer.id, force)
            self._of.pop(key, None)
            self._forget_owners(key, gone)
            self._gone.append(gone)

    def _end(self, id: str, force: bool) -> None:
        if self._forked():
            return
        try:
            self._delete(id, force)
        except FailedPrecondition:
            raise
        except Error:  # the daemon has gone, or has ended it before: the library releases the memory anyway
            return
