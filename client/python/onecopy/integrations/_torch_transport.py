"""The transport "onecopy" of torch.distributed, which torch finds by its entry point:

    from torch.distributed._transport import new_transport
    transport = new_transport("onecopy", "cpu")

This interface of torch is still private and may change."""

from __future__ import annotations

import concurrent.futures
import copy
import datetime
import functools
import importlib
import json
import os
import threading
import time
import uuid
from typing import Any

from .. import _native
from ..core.node._connect import connect
from ..core.node._node import Node
from ..core.requests import _pieces
from ..core.values import _numbers
from ..core.values._errors import InvalidArgument
from ..core.values._transfer import Transfer
from ..core.values._values import Receipt
from . import _tensors
from ._kept import Kept

# Not for mypy, which would read all of torch.
_torch: Any = importlib.import_module("torch")
_distributed: Any = importlib.import_module("torch.distributed")
_transport: Any = importlib.import_module("torch.distributed._transport")

_VERSION = 1  # of what is exchanged
_MOST_AT_ONCE = 32  # transfers of a transport that are under way; others wait for their turn


def _timeout(seconds: float | None, default: float | None = None) -> float | None:
    """Also where nothing waits: a value that cannot be a timeout is an error of the program."""
    return default if seconds is None else _numbers.seconds(seconds, "a timeout", zero=True)


def _write(**fields: object) -> bytes:
    return json.dumps({"version": _VERSION, "backend": "onecopy", **fields}).encode()


def _parse(data: bytes, what: str, **kinds: type) -> dict[str, Any]:
    """What _write made of values of these kinds; anything else is refused."""
    try:
        fields = json.loads(data)
        fits = isinstance(fields, dict) and set(fields) == {"version", "backend", *kinds} and all(
            type(fields[name]) is kind and (kind is not int or fields[name] >= 0) for name, kind in kinds.items())
    except (ValueError, TypeError) as failure:
        raise InvalidArgument(f"this is not {what}: {failure}", "BAD_ARGUMENT", "pass the peer's bytes unchanged") from failure
    if not fits or (fields["version"], fields["backend"]) != (_VERSION, "onecopy"):
        raise InvalidArgument(f"this is not {what} of onecopy, version {_VERSION}", "BAD_ARGUMENT",
                              "pass the peer's bytes unchanged, and have the same onecopy at both ends")
    return {name: fields[name] for name in kinds}


class OneCopyRemoteBuffer:
    """A peer's registered memory."""

    def __init__(self, owner: str, node: str, buffer: str, offset: int, length: int) -> None:
        self.owner = owner  # the transport that it is of
        self.node = node
        self.buffer = buffer
        self.offset = offset
        self.length = length

    def serialize(self) -> bytes:
        return _write(owner=self.owner, node=self.node, buffer=self.buffer, offset=self.offset, length=self.length)

    @classmethod
    def deserialize(cls, data: bytes) -> OneCopyRemoteBuffer:
        return cls(**_parse(data, "a remote buffer", owner=str, node=str, buffer=str, offset=int, length=int))


class OneCopyMemoryView:
    """A range of registered memory."""

    def __init__(self, memory: OneCopyMemory, offset: int, length: int) -> None:
        self._memory = memory
        self._offset = offset
        self._length = length

    def size(self) -> int:
        return self._length


class OneCopyMutableMemoryView(OneCopyMemoryView):
    """A range of registered memory that may be written."""

    writable = True


