"""Transfers that are made again and again, of which the request is made once."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from . import _arrays, _native, _pool, _shared
from ._errors import NotFound
from ._requests import NothingToMove
from ._transfer import Transfer
from ._values import Buffer, Endpoint

if TYPE_CHECKING:
    from ._node import End, Node

_MOST_KNOWN = 1024
# What does not change, or whose change the daemon's answer tells.
_LASTING = frozenset((Buffer, Endpoint, _shared.SharedArray, _shared.SharedPart, _pool.PoolArray))


# An end's identity, or an array's memory and what its elements are.
_Key = int | tuple[int, int, bool, object] | None
_Same = weakref.ref[Any] | None  # of an end that is known by its identity


def _key(end: End) -> _Key:
    if type(end) in _LASTING:
        return id(end)
    return None if _arrays.means_more(type(end)) else _native.flat_memory(end)


def _is_lasting(key: _Key) -> bool:
    return isinstance(key, int) or (key is not None and _shared.find(key[0], key[1]) is not None)


def _same(end: End, key: _Key) -> _Same:
    return weakref.ref(end) if isinstance(key, int) else None


class Known:
    """The requests of whole transfers between two ends, which it does not keep: ours by their identity, other arrays in
    memory of ours by where that is. No buffer has the id of an earlier one; so a request of memory that has gone finds
    none, whatever lies there now. Any thread."""

    __slots__ = ("_native", "_of")

    def __init__(self, native: _native.Node) -> None:
        self._native = native
        self._of: dict[tuple[_Key, _Key], tuple[_Same, _Same, _native.Prepared]] = {}

    def run(self, source: End, destination: End) -> Transfer | None:
        """The transfer, once it has ended; None where the request is not known (any more)."""
        key = _key(source), _key(destination)
        known = self._of.get(key)
        if known is None:
            return None
        one, other, _ = known
        if (one is not None and one() is not source) or (other is not None and other() is not destination):
            return None
        try:
            return Transfer(self._native, self._native.run_prepared(known[2]), None)
        except NotFound:  # a new daemon may know the same memory by another id
            self._of.pop(key, None)
            return None

    def run_first(self, source: End, destination: End, request: tuple[object, ...]) -> Transfer:
        """Makes it by its request, which is known from then on, if the ends can be."""
        prepared = self._native.prepare(request)
        ended = self._native.run_prepared(prepared)
        key = _key(source), _key(destination)
        if _is_lasting(key[0]) and _is_lasting(key[1]):
            if len(self._of) >= _MOST_KNOWN:
                self._of.clear()
            self._of[key] = _same(source, key[0]), _same(destination, key[1]), prepared
        return Transfer(self._native, ended, None)


class Prepared:
    """A transfer that can be made many times, made by Node.prepare. It keeps its arrays, whose memory must stay where it
    is. Any thread, also while another one runs it."""

    __slots__ = ("__weakref__", "_keeps", "_native", "_node", "_options", "_request", "_wanted")

    def __init__(self, node: Node, source: End, destination: End, options: dict[str, Any]) -> None:
        self._node = node
        self._native = node._native
        self._wanted = (source, destination)
        self._options = options
        self._keeps: object = None
        self._request: tuple[tuple[object, ...], _native.Prepared] | None = None  # None: there is nothing to move
        try:
            self._set(*node._requests.make(source, destination, **options))
        except NothingToMove:
            return

    def _set(self, request: tuple[object, ...], keeps: object) -> _native.Prepared:
        self._keeps = keeps
        made = self._native.prepare(request)
        self._request = request, made
        return made

    def run(self) -> Transfer:
        """As Node.transfer: returns when the bytes have arrived."""
        if self._request is None:
            return Transfer.nothing(self._native)
        request, native = self._request
        try:
            return Transfer(self._native, self._native.run_prepared(native), None)
        except NotFound as failure:
            again = self._node._requests.again(failure.reason, request, *self._wanted, **self._options)
            if again is None:
                raise
            native = self._set(*again)
        return Transfer(self._native, self._native.run_prepared(native), None)

    def __repr__(self) -> str:
        if self._request is None:
            return "<onecopy.Prepared nothing>"
        return f"<onecopy.Prepared {self._request[0][0]} -> {self._request[0][1]}>"
