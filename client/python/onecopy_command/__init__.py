"""`onecopy` on PATH: becomes the program that the wheel brings. A package of its own, so that starting it loads none of
the library."""

import importlib.util
import os
import pathlib
import sys


def program() -> pathlib.Path:
    """The command-line program beside the library."""
    found = importlib.util.find_spec("onecopy")
    if found is None or found.origin is None:
        raise FileNotFoundError("the package onecopy is not installed: pip install onecopy")
    return pathlib.Path(found.origin).parent / "bin" / "onecopy"


def main() -> None:
    path = program()
    os.execv(path, ["onecopy", *sys.argv[1:]])
