"""Buffers for arrays of this process: names are views of what is registered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..memory._registrations import Registrations
from ..memory._views import Views
from ..requests._requests import Requests
from ..values._errors import InvalidArgument
from ..values._values import Buffer, Endpoint


class Names:
    """Registers the memory of arrays, and gives each array a buffer of its own. Thread-safe, as its parts are."""

    def __init__(self, requests: Requests, registrations: Registrations, views: Views) -> None:
        self._requests = requests
        self._registrations = registrations
        self._views = views

    def register(self, arrays: Sequence[Any], name: str = "") -> list[Buffer]:
        """A buffer for each array, in their order, by `name` if it is given. Raises as Node.register does."""
        for each in arrays:
            if isinstance(each, (str, Endpoint, Buffer)):
                raise InvalidArgument(f"a {type(each).__name__} is not an array", "BAD_ARGUMENT",
                                      "pass the array; to name a part of a buffer, use Buffer.endpoint or `onecopy buffer view`")
        before: set[str] = set()
        wanted = self._requests.wanted(arrays, before)
        unknown = self._requests.unknown(before | self._views.ids())
        for id in unknown:
            self._registrations.lose(id)
            self._views.lose(id)
        if unknown:
            wanted = self._requests.wanted(arrays, set())
        # All of a memory needs no name beside its own, unless the caller wants one.
        partial = [each for each in wanted if name or not each.is_whole]
        views = iter(self._views.make(partial, name))
        return [next(views) if name or not each.is_whole else each.buffer for each in wanted]
