"""Calls that block, awaited."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # before the hook below, which must run before its own
import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from ... import _native

_T = TypeVar("_T")
_MOST_AT_ONCE = 64  # transfers that are waited for; others wait for their turn
_MOST_WATCHES = 4096  # that wait for arrivals, for as long as it takes: a thread each, made when it is needed

_waiting: set[_native.Stop] = set()
_lock = threading.Lock()


@functools.lru_cache(maxsize=2)
def _pool(_process: int, most: int) -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(most, thread_name_prefix="onecopy")


def _stop_all() -> None:
    """Nothing that waits keeps the interpreter from its end, which joins these threads."""
    with _lock:
        stops = list(_waiting)
    for stop in stops:
        stop.request()


def _in_child() -> None:
    """Of a fork: what waits does so in the parent, of which another thread may have had the lock."""
    global _lock
    _lock = threading.Lock()
    _waiting.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
threading._register_atexit(_stop_all)  # type: ignore[attr-defined]


@contextlib.contextmanager
def _known(stop: _native.Stop | None) -> Iterator[None]:
    if stop is None:
        yield
        return
    with _lock:
        _waiting.add(stop)
    try:
        yield
    finally:
        with _lock:
            _waiting.discard(stop)


async def call(function: Callable[[], _T], stop: _native.Stop | None = None, *, watches: bool = False,
               unheard: Callable[[_T], None] | None = None) -> _T:
    """On another thread, which does without the GIL. Cancelled: what has not begun never does; else requests the stop, and
    waits until nothing moves. unheard: what takes a result that came nevertheless."""

    def run() -> _T:
        with _known(stop):
            return function()

    job = _pool(os.getpid(), _MOST_WATCHES if watches else _MOST_AT_ONCE).submit(run)
    work = asyncio.wrap_future(job)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if stop is None or job.cancel():
            raise
        stop.request()
        while not work.done():  # a second cancellation must not leave memory in use
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                continue
            except Exception:
                break
        if not work.cancelled() and work.exception() is None and unheard is not None:  # the exception is seen
            unheard(work.result())
        raise
    except BaseException:  # the task goes with its loop
        if stop is not None:
            stop.request()
        raise
    finally:
        del work, job  # with its failure, which a frame of its own traceback would keep
