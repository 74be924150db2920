"""The loaders of safetensors, each with the settings that are tried for it, of which the fastest counts.

`load` gives torch's tensors by their names, all of them usable when it returns except for work on the current stream, and
whatever must be kept alive with them. On the host their bytes lie in memory of the process: what a loader only maps is
copied. An import that fails, or a RuntimeError or the like from `load`, says that it cannot run here.
"""

import concurrent.futures
import json
from typing import NamedTuple

import models

COLD, WARM = "cold", "warm"


class Setting(NamedTuple):
    name: str
    environment: dict = {}  # before anything is imported
    options: dict = {}  # of `load`


class Loader(NamedTuple):
    name: str
    package: str  # of PyPI
    module: str  # that must be there
    settings: dict  # for COLD and for WARM: those to try
    load: object  # (model, device, run_dir, **options) -> (tensors, what to keep)
    files: object = models.Model  # what is loaded: of `read_facts`
    wrong: object = models.wrong  # (model, tensors, byte_by_byte) -> what of them is wrong, or None


def _onecopy(model, device, run_dir):
    import onecopy
    import torch

    loaded = onecopy.connect(run_dir).load(model.entry, device=None if device == "cpu" else device)
    return {name: torch.from_dlpack(array) for name, array in loaded.items()}, loaded


def _safetensors(model, device, run_dir, backend="mmap", each=False, side_by_side=False):
    from safetensors import safe_open

    def one(path):
        with safe_open(path, framework="pt", device=device, backend=backend) as file:
            made = {name: file.get_tensor(name) for name in file.keys()} if each else file.get_tensors()
        if device == "cpu" and backend == "mmap":
            made = {name: tensor.clone() for name, tensor in made.items()}
        return made

    if side_by_side:
        with concurrent.futures.ThreadPoolExecutor(max(1, len(model.files))) as threads:
            parts = list(threads.map(one, model.files))
    else:
        parts = [one(path) for path in model.files]
    return {name: tensor for part in parts for name, tensor in part.items()}, None


def _fastsafetensors(model, device, run_dir, nogds=True, threads=16, block_kib=16 * 1024):
    from fastsafetensors import SafeTensorsFileLoader

    loader = SafeTensorsFileLoader(None, device, nogds=nogds, max_threads=threads, bbuf_size_kb=block_kib)
    loader.add_filenames({0: list(model.files)})
    buffers = loader.copy_files_to_device()
    return {name: buffers.get_tensor(name) for name in loader.get_keys()}, (loader, buffers)


def _runai(model, device, run_dir):
    from runai_model_streamer import SafetensorsStreamer

    with SafetensorsStreamer() as streamer:
        streamer.stream_files(list(model.files), device=device)
        tensors = dict(streamer.get_tensors())
    return tensors, None


def _instanttensor(model, device, run_dir, backend=None):
    import instanttensor

    chosen = None if backend is None else [getattr(instanttensor.Backend, backend)]
    with instanttensor.safe_open(list(model.files), framework="pt", device=device, backend=chosen) as file:
        return dict(file.tensors()), None


def _kvikio(model, device, run_dir, threads=16, task_bytes=4 << 20, direct=False):
    """It reads files into memory, and knows nothing of tensors: each file's payload at once, and views of it."""
    import kvikio
    import kvikio.defaults
    import torch

    kvikio.defaults.set({"num_threads": threads, "task_size": task_bytes, "auto_direct_io_read": direct})
    under_way, tensors, opened = [], {}, []
    for path in model.files:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        end = max(each["data_offsets"][1] for each in header.values())
        payload = torch.empty(end, dtype=torch.uint8, device=device)
        opened.append(kvikio.CuFile(path, "r"))
        under_way.append((opened[-1].pread(payload if device != "cpu" else payload.numpy(), end, 8 + length), end))
        for name, each in header.items():
            begin, stop = each["data_offsets"]
            dtype = getattr(torch, models.TORCH_NAMES[each["dtype"]])
            tensors[name] = payload[begin:stop].view(dtype).reshape(each["shape"])
    for future, wanted in under_way:
        if (got := future.get()) != wanted:
            raise RuntimeError(f"{got} of {wanted} bytes were read")
    for each in opened:
        each.close()
    return tensors, None


