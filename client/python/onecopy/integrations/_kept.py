"""What a process has received, for later requests."""

from __future__ import annotations

import collections
import threading
from typing import Generic, TypeVar

_T = TypeVar("_T")
_MOST = 1024


class Kept(Generic[_T]):
    """The newest of what was added, at most 1,024. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: collections.deque[_T] = collections.deque(maxlen=_MOST)

    def add(self, one: _T) -> None:
        with self._lock:
            self._all.append(one)

    def all(self) -> list[_T]:
        """The newest last."""
        with self._lock:
            return list(self._all)
