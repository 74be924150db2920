"""Transfers that are made again and again, of which the request is made once."""

from __future__ import annotations

import collections
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ... import _native
from ..memory import _arrays, _pool, _registrations, _shared
from ..values._errors import NotFound
from ..values._transfer import Transfer
from ..values._values import Buffer, Endpoint
from . import _pieces
from ._ends import End, Keeps, NothingToMove
from ._requests import Requests

_SEVERAL = frozenset((list, tuple, dict, collections.OrderedDict))  # of others no request is known
_MOST_KNOWN = 1024
_MOST_ENDS = 65_536  # of all together
# What does not change, or whose change the daemon's answer tells.
_LASTING = frozenset((Buffer, Endpoint, _shared.SharedArray, _shared.SharedPart, _pool.PoolArray))


# What an end is known by: its identity; its text; or where an array's memory is, what its elements are, its shape and, on a
# GPU, the driver's number of the allocation.
_Key = int | str | tuple[object, ...] | None
# What must be so still: of an end that is known by its identity, that it is that one; of an array in memory that was
# registered, that the registration has its owner; of one in our own memory, that this is the buffer with that id.
_Same = weakref.ref[Any] | _registrations.Registration | str | None


def _is_same(same: _Same, end: End) -> bool:
    if same is None or isinstance(same, str):  # the daemon knows an id that has gone
        return True
    if isinstance(same, weakref.ref):
        return same() is end
    return same.is_of(_registrations.owner_of(end))


def _is_there(same: _Same, key: _Key) -> bool:
    """Of what is only started: later no call would look for the memory again."""
    return not isinstance(same, str) or _id_of(key) == same


def _id_of(key: _Key) -> str | None:
    """Of the buffer that an array of ours, which is known by its memory, lies in."""
    assert isinstance(key, tuple)
    address, bytes, *_ = key
    assert isinstance(address, int) and isinstance(bytes, int)
    found = _shared.find(address, bytes)
    return None if found is None else found[0].id


class _Entry(NamedTuple):
    same: list[_Same]  # of each end
    looks: bool  # whether each run looks at them
    prepared: _native.Prepared
    in_pool: bool  # whether a pool must hold memory while such a transfer runs


_Keys = tuple[_Key, ...]  # the last one is the policy
Policy = tuple[int | None, str, str, bool]  # at_most, path, link, allow_emulated


def policy_of(at_most: object, path: object, link: object, allow_emulated: object) -> Policy | None:
    """None for values of other types: the request itself refuses them, or they mean the same in another way."""
    if type(path) is str and type(link) is str and type(allow_emulated) is bool and (at_most is None or type(at_most) is int):
        return at_most, path, link, allow_emulated
    return None


class Known:
    """The requests of whole transfers between ends, which it does not keep. It finds them again by what `_Key` says. No
    buffer has the id of an earlier one, so a request of memory that has gone finds none, whatever lies there now: on a GPU
    the registration's owner and the driver's number tell a later allocation from an earlier one. Any thread."""

    __slots__ = ("_ends", "_native", "_of")

    def __init__(self, native: _native.Node) -> None:
        self._native = native
        self._of: dict[_Keys, _Entry] = {}
        self._ends = 0  # of all entries

    def run(self, source: End, destination: End, policy: Policy) -> Transfer | None:
        """The transfer, once it has ended; None where the request is not known (any more)."""
        keys, entry = self._find(source, destination, policy)
        if entry is None:
            return None
        try:
            return Transfer(self._native, self._native.run_prepared(entry.prepared), None)
        except NotFound:  # a new daemon may know the same memory by another id
            self._of.pop(keys, None)
            return None

    def start(self, source: End, destination: End, policy: Policy) -> Transfer | None:
        """As `run`, without waiting for the end. What is returned keeps both ends."""
        keys, entry = self._find(source, destination, policy)
        if entry is None or entry.in_pool or not all(map(_is_there, entry.same, keys)):
            return None
        try:
            return Transfer(self._native, self._native.start_prepared(entry.prepared), (source, destination))
        except NotFound:
            self._of.pop(keys, None)
            return None

    def run_first(self, source: End, destination: End, policy: Policy, request: _pieces.Request,
                  keeps: Keeps) -> Transfer:
        """Makes it by its request, which is known from then on, if the ends can be."""
        prepared = self._native.prepare(request)
        with keeps.held_if_lost():
            ended = self._native.run_prepared(prepared)
        self._note(source, destination, policy, prepared, keeps)
        return Transfer(self._native, ended, None)

    def start_first(self, source: End, destination: End, policy: Policy, request: _pieces.Request,
                    keeps: Keeps) -> _native.Transfer:
        """Likewise, without waiting."""
        prepared = self._native.prepare(request)
        started = self._native.start_prepared(prepared)
        self._note(source, destination, policy, prepared, keeps)
        return started

    def _key(self, end: End) -> _Key:
        kind = type(end)
        if kind in _LASTING:
            return id(end)
        if kind is str:
            return str(end)
        if _arrays.means_more(kind):
            return None
        memory = _native.flat_memory(end)
        if memory is None or memory[1] == 0:
            return None
        if not memory[3]:
            return memory
        allocation = self._native.cuda_allocation(memory[0], memory[1])
        return None if allocation is None else (*memory, allocation[2])

    def _keys(self, ends: Sequence[End]) -> _Keys:
        """Empty where one of them has no key."""
        keys = tuple([self._key(end) for end in ends])
        return () if None in keys else keys

    def _find(self, source: End, destination: End, policy: Policy) -> tuple[_Keys, _Entry | None]:
        if not self._of:
            return (), None
        ends = _ends(source, destination)
        keys = self._keys(ends)
        keys = (*keys, policy) if keys else keys
        entry = self._of.get(keys)
        if entry is None or (entry.looks and not all(map(_is_same, entry.same, ends))):
            return keys, None
        return keys, entry

    def _note(self, source: End, destination: End, policy: Policy, prepared: _native.Prepared, keeps: Keeps) -> None:
        ends = _ends(source, destination)
        keys = self._keys(ends)
        if not keys or len(keys) != len(keeps.registrations) or len(keys) > _MOST_ENDS:
            return
        if not all(map(_is_lasting, keys, keeps.registrations)):
            return
        if len(self._of) >= _MOST_KNOWN or self._ends + len(keys) > _MOST_ENDS:
            self._of.clear()
            self._ends = 0
        same = list(map(_same, ends, keys, keeps.registrations))
        looks = not all(each is None or isinstance(each, str) for each in same)
        keys = (*keys, policy)
        self._of[keys] = _Entry(same, looks, prepared, bool(keeps.pools))
        self._ends += len(keys)


