"""Daemons in the sandbox that their unit asks for, as far as it can be made without systemd: mounts, capabilities, limits
and the filter of system calls."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from checks.context import CannotRun, tool

NAME = "daemons work in the sandbox that their unit describes"

_INSIDE = pathlib.Path(__file__).with_name("in_sandbox.py")
_MOVES = (("east:a", "east:b", "local"), ("east:a", "west:b", "tcp-direct"), ("west:b", "east:b", "tcp-staged"))


def run(context):
    if context.build is None:
        raise CannotRun("there is no finished build")
    if os.geteuid() != 0:
        raise CannotRun("it takes root to make a sandbox")
    keys = _keys((context.root / "deploy/onecopyd.service").read_text())
    keys["calls"] = sorted(_calls(tool("systemd-analyze"), keys["SystemCallFilter"]))
    binaries = context.build / "bin"
    with tempfile.TemporaryDirectory(prefix="onecopy-sandbox.") as place:
        os.chmod(place, 0o711)
        return _move(keys, binaries, pathlib.Path(place))


def _keys(text):
    """The unit's settings, each a list of its values in order."""
    keys = {}
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            keys.setdefault(name, []).append(value)
    return keys


def _calls(analyze, filters):
    """The names of the system calls that the filter lets through."""
    members = {}
    listed = subprocess.run([analyze, "--no-pager", "syscall-filter"], text=True, check=True, capture_output=True)
    for line in listed.stdout.splitlines():
        if line.startswith("@"):
            current = members.setdefault(line.strip(), set())
        elif line.startswith(" ") and not line.strip().startswith("#"):
            current.add(line.strip())

    def of(name):
        found = set()
        for member in members.get(name, {name}):
            found |= of(member) if member.startswith("@") else {member}
        return found

    allowed = set(of("@default"))
    for value in filters:
        remove, names = value.startswith("~"), value.removeprefix("~").split()
        for name in names:
            allowed = allowed - of(name) if remove else allowed | of(name)
    return allowed


def _move(keys, binaries, place):
    settings = place / "settings.json"
    processes, findings = {}, []
    try:
        for name in ("west", "east"):
            folder = place / name
            folder.mkdir()
            os.chown(folder, 65534, 65534)
            # Beside the run directory, what the unit's LogsDirectory stands for.
            audited = folder / "logs" / "audit.log"
            audited.parent.mkdir()
            config = folder / "config.toml"
            config.write_text(f'[audit]\nfile = "{audited}"\nlevel = "all"\n')
            writable = [folder / "run"] + ([audited.parent] if "LogsDirectory" in keys else [])
            for each in writable:
                each.mkdir(exist_ok=True)
                os.chown(each, 65534, 65534)
            settings.write_text(json.dumps(
                {"keys": keys, "writable": [*map(str, writable)], "executable": [str(binaries)], "uid": 65534}))
            command = [str(binaries / "onecopyd"), "--config", str(config), "--name", name, "--listen", "127.0.0.1:0", "--lanes", "127.0.0.1:0",
                       "--run-dir", str(folder / "run")]
            if name == "east":
                command += ["--peer", f"west={processes['west'][1]}"]
            log = (place / f"{name}.log").open("w")
            process = subprocess.Popen([sys.executable, _INSIDE, settings, *command], stdout=subprocess.PIPE,
                                       stderr=log, text=True)
            processes[name] = (process, None)
            ready = process.stdout.readline()
            if not ready.startswith("ready "):
                return [f"{name} does not start: {(place / f'{name}.log').read_text()}"]
            processes[name] = (process, ready.split("listen=")[1].split()[0])
        findings = _use(binaries, place)
        findings += [f"{name} has written no record to its audit file" for name in processes
                     if "what=" not in (place / name / "logs" / "audit.log").read_text()]
    finally:
        for name, (process, _) in processes.items():
            process.terminate()
            if process.wait(60) != 0:
                findings.append(f"{name} ended with status {process.returncode}")
        for name in processes if findings else ():
            findings += [f"{name}: {line}" for line in (place / f"{name}.log").read_text().splitlines()[-20:]]
    return findings


def _use(binaries, place):
    def onecopy(name, *arguments):
        return subprocess.run([binaries / "onecopy", "--run-dir", place / name / "run", "--json", *arguments],
                              text=True, check=False, capture_output=True, timeout=120)

    for name in ("east", "west"):
        for buffer in ("a", "b"):
            made = onecopy(name, "buffer", "create", buffer, "--size", "32MiB", "--memory", "host")
            if made.returncode != 0:
                return [f"{name} makes no buffer: {made.stdout}{made.stderr}"]
    findings = []
    for source, destination, path in _MOVES:
        moved = onecopy("east", "cp", source, destination, "--path", path, "--checksum")
        if moved.returncode != 0 or json.loads(moved.stdout)["path"] != path:
            findings.append(f"{source} to {destination} by {path}: {moved.stdout}{moved.stderr}")
    return findings
