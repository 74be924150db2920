"""Calls that run one ahead of the code that uses their results."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Self, TypeVar

from .. import _native

_T = TypeVar("_T")


def batches(all: Iterable[_T], size: Callable[[_T], int], most: int | None) -> Iterator[list[_T]]:
    """In their order, each of at most so many bytes, or of one that has more. None: one of all. The next one is looked
    for when the last is done with."""
    batch: list[_T] = []
    total = 0
    for each in all:
        bytes = size(each)
        if batch and most is not None and total + bytes > most:
            yield batch
            batch, total = [], 0
        batch.append(each)
        total += bytes
    if batch:
        yield batch


class Ahead(Generic[_T]):
    """Makes calls on a thread of its own, each while somebody takes care of what the last one returned: what two of them
    return is there at a time. Begins with the first. `calls`: what it takes to make the next one, as memory, is done as
    that is asked for, on the thread that iterates; `stop`: of all calls.

    `close` stops what is under way, and waits for its end."""

    def __init__(self, calls: Iterator[Callable[[], _T]], stop: _native.Stop, name: str) -> None:
        self._calls = calls
        self._stop = stop
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix=name)
        self._next = self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stop.request()
        self._thread.shutdown(cancel_futures=True)

    def __iter__(self) -> Iterator[_T]:
        while self._next is not None:
            coming, self._next = self._next, None  # so that two are all there is
            try:
                made = coming.result()
            finally:
                del coming  # with its failure, which a frame of its own traceback would keep
            self._next = self._begin()
            yield made
            del made

    def _begin(self) -> concurrent.futures.Future[_T] | None:
        call = next(self._calls, None)
        return None if call is None else self._thread.submit(call)
