"""Finds what the ends of transfers are to the daemon."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from ... import _native
from ..memory import _arrays, _mapped, _pool, _ranges, _registrations, _shared
from ..memory._views import Wanted
from ..values._errors import InvalidArgument, NotFound
from ..values._values import Buffer, Endpoint
from . import _pieces
from ._ends import OURS, End, Place, is_empty

_MANY = 8  # buffers that are asked for one by one rather than by a list of all

_Ready: TypeAlias = "dict[int, tuple[_arrays.View, _registrations.Owned | None]]"


class Places:
    """Of one node: finds the buffers of ends, and registers the memory of others' arrays that is not known yet. Does not
    keep the Node, whose registrations it shares. Any thread."""

    def __init__(self, native: _native.Node, registrations: _registrations.Registrations) -> None:
        self.native = native
        self.registrations = registrations

    def place(self, end: End, what: str, written: bool, ready: _Ready | None = None) -> Place:
        if isinstance(end, str):
            end = Endpoint.parse(end)
        if isinstance(end, Buffer):
            # With its length: what a ring carries must say it.
            return Place((end.node, end.id, 0, end.bytes), end.bytes, None, None, dtype=end.dtype, shape=end.shape)
        if isinstance(end, Endpoint):
            return Place(end._tuple(), end.bytes, None, None)
        if isinstance(end, OURS):
            if end.nbytes == 0:
                raise InvalidArgument(f"{what} has no bytes: its shape is {end.shape}", "BAD_SIZE",
                                      "leave out arrays without elements")
            whole = end.endpoint(0, end.nbytes)._tuple()
            if isinstance(end, _ranges.PoolRange):
                # Its memory, too: free() may take it from the array before the transfer has ended.
                return Place(whole, end.nbytes, end._gaps, (end, end._memory), pool=end._pool, dtype=end._meaning,
                             shape=end.shape)
            return Place(whole, end.nbytes, end._gaps, end, dtype=end._meaning, shape=end.shape)
        found, owned = (ready and ready.get(id(end))) or (_arrays.view(end), None)
        _arrays.check(found, what, written)
        start, bytes = _arrays.extent(found)
        runs = _arrays.runs(found)
        pool: _ranges.Slabs | None = None
        registration: _registrations.Registration | None = None
        shared = _shared.find(start, bytes) if found.on_host else None
        pooled = _pool.find(start, bytes, on_host=found.on_host) if shared is None else None
        if shared is not None:
            node, buffer, offset = shared[0].node, shared[0].id, shared[1]
        elif pooled is not None:
            node, buffer, offset, pool = pooled
        else:
            registration = owned.registration if owned is not None else self.registrations.find(end, found)
            node, buffer, offset = registration.buffer.node, registration.buffer.id, start - registration.start
            found = found._replace(keeps=(found.keeps, registration))
        gaps = None if len(runs) == 1 and runs[0][3] == 1 else runs
        return Place((node, buffer, offset, bytes), found.bytes, gaps, (end, found), registration, pool, dtype=found.dtype,
                     shape=found.shape)

    def wanted(self, arrays: Sequence[Any], before: set[str]) -> list[Wanted]:
        """Where each of these arrays lies, and as what; memory that is not known yet is registered. before: as of
        Registrations.find_all."""
        for number, each in enumerate(arrays):
            if is_empty(each):
                what = "the array" if len(arrays) == 1 else f"array {number}"
                raise InvalidArgument(f"{what} has no bytes: its shape is {tuple(each.shape)}", "BAD_SIZE",
                                      "leave out arrays without elements")
        ready = self._ready(arrays, [], before)
        return [self._wanted(each, ready) for each in arrays]

    def _wanted(self, array: Any, ready: _Ready) -> Wanted:
        if isinstance(array, OURS):
            place = self.place(array, "the array", False)
            # What goes back to a pool, or is unmapped, with the last that uses it.
            owner, buffer, offset = (array, array.buffer, 0) if isinstance(array, _mapped.MappedArray) else (
                array._memory, array.buffer, place.endpoint[2] or 0)
            if array._apart is not None:  # of a view, which views are not made of
                buffer, offset = dataclasses.replace(buffer, id=buffer.view_of), buffer.offset_bytes
            return Wanted(buffer, offset, place.dtype, array._dtype.itemsize, array.shape, array.strides, owner,
                          ends_with_memory=isinstance(array, _shared.SharedArray) and not isinstance(array, _ranges.PoolRange))
        found, owned = ready[id(array)]
        start, bytes = _arrays.extent(found)
        as_array = (found.dtype, found.itemsize, found.shape, found.strides)
        if owned is not None:
            registration = owned.registration
            return Wanted(registration.buffer, start - registration.start, *as_array, owned.owner,
                          None if owned.lasting else found, registration=registration)
        owner = _registrations.owner_of(array)
        keeps = None if _registrations.is_watchable(owner) else found
        shared = _shared.find(start, bytes) if found.on_host else None
        if shared is not None:
            return Wanted(shared[0], shared[1], *as_array, owner, keeps)
        pooled = _pool.find(start, bytes, on_host=found.on_host)
        if pooled is None:
            raise NotFound("the memory of the array was freed in the meantime", "BUFFER_LOST", "keep the array")
        slab = next(each for each in pooled.pool.buffers if each.id == pooled.buffer)
        return Wanted(slab, pooled.offset, *as_array, owner, keeps)

    def _ready(self, sources: Sequence[End], destinations: Sequence[End], before: set[str] | None = None) -> _Ready:
        """The arrays of others among these ends, by their ids; what is not registered yet is so in one go: the one list
        must not make room for the other."""
        ready: _Ready = {}
        missing: dict[int, tuple[Any, _arrays.View]] = {}
        for ends, what, written in ((sources, "source", False), (destinations, "destination", True)):
            for number, end in enumerate(ends):
                if isinstance(end, (str, Buffer, Endpoint, *OURS)) or is_empty(end):
                    continue
                found = _arrays.view(end)
                _arrays.check(found, f"{what} {number}", written)
                ready[id(end)] = found, None
                start, bytes = _arrays.extent(found)
                known = (found.on_host and _shared.find(start, bytes) is not None) or (
                    _pool.find(start, bytes, on_host=found.on_host) is not None)
                if not known:
                    missing[id(end)] = end, found
        for key, made in zip(missing, self.registrations.find_all(missing.values(), before), strict=True):
            ready[key] = ready[key][0], made
        return ready

    def with_length(self, place: _pieces.Place) -> _pieces.Place:
        """The same with its node and, of a buffer that was named without its length, with that."""
        node, buffer, offset, bytes = place
        if bytes is None:
            size: int = json.loads(self.native.get_buffer(node, buffer))["bytes"]
            bytes = max(0, size - (offset or 0))
        return node or self.native.name, buffer, offset, bytes

    def unknown(self, ids: set[str]) -> set[str]:
        """Those of these buffers of this node that the daemon does not know."""
        if len(ids) > _MANY:
            return ids - {each["id"] for each in json.loads(self.native.list_buffers(""))}
        return {id for id in ids if not self.knows(id)}

    def knows(self, id: str) -> bool:
        try:
            self.native.get_buffer("", id)
        except NotFound:
            return False
        return True
