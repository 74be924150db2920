"""The calls of a connection to a daemon about buffers and grants."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, overload

from ... import _native
from ..memory import _mapped, _pool, _registrations, _shared
from ..memory._views import Views
from ..requests import _layouts
from ..requests._ends import OURS, End
from ..requests._requests import Requests
from ..values._errors import InvalidArgument
from ..values._numbers import milliseconds, size as _size
from ..values._refusal import known
from ..values._values import Buffer, Endpoint, Grant, Sum, whole_buffer
from ._names import Names


class BufferCalls:
    """The calls about this connection, buffers and grants."""

    def __init__(self, native: _native.Node, *, most_registrations: int = 4096) -> None:
        self._native = native
        self._registrations = _registrations.Registrations(
            _registrations.registering(native), native.release_buffer, lambda: native.session, native.cuda_allocation,
            most_registrations)
        self._views = Views(native, self._registrations)
        self._requests = Requests(native, self._registrations)
        self._names = Names(self._requests, self._registrations, self._views)

    @property
    def name(self) -> str:
        return self._native.name

    @property
    def daemon_version(self) -> str:
        return self._native.daemon_version

    @property
    def run_dir(self) -> str:
        """Of the daemon."""
        return self._native.run_dir

    def ping(self) -> None:
        """Raises Unavailable where the daemon does not serve."""
        self._native.ping()

    # ---- buffers

    def create(self, name: str, size: int | str, memory: str = "host", node: str = "", *,
               keep_arrivals: bool = False) -> Buffer:
        """A zeroed buffer that the daemon owns, which stays after this process. `size`: bytes, or "64MiB"; `memory`:
        "host", "cuda:N", a GPU's PCI address or UUID; `node`: another one, which lets the caller make it;
        `keep_arrivals`: what arrives is kept until a watch was told of it (see `watch`)."""
        return self._buffer(self._native.create_buffer(name, _size(size, "a size"), memory, node, keep_arrivals))

    def empty(self, shape: int | tuple[int, ...], dtype: object = "float32", name: str = "") -> _shared.SharedArray:
        """A zeroed array in memory that the daemon reads and writes in place. `dtype`: a name ("bfloat16"), or a type of
        NumPy or torch; `name`: of its buffer, chosen by the daemon where it is empty."""
        return _shared.empty(self._native, shape, dtype, name)

    @overload
    def pool(self, name: str = "", *, device: None = None, pinned: bool = False, managed_overflow: bool = False,
             slab: int | str = "64MiB", initial: int | str = 0, limit: int | str | None = None) -> _pool.Pool: ...

    @overload
    def pool(self, name: str = "", *, device: Any, pinned: bool = False, managed_overflow: bool = False,
             slab: int | str = "64MiB", initial: int | str = 0, limit: int | str | None = None) -> _pool.DevicePool: ...

    def pool(self, name: str = "", *, device: Any = None, pinned: bool = False, managed_overflow: bool = False,
             slab: int | str = "64MiB", initial: int | str = 0,
             limit: int | str | None = None) -> _pool.Pool | _pool.DevicePool:
        """Returns a pool: memory for many arrays, registered in large pieces (slabs). `empty` calls the daemon only to
        register a new slab and to check on transfers of `start`. `name`: the slabs are the buffers NAME.1, NAME.2, …;
        `slab`: the size of a slab ("64MiB"), larger for larger arrays; `initial`: bytes to register now; `limit`: the most
        bytes of all slabs together, in addition to the daemon's limits.

        `device`: the GPU (its number in this process, "cuda:0", a device of torch, CuPy or Numba). None: host memory; with
        `pinned`, the CUDA driver pins it. `managed_overflow`: when the GPU is full, use slabs of managed memory, whose
        transfers take one more copy. Raises FailedPrecondition (NO_DRIVER, NO_GPU) if the machine has no GPU."""
        return _pool.create(self._native, name, device=device, pinned=pinned, managed_overflow=managed_overflow,
                            slab=slab, initial=initial, limit=limit)

    @overload
    def register(self, array: list[Any] | tuple[Any, ...]) -> list[Buffer]: ...

    @overload
    def register(self, array: Any, name: str = "") -> Buffer: ...

    def register(self, array: Any, name: str = "") -> Buffer | list[Buffer]:
        """Makes an array a buffer that others can use, by this name or, without one, by its id: exactly this array, however
        much memory around it is registered, and in the order of its elements, whatever gaps lie between them. Of a list
        of arrays each, in one go.

        The memory is registered once, as a whole, and transfers do that by themselves; names are views of it, of which
        there may be many. A name goes with the memory that its array is of, before that memory can be another array's;
        by `unregister`, or by `delete`. What has only a buffer (bytearray, mmap) cannot be resized or closed before.

        Raises AlreadyExists (NAME_TAKEN) where the name is another buffer's."""
        if not isinstance(array, (list, tuple)):
            return self._names.register([array], name)[0]
        if name:
            raise InvalidArgument("several arrays cannot share one name", "BAD_ARGUMENT", "register them one by one")
        return self._names.register(array)

    def endpoint(self, array: Any) -> Endpoint:
        """Where others find exactly this array, of this process, for as long as its memory is: also as text,
        `str(node.endpoint(array))`. They need the right to it: see `grant`."""
        return self._names.register([array])[0].endpoint()

    def layout(self, ends: End | Sequence[End], block_bytes: int | str | None = None, count: int | None = None, *,
               offset: int | str = 0, stride: int | str | None = None, layers: int = 1,
               layer_stride: int | str | None = None) -> _layouts.Layout:
        """Blocks of one length that transfers name by their numbers, such as those of a paged KV cache. What is checked
        and registered here is not looked at again by transfers:

            ours, theirs = node.layout(caches), node.layout([f"west:cache-{n}" for n in range(32)], "16KiB", 65536)
            node.transfer(ours, theirs, source_blocks=[7, 3], blocks=[0, 1])    # block 7 into 0, 3 into 1, in each layer

        ends: an array, a buffer, a range of one, or a list of them: one for each layer, all of one node and shape. Of
        arrays each row is a block, unless block_bytes and count say otherwise.
        In bytes, block i of layer k of an end begins at offset + k * layer_stride + i * stride; stride: block_bytes where
        it is not said; layers: of each end; layer_stride: count * stride.

        Raises InvalidArgument and OutOfRange: see Layout."""
        return _layouts.Layout(self._requests, ends, block_bytes, count, offset, stride, layers, layer_stride)

    def unregister(self, array: Any) -> bool:
        """Ends the registration of an array's memory before that goes, and all names in it; of an array that shares its
        memory with others' (of a pool, of `load`, of `empty`) the names in it alone. Transfers that use it are cancelled,
        and waited for. False where there was nothing."""
        if isinstance(array, OURS):
            place = self._requests.place(array, "the array", False)
            first = place.endpoint[2] or 0
            owner = array if isinstance(array, _mapped.MappedArray) else array._memory
            return self._views.end_of(owner, (place.endpoint[1], first, first + array.nbytes))
        named = self._views.end_of(_registrations.owner_of(array))
        return self._registrations.forget(array) or named

    def map(self, buffer: str | Buffer, shape: int | tuple[int, ...] | None = None, dtype: object = None, *,
            device: int | str | None = None) -> _mapped.MappedArray:
        """The memory of a buffer of this node as an array, be it the daemon's or another process's: no copy, and what one
        writes the other sees. Takes the right to read and to write all of it. `shape`, `dtype`: where neither is said,
        those of the array that the buffer is named after, else all of it as bytes; `device`: the GPU of this process whose
        kernels use GPU memory, where it is another than the memory's own.

        The daemon takes it back when the buffer, its owner's process or the right to it goes: see MappedArray.check.
        Raises FailedPrecondition for memory that no other process can map (NOT_SHAREABLE, PID_NAMESPACE), and for
        another node's (OTHER_NODE)."""
        return _mapped.create(self._native, buffer, shape, dtype, device)

    def buffer(self, name: str, node: str = "") -> Buffer:
        """The buffer with this name or id, on `node` (empty: this node). `west:name` names the node, too."""
        return self._buffer(self._native.get_buffer(*whole_buffer(name, node)))

    def buffers(self, node: str = "") -> list[Buffer]:
        """Those that the caller owns or has a grant on."""
        return [Buffer._of(each) for each in json.loads(self._native.list_buffers(node))]

    def delete(self, buffer: str | Buffer, *, force: bool = False) -> None:
        """`name` is of this node, `west:name` of another one. `force` cancels the transfers that use it and revokes its
        mappings; without it, these make the call fail."""
        if isinstance(buffer, str):
            node, name = whole_buffer(buffer)
            self._native.delete_buffer(name, force, node)
        else:
            self._native.delete_buffer(buffer.id, force, buffer.node)
            self._views.lose(buffer.id)

    def sum(self, range: str | Endpoint | Buffer | Any) -> Sum:
        """The checksum of a range, or of an array of this process, as `Transfer` has it with checksum=True."""
        return known(Sum, json.loads(self._native.sum_buffer(self._range(range)._tuple())))

    # ---- grants

    def grant(self, range: str | Endpoint | Buffer | Any, to: str, *, read: bool = False, write: bool = False,
              seconds: float | None = None) -> Grant:
        """Gives another owner ("1000@west") a right on a range of a buffer of this node, or on an array of this process:
        on exactly that, and until its memory goes."""
        lifetime = milliseconds(seconds, "a lifetime")
        return Grant._of(json.loads(self._native.create_grant(self._range(range)._tuple(), to, read, write, lifetime)))

    def grants(self, buffer: str = "", node: str = "") -> list[Grant]:
        return [Grant._of(each) for each in json.loads(self._native.list_grants(buffer, node))]

    def revoke(self, grant: str | Grant) -> None:
        """Ends transfers that use it, too."""
        self._native.delete_grant(grant if isinstance(grant, str) else grant.id)

    # ---- how

    @staticmethod
    def _buffer(document: str) -> Buffer:
        return Buffer._of(json.loads(document))

    def _range(self, range: str | Endpoint | Buffer | Any) -> Endpoint:
        if isinstance(range, str):
            return Endpoint.parse(range)
        if isinstance(range, Endpoint):
            return range
        return range.endpoint() if isinstance(range, Buffer) else self.endpoint(range)


__all__ = ["BufferCalls"]