class OneCopyMemory:
    """A registered tensor. It is kept until it is unregistered or its transport is closed."""

    def __init__(self, transport: OneCopyTransport, tensor: Any) -> None:
        self._transport = transport
        self._tensor = tensor
        self._place = transport._node._requests.place(tensor.detach(), "the tensor", written=False)
        self._storage_bytes = tensor.untyped_storage().nbytes()
        self._handles = 1
        self._active = True

    def to_view(self, offset: int | None = None, length: int | None = None) -> OneCopyMemoryView:
        return OneCopyMemoryView(self, *self._range(offset, length))

    def to_mutable_view(self, offset: int | None = None, length: int | None = None) -> OneCopyMutableMemoryView:
        return OneCopyMutableMemoryView(self, *self._range(offset, length))

    def to_remote_buffer(self, *, timeout: float | None = None) -> OneCopyRemoteBuffer:
        _timeout(timeout)
        self._check()
        node, buffer, offset, bytes = self._place.endpoint
        assert bytes is not None
        return OneCopyRemoteBuffer(self._transport._id, node, buffer, offset or 0, bytes)

    def _check(self) -> None:
        if not self._active:
            raise InvalidArgument("this memory has been unregistered", "BAD_ARGUMENT", "register the tensor again")
        place = self._place
        if place.registration is not None and self._tensor.untyped_storage().nbytes() != self._storage_bytes:
            raise InvalidArgument("this tensor was resized, or has other memory, since it was registered", "BAD_ARGUMENT",
                                  "unregister it, and register it again")

    def _range(self, offset: int | None, length: int | None) -> tuple[int, int]:
        self._check()
        assert self._place.bytes is not None
        first = 0 if offset is None else _numbers.whole(offset, "an offset")
        count = self._place.bytes - first if length is None else _numbers.whole(length, "a length")
        if count < 0 or first + count > self._place.bytes:
            raise InvalidArgument(f"{count} bytes at {first} are not inside a tensor of {self._place.bytes} bytes",
                                  "RANGE_OUT_OF_BUFFER", "pass a range inside it")
        return first, count


class OneCopyWork(_distributed.Work):  # type: ignore[misc]
    """A transfer in progress; it has its receipt after the end. Any thread may use it."""

    def __init__(self, timeout: float | None) -> None:
        super().__init__()
        self._timeout = timeout
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._future: Any = _torch.futures.Future()
        self.transfer: Transfer | None = None
        self.stop = _native.Stop()

    @property
    def receipt(self) -> Receipt | None:
        """The receipt. None before the end, after a failure, and if there were no bytes."""
        return None if self.transfer is None else self.transfer.receipt

    def cancel(self) -> None:
        """Ends the transfer where it is. wait() then raises Cancelled."""
        self.stop.request()

    def is_completed(self) -> bool:
        return self._ended.is_set()

    def is_success(self) -> bool:
        return self._ended.is_set() and self._error is None

    def exception(self) -> Exception | None:
        return self._error if self._ended.is_set() else None

    def wait(self, timeout: datetime.timedelta = datetime.timedelta(0)) -> bool:
        """Raises TimeoutError, and the transfer goes on, or why it failed. A timeout of 0 is that of the call."""
        limit = _timeout(timeout.total_seconds(), None) or self._timeout
        if not self._ended.wait(limit):
            raise TimeoutError(f"the transfer has not ended after {limit} seconds, and continues: wait again, or cancel() it")
        if self._error is not None:
            raise copy.copy(self._error)  # as for the future: without a traceback, which has this
        return True

    def get_future(self) -> Any:
        """Of an empty list."""
        return self._future

    def result(self) -> list[Any]:
        self.wait()
        return []

    def synchronize(self) -> None:
        self.wait()

    def _end(self, transfer: Transfer | None, error: Exception | None) -> None:
        self.transfer, self._error = transfer, error
        self._ended.set()
        if error is None:
            self._future.set_result([])
        else:
            self._future.set_exception(copy.copy(error))  # without its traceback, which has the transport, and is never freed


