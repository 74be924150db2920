"""onecopy for vLLM: it loads a model's files at the start, and sends a trainer's weights to the workers of a running vLLM.

    vllm serve MODEL --load-format onecopy --weight-transfer-config '{"backend": "onecopy"}'

vLLM finds the loader and the engine by the wheel's entry point. The trainer does not need vLLM:

    trainer = onecopy.vllm.Trainer(client)             # VLLMWeightSyncClient: HTTPVLLMWeightSyncClient(URL), …
    trainer.send(model.named_parameters())             # as often as wanted

Every worker reads the trainer's memory, by as few transfers as possible. Needs torch, and vLLM 0.24 or later."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from ._vllm_rounds import (
    NAME,
    ROOM_BYTES,
    Client,
    Offer,
    Received,
    Trainer,
    has_trainers,
    log,
    printed,
    receipts,
    worker_node,
)


def register() -> None:
    """Makes "onecopy" a load format of vLLM and a backend of its weight transfer, in this process. vLLM calls this in each
    of its processes, by the entry point. If a version of vLLM lacks one of the two, it stays as it is. You can call it
    again."""
    _register_loader()
    _register_engines()


def _register_loader() -> None:
    try:
        loaders: Any = importlib.import_module("vllm.model_executor.model_loader")
        made = importlib.import_module("onecopy.integrations._vllm_loader").OneCopyModelLoader
    except ImportError as failure:
        version = getattr(sys.modules.get("vllm"), "__version__", "of this process")
        log.warning("vLLM %s has no model loader that onecopy supports; the load format onecopy is not available: %s", version, failure)
        return
    if loaders._LOAD_FORMAT_TO_MODEL_LOADER.get(NAME) is not made:
        loaders.register_model_loader(NAME)(made)


def _register_engines() -> None:
    try:
        factory: Any = importlib.import_module("vllm.distributed.weight_transfer.factory")
    except ModuleNotFoundError as failure:
        log.info("this vLLM has no weight transfer: %s", failure)
        return
    engines = [(factory.WeightTransferEngineFactory, "OneCopyWeightTransferEngine")]
    if has_trainers(importlib.import_module("vllm.distributed.weight_transfer.base")):
        engines.append((factory.WeightTransferTrainerFactory, "OneCopyTrainerWeightTransferEngine"))
    for known, name in engines:
        if NAME not in known._registry:
            known.register_engine(NAME, "onecopy.integrations._vllm_engine", name)


def __getattr__(name: str) -> Any:
    """The classes that need vLLM."""
    if name in _OF_VLLM:
        return getattr(importlib.import_module("onecopy.integrations._vllm_engine"), name)
    if name == "OneCopyModelLoader":
        return importlib.import_module("onecopy.integrations._vllm_loader").OneCopyModelLoader
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_OF_VLLM = ("OneCopyTrainerInitInfo", "OneCopyTrainerWeightTransferEngine", "OneCopyWeightTransferEngine",
            "OneCopyWeightTransferInitInfo", "OneCopyWeightTransferUpdateInfo")

__all__ = ["NAME", "ROOM_BYTES", "Client", "Offer", "Received", "Trainer", "printed", "receipts", "register", "worker_node"]
