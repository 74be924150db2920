"""Transfers that are made again and again, of which the request is made once."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from . import _native, _pool, _shared
from ._errors import NotFound
from ._transfer import Transfer
from ._values import Buffer, Endpoint

if TYPE_CHECKING:
    from ._node import End, Node

_MOST_KNOWN = 1024
# What does not change, or whose change the daemon's answer tells.
_LASTING = frozenset((Buffer, Endpoint, _shared.SharedArray, _pool.PoolArray))


class Known:
    """The requests of whole transfers between two ends, by the identity of these, which it does not keep. Any thread."""

    __slots__ = ("_native", "_of")

    def __init__(self, native: _native.Node) -> None:
        self._native = native
        self._of: dict[tuple[int, int], tuple[weakref.ref[Any], weakref.ref[Any], _native.Prepared]] = {}

    def run(self, source: End, destination: End) -> Transfer | None:
        """The transfer, once it has ended; None where the request is not known (any more)."""
        key = (id(source), id(destination))
        known = self._of.get(key)
        if known is None or known[0]() is not source or known[1]() is not destination:
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
        if type(source) in _LASTING and type(destination) in _LASTING:
            if len(self._of) >= _MOST_KNOWN:
                self._of.clear()
            self._of[id(source), id(destination)] = weakref.ref(source), weakref.ref(destination), prepared
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
        self._set(*node._request(source, destination, **options))

    def _set(self, request: tuple[object, ...], keeps: object) -> None:
        self._keeps = keeps
        self._request = request, self._native.prepare(request)

    def run(self) -> Transfer:
        """As Node.transfer: returns when the bytes have arrived."""
        request, native = self._request
        try:
            return Transfer(self._native, self._native.run_prepared(native), None)
        except NotFound as failure:
            self._set(*self._node._again(failure, request, *self._wanted, **self._options))
        return Transfer(self._native, self._native.run_prepared(self._request[1]), None)

    def __repr__(self) -> str:
        return f"<onecopy.Prepared {self._request[0][0]} -> {self._request[0][1]}>"
