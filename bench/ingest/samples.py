"""Samples of several loaders, taken in turns, each in a process of its own."""

import importlib.util
import multiprocessing
import os
import signal
import tempfile
from typing import NamedTuple

import loaders
import one_load

_context = multiprocessing.get_context("forkserver")
# What takes long to import, and does nothing by itself: no thread, no GPU.
_context.set_forkserver_preload(["torch", "numpy", "one_load"])
_PATIENCE_SECONDS = 900  # of one sample, import and verification included


class Failure(Exception):
    def __init__(self, reason, detail):
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Place(NamedTuple):
    """Where loads go, and by whom."""

    device: str  # "cpu", "cuda:0"
    daemon: object  # daemon.Daemon
    tiny: str  # facts of a tiny model, loaded first
    spoil: dict = {}  # for the tests of this: a tensor's name by a loader's


def take(place, loader, setting, facts, condition, byte_by_byte=False):
    """What one load says of itself. Raises Failure with its reason where it failed."""
    asked = {"loader": loader.name, "options": setting.options, "device": place.device, "run_dir": place.daemon.run_dir,
             "daemon": place.daemon.pid if loader.package == "onecopy" else 0, "tiny": place.tiny, "facts": facts,
             "condition": condition, "byte_by_byte": byte_by_byte, "spoil": place.spoil.get(loader.name)}
    here, there = _context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="onecopy-ingest.") as folder:
        errors = os.path.join(folder, "log")
        process = _context.Process(target=one_load.main, args=(there, asked, setting.environment, errors), daemon=True)
        process.start()
        there.close()
        try:
            said = here.recv() if here.poll(_PATIENCE_SECONDS) else None
        except EOFError:
            process.join()
            how = signal.Signals(-process.exitcode).name if process.exitcode < 0 else f"status {process.exitcode}"
            raise Failure("TOOL_FAILED", f"it ended by {how}: {_last_line(errors)}") from None
        finally:
            process.kill()
            process.join()
            here.close()
    if said is None:
        raise Failure("TOOL_FAILED", f"no end within {_PATIENCE_SECONDS} s")
    if "reason" in said:
        raise Failure(said["reason"], said["detail"])
    return said


def missing(loader):
    """Its Failure where its package is not installed, else None."""
    found = importlib.util.find_spec(loader.module.partition(".")[0])
    return None if found else Failure("FILE_NOT_FOUND", f"no module is named {loader.module}")


def _last_line(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return next((line.strip() for line in reversed(file.readlines()) if line.strip()), "it said nothing")


class Chosen(NamedTuple):
    loader: loaders.Loader
    setting: loaders.Setting
    said: dict  # of its trial, which was looked at byte by byte
    tried: dict  # seconds by the names of the settings that ran


def choose(place, loader, facts, condition, progress):
    """The fastest of the settings, each tried once, every byte of which is compared. Raises the first Failure where
    none runs; a setting that loads wrong bytes ends it, as the loader is wrong then."""
    if failure := missing(loader):
        raise failure
    best, tried, failure = None, {}, None
    for setting in loaders.settings(loader, condition, place.device):
        try:
            said = take(place, loader, setting, facts, condition, byte_by_byte=True)
        except Failure as each:
            failure = failure or each
            progress(f"  {loader.name}, {setting.name}: {each.detail}")
            if each.reason in ("FILE_NOT_FOUND", "NOT_APPLICABLE", "UNIMPLEMENTED"):
                break  # as with any other setting
            continue
        tried[setting.name] = said["seconds"]
        progress(f"  {loader.name}, {setting.name}: {said['bytes'] / said['seconds'] / 1e9:.3g} GB/s")
        if said["wrong"]:
            return Chosen(loader, setting, said, tried)
        if best is None or said["seconds"] < best.said["seconds"]:
            best = Chosen(loader, setting, said, {})
    if best is None:
        raise failure
    return best._replace(tried=tried)


def rounds(place, chosen, facts, condition, count, stop):
    """`count` samples of each loader of `chosen`, a Chosen each, by name: every round has one of each, and another one
    begins it. A loader that fails is left out from then on, and has its Failure as well."""
    taken = {name: [] for name in chosen}
    failures = {}
    for number in range(count):
        names = [name for name in chosen if name not in failures]
        if not names:
            break
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            stop()
            try:
                taken[name].append(take(place, chosen[name].loader, chosen[name].setting, facts, condition))
            except Failure as failure:
                failures[name] = failure
    return taken, failures
