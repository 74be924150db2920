"""onecopy for asyncio: `node = await onecopy.aio.connect()`."""

from __future__ import annotations

import os

from .core.node import _awaiting
from .core.node._connect import connect as _connect
from .core.node._node import AsyncNode


async def connect(run_dir: str | os.PathLike[str] | None = None, *, timeout: float = 30.0, program: str = "") -> AsyncNode:
    """Like onecopy.connect."""
    return AsyncNode(await _awaiting.call(lambda: _connect(run_dir, timeout=timeout, program=program)))


__all__ = ["AsyncNode", "connect"]
