"""onecopy as a transport of Ray's Direct Transport: the nodes' daemons move tensors of torch from actor to actor.

    import onecopy.ray
    onecopy.ray.register()                     # before a class names the transport, in the module that has the class

    @ray.remote(enable_tensor_transport=True)
    class Trainer:
        @ray.method(tensor_transport="onecopy")
        def weights(self):
            return self.model.state_dict()

The receiver reads the sender's memory; all tensors of an object move by one transfer. The tensors that the sender returned
must stay as they are until Ray frees the object. Needs ray and torch."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import functools
import importlib
import logging
import threading
from collections.abc import Sequence
from typing import Any

from .. import _native
from ..core.node._connect import connect
from ..core.node._node import Node
from ..core.values import _numbers
from ..core.values._errors import Error, InvalidArgument
from ..core.values._transfer import Transfer
from ..core.values._values import Receipt
from . import _tensors
from ._kept import Kept

# Not for mypy, which would read all of them.
_ray: Any = importlib.import_module("ray")
_torch: Any = importlib.import_module("torch")
_rdt: Any = importlib.import_module("ray.experimental.rdt.tensor_transport_manager")
_rdt_util: Any = importlib.import_module("ray.experimental.rdt.util")

NAME = "ONECOPY"
_MOST_ENDED = 4096
_MOST_AT_ONCE = 32  # objects that are fetched; others wait for their turn

_log = logging.getLogger("onecopy.ray")


@dataclasses.dataclass(frozen=True)
class Received:
    """An object that this process has received, by one transfer or, for very many tensors, by several."""

    object_id: str
    tensors: int
    transfer: Transfer

    @property
    def receipt(self) -> Receipt:
        return self.transfer.receipt

    def __str__(self) -> str:
        return f"object {self.object_id}, {self.tensors} tensors: {self.transfer}"


def register() -> None:
    """Makes "onecopy" a tensor transport of Ray, for the classes that name it and the actors that this process creates from
    now on. You can call it again.

    Raises Unavailable, with a remedy, if this node's daemon does not answer. If an actor's node has no daemon, the first
    call of a method with this transport raises. Each process uses the daemon of its $ONECOPY_RUN_DIR, else the daemon of
    its machine."""
    _node().ping()
    known = _rdt_util.transport_manager_info.get(NAME)
    if known is None:
        _ray.experimental.register_tensor_transport(NAME, ["cpu", "cuda"], OneCopyTransport, _torch.Tensor)
    elif known.transport_manager_class is not OneCopyTransport:
        raise InvalidArgument(f"Ray already has another transport with the name {NAME}", "NAME_TAKEN",
                              "register this one first, and the other under another name")


def receipts() -> list[Received]:
    """What this process has received, the newest last, at most 1,024. For what an actor has received, ask the actor."""
    return _received.all()


_received: Kept[Received] = Kept()


@functools.lru_cache(maxsize=1)
def _node() -> Node:
    """This process' connection. A failure is not kept."""
    return connect(program="ray")


def _why_not(_actor: object) -> Error | None:
    """Runs in an actor: why it cannot use the transport."""
    try:
        _node().ping()
    except Error as failure:
        return failure
    return None


@dataclasses.dataclass(eq=False)
class OneCopyMetadata(_rdt.TensorTransportMetadata):  # type: ignore[misc]
    """What a receiver has to know of an object."""

    offered: Sequence[_tensors.Offered] = ()


class _Fetch(_rdt.FetchRequest):  # type: ignore[misc]
    """An object on its way. It is cancelled when no receiver wants it any longer."""

    def __init__(self, obj_id: str, tensors: list[Any]) -> None:
        super().__init__(obj_id=obj_id, tensors=tensors)
        self.stop = _native.Stop()
        self.future: concurrent.futures.Future[None] | None = None

    def __del__(self) -> None:
        if self.future is not None and not self.future.done():
            self.stop.request()
            self.future.cancel()


