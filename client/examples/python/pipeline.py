"""Moves a file's bytes through a whole pipeline, and prints the receipt of each step: file -> a buffer of this node -> its
neighbour on this node -> a buffer of another node -> back, to compare.

    python pipeline.py FILE NODE [FIRST NEIGHBOUR THERE]

FIRST, NEIGHBOUR and THERE are where the three buffers are: `host` where they are not said, or `cuda:0`, `cuda:1`, `cuda:0`.
NODE must let this user make buffers (docs/concepts.md), and a FILE of `-` is 64 MiB of NumPy's random numbers.
"""

import contextlib
import mmap
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy

import onecopy


@contextlib.contextmanager
def source(path: str) -> Iterator[Any]:
    """What the pipeline begins with: an array, or a file that the kernel reads as it is moved."""
    if path == "-":
        yield numpy.random.default_rng(1).integers(0, 256, 64 << 20, dtype="uint8")
        return
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        yield mapped


def show(what: str, done: onecopy.Transfer) -> None:
    print(f"{what}\n{done.receipt}")


def run(node: onecopy.Node, path: str, other: str, memory: list[str]) -> None:
    """Makes the three buffers, and deletes them in the end."""
    name = f"pipeline-{os.getpid()}"
    with source(path) as first, contextlib.ExitStack() as stack:
        size = len(first)
        places = [("first", "", memory[0]), ("neighbour", "", memory[1]), ("there", other, memory[2])]
        buffers = []
        for word, where, kind in places:
            buffers.append(node.create(f"{name}-{word}", size, kind, where))
            stack.callback(node.delete, buffers[-1], force=True)
        here, neighbour, there = buffers
        show(f"{path} -> {node.name}, {memory[0]}", node.transfer(first, here))
        show(f"-> its neighbour, {memory[1]}", node.transfer(here, neighbour))
        show(f"-> {other}, {memory[2]}", node.transfer(neighbour, there))
        back = node.empty(size, "uint8")
        show("-> back", node.transfer(there, back))
        assert back.memory == memoryview(first), "it is not what it was"
    print(f"{size} bytes are what they were")


def main() -> int:
    """The exit status."""
    if len(sys.argv) not in (3, 6):
        print("usage: pipeline.py FILE NODE [FIRST NEIGHBOUR THERE]", file=sys.stderr)
        return 1
    try:
        run(onecopy.connect(), sys.argv[1], sys.argv[2], sys.argv[3:] or ["host"] * 3)
    except onecopy.Error as failure:
        print(failure, file=sys.stderr)
        return 1
    except (OSError, ValueError) as failure:  # of the file; one without bytes cannot be mapped
        print(f"{sys.argv[1]}: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
