"""How a program finds the daemon of its machine."""

from __future__ import annotations

import os
import sys

from ... import _native
from ..values._numbers import milliseconds, seconds
from ._node import Node


def connect(run_dir: str | os.PathLike[str] | None = None, *, timeout: float = 30.0, program: str = "",
            cuda_library: str | os.PathLike[str] = "", keep_arrivals: bool = False) -> Node:
    """The daemon of this machine: that of `run_dir`; else of $ONECOPY_RUN_DIR; else the system's, in /run/onecopy; else
    the user's. Raises Unavailable where none answers, and says how to get one.

    timeout: seconds that the daemon may take for what it knows, and be silent while it works; program: this one's name,
    for the daemon's log;
    cuda_library: the CUDA driver's, where it is not the system's; keep_arrivals: what arrives in memory that this
    connection registers is kept until a watch was told of it (see Node.watch).
    """
    limit = milliseconds(seconds(timeout, "a timeout"), "a timeout")
    name = program or f"python {os.path.basename(sys.argv[0] or 'interactive')}"
    return Node(_native.Node(os.fspath(run_dir) if run_dir is not None else "", name, limit or 1, True,
                             os.fspath(cuda_library), keep_arrivals))
