"""Weights on their way to vLLM's workers: what a trainer offers, and what a worker has received. Without vLLM."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ..core.node._connect import connect
from ..core.node._node import Node
from ..core.values._errors import InvalidArgument
from ..core.values._transfer import Transfer
from ..core.values._values import Receipt
from . import _ahead, _tensors, _weights
from ._kept import Kept

NAME = "onecopy"
ROOM_BYTES = 1 << 30  # that a worker has for what it reads before it loads it

log = logging.getLogger("onecopy.vllm")


def has_trainers(base: Any) -> bool:
    """Whether this vLLM has engines of trainers, which their init info chooses: since 0.28."""
    return "backend" in getattr(getattr(base, "TrainerInitInfo", None), "__annotations__", {})


@dataclasses.dataclass(frozen=True)
class Received:
    """A part of a model that this worker has received by one transfer."""

    update: int  # counted from 1, of this worker; 0: of the model's files, by the loader
    tensors: int
    transfer: Transfer

    @property
    def receipt(self) -> Receipt:
        return self.transfer.receipt

    def __str__(self) -> str:
        return f"{f'update {self.update}' if self.update else 'load'}, {self.tensors} tensors: {self.transfer}"


received: Kept[Received] = Kept()


def receipts() -> list[Received]:
    """What this process, a worker, has received, the newest last, at most 1,024."""
    return received.all()


def printed(_worker: object = None) -> list[str]:
    """The receipts as text, for `llm.collective_rpc(onecopy.vllm.printed)`, which runs it in every worker."""
    return [str(each) for each in receipts()]


class Client(Protocol):
    """What vLLM calls VLLMWeightSyncClient; vLLM has one for HTTP and one for Ray. Each call waits for all workers."""

    def init_weight_transfer_engine(self, init_info: dict[str, Any], /) -> None: ...

    def start_weight_update(self) -> None: ...

    def update_weights(self, update_info: dict[str, Any], /) -> None: ...

    def finish_weight_update(self) -> None: ...


def _checked(what: str, bytes: int | None, *, least: int = 1) -> int | None:
    if bytes is not None and (type(bytes) is not int or bytes < least):
        raise InvalidArgument(f"{what} of {bytes} is none", "BAD_ARGUMENT", f"give a number of bytes from {least} on")
    return bytes


class Offer:
    """Weights that workers may read until this is closed. `update_info` is the argument of vLLM's update_weights. The
    weights must stay as they are until then. Afterwards their memory stays registered, for the next round, while it lives.
    """

    def __init__(self, node: Node, weights: Iterable[tuple[str, Any]]) -> None:
        named = list(weights)
        tensors = [tensor for _, tensor in named]
        self._offer = _tensors.Offer(node, tensors)
        self.update_info = _weights.describe(named, self._offer, node.name)

    def close(self) -> None:
        """May be called again."""
        self._offer.release()

    def __enter__(self) -> Offer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Trainer:
    """Sends weights to the workers behind a client. Only one thread at a time may use it.

    client: what vLLM calls VLLMWeightSyncClient; None: you call its methods yourself, with `init_info` and `offer`.
    batch_bytes: how much to offer at a time; None: all weights at once, which suits tensors that are already in memory. Set
    it if the iterator makes tensors as it goes (FSDP's full_tensor). room_bytes: how much a worker reads at a time before
    it loads it; the worker needs up to twice as much memory. in_place: the weights match the workers' own parameters in
    name, shape and type, and are read straight into these, without load_weights. at_most, path, checksum: see
    Node.transfer. run_dir: see onecopy.connect."""

    def __init__(self, client: Client | None = None, *, batch_bytes: int | None = None, room_bytes: int = ROOM_BYTES,
                 in_place: bool = False, at_most: int | None = None, path: str = "", checksum: bool = False,
                 run_dir: str | os.PathLike[str] | None = None) -> None:
        self._client = client
        self._batch_bytes = _checked("a batch", batch_bytes)
        _checked("room", room_bytes)
        self._node = connect(run_dir, program="vllm trainer")
        self.init_info: dict[str, Any] = {
            "node": self._node.name, "room_bytes": room_bytes, "in_place": in_place, "at_most": at_most, "path": path,
            "checksum": checksum}
        if client is not None:
            client.init_weight_transfer_engine(self.init_info)

    def offer(self, weights: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> Offer:
        """For a round by hand: `with trainer.offer(weights) as offered: update_weights(offered.update_info)`."""
        return Offer(self._node, _named(weights))

    def send(self, weights: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        """A whole round. Returns when all workers have the weights; then you can change the weights."""
        if self._client is None:
            raise InvalidArgument("this trainer has no client to send with", "BAD_ARGUMENT",
                                  "create it with a client, or use offer()")
        self._client.start_weight_update()
        self.update(weights)
        self._client.finish_weight_update()

    def update(self, weights: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        """What is between the beginning and the end of a round."""
        assert self._client is not None
        for batch in _ahead.batches(_named(weights), lambda each: each[1].numel() * each[1].element_size(),
                                      self._batch_bytes):
            with Offer(self._node, batch) as offered:
                self._client.update_weights(offered.update_info)
            batch.clear()  # what was made for it goes before the next is made


def _named(weights: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> Iterable[tuple[str, Any]]:
    return weights.items() if isinstance(weights, Mapping) else weights


@functools.lru_cache(maxsize=1)
def worker_node() -> Node:
    """This worker's connection. A failure is not kept."""
    return connect(program="vllm worker")