def _ends(source: End, destination: End) -> Sequence[End]:
    """Of one pair, or of all pairs of two lists or two mappings, the source before the destination; none where the two do
    not fit together."""
    if type(source) not in _SEVERAL:
        return source, destination
    if isinstance(source, Mapping):
        if type(destination) not in _SEVERAL or not isinstance(destination, Mapping) or source.keys() != destination.keys():
            return ()
        pairs = [(each, destination[key]) for key, each in source.items()]
    elif isinstance(source, (list, tuple)) and isinstance(destination, (list, tuple)) and len(source) == len(destination):
        pairs = list(zip(source, destination, strict=True))
    else:
        return ()
    return [end for pair in pairs for end in pair]


def _is_lasting(key: _Key, registration: _registrations.Registration | None) -> bool:
    if not isinstance(key, tuple):
        return key is not None
    if key[3]:  # on a GPU; without a registration in a pool
        return registration is None or bool(registration.owners)
    return _id_of(key) is not None


def _same(end: End, key: _Key, registration: _registrations.Registration | None) -> _Same:
    if isinstance(key, int):
        return weakref.ref(end)
    return _id_of(key) if isinstance(key, tuple) and not key[3] else registration


class Prepared:
    """A transfer that you can make many times; made by Node.prepare. It keeps its arrays alive; their memory must stay
    where it is. Any thread may use it, also while another one does."""

    __slots__ = ("__weakref__", "_keeps", "_native", "_options", "_request", "_requests", "_wanted")

    def __init__(self, requests: Requests, source: End, destination: End, options: dict[str, Any]) -> None:
        self._requests = requests
        self._native = requests.native
        self._wanted = (source, destination)
        self._options = options
        self._keeps: object = None
        self._request: tuple[tuple[object, ...], _native.Prepared] | None = None  # None: there is nothing to move
        try:
            self._set(*requests.make(source, destination, **options))
        except NothingToMove:
            return

    def _set(self, request: tuple[object, ...], keeps: object) -> _native.Prepared:
        self._keeps = keeps
        made = self._native.prepare(request)
        self._request = request, made
        return made

    def run(self) -> Transfer:
        """Like Node.transfer: returns when the bytes have arrived."""
        if self._request is None:
            return Transfer.nothing(self._native)
        request, native = self._request
        try:
            return Transfer(self._native, self._native.run_prepared(native), None)
        except NotFound as failure:
            again = self._requests.again(failure.reason, request, *self._wanted, **self._options)
            if again is None:
                raise
            native = self._set(*again)
        return Transfer(self._native, self._native.run_prepared(native), None)

    def __repr__(self) -> str:
        if self._request is None:
            return "<onecopy.Prepared nothing>"
        return f"<onecopy.Prepared {self._request[0][0]} -> {self._request[0][1]}>"
