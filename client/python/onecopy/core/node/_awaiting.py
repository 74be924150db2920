"""Calls that block, awaited."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import os
from collections.abc import Callable
from typing import TypeVar

from ... import _native

_T = TypeVar("_T")
_MOST_AT_ONCE = 64  # transfers that are waited for; others wait for their turn


@functools.lru_cache(maxsize=1)
def _pool(_process: int) -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="onecopy")


async def call(function: Callable[[], _T], stop: _native.Stop | None = None) -> _T:
    """On another thread, which does without the GIL. Cancelled: requests the stop, and waits until nothing moves."""
    work = asyncio.get_running_loop().run_in_executor(_pool(os.getpid()), function)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if stop is None:
            raise
        stop.request()
        while not work.done():  # a second cancellation must not leave memory in use
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                continue
            except Exception:
                break
        if not work.cancelled():
            work.exception()  # seen
        raise
    finally:
        del work  # with its failure, which a frame of its own traceback would keep
