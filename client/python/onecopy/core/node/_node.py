"""The connection to a daemon, for calls that block and for asyncio."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ... import _native
from ..memory._mapped import MappedArray
from ..memory._pool import DevicePool, Pool
from ..memory._shared import SharedArray
from ..requests import _broadcast, _files
from ..requests._ends import End
from ..requests._layouts import Layout, chosen_of
from ..requests._range_arrays import Ranges
from ..values._broadcast import BroadcastCopy
from ..values._system import system_errors
from ..values._transfer import Progress, Transfer
from ..values._values import Buffer, Endpoint, Export, Plan
from . import _above
from ._calls import Calls
from ._loaded import Loaded, Saved
from ._watch import AsyncWatch

_T = TypeVar("_T")


async def _call(function: Callable[[], _T], stop: _native.Stop | None = None) -> _T:
    with system_errors("importing asyncio"):  # now: it takes as long as all of this, and programs that block do without
        from . import _awaiting

    return await _awaiting.call(function, stop)



class Node(Calls):
    """A connection to the daemon of a node; made by `connect`. Any thread may use it.

    A call that waits releases the GIL. On the main thread, Ctrl-C ends the call: it cancels the transfer and raises
    KeyboardInterrupt when nothing moves any more."""

    @property
    def aio(self) -> AsyncNode:
        """The same node, for asyncio."""
        return AsyncNode(self)


class AsyncNode:
    """A Node whose calls are awaited; made by onecopy.aio.connect, or by Node.aio."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def node(self) -> Node:
        """The same node, for calls that block."""
        return self._node

    @property
    def name(self) -> str:
        return self._node.name

    async def ping(self) -> None:
        await _call(self._node.ping)

    async def create(self, name: str, size: int | str, memory: str = "host", node: str = "", *,
                     keep_arrivals: bool = False) -> Buffer:
        return await _call(lambda: self._node.create(name, size, memory, node, keep_arrivals=keep_arrivals))

    async def empty(self, shape: int | tuple[int, ...], dtype: object = "float32", name: str = "") -> SharedArray:
        return await _call(lambda: self._node.empty(shape, dtype, name))

    async def register(self, array: Any, name: str = "") -> Buffer:
        return await _call(lambda: self._node.register(array, name))

    async def endpoint(self, array: Any) -> Endpoint:
        return await _call(lambda: self._node.endpoint(array))

    async def layout(self, ends: End | Sequence[End], block_bytes: int | str | None = None, count: int | None = None,
                     **options: Any) -> Layout:
        """Like Node.layout."""
        return await _call(lambda: self._node.layout(ends, block_bytes, count, **options))

    async def map(self, buffer: str | Buffer, shape: int | tuple[int, ...] | None = None, dtype: object = None, *,
                  device: int | str | None = None) -> MappedArray:
        return await _call(lambda: self._node.map(buffer, shape, dtype, device=device))

    async def buffer(self, name: str, node: str = "") -> Buffer:
        return await _call(lambda: self._node.buffer(name, node))

    async def buffers(self, node: str = "") -> list[Buffer]:
        return await _call(lambda: self._node.buffers(node))

    async def delete(self, buffer: str | Buffer, *, force: bool = False) -> None:
        await _call(lambda: self._node.delete(buffer, force=force))

    async def transfer(self, source: End, destination: End, *, at_most: int | None = None, path: str = "",
                       link: str = "", allow_emulated: bool = False, checksum: bool = False,
                       deadline: float | None = None, ranges: Ranges = (), source_blocks: Any = None, blocks: Any = None,
                       sync: bool = False, as_bytes: bool = False, message: str | bytes = b"",
                       rate_limit: int | str = 0, priority: str = "normal", trace: str = "",
                       progress: Progress | None = None) -> Transfer:
        """Like Node.transfer. Cancelling the task cancels the transfer; the task ends when nothing moves any more.
        `progress` is called on the loop's thread; an exception in it is only reported."""
        stop = _native.Stop()
        note = None
        chosen = chosen_of(ranges, source_blocks, blocks)
        if progress is not None:
            import asyncio

            call, loop = progress, asyncio.get_running_loop()

            def note(update: Transfer) -> None:
                loop.call_soon_threadsafe(call, update)

        return await _call(
            lambda: self._node._transfer(
                stop, note, source, destination, at_most=at_most, path=path, link=link, allow_emulated=allow_emulated,
                checksum=checksum, deadline=deadline, ranges=chosen, sync=sync, as_bytes=as_bytes, message=message,
                rate_limit=rate_limit, priority=priority, trace=trace),
            stop)

    async def copy_from_file(self, file: str | os.PathLike[str], destination: End, *, offset: int = 0,
                             bytes: int | None = None, **options: Any) -> Transfer:
        """Like Node.copy_from_file, without progress. Cancelling the task ends the copy."""
        stop = _native.Stop()
        return await _call(lambda: _files.read(self._node._requests, stop, None, file, destination, offset, bytes, **options), stop)

    async def copy_to_file(self, source: End, file: str | os.PathLike[str], *, offset: int | None = None,
                           sync: bool = False, write_device: bool = False, **options: Any) -> Transfer:
        """Like Node.copy_to_file, without progress. Cancelling the task ends the copy."""
        stop = _native.Stop()
        return await _call(
            lambda: _files.write(self._node._requests, stop, None, source, file, offset, sync, write_device, **options), stop)

    async def copy_file_to_each(self, file: str | os.PathLike[str], destinations: Sequence[End], *, offset: int = 0,
                                bytes: int | None = None, **options: Any) -> list[Transfer]:
        """Like Node.copy_file_to_each, without progress. Cancelling the task ends the copies."""
        stop = _native.Stop()
        return await _call(
            lambda: _files.read_to_each(self._node._requests, stop, None, file, destinations, offset, bytes, **options), stop)

    async def broadcast(self, source: End, destinations: Sequence[End], **options: Any) -> list[BroadcastCopy]:
        """Like Node.broadcast, without progress. Cancelling the task ends the copies."""
        stop = _native.Stop()
        return await _call(
            lambda: _broadcast.broadcast(self._node._requests, stop, None, source, destinations, **options), stop)

    async def load(self, file: str | os.PathLike[str], *, device: Any = None,
                   pool: Pool | DevicePool | None = None, only: str | Iterable[str] | None = None,
                   format: str | None = None, at_most: int | None = None, checksum: bool = False,
                   deadline: float | None = None) -> Loaded:
        """Like Node.load. Cancelling the task ends the load and frees the memory."""
        stop = _native.Stop()
        formats = _above.array_files()
        moves = formats.options(at_most, checksum, deadline)
        loaded: Loaded = await _call(
            lambda: formats.load(self._node, stop, file, device, pool, only, format, moves), stop)
        return loaded

    async def save(self, file: str | os.PathLike[str], arrays: Mapping[str, Any] | Any, *,
                   metadata: Mapping[str, str] | None = None, format: str | None = None, sync: bool = False,
                   at_most: int | None = None, checksum: bool = False, deadline: float | None = None) -> Saved:
        """Like Node.save. Cancelling the task ends the save; no new file is left."""
        stop = _native.Stop()
        formats = _above.array_files()
        moves = formats.options(at_most, checksum, deadline)
        saved: Saved = await _call(
            lambda: formats.save(self._node, stop, file, arrays, metadata, format, sync, moves), stop)
        return saved

    async def watch(self, buffer: str | Buffer | Any = "") -> AsyncWatch:
        """Like Node.watch."""
        return AsyncWatch(await _call(lambda: self._node.watch(buffer)))

    async def tell(self, destination: str | Buffer, message: str | bytes, *, request_id: str = "") -> None:
        """Like Node.tell."""
        await _call(lambda: self._node.tell(destination, message, request_id=request_id))

    async def exports(self, node: str = "") -> list[Export]:
        """Like Node.exports."""
        return await _call(lambda: self._node.exports(node))

    async def explain(self, source: End, destination: End, **policy: Any) -> Plan:
        """Like Node.explain."""
        return await _call(lambda: self._node.explain(source, destination, **policy))


__all__ = ["AsyncNode", "Node"]
