"""The command-line program, and what it finds on this node."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess

from ... import _native
from . import _errors
from ._values import Diagnosis


def program() -> pathlib.Path:
    """The path of the command-line program in the wheel."""
    return pathlib.Path(_native.__file__).parent / "bin" / "onecopy"


def diagnose(run_dir: str = "") -> Diagnosis:
    """What `onecopy doctor` finds on this node, with or without a running daemon."""
    command = [os.fspath(program()), *(["--run-dir", run_dir] if run_dir else []), "--json", "doctor"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    try:
        return Diagnosis._of(done.stdout)
    except (ValueError, KeyError, TypeError) as failure:
        with contextlib.suppress(ValueError, KeyError):
            raise _errors.build(done.stdout) from failure
        raise _errors.Internal(
            f"`{' '.join(command)}` ended with status {done.returncode}: {done.stderr.strip()}", "INTERNAL") from failure


__all__ = ["diagnose", "program"]
