"""vLLM's model loader "onecopy": a model's safetensors files go into the workers' GPUs by their daemon. See onecopy.vllm,
which registers it.

Of vLLM 0.24 to 0.33. What it shares with vLLM's own loader is that one's: which files, which experts, weights of second
models, and whether all parameters have got theirs.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import time
from collections.abc import Iterator
from typing import Any

from ..core.node._connect import connect
from ..core.values._errors import InvalidArgument, Unimplemented
from ..formats import _moving
from . import _shard_plan, _shards, _vllm_rounds


def _part(name: str) -> Any:
    """A module of vLLM's; None where it has none of that name."""
    try:
        return importlib.import_module(f"vllm.model_executor.model_loader.{name}")
    except ModuleNotFoundError as failure:
        if failure.name is None or not failure.name.startswith("vllm."):
            raise
        return None


# Not for mypy, which would read all of them.
_torch: Any = importlib.import_module("torch")
_vllm: Any = importlib.import_module("vllm")
_base: Any = importlib.import_module("vllm.model_executor.model_loader.default_loader")
_progress: Any = importlib.import_module("tqdm.auto")
_utils = _part("weight_utils")
_experts = _part("ep_weight_filter")

STAGING_BYTES = 512 << 20
_INDEX = "model.safetensors.index.json"
_OWN = ("run_dir", "staging_bytes", "at_most", "checksum")
_PREPARES = ["self", "model_name_or_path", "subfolder", "revision", "fall_back_to_pt", "allow_patterns_overrides"]


def _check_vllm() -> None:
    """Whether the parts of vLLM's own loader that this one is made of are what they were."""
    loader = _base.DefaultModelLoader
    try:
        fits = (list(inspect.signature(loader._prepare_weights).parameters) == _PREPARES
                and list(inspect.signature(loader._get_weights_iterator).parameters) == ["self", "source"]
                and hasattr(_experts, "should_skip_weight") and hasattr(_utils, "enable_tqdm"))
    except AttributeError:
        fits = False
    if not fits:
        raise Unimplemented(
            f"the model loader of vLLM {_vllm.__version__} is unknown to this onecopy, which supports vLLM 0.24 to 0.33",
            "NOT_SERVED", "use --load-format safetensors, or matching versions of vLLM and onecopy")


def _checked(config: Any) -> dict[str, Any]:
    """What --model-loader-extra-config says."""
    if not isinstance(config, dict):
        raise InvalidArgument(f"model_loader_extra_config is a {type(config).__name__}", "BAD_ARGUMENT", "pass a JSON object")
    kinds = {"run_dir": (str,), "staging_bytes": (int,), "at_most": (int, type(None)), "checksum": (bool,),
             "enable_weights_track": (bool, type(None))}
    for word, value in config.items():
        if word not in kinds:
            raise InvalidArgument(f"model_loader_extra_config has {word!r}, which the load format onecopy does not know",
                                  "BAD_ARGUMENT", f"use {', '.join(kinds)}")
        if type(value) not in kinds[word] or (type(value) is int and value < 1):
            raise InvalidArgument(f"{word} of model_loader_extra_config is {value!r}", "BAD_ARGUMENT",
                                  "see docs/integrations/vllm.md")
    return config


