"""How a program finds the daemon of its machine."""

from __future__ import annotations

import os
import sys

from ... import _native
from ..values._numbers import milliseconds, seconds
from ._node import Node


def connect(run_dir: str | os.PathLike[str] | None = None, *, timeout: float = 30.0, program: str = "",
            cuda_library: str | os.PathLike[str] = "", keep_arrivals: bool = False) -> Node:
    """Connects to the daemon of this machine: the one in `run_dir`; else in $ONECOPY_RUN_DIR; else the system's, in
    /run/onecopy; else the user's. Raises Unavailable if no daemon answers, and says how to get one.

    timeout: how many seconds the daemon may take for a call about what it knows, and be silent during longer work; program:
    the name of this program, for the daemon's log; cuda_library: the library of the CUDA driver, if it is not the system's;
    keep_arrivals: whether the daemon keeps what arrives in memory that this connection registers until a watch has reported
    it (see Node.watch)."""
    limit = milliseconds(seconds(timeout, "a timeout"), "a timeout")
    name = program or f"python {os.path.basename(sys.argv[0] or 'interactive')}"
    return Node(_native.Node(os.fspath(run_dir) if run_dir is not None else "", name, limit or 1, True,
                             os.fspath(cuda_library), keep_arrivals))