class OneCopyTransport(_transport.Transport):  # type: ignore[misc]
    """One-sided reads and writes of tensors on the CPU and on GPUs, by the daemons of this node and of the peer's node.

    run_dir: see onecopy.connect; timeout: in seconds, for calls that give none; at_most: the largest number of copies of
    each transfer; path: a pattern of paths; checksum: compare both ends of every transfer. Any thread may use it."""

    def __init__(self, device: Any = None, *, run_dir: str | os.PathLike[str] | None = None, timeout: float | None = 30.0,
                 at_most: int | None = None, path: str = "", checksum: bool = False) -> None:
        super().__init__(device)
        if self.device is not None and self.device.type not in ("cpu", "cuda"):
            raise InvalidArgument(f"onecopy cannot reach tensors on {self.device}", "NOT_SHAREABLE",
                                  "use cpu, or cuda")
        self._default_timeout = _timeout(timeout)
        self._policy = functools.partial(_pieces.request, path=path, at_most=at_most, checksum=checksum)
        self._node: Node = connect(run_dir, program="torch")
        self._id = uuid.uuid4().hex
        self._peer: tuple[str, str] | None = None  # its id, and its node
        self._lock = threading.RLock()
        self._memory: dict[tuple[int, int, str], OneCopyMemory] = {}
        self._pending: dict[OneCopyWork, OneCopyMemory] = {}
        self._receipts: Kept[Receipt] = Kept()
        self._closing = False
        self._threads = concurrent.futures.ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="onecopy-torch")

    @staticmethod
    def supported() -> bool:
        """The constructor says what is missing, where no daemon answers."""
        return True

    def receipts(self) -> list[Receipt]:
        """The receipts of this transport's transfers, the newest last, at most 1,024."""
        return self._receipts.all()

    def bind(self, *, timeout: float | None = None) -> bytes:
        _timeout(timeout)
        self._check_open()
        return _write(id=self._id, node=self._node.name)

    def connect(self, peer_url: bytes, *, timeout: float | None = None) -> int:
        """Raises if this node's daemon does not know the daemon of the peer."""
        _timeout(timeout)
        self._check_open()
        fields = _parse(peer_url, "what bind returned", id=str, node=str)
        name = fields["node"]
        if name not in {each["name"] for each in self._node.nodes()}:
            raise InvalidArgument(f"node {self._node.name} does not have a peer {name}", "NODE_UNKNOWN",
                                  f"make {name} a peer of its daemon: --peer {name}=HOST:PORT, or [peers.{name}]")
        with self._lock:
            if self._peer is not None:
                raise InvalidArgument("this transport already has a peer", "BAD_ARGUMENT", "make one transport for each peer")
            self._peer = (fields["id"], name)
        return 0

    def connected(self) -> bool:
        return self._peer is not None and not self._closing

    def register_memory(self, tensor: Any, *, timeout: float | None = None) -> OneCopyMemory:
        """Tensors of one allocation share one registration."""
        _timeout(timeout)
        self._check_open()
        if not isinstance(tensor, _torch.Tensor):
            raise TypeError(f"a {type(tensor).__name__} is not a torch.Tensor")
        self._check_device(tensor.device)
        if tensor.numel() == 0:
            raise InvalidArgument(f"a tensor without elements has no memory: its shape is {tuple(tensor.shape)}", "BAD_SIZE",
                                  "leave it out")
        if not tensor.is_contiguous() or _tensors.bytes_of(tensor, "the tensor").data_ptr() != tensor.data_ptr():
            raise InvalidArgument("this tensor's elements are not contiguous in memory, or need a conversion when "
                                  "they are read", "BAD_ARGUMENT",
                                  "pass tensor.resolve_conj().resolve_neg().contiguous(), and keep it")
        key = (tensor.data_ptr(), tensor.numel() * tensor.element_size(), str(tensor.device))
        with self._lock:
            known = self._memory.get(key)
            if known is not None:
                return known
            made = OneCopyMemory(self, tensor)
            if made._place.registration is not None:
                self._node._registrations.pin(made._place.registration)
            self._memory[key] = made
            return made

    def unregister_memory(self, memory: OneCopyMemory, *, timeout: float | None = None) -> None:
        """Also ends the registration with the daemon, if no other tensor of the allocation is registered."""
        _timeout(timeout)
        with self._lock:
            self._check_open()
            if not isinstance(memory, OneCopyMemory) or memory._transport is not self:
                raise TypeError("this memory was not registered by this transport")
            if any(each is memory for each in self._pending.values()) or any(
                    view._memory is memory for view in self._cuda_stream_views()):
                raise InvalidArgument("this memory has running transfers", "BUFFER_IN_USE", "wait for these transfers first")
            self._forget(memory)

    def write(self, local_buffer: OneCopyMemoryView, remote_buffer: OneCopyRemoteBuffer, *, async_op: bool = False,
              timeout: float | None = None) -> int | OneCopyWork:
        return self._start(local_buffer, remote_buffer, False, async_op, timeout)

    def read(self, local_buffer: OneCopyMutableMemoryView, remote_buffer: OneCopyRemoteBuffer, *, async_op: bool = False,
             timeout: float | None = None) -> int | OneCopyWork:
        return self._start(local_buffer, remote_buffer, True, async_op, timeout)

    def close(self, *, timeout: float | None = None) -> None:
        """Waits for transfers in progress, then ends every registration. After a TimeoutError, you can call it again."""
        limit = _timeout(timeout, self._default_timeout)
        self._close_cuda_streams()
        deadline = None if limit is None else time.monotonic() + limit
        with self._lock:
            self._closing = True
            pending = list(self._pending)
        for work in pending:
            if not work._ended.wait(None if deadline is None else max(0.0, deadline - time.monotonic())):
                raise TimeoutError(f"{len(pending)} transfers were running, and have not ended after {limit} seconds: "
                                   "cancel() them, or close again")
        with self._lock:
            for memory in list(self._memory.values()):
                self._forget(memory)
        self._threads.shutdown()

    async def close_async(self, *, timeout: float | None = None) -> None:
        import asyncio

        await asyncio.to_thread(self.close, timeout=timeout)

    def _check_open(self) -> None:
        if self._closing:
            raise RuntimeError("this transport is closed")

    def _forget(self, memory: OneCopyMemory) -> None:
        if not memory._active:
            return
        memory._active = False
        for key in [key for key, each in self._memory.items() if each is memory]:
            del self._memory[key]
        if memory._place.registration is not None:
            self._node._registrations.unpin(memory._place.registration, end=True)

    def _check_transfer(self, local_buffer: Any, remote_buffer: Any, *, mutable: bool) -> None:
        wanted = OneCopyMutableMemoryView if mutable else OneCopyMemoryView
        if not isinstance(local_buffer, wanted) or local_buffer._memory._transport is not self:
            raise TypeError(f"this is not a {wanted.__name__} of memory that this transport has registered")
        if not isinstance(remote_buffer, OneCopyRemoteBuffer):
            raise TypeError("this is not a OneCopyRemoteBuffer")
        if self._peer is None:
            raise InvalidArgument("this transport has no peer yet", "BAD_ARGUMENT", "connect it first")
        if remote_buffer.owner != self._peer[0]:
            raise InvalidArgument("this remote buffer belongs to another peer than this transport's", "BAD_ARGUMENT",
                                  "use the transport of its owner")
        if local_buffer.size() > remote_buffer.length:
            raise InvalidArgument(f"{local_buffer.size()} bytes do not fit into a remote buffer of {remote_buffer.length}",
                                  "SIZE_MISMATCH", "pass a view of equal size")
        local_buffer._memory._check()

    def _start(self, local: OneCopyMemoryView, remote: OneCopyRemoteBuffer, reads: bool, async_op: bool,
               timeout: float | None) -> int | OneCopyWork:
        limit = _timeout(timeout, self._default_timeout)
        with self._lock:
            self._check_open()
            self._check_transfer(local, remote, mutable=reads)
            work = OneCopyWork(limit)
            node, buffer, offset, _ = local._memory._place.endpoint
            here: _pieces.Place = (node, buffer, (offset or 0) + local._offset, local.size())
            there: _pieces.Place = (remote.node, remote.buffer, remote.offset, local.size())
            request = self._policy(_pieces.Ends([there if reads else here], [here if reads else there], []))
            if local.size() > 0:
                self._pending[work] = local._memory
        if local.size() == 0:
            work._end(None, None)
        else:
            try:
                self._threads.submit(self._move, request, work)
            except RuntimeError as failure:  # the interpreter ends, or has no room for a thread
                work.cancel()  # another thread may find it yet
                self._forget_work(work)
                work._end(None, failure)
                raise
        if async_op:
            return work
        work.wait()
        return 0

    def _move(self, request: _pieces.Request, work: OneCopyWork) -> None:
        if work.is_completed():  # it was given up before it began
            return
        transfer, error = None, None
        try:
            transfer = Transfer(self._node._native, self._node._native.run(request, None, work.stop), None)
            self._receipts.add(transfer.receipt)
        except Exception as failure:  # whatever it is, the waiting thread is told
            error = failure
        self._forget_work(work)
        work._end(transfer, error)

    def _forget_work(self, work: OneCopyWork) -> None:
        with self._lock:
            self._pending.pop(work, None)


__all__ = ["OneCopyMemory", "OneCopyMemoryView", "OneCopyMutableMemoryView", "OneCopyRemoteBuffer", "OneCopyTransport",
           "OneCopyWork"]