class OneCopyModelLoader(_base.DefaultModelLoader):  # type: ignore[misc]
    """Reads safetensors files alone. On a worker's thread alone."""

    counter_before_loading_weights: float  # of vLLM's loader, which logs how long it took

    def __init__(self, load_config: Any) -> None:
        _check_vllm()
        config = _checked(load_config.model_loader_extra_config)
        if load_config.safetensors_load_strategy not in (None, "lazy"):
            raise InvalidArgument(
                f"safetensors_load_strategy={load_config.safetensors_load_strategy!r} applies only to vLLM's own loaders",
                "BAD_ARGUMENT", "leave it out with --load-format onecopy")
        self._run_dir: str | None = config.get("run_dir")
        self._staging_bytes: int = config.get("staging_bytes", STAGING_BYTES)
        self._moves = _moving.options(config.get("at_most"), config.get("checksum", False), None)
        theirs = copy.copy(load_config)  # in which this is a loader of safetensors files, which it finds likewise
        theirs.load_format = "safetensors"
        theirs.model_loader_extra_config = {word: each for word, each in config.items() if word not in _OWN}
        super().__init__(theirs)
        self._model: Any = None  # while its weights are read

    def get_all_weights(self, model_config: Any, model: Any) -> Iterator[tuple[str, Any]]:
        """Also of a model that is loaded again in place."""
        self._model = model
        try:
            yield from super().get_all_weights(model_config, model)
        finally:
            self._model = None

    def _get_weights_iterator(self, source: Any) -> Iterator[tuple[str, Any]]:
        if self.load_config.safetensors_load_strategy == "torchao":
            raise Unimplemented("the load format onecopy cannot load weights that torchao quantized", "NOT_SERVED",
                                "use --load-format safetensors")
        files, index = self._files(source)
        if self.counter_before_loading_weights == 0.0:
            self.counter_before_loading_weights = time.perf_counter()
        return ((source.prefix + name, tensor) for name, tensor in self._read(files, index))

    def _files(self, source: Any) -> tuple[list[str], dict[str, str]]:
        """Those of the model, and of its tensors the one that the index names."""
        # The index's name comes since a version between the two; before that it was always the same.
        folder, files, is_safetensors, *named = self._prepare_weights(
            source.model_or_path, source.subfolder, source.revision, source.fall_back_to_pt, source.allow_patterns_overrides)
        if not is_safetensors or not all(each.endswith(".safetensors") for each in files):
            raise InvalidArgument(f"{source.model_or_path} has no safetensors files to load", "BAD_FORMAT",
                                  "use --load-format auto, or convert the files to safetensors")
        prefixes = getattr(self, "_encoder_only_lm_prefixes", None)
        if prefixes is not None:
            files = _utils.filter_mm_encoder_only_safetensors_files(
                files, folder, named[0], prefixes, weights_mapper=self._encoder_only_weights_mapper)
        unused = getattr(source, "is_unused_weight", None)
        if unused is not None:
            files = _utils.filter_safetensors_files_by_weight_name(files, unused)
        return sorted(files), _shard_plan.index_of(folder, named[0] if named else _INDEX)

    def _read(self, files: list[str], index: dict[str, str]) -> Iterator[tuple[str, Any]]:
        node = _vllm_rounds.worker_node() if self._run_dir is None else connect(self._run_dir, program="vllm worker")

        def wanted(name: str) -> bool:
            return not _experts.should_skip_weight(name, self.local_expert_ids)

        with contextlib.ExitStack() as opened:
            reader = opened.enter_context(
                _shards.Reader(node, files, self._device(), self._staging_bytes, wanted, self._moves, index))
            progress = opened.enter_context(_progress.tqdm(
                total=reader.tensors, desc="Loading safetensors with onecopy", unit="tensor",
                disable=not _utils.enable_tqdm(self.load_config.use_tqdm_on_load)))
            for named, transfers in reader:
                for transfer in transfers:
                    one = _vllm_rounds.Received(0, len(named), transfer)
                    _vllm_rounds.received.add(one)
                    _vllm_rounds.log.info("%s", one)
                while named:  # what the model is done with is not kept here
                    yield named.pop(0)
                    progress.update()

    def _device(self) -> Any:
        """Where the model's parameters are, or will be."""
        if self.load_config.device is not None:
            device = _torch.device(self.load_config.device)
        else:
            device = next((each.device for each in self._model.parameters() if each.device.type != "meta"),
                          _torch.device("cuda" if _torch.cuda.is_available() else "cpu"))
        return device if device.type == "cuda" else "cpu"


__all__ = ["STAGING_BYTES", "OneCopyModelLoader"]
