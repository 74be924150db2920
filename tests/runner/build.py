"""Configures and builds a preset."""

import os
import re
import subprocess
import sys
import time

import report


_PROGRESS = re.compile(r"\[\d+/\d+\] ")


class BuildFailed(Exception):
    """Says what failed; the output has been shown."""


def configure(root, preset):
    """Returns the build folder."""
    build = root / "build" / preset
    build.mkdir(parents=True, exist_ok=True)
    _step("configuring", build / "configure.log",
          ["cmake", "--preset", preset, "-DONECOPY_TESTS=ON"], root)
    return build


def compile_targets(root, build, targets):
    """Builds the targets; all of them when there are none."""
    command = ["cmake", "--build", build, "-j", str(len(os.sched_getaffinity(0)))]
    if targets:
        command += ["--target", *targets]
    _step("building", build / "build.log", command, root)


def _step(what, log, command, root):
    """Runs the command into the log, and onto a terminal if there is one."""
    started = time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   errors="replace", stdin=subprocess.DEVNULL)
        for line in process.stdout:
            output.write(line)
            if sys.stdout.isatty():
                print(line, end="", flush=True)
    if process.wait() != 0:
        report.output(log, _complaints(log.read_text(errors="replace").splitlines()))
        raise BuildFailed(f"{what} failed")
    print(f"{what} {log.parent.name}: {time.monotonic() - started:.0f} s", flush=True)


def _complaints(lines):
    """What of a failed step's output says why: without ninja's lines about what went well."""
    first = next((number for number, line in enumerate(lines) if line.startswith("FAILED: ")), 0)
    return [line for line in lines[first:] if not _PROGRESS.match(line)][-200:]
