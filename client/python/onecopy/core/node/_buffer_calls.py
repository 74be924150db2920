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
        """The daemon's run directory."""
        return self._native.run_dir

    def ping(self) -> None:
        """Raises Unavailable if the daemon does not serve."""
        self._native.ping()

    # ---- buffers

    def create(self, name: str, size: int | str, memory: str = "host", node: str = "", *,
               keep_arrivals: bool = False) -> Buffer:
        """Lets the daemon allocate a buffer, filled with zeros. It stays after this process has ended. `size`: bytes, or
        "64MiB"; `memory`: "host", "cuda:N", or a GPU's PCI address or UUID; `node`: another node, which must allow the
        caller to create buffers; `keep_arrivals`: the buffer keeps what arrives until a watch has reported it (see
        `watch`)."""
        return self._buffer(self._native.create_buffer(name, _size(size, "a size"), memory, node, keep_arrivals))

    def empty(self, shape: int | tuple[int, ...], dtype: object = "float32", name: str = "") -> _shared.SharedArray:
        """Makes an array of zeros in memory that the daemon reads and writes in place. `dtype`: a name ("bfloat16"), or a
        type of NumPy or torch; `name`: the name of its buffer; if empty, the daemon chooses one."""
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
        """Makes an array a buffer that other programs can use, by this name or, without a name, by its id. The buffer is
        exactly this array: not the memory around it, and without the gaps between its elements. Registers the arrays of a
        list together.

        The memory is registered once, as a whole; transfers also do that by themselves. Names are views of this memory, and
        it can have many. A name ends before another array can use the memory, or by `unregister` or `delete`. An object
        with the buffer protocol (bytearray, mmap) cannot be resized or closed before that.

        Raises AlreadyExists (NAME_TAKEN) if another buffer has the name."""
        if not isinstance(array, (list, tuple)):
            return self._names.register([array], name)[0]
        if name:
            raise InvalidArgument("several arrays cannot share one name", "BAD_ARGUMENT", "register them one by one")
        return self._names.register(array)

    def endpoint(self, array: Any) -> Endpoint:
        """The address by which other programs find exactly this array of this process, as long as its memory exists. As
        text: `str(node.endpoint(array))`. They need access rights: see `grant`."""
        return self._names.register([array])[0].endpoint()

    def layout(self, ends: End | Sequence[End], block_bytes: int | str | None = None, count: int | None = None, *,
               offset: int | str = 0, stride: int | str | None = None, layers: int = 1,
               layer_stride: int | str | None = None) -> _layouts.Layout:
        """Describes blocks of one length that transfers name by their numbers, such as those of a paged KV cache. This call
        registers and checks the memory, so transfers need not:

            ours, theirs = node.layout(caches), node.layout([f"west:cache-{n}" for n in range(32)], "16KiB", 65536)
            node.transfer(ours, theirs, source_blocks=[7, 3], blocks=[0, 1])    # block 7 into 0, 3 into 1, in each layer

        ends: an array, a buffer, a range of a buffer, or a list of these with one entry for each layer. All must be on one
        node and have the same shape. In arrays, each row is a block, unless you give block_bytes and count. At each end,
        block i of layer k begins at byte offset + k * layer_stride + i * stride. `stride` is block_bytes by default.
        `layers`: the number of layers in each end; `layer_stride` is count * stride by default.

        Raises InvalidArgument and OutOfRange: see Layout."""
        return _layouts.Layout(self._requests, ends, block_bytes, count, offset, stride, layers, layer_stride)

    def unregister(self, array: Any) -> bool:
        """Ends the registration of an array's memory, and all names in it, before the memory is freed. If the array shares
        its memory with others (from a pool, from `load`, from `empty`), only the names in its part end. Transfers that use
        the memory are cancelled; the call waits for their end. Returns False if there was nothing to end."""
        if isinstance(array, OURS):
            place = self._requests.place(array, "the array", False)
            first = place.endpoint[2] or 0
            owner = array if isinstance(array, _mapped.MappedArray) else array._memory
            return self._views.end_of(owner, (place.endpoint[1], first, first + array.nbytes))
        named = self._views.end_of(_registrations.owner_of(array))
        return self._registrations.forget(array) or named

    def map(self, buffer: str | Buffer, shape: int | tuple[int, ...] | None = None, dtype: object = None, *,
            device: int | str | None = None) -> _mapped.MappedArray:
        """Maps the memory of a buffer of this node as an array, without a copy. The buffer can be the daemon's or another
        process's; both see each other's writes. You need the right to read and to write the whole buffer. `shape`, `dtype`:
        by default those of the array that the buffer is named after, else bytes; `device`: the GPU of this process whose
        kernels use GPU memory, if another GPU has the memory.

        The daemon revokes the mapping when the buffer, its owner's process or the access right is gone: see
        MappedArray.check. Raises FailedPrecondition for memory that no other process can map (NOT_SHAREABLE, PID_NAMESPACE)
        and for a buffer of another node (OTHER_NODE)."""
        return _mapped.create(self._native, buffer, shape, dtype, device)

    def buffer(self, name: str, node: str = "") -> Buffer:
        """The buffer with this name or id, on `node` (empty: this node). `west:name` names the node, too."""
        return self._buffer(self._native.get_buffer(*whole_buffer(name, node)))

    def buffers(self, node: str = "") -> list[Buffer]:
        """The buffers that the caller owns or has a grant on."""
        return [Buffer._of(each) for each in json.loads(self._native.list_buffers(node))]

    def delete(self, buffer: str | Buffer, *, force: bool = False) -> None:
        """Removes a buffer. `name` is on this node, `west:name` on another node. `force` cancels the transfers that use the
        buffer and revokes its mappings; without it, the call fails if there are any."""
        if isinstance(buffer, str):
            node, name = whole_buffer(buffer)
            self._native.delete_buffer(name, force, node)
        else:
            self._native.delete_buffer(buffer.id, force, buffer.node)
            self._views.lose(buffer.id)

    def sum(self, range: str | Endpoint | Buffer | Any) -> Sum:
        """The checksum of a range, or of an array of this process: the same as that of a transfer with checksum=True."""
        return known(Sum, json.loads(self._native.sum_buffer(self._range(range)._tuple())))

    # ---- grants

    def grant(self, range: str | Endpoint | Buffer | Any, to: str, *, read: bool = False, write: bool = False,
              seconds: float | None = None) -> Grant:
        """Gives another owner ("1000@west") access to a range of a buffer of this node, or to an array of this process: to
        exactly that array, until its memory is freed."""
        lifetime = milliseconds(seconds, "a lifetime")
        return Grant._of(json.loads(self._native.create_grant(self._range(range)._tuple(), to, read, write, lifetime)))

    def grants(self, buffer: str = "", node: str = "") -> list[Grant]:
        return [Grant._of(each) for each in json.loads(self._native.list_grants(buffer, node))]

    def revoke(self, grant: str | Grant) -> None:
        """Revokes a grant. Transfers that depend on it end."""
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
