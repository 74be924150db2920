"""Transfers in the order of CUDA streams."""

from __future__ import annotations

import contextlib
from typing import Any

from ... import _native
from ..values._errors import InvalidArgument
from ..values._numbers import whole
from ..values._transfer import Transfer


def number(stream: Any) -> int:
    """The handle of a stream: an int, or a stream of torch, CuPy, Numba, or of any object with __cuda_stream__."""
    if isinstance(stream, int):
        return whole(stream, "a stream's handle", most=(1 << 64) - 1)
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int((protocol() if callable(protocol) else protocol)[1])
    for name in ("cuda_stream", "ptr", "handle"):  # torch, CuPy, Numba
        found = getattr(stream, name, None)
        if found is not None:
            return int(getattr(found, "value", found) or 0)
    raise InvalidArgument(f"{type(stream).__name__} is not a CUDA stream", "BAD_ARGUMENT",
                          "pass a stream of torch, CuPy or Numba, or its handle as a number")


class Queued:
    """A transfer in the order of CUDA streams. It keeps its arrays alive until `wait` has returned; the Node keeps them
    until the transfer has ended."""

    __slots__ = ("_keeps", "_native", "_node")

    def __init__(self, node: _native.Node, native: _native.Queued | None, keeps: object) -> None:
        self._node = node
        self._native = native  # None: there was nothing to move
        self._keeps = keeps

    @property
    def done(self) -> bool:
        """Whether the transfer has ended, with success or not. Never blocks."""
        return self._native is None or self._native.done

    def wait(self) -> Transfer:
        """Waits for the end. Raises an Error with its reason if the transfer did not succeed. Then releases the arrays."""
        if self._native is None:
            return Transfer.nothing(self._node)
        try:
            return Transfer(self._node, self._native.wait(_native.Stop()), None)
        finally:
            if self._native.done:
                self._keeps = None

    def cancel(self) -> None:
        """Asks for the end of the transfer, even before the stream has reached it. Returns at once."""
        if self._native is not None:
            self._native.cancel()

    def __repr__(self) -> str:
        return f"<onecopy.Queued {'ended' if self.done else 'under way'}>"


class Running:
    """Those of a node that have not ended: their arrays must stay, even if the caller drops what was returned."""

    def __init__(self) -> None:
        self._all: list[Queued] = []

    def add(self, queued: Queued) -> None:
        with contextlib.suppress(ValueError):  # of another thread that sweeps as well
            for each in [each for each in self._all if each.done]:
                self._all.remove(each)
        self._all.append(queued)
