"""A daemon's connection, and what needs none."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys

from . import _errors, _native
from ._node import Node
from ._numbers import milliseconds
from ._numbers import seconds as _seconds
from ._values import Diagnosis


def program() -> pathlib.Path:
    """The command-line program that the wheel brings."""
    return pathlib.Path(__file__).parent / "bin" / "onecopy"


def diagnose(run_dir: str = "") -> Diagnosis:
    """What `onecopy doctor` says of this node, whether or not a daemon runs."""
    command = [os.fspath(program()), *(["--run-dir", run_dir] if run_dir else []), "--json", "doctor"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    try:
        return Diagnosis._of(done.stdout)
    except (ValueError, KeyError, TypeError) as failure:
        with contextlib.suppress(ValueError, KeyError):
            raise _errors.build(done.stdout) from failure
        raise _errors.Internal(
            f"`{' '.join(command)}` ended with status {done.returncode}: {done.stderr.strip()}", "INTERNAL") from failure


def connect(run_dir: str | os.PathLike[str] | None = None, *, timeout: float = 30.0, program: str = "",
            cuda_library: str | os.PathLike[str] = "") -> Node:
    """The daemon of this machine: that of `run_dir`; else of $ONECOPY_RUN_DIR; else the system's, in /run/onecopy; else
    the user's. Raises Unavailable where none answers, and says how to get one.

    timeout: seconds that the daemon may take for what it knows; program: this one's name, for the daemon's log;
    cuda_library: the CUDA driver's, where it is not the system's.
    """
    limit = milliseconds(_seconds(timeout, "a timeout"), "a timeout")
    name = program or f"python {os.path.basename(sys.argv[0] or 'interactive')}"
    return Node(_native.Node(os.fspath(run_dir) if run_dir is not None else "", name, limit or 1, True,
                             os.fspath(cuda_library)))


__all__ = ["connect", "diagnose", "program"]
