"""onecopy for asyncio: `node = await onecopy.aio.connect()`."""

from ._aio import AsyncNode, connect

__all__ = ["AsyncNode", "connect"]
