"""The only way from the core to the layer above it: Node.load and Node.save. onecopy.formats is imported when one of them is
first called."""

from __future__ import annotations

import importlib
from typing import Any

from ..values._system import system_errors


def array_files() -> Any:
    """The module that loads and saves files of arrays. Raises ResourceExhausted (OPEN_FILES) where no descriptor is left to
    import it."""
    with system_errors("importing onecopy.formats"):
        return importlib.import_module("onecopy.formats._array_files")
