"""A model's safetensors files as tensors of torch, batch by batch, through little memory."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _ahead, _formats, _native, _placing, _safetensors, _weights
from ._transfer import Transfer

if TYPE_CHECKING:
    from ._node import Node

_torch: Any = importlib.import_module("torch")  # not for mypy, which would read all of it

Batch = tuple[list[tuple[str, Any]], list[Transfer]]


class _Planned(NamedTuple):
    """What is read at a time."""

    file: _formats.OpenFile
    tensors: list[_safetensors.Tensor]
    placed: _placing.Placed


class Reader(_ahead.Ahead[Batch]):
    """Reads files one after another, each in batches of at most `most_bytes`, or of one tensor that has more; the next
    batch while somebody takes care of the last. Of each batch the names with their tensors, in order of the file, and the
    transfers that brought it. A tensor that is kept keeps the memory of its batch.

    device: as of Node.pool, or "cpu"; wanted: whether a tensor of that name is read. The heads of all files are looked at
    first: raises as Node.load does for one that is not right, before anything moves."""

    def __init__(self, node: Node, files: Sequence[str], device: Any, most_bytes: int, wanted: Callable[[str], bool],
                 moves: _formats.Options) -> None:
        with contextlib.ExitStack() as opened:
            planned = _plan(opened, files, most_bytes, wanted, on_host=_formats.is_host(device))
            self.tensors = sum(len(each.tensors) for each in planned)
            stop = _native.Stop()
            super().__init__(_calls(node, device, planned, moves, stop), stop, "onecopy-shards")
            self._opened = opened.pop_all()

    def close(self) -> None:
        super().close()
        self._opened.close()


def _plan(opened: contextlib.ExitStack, files: Sequence[str], most_bytes: int, wanted: Callable[[str], bool], *,
          on_host: bool) -> list[_Planned]:
    planned = []
    for name in files:
        one = _formats.open_one(opened, name, "safetensors")
        one.tensors[:] = [each for each in one.tensors if wanted(each.name)]
        _formats.check_types(one, "store it packed, as U8")
        planned += [_Planned(one.file, batch, _formats.place(batch, on_host=on_host))
                    for batch in _weights.batches(one.tensors, lambda each: each.bytes, most_bytes)]
    return planned


def _calls(node: Node, device: Any, planned: Sequence[_Planned], moves: _formats.Options,
           stop: _native.Stop) -> Iterator[Callable[[], Batch]]:
    # Any batch fits into any slab, so that two are all there is while nobody keeps what he got.
    slab = max((each.placed.bytes for each in planned), default=0) + _placing.PAGE
    pool = node.pool(slab=slab) if _formats.is_host(device) else node.pool(device=device, slab=slab)
    room = _formats.Room(node, None, pool)
    for each in planned:
        yield _call(node, room, each, moves, stop)


def _call(node: Node, room: _formats.Room, planned: _Planned, moves: _formats.Options,
          stop: _native.Stop) -> Callable[[], Batch]:
    """Has the batch's memory already."""
    memory, base = room.empty(planned.placed.bytes)
    whole = _torch.from_dlpack(memory)
    if whole.is_cuda:  # until what was asked for of what lay there is done: the daemon does not wait for streams
        _torch.cuda.synchronize(whole.device)
    tensors = [(each.name, _tensor(whole, base + at, each)) for each, at in
               zip(planned.tensors, planned.placed.at, strict=True)]
    read = functools.partial(_formats.read, node, stop, planned.file, planned.placed.runs, memory, moves, base)
    return lambda: (tensors, read())


def _tensor(whole: Any, at: int, described: _safetensors.Tensor) -> Any:
    assert described.dtype is not None  # check_types has seen to that
    part = whole[at:at + described.bytes] if described.bytes else whole[:0]
    return part.view(_weights.dtype_of(described.dtype.name)).view(described.shape)


__all__ = ["Reader"]
