"""The same for asyncio."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from . import _files, _formats, _native
from ._layouts import Layout, chosen_of
from ._range_arrays import Ranges
from ._transfer import Transfer
from ._values import Buffer, Endpoint, Plan

if TYPE_CHECKING:
    from ._mapped import MappedArray
    from ._node import End, Node, Progress
    from ._pool import DevicePool, Pool
    from ._shared import SharedArray

_T = TypeVar("_T")
_MOST_AT_ONCE = 64  # transfers that are waited for; others wait for their turn


@functools.lru_cache(maxsize=1)
def _pool(_process: int) -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="onecopy")


async def _call(function: Callable[[], _T], stop: _native.Stop | None = None) -> _T:
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


class AsyncNode:
    """A Node whose calls are awaited; made by `connect` of onecopy.aio, or `Node.aio`."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def node(self) -> Node:
        """The same, for calls that block."""
        return self._node

    @property
    def name(self) -> str:
        return self._node.name

    async def ping(self) -> None:
        await _call(self._node.ping)

    async def create(self, name: str, size: int | str, memory: str = "host", node: str = "") -> Buffer:
        return await _call(lambda: self._node.create(name, size, memory, node))

    async def empty(self, shape: int | tuple[int, ...], dtype: object = "float32", name: str = "") -> SharedArray:
        return await _call(lambda: self._node.empty(shape, dtype, name))

    async def register(self, array: Any, name: str = "") -> Buffer:
        return await _call(lambda: self._node.register(array, name))

    async def endpoint(self, array: Any) -> Endpoint:
        return await _call(lambda: self._node.endpoint(array))

    async def layout(self, ends: End | Sequence[End], block_bytes: int | str | None = None, count: int | None = None,
                     **options: Any) -> Layout:
        """As Node.layout."""
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
                       sync: bool = False, as_bytes: bool = False, progress: Progress | None = None) -> Transfer:
        """As Node.transfer. Cancelling the task cancels the transfer, and ends when nothing moves any more; `progress`
        is called on the loop's thread, and what it raises is only reported."""
        stop = _native.Stop()
        note = None
        chosen = chosen_of(ranges, source_blocks, blocks)
        if progress is not None:
            call, loop = progress, asyncio.get_running_loop()

            def note(update: Transfer) -> None:
                loop.call_soon_threadsafe(call, update)

        return await _call(
            lambda: self._node._transfer(
                stop, note, source, destination, at_most=at_most, path=path, link=link, allow_emulated=allow_emulated,
                checksum=checksum, deadline=deadline, ranges=chosen, sync=sync, as_bytes=as_bytes),
            stop)

    async def copy_from_file(self, file: str | os.PathLike[str], destination: End, *, offset: int = 0,
                             bytes: int | None = None, **options: Any) -> Transfer:
        """As Node.copy_from_file, without progress. Cancelling the task ends the copy."""
        stop = _native.Stop()
        return await _call(lambda: _files.read(self._node, stop, None, file, destination, offset, bytes, **options), stop)

    async def copy_to_file(self, source: End, file: str | os.PathLike[str], *, offset: int | None = None,
                           sync: bool = False, write_device: bool = False, **options: Any) -> Transfer:
        """As Node.copy_to_file, likewise."""
        stop = _native.Stop()
        return await _call(
            lambda: _files.write(self._node, stop, None, source, file, offset, sync, write_device, **options), stop)

    async def copy_file_to_each(self, file: str | os.PathLike[str], destinations: Sequence[End], *, offset: int = 0,
                                bytes: int | None = None, **options: Any) -> list[Transfer]:
        """As Node.copy_file_to_each, likewise."""
        stop = _native.Stop()
        return await _call(
            lambda: _files.read_to_each(self._node, stop, None, file, destinations, offset, bytes, **options), stop)

    async def load(self, file: str | os.PathLike[str], *, device: Any = None,
                   pool: Pool | DevicePool | None = None, only: str | Iterable[str] | None = None,
                   format: str | None = None, at_most: int | None = None, checksum: bool = False,
                   deadline: float | None = None) -> _formats.Loaded:
        """As Node.load. Cancelling the task ends it, and gives the memory back."""
        stop = _native.Stop()
        moves = _formats.options(at_most, checksum, deadline)
        return await _call(lambda: _formats.load(self._node, stop, file, device, pool, only, format, moves), stop)

    async def save(self, file: str | os.PathLike[str], arrays: Mapping[str, Any] | Any, *,
                   metadata: Mapping[str, str] | None = None, format: str | None = None, sync: bool = False,
                   at_most: int | None = None, checksum: bool = False, deadline: float | None = None) -> _formats.Saved:
        """As Node.save, likewise."""
        stop = _native.Stop()
        moves = _formats.options(at_most, checksum, deadline)
        return await _call(
            lambda: _formats.save(self._node, stop, file, arrays, metadata, format, sync, moves), stop)

    async def explain(self, source: End, destination: End, **policy: Any) -> Plan:
        """As Node.explain."""
        return await _call(lambda: self._node.explain(source, destination, **policy))


async def connect(run_dir: str | os.PathLike[str] | None = None, *, timeout: float = 30.0,
                  program: str = "") -> AsyncNode:
    """As onecopy.connect."""
    from ._connect import connect as blocking

    return AsyncNode(await _call(lambda: blocking(run_dir, timeout=timeout, program=program)))
