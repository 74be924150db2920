"""One load, in a process of its own, which begins with what `samples.py` has preloaded and has done nothing with.

Further imports, the GPU's context, and a load of a tiny model come before the time begins, which ends when all tensors
are usable. Then every tensor's shape, type and bytes are looked at.
"""

import gc
import importlib
import os
import resource
import time

import loaders
import page_cache
import parquet_loaders

_REASONS = {ImportError: "FILE_NOT_FOUND", page_cache.NotAsWanted: "NOT_APPLICABLE"}


def cpu_seconds(daemon):
    """Of this process, and of that one (0: none), by their own clocks."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    # What clock_getcpuclockid gives for a process.
    theirs = time.clock_gettime((~daemon << 3) | 2) if daemon else 0.0
    return used.ru_utime + used.ru_stime + theirs


def measure(asked):
    import torch

    known = (loaders.ONECOPY, *loaders.COMPETITORS, parquet_loaders.ONECOPY, *parquet_loaders.COMPETITORS)
    loader = next(each for each in known if each.name == asked["loader"])
    device = asked["device"]
    on_gpu = device != "cpu"
    importlib.import_module(loader.module)
    if on_gpu:
        torch.cuda.set_device(torch.device(device))
        torch.ones(1, device=device).add_(1)

    def load(model):
        made = loader.load(model, device, asked["run_dir"], **asked["options"])
        if on_gpu:
            torch.cuda.synchronize()
        return made

    small = load(loader.files.read_facts(asked["tiny"]))  # and kept, as a daemon's context goes with its last buffer
    gc.collect()
    model = loader.files.read_facts(asked["facts"])
    (page_cache.empty if asked["condition"] == loaders.COLD else page_cache.fill)(model.files)
    if on_gpu:
        torch.cuda.synchronize()
    cpu = cpu_seconds(asked["daemon"])
    begin = time.perf_counter()
    tensors, kept = load(model)
    seconds = time.perf_counter() - begin
    said = {"seconds": seconds, "cpu_seconds": cpu_seconds(asked["daemon"]) - cpu, "bytes": model.bytes,
            "cached_afterwards": sum(map(page_cache.share, model.files)) / len(model.files)}
    if receipts := getattr(kept, "receipts", None):  # ours
        said["path"] = ",".join(sorted({each.path for each in receipts}))
        said["copies"] = max(each.copies for each in receipts)
    spoil(tensors, asked.get("spoil"))
    said["wrong"] = loader.wrong(model, tensors, asked["byte_by_byte"])
    del small
    return said


def spoil(tensors, name):
    """For the tests of this: changes one bit of a tensor that has arrived."""
    if name:
        import torch

        tensors[name].reshape(-1).view(torch.uint8)[-1:].bitwise_xor_(1)


def main(pipe, asked, environment, errors):
    """Sends what the load took, or why it failed. `errors`: the file that standard error goes to."""
    log = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(log, 2)
    os.dup2(log, 1)
    os.environ.update(environment)
    try:
        said = measure(asked)
    except Exception as failure:  # whatever a loader has to say is its reason
        kind = next((reason for kind, reason in _REASONS.items() if isinstance(failure, kind)), "TOOL_FAILED")
        said = {"reason": kind, "detail": f"{type(failure).__name__}: {failure}"}
    pipe.send(said)
    os._exit(0)  # some of these libraries crash as they are unloaded