class OneCopyTransport(_rdt.TensorTransportManager):  # type: ignore[misc]
    """One for each process, made by Ray. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer may run while it is held
        self._offers: dict[str, _tensors.Offer] = {}
        self._able: set[object] = set()  # ids of actors that have a daemon
        self._running: dict[str, list[_native.Stop]] = {}
        self._aborted: collections.OrderedDict[str, None] = collections.OrderedDict()  # before they have begun
        self._ended: collections.OrderedDict[str, None] = collections.OrderedDict()
        self._threads = concurrent.futures.ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="onecopy-ray")

    def tensor_transport_backend(self) -> str:
        return NAME

    @staticmethod
    def is_one_sided() -> bool:
        return True

    @staticmethod
    def can_abort_transport() -> bool:
        return True

    def actor_has_tensor_transport(self, actor: Any) -> bool:
        """Raises why not."""
        if actor._actor_id in self._able:
            return True
        asked = actor.__ray_call__.options(concurrency_group="_ray_system").remote(_why_not)
        failure = _ray.get(asked)
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # which a frame of its own traceback would keep
        self._able.add(actor._actor_id)
        return True

    def extract_tensor_transport_metadata(self, obj_id: str, rdt_object: Sequence[Any]) -> OneCopyMetadata:
        """Offers the tensors of an object to others until garbage_collect."""
        kinds = sorted({each.device.type for each in rdt_object})
        if len(kinds) > 1:
            raise InvalidArgument(f"tensors of one object are on {' and '.join(kinds)}", "BAD_ARGUMENT",
                                  "return them as separate objects, or move them to one kind of device")
        offer = _tensors.Offer(_node(), rdt_object)
        with self._lock:
            before, self._offers[obj_id] = self._offers.pop(obj_id, None), offer
        if before is not None:  # the task ran again
            before.release()
        return OneCopyMetadata(
            tensor_meta=[(each.shape, each.dtype) for each in rdt_object],
            tensor_device=kinds[0] if kinds else None, offered=offer.tensors)

    def get_communicator_metadata(self, src_actor: object, dst_actor: object, backend: str | None = None) -> Any:
        return _rdt.CommunicatorMetadata()

    def fetch_multiple_tensors(self, obj_id: str, tensor_transport_metadata: OneCopyMetadata,
                               communicator_metadata: object, target_buffers: list[Any] | None = None) -> _Fetch:
        """Begins to read an object, into the target buffers where there are some: of either kind of device."""
        with self._lock:
            if self._aborted.pop(obj_id, 0) is None:
                raise self._failure(obj_id, "it was aborted before it began")
        meta = tensor_transport_metadata
        try:
            tensors = target_buffers or _tensors.room(_node(), meta.tensor_meta, meta.tensor_device or "cpu")
        except (Error, RuntimeError) as failure:  # no memory
            raise self._failure(obj_id, str(failure)) from failure
        fetch = _Fetch(obj_id, tensors)
        with self._lock:
            self._running.setdefault(obj_id, []).append(fetch.stop)
            self._ended.pop(obj_id, None)
        fetch.future = self._threads.submit(self._read, obj_id, meta.offered, tensors, fetch.stop)
        return fetch

    def wait_fetch_complete(self, fetch_request: _Fetch, timeout: float = -1) -> list[Any]:
        """Raises TimeoutError after `timeout` seconds; the transfer then goes on until the request goes."""
        assert fetch_request.future is not None
        try:
            fetch_request.future.result(None if timeout == -1 else _numbers.seconds(timeout, "a timeout", zero=True))
        except (TimeoutError, concurrent.futures.CancelledError) as failure:
            if fetch_request.future.done():
                raise self._failure(fetch_request.obj_id, str(failure)) from failure
            raise TimeoutError(
                f"object {fetch_request.obj_id} has not arrived through onecopy after {timeout} seconds") from failure
        except (Error, RuntimeError) as failure:
            raise self._failure(fetch_request.obj_id, str(failure)) from failure
        return list(fetch_request.tensors)

    def recv_multiple_tensors(self, obj_id: str, tensor_transport_metadata: OneCopyMetadata,
                              communicator_metadata: object, target_buffers: list[Any] | None = None) -> list[Any]:
        return self.wait_fetch_complete(
            self.fetch_multiple_tensors(obj_id, tensor_transport_metadata, communicator_metadata, target_buffers))

    def send_multiple_tensors(self, tensors: list[Any], tensor_transport_metadata: object,
                              communicator_metadata: object) -> None:
        raise NotImplementedError("with onecopy the receiver reads; there is nothing to send")

    def garbage_collect(self, obj_id: str, tensor_transport_meta: object, tensors: list[Any]) -> None:
        with self._lock:
            offer = self._offers.pop(obj_id, None)
        if offer is not None:
            offer.release()

    def abort_transport(self, obj_id: str, communicator_metadata: object) -> None:
        """Cancels what reads the object; one that has not begun fails when it does."""
        with self._lock:
            running = list(self._running.get(obj_id, ()))
            if not running and obj_id not in self._ended:
                self._aborted[obj_id] = None
                while len(self._aborted) > _MOST_ENDED:
                    self._aborted.popitem(last=False)
        for stop in running:
            stop.request()

    def _read(self, obj_id: str, offered: Sequence[_tensors.Offered], tensors: Sequence[Any],
              stop: _native.Stop) -> None:
        try:
            done = _tensors.read(_node(), offered, tensors, stop)
        finally:
            with self._lock:
                running = self._running[obj_id]
                running.remove(stop)
                if not running:
                    del self._running[obj_id]
                self._ended[obj_id] = None
                while len(self._ended) > _MOST_ENDED:
                    self._ended.popitem(last=False)
        for transfer in done:
            received = Received(obj_id, len(tensors), transfer)
            _received.add(received)
            _log.info("%s", received)

    @staticmethod
    def _failure(obj_id: str, why: str) -> Exception:
        failure: Exception = _ray.exceptions.RayDirectTransportError(
            f"object {obj_id} did not arrive through onecopy: {why}")
        return failure


__all__ = ["NAME", "OneCopyMetadata", "OneCopyTransport", "Received", "receipts", "register"]