def _both(*settings):
    return {COLD: settings, WARM: settings}


_FAST = "FASTSAFETENSORS_ODIRECT"
_RUNAI = {"RUNAI_STREAMER_LOG_LEVEL": "ERROR", "RUNAI_STREAMER_MEMORY_LIMIT": "-1"}  # all at once
_RUNAI_REUSED = _RUNAI | {"RUNAI_STREAMER_MEMORY_LIMIT": str(2 << 30)}  # a buffer that is used again, so for GPUs only

ONECOPY = Loader("onecopy", "onecopy", "onecopy", _both(Setting("default")), _onecopy)

COMPETITORS = (
    Loader("safetensors", "safetensors", "safetensors.torch", _both(
        Setting("load_file, mmap"), Setting("load_file, pread", options={"backend": "pread"}),
        Setting("safe_open, tensor by tensor", options={"each": True}),
        Setting("load_file, pread, files side by side", options={"backend": "pread", "side_by_side": True})),
        _safetensors),
    Loader("fastsafetensors", "fastsafetensors", "fastsafetensors", {
        COLD: (Setting("no GDS, O_DIRECT", {_FAST: "1"}), Setting("no GDS, page cache", {_FAST: "0"}),
               Setting("no GDS, O_DIRECT, 32 threads", {_FAST: "1"}, {"threads": 32}),
               Setting("GDS", options={"nogds": False})),
        WARM: (Setting("no GDS, page cache", {_FAST: "0"}),
               Setting("no GDS, page cache, 32 threads", {_FAST: "0"}, {"threads": 32}),
               Setting("no GDS, page cache, 4 MiB", {_FAST: "0"}, {"block_kib": 4096}))}, _fastsafetensors),
    Loader("runai-model-streamer", "runai-model-streamer", "runai_model_streamer", _both(
        Setting("16 threads", _RUNAI | {"RUNAI_STREAMER_CONCURRENCY": "16"}),
        Setting("32 threads", _RUNAI | {"RUNAI_STREAMER_CONCURRENCY": "32"}),
        Setting("16 threads, 2 GiB at a time", _RUNAI_REUSED | {"RUNAI_STREAMER_CONCURRENCY": "16"}, {})), _runai),
    Loader("instanttensor", "instanttensor", "instanttensor", {
        COLD: (Setting("URING", options={"backend": "URING"}), Setting("AIO", options={"backend": "AIO"}),
               Setting("URING_BUFFERED", options={"backend": "URING_BUFFERED"})),
        WARM: (Setting("URING_BUFFERED", options={"backend": "URING_BUFFERED"}),
               Setting("MMAP", options={"backend": "MMAP"}),
               Setting("AIO_BUFFERED", options={"backend": "AIO_BUFFERED"}))}, _instanttensor),
    Loader("kvikio", "kvikio-cu13", "kvikio", {
        COLD: (Setting("16 threads of 4 MiB, O_DIRECT", options={"direct": True}),
               Setting("16 threads of 16 MiB, O_DIRECT", options={"direct": True, "task_bytes": 16 << 20}),
               Setting("16 threads of 4 MiB, page cache")),
        WARM: (Setting("16 threads of 4 MiB, page cache"),
               Setting("16 threads of 1 MiB, page cache", options={"task_bytes": 1 << 20}),
               Setting("8 threads of 16 MiB, page cache", options={"threads": 8, "task_bytes": 16 << 20}))}, _kvikio),
)

FOR_GPUS_ONLY = {"runai-model-streamer": {"16 threads, 2 GiB at a time"}, "fastsafetensors": {"GDS"}}


def settings(loader, condition, device):
    """Those to try there."""
    left_out = FOR_GPUS_ONLY.get(loader.name, set()) if device == "cpu" else set()
    return [each for each in loader.settings[condition] if each.name not in left_out]


