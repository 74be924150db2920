"""What is read of a model's safetensors files, and in which order. Without torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..formats import _array_files, _placing, _room, _safetensors
from ..formats._opened import OpenFile, OpenFiles
from . import _ahead


class Planned(NamedTuple):
    """What is read at a time."""

    file: OpenFile
    tensors: list[_safetensors.Tensor]
    placed: _placing.Placed


def index_of(folder: str, name: str) -> dict[str, str]:
    """Of each tensor the path of its file, by the index of that name in the folder; empty where there is none."""
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        return {}
    return {tensor: os.path.normpath(os.path.join(folder, file)) for tensor, file in _array_files.read_index(path).items()}


def plan(files: OpenFiles, names: Sequence[str], index: Mapping[str, str], most_bytes: int, wanted: Callable[[str], bool], *,
         on_host: bool) -> list[Planned]:
    """File after file, each in batches of at most `most_bytes`, or of one tensor that has more. The heads of all files are
    looked at. Of a tensor that several files have the index says which one counts. Raises InvalidArgument (BAD_FORMAT)
    where it does not say, or where that file lacks the tensor."""
    planned = []
    found: dict[str, str] = {}
    told: dict[str, set[str]] = {}
    for tensor, path in index.items():
        told.setdefault(path, set()).add(tensor)
    for name in names:
        one = _array_files.open_one(files, name, "safetensors")
        path = os.path.normpath(name)
        one.tensors[:] = [each for each in one.tensors if index.get(each.name, path) == path]
        for each in one.tensors:
            other = found.setdefault(each.name, name)
            if other != name:
                raise _safetensors.bad(name, f"{other} also has a tensor '{each.name}', and there is no index to choose "
                                              "between the files")
        missing = told.get(path, set()).difference(each.name for each in one.tensors)
        if missing:
            raise _safetensors.bad(name, f"the index says that it has '{min(missing)}', which is not in it")
        one.tensors[:] = [each for each in one.tensors if wanted(each.name)]
        _array_files.check_types(one, "store it packed, as U8")
        planned += [Planned(one.file, batch, _room.place(batch, on_host=on_host))
                    for batch in _ahead.batches(one.tensors, lambda each: each.bytes, most_bytes)]
    return planned


__all__ = ["Planned", "index_of", "plan"]
