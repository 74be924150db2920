"""Pools for other packages' allocators."""

from __future__ import annotations

import os
import threading
from typing import Any

from ..core.memory import _device
from ..core.memory._pool import DevicePool
from ..core.node._connect import connect
from ..core.node._node import Node
from ..core.values._errors import FailedPrecondition, InvalidArgument


class DevicePools:
    """A pool for each GPU, made when it is first of use. Any thread."""

    def __init__(self, source: Node | DevicePool | None, device: Any, options: dict[str, Any]) -> None:
        """source: the node that makes them, None: onecopy.connect()'s, or a pool that is there; device: the one GPU that
        they are for, None: all; options: as Node.pool's."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._node: Node | None = None
        self._options = options
        self._pools: dict[int, DevicePool] = {}
        self._only = None if device is None else _device.ordinal(device)
        if isinstance(source, DevicePool):
            if options or (device is not None and self._only != source.device):
                raise InvalidArgument("an existing pool has its own GPU and options", "BAD_ARGUMENT",
                                      "pass only the pool, or a node and the options")
            self._only = source.device
            self._pools[source.device] = source
        elif source is None or isinstance(source, Node):
            self._node = source
        else:
            raise InvalidArgument(f"a {type(source).__name__} is not a node", "BAD_ARGUMENT",
                                  "pass what onecopy.connect() returned, or a pool of its pool(device=…)")

    def serves(self, device: int) -> bool:
        return self._only is None or self._only == device

    def of(self, device: int) -> DevicePool:
        if not self.serves(device):
            raise InvalidArgument(f"this is memory of cuda:{self._only}, and cuda:{device} was asked for", "BAD_ARGUMENT",
                                  "leave out device: then each GPU gets a pool")
        if os.getpid() != self._process:  # where another thread may have the lock for ever
            raise FailedPrecondition("these pools were made before the process forked, and belong to the parent process",
                                     "FORKED", "start such processes by spawning, or connect only in the child")
        with self._lock:
            pool = self._pools.get(device)
            if pool is None:
                if self._node is None:
                    self._node = connect()
                pool = self._pools[device] = self._node.pool(device=device, **self._options)
            return pool

    def first(self) -> DevicePool:
        """Of the one GPU, or the current one."""
        return self.of(_device.current() if self._only is None else self._only)

    @property
    def made(self) -> dict[int, DevicePool]:
        with self._lock:
            return dict(self._pools)
