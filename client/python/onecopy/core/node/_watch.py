"""A watch of what arrives in buffers."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from ... import _native
from ..values._arrival import Arrival
from ..values._errors import InvalidArgument
from ..values._numbers import milliseconds

_T = TypeVar("_T")
_ALL = 2**63 - 1


class Watch:
    """What arrives in the caller's buffers; made by Node.watch. Any thread may use it. Each arrival goes to one call.

        with node.watch("frame") as arrivals:
            for arrival in arrivals:
                print(arrival.transfer, arrival.message)

    The arrivals that a call returned are acknowledged when the next call begins, or when the `with` block ends without an
    exception. If a buffer keeps arrivals, those that are not acknowledged go to the buffer's next watch. So a program that
    handles each arrival before it asks for the next one loses none.

    Every call raises NotFound (BUFFER_NOT_FOUND) after the buffer was removed, Aborted (OWNER_DIED) after the process that
    registered it has ended, and Unavailable (DAEMON_UNREACHABLE) after the daemon has ended."""

    def __init__(self, native: _native.Watch) -> None:
        self._native = native
        self.missed = 0
        """How many arrivals without a message were left out, because earlier arrivals were not acknowledged in time."""

    def poll(self, most: int | None = None) -> list[Arrival]:
        """The arrivals since the last call, at most `most`; an empty list if there are none. Does not wait."""
        return self._took(self._native.poll(_count(most)))

    def wait(self, timeout: float | None = None, most: int | None = None) -> list[Arrival]:
        """Like poll, but waits until something has arrived. Raises DeadlineExceeded after `timeout` seconds; no arrival is
        lost then."""
        return self._wait(_native.Stop(), timeout, most)

    def close(self) -> None:
        """Acknowledges all returned arrivals, ends the watch and waits for the daemon's answer."""
        self._native.close()

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> Arrival:
        return self.wait(most=1)[0]

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, _failure: BaseException | None,
                 _traceback: TracebackType | None) -> None:
        if kind is None:
            self.close()

    def _wait(self, stop: _native.Stop, timeout: float | None, most: int | None) -> list[Arrival]:
        return self._took(self._native.wait(_count(most), milliseconds(timeout, "a timeout"), stop))

    def _took(self, batch: tuple[str, int]) -> list[Arrival]:
        document, missed = batch
        self.missed += missed
        return [Arrival._of(each) for each in json.loads(document)]


class AsyncWatch:
    """A Watch whose calls are awaited; made by AsyncNode.watch: `async for arrival in await node.aio.watch("frame")`."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._left: list[Arrival] = []  # that a cancelled call has taken, and no call returned

    @property
    def missed(self) -> int:
        """Like Watch.missed."""
        return self._watch.missed

    async def wait(self, timeout: float | None = None, most: int | None = None) -> list[Arrival]:
        """Like Watch.wait. If you cancel the task, arrivals that no call has returned are not lost."""
        if self._left:
            most = _count(most)
            first, self._left = self._left[:most], self._left[most:]
            return first
        stop = _native.Stop()
        return await _call(lambda: self._watch._wait(stop, timeout, most), stop, self._left.extend)

    async def close(self) -> None:
        """Like Watch.close. If a cancelled call has taken arrivals that no call has returned, the watch ends without
        acknowledging arrivals."""
        if not self._left:
            await _call(self._watch.close, None)

    def __aiter__(self) -> AsyncWatch:
        return self

    async def __anext__(self) -> Arrival:
        return (await self.wait(most=1))[0]

    async def __aenter__(self) -> AsyncWatch:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, _failure: BaseException | None,
                        _traceback: TracebackType | None) -> None:
        if kind is None:
            await self.close()


async def _call(function: Callable[[], _T], stop: _native.Stop | None,
                unheard: Callable[[_T], None] | None = None) -> _T:
    from . import _awaiting  # now: programs that block do without asyncio

    return await _awaiting.call(function, stop, watches=True, unheard=unheard)


def _count(most: int | None) -> int:
    if most is None:
        return _ALL
    if not 0 < most <= _ALL:
        raise InvalidArgument(f"{most} is not a number of arrivals", "BAD_ARGUMENT", "pass 1 or more, or leave it out")
    return most


__all__ = ["AsyncWatch", "Watch"]
