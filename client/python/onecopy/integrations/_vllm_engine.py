"""The classes that vLLM's factories make for the backend "onecopy": see onecopy.vllm, which registers them.

Of vLLM 0.24 to 0.33. Until 0.25 a worker hands `load_weights` to receive_weights, and reloads layer by layer itself; since
0.26 the engine does both; since 0.28 a trainer has an engine, too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from .. import _native
from ..core.values._errors import Error, InvalidArgument
from ..core.values._transfer import Transfer
from . import _vllm_rounds, _weights

# Not for mypy, which would read all of them.
_torch: Any = importlib.import_module("torch")
_base: Any = importlib.import_module("vllm.distributed.weight_transfer.base")

_Load = Callable[[list[tuple[str, Any]]], object]


@dataclasses.dataclass
class OneCopyWeightTransferInitInfo(_base.WeightTransferInitInfo):  # type: ignore[misc]
    """What a Trainer tells of itself (`init_info`)."""

    node: str = ""  # the trainer's; empty: not known yet
    room_bytes: int = _vllm_rounds.ROOM_BYTES
    in_place: bool = False
    at_most: int | None = None
    path: str = ""
    checksum: bool = False

    def __post_init__(self) -> None:
        for word, kind in (("node", str), ("room_bytes", int), ("in_place", bool), ("path", str), ("checksum", bool)):
            if type(getattr(self, word)) is not kind:
                raise InvalidArgument(f"{word} of the trainer's init_info is {getattr(self, word)!r}", "BAD_ARGUMENT",
                                      "pass Trainer.init_info unchanged")
        if self.room_bytes < 1 or not (self.at_most is None or type(self.at_most) is int):
            raise InvalidArgument(f"room_bytes and at_most of the trainer's init_info are {self.room_bytes}, {self.at_most}",
                                  "BAD_ARGUMENT", "pass Trainer.init_info unchanged")


@dataclasses.dataclass
class OneCopyWeightTransferUpdateInfo(_base.WeightTransferUpdateInfo):  # type: ignore[misc]
    """What Offer.update_info has: tensors, and where each lies in the buffers of a node, as ranges."""

    names: list[str]
    dtype_names: list[str]
    shapes: list[list[int]]
    node: str
    buffers: list[str]
    places: list[list[Any]]

    def __post_init__(self) -> None:
        self.weights = _weights.parse(self.names, self.dtype_names, self.shapes, self.node, self.buffers, self.places)


def _quietly_incomplete() -> contextlib.AbstractContextManager[object]:
    """While a part of a checkpoint is loaded, models do not look for the rest of it."""
    try:
        module: Any = importlib.import_module("vllm.model_executor.model_loader.mtp_validation")
    except ModuleNotFoundError:  # before 0.30
        return contextlib.nullcontext()
    made: contextlib.AbstractContextManager[object] = module.disable_mtp_completeness_check()
    return made


class OneCopyWeightTransferEngine(_base.WeightTransferEngine):  # type: ignore[misc]
    """Of a worker. On its thread alone."""

    init_info_cls = OneCopyWeightTransferInitInfo
    update_info_cls = OneCopyWeightTransferUpdateInfo

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._init = OneCopyWeightTransferInitInfo()
        self._updates = 0

    def init_transfer_engine(self, init_info: OneCopyWeightTransferInitInfo) -> None:
        """Raises Unavailable where this worker's machine has no daemon, and where that does not know the trainer's."""
        node = _vllm_rounds.worker_node()
        node.ping()
        known = {each["name"] for each in node.nodes()}
        if init_info.node and init_info.node not in known:
            raise InvalidArgument(
                f"node {node.name} does not have the trainer's node {init_info.node} as a peer", "NODE_UNKNOWN",
                f"make {init_info.node} a peer of its daemon: --peer {init_info.node}=HOST:PORT, or [peers.{init_info.node}]")
        self._init = init_info

    def start_weight_update(self) -> None:
        if not self._init.in_place:
            reload: Any = importlib.import_module("vllm.model_executor.model_loader.reload")
            reload.initialize_layerwise_reload(self.model)

    def finish_weight_update(self) -> None:
        if not self._init.in_place:
            reload: Any = importlib.import_module("vllm.model_executor.model_loader.reload")
            reload.finalize_layerwise_reload(self.model, self.model_config)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self.receive_weights(self.parse_update_info(update_info))
        if self._device().type != "cpu":  # what load_weights has begun
            _torch.accelerator.synchronize()

    def receive_weights(self, update_info: OneCopyWeightTransferUpdateInfo, load_weights: _Load | None = None) -> None:
        """Reads the weights, and loads them. After an error the model may have some of them: send all again."""
        self._updates += 1
        policy = _weights.Policy(self._init.at_most, self._init.path, self._init.checksum)
        if self._init.in_place:
            self._into_the_model(update_info.weights, policy)
            return
        load = load_weights or self.model.load_weights
        with _weights.Reader(_vllm_rounds.worker_node(), update_info.weights, str(self._device()), self._init.room_bytes,
                             policy) as reader:
            for named, transfers in reader:
                self._note(len(named), transfers)
                with _quietly_incomplete():
                    load(named)

    def shutdown(self) -> None:
        """The connection stays for the next trainer, as do the receipts."""

    @staticmethod
    def trainer_send_weights(iterator: Iterator[tuple[str, Any]], trainer_args: Any) -> None:
        """trainer_args: an onecopy.vllm.Trainer, or {"trainer": …}. The caller begins and ends the round."""
        trainer = trainer_args.get("trainer") if isinstance(trainer_args, dict) else trainer_args
        if not isinstance(trainer, _vllm_rounds.Trainer):
            raise InvalidArgument(f"a {type(trainer).__name__} is not an onecopy.vllm.Trainer", "BAD_ARGUMENT",
                                  'pass {"trainer": onecopy.vllm.Trainer(client)}')
        trainer.update(iterator)

    def _device(self) -> Any:
        """Where the model is; before 0.26 the engine is not told."""
        device = getattr(self, "device", None)
        if device is None:
            device = next((each.device for each in self.model.parameters()), _torch.get_default_device())
        if device.type == "meta":  # between the beginning of a layer by layer reload and its end
            device = _torch.get_default_device()
        return device

    def _into_the_model(self, weights: list[_weights.Weight], policy: _weights.Policy) -> None:
        tensors = {**dict(self.model.named_buffers()), **dict(self.model.named_parameters())}
        targets = [each.detach() for each in _weights.targets_in(tensors, weights)]
        self._note(len(weights), policy.read(_vllm_rounds.worker_node(), weights, targets, _native.Stop()))

    def _note(self, tensors: int, transfers: list[Transfer]) -> None:
        for transfer in transfers:
            one = _vllm_rounds.Received(self._updates, tensors, transfer)
            _vllm_rounds.received.add(one)
            _vllm_rounds.log.info("%s", one)


if _vllm_rounds.has_trainers(_base):

    @dataclasses.dataclass
    class OneCopyTrainerInitInfo(_base.TrainerInitInfo):  # type: ignore[misc]
        """As the arguments of onecopy.vllm.Trainer."""

        backend: ClassVar[str] = _vllm_rounds.NAME
        batch_bytes: int | None = None
        room_bytes: int = _vllm_rounds.ROOM_BYTES
        in_place: bool = False
        at_most: int | None = None
        path: str = ""
        checksum: bool = False
        run_dir: str | None = None

    class OneCopyTrainerWeightTransferEngine(_base.TrainerWeightTransferEngine):  # type: ignore[misc]
        """Of a trainer whose rank 0 has all weights, and offers them; its other ranks take part in gathering them."""

        init_info_cls = OneCopyTrainerInitInfo

        def __init__(self, trainer: _vllm_rounds.Trainer | None, **options: Any) -> None:
            super().__init__(**options)
            self._trainer = trainer

        @classmethod
        def trainer_init(cls, init_info: Any, *, client: Any, source: Any = None) -> OneCopyTrainerWeightTransferEngine:
            if source is None:
                raise InvalidArgument("onecopy needs a WeightSource to send weights", "BAD_ARGUMENT",
                                      "pass source=ModuleSource(model)")
            owned = getattr(source, "owned_names", None)
            if owned is not None and init_info.is_sender and len(owned(init_info.rank)) != len(source.metadata):
                raise InvalidArgument("onecopy sends from rank 0 of the trainer, and rank 0 does not own every parameter",
                                      "BAD_ARGUMENT", "pass a source that gathers all parameters on rank 0")
            trainer = None
            if init_info.is_sender:
                words = ("batch_bytes", "room_bytes", "in_place", "at_most", "path", "checksum", "run_dir")
                trainer = _vllm_rounds.Trainer(client, **{word: getattr(init_info, word) for word in words})
            return cls(trainer, client=client, source=source, is_sender=init_info.is_sender)

        def send_weights(self) -> None:
            """On every rank; returns on rank 0 when all workers have the weights."""
            weights = self.source.iter_full() if hasattr(self.source, "iter_full") else iter(self.source)
            if self._trainer is None:
                for _ in weights:  # takes part in what gathers them
                    pass
                return
            try:
                self._trainer.send(weights)
            except Error:
                for _ in weights:  # so that the other ranks come to their end
                    pass
                raise


__all__ = ["OneCopyWeightTransferEngine", "OneCopyWeightTransferInitInfo", "OneCopyWeightTransferUpdateInfo"]
