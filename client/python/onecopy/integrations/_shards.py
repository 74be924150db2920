"""A model's safetensors files as tensors of torch, batch by batch, through little memory."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import _native
from ..core.values._transfer import Transfer
from ..formats import _moving, _placing, _room, _safetensors
from ..formats._opened import OpenFiles
from . import _ahead, _shard_plan, _weights
from ._shard_plan import Planned

if TYPE_CHECKING:
    from ..core.node._node import Node

_torch: Any = importlib.import_module("torch")  # not for mypy, which would read all of it

Batch = tuple[list[tuple[str, Any]], list[Transfer]]


class Reader(_ahead.Ahead[Batch]):
    """Reads files one after another, each in batches of at most `most_bytes`, or of one tensor that has more; the next
    batch while somebody takes care of the last. Of each batch the names with their tensors, in order of the file, and the
    transfers that brought it. A tensor that is kept keeps the memory of its batch.

    device: as of Node.pool, or "cpu"; wanted: whether a tensor of that name is read; index: of tensors the paths of their
    files. The heads of all files are looked at first: raises as Node.load does for one that is not right, before anything
    moves."""

    def __init__(self, node: Node, files: Sequence[str], device: Any, most_bytes: int, wanted: Callable[[str], bool],
                 moves: _moving.Options, index: Mapping[str, str] | None = None) -> None:
        with contextlib.ExitStack() as opened:
            at_hand = opened.enter_context(OpenFiles())
            planned = _shard_plan.plan(at_hand, files, index or {}, most_bytes, wanted, on_host=_room.is_host(device))
            self.tensors = sum(len(each.tensors) for each in planned)
            stop = _native.Stop()
            super().__init__(_calls(node, device, at_hand, planned, moves, stop), stop, "onecopy-shards")
            self._opened = opened.pop_all()

    def close(self) -> None:
        super().close()
        self._opened.close()


def _calls(node: Node, device: Any, files: OpenFiles, planned: Sequence[Planned], moves: _moving.Options,
           stop: _native.Stop) -> Iterator[Callable[[], Batch]]:
    # Any batch fits into any slab, so two are enough while no caller keeps what it got.
    slab = max((each.placed.bytes for each in planned), default=0) + _placing.PAGE
    pool = node.pool(slab=slab) if _room.is_host(device) else node.pool(device=device, slab=slab)
    room = _room.Room(node, None, pool)
    for each in planned:
        yield _call(node, room, files, each, moves, stop)


def _call(node: Node, room: _room.Room, files: OpenFiles, planned: Planned, moves: _moving.Options,
          stop: _native.Stop) -> Callable[[], Batch]:
    """Has the batch's memory already."""
    memory, base = room.empty(planned.placed.bytes)
    whole = _torch.from_dlpack(memory)
    if whole.is_cuda:  # until what was asked for of what lay there is done: the daemon does not wait for streams
        _torch.cuda.synchronize(whole.device)
    tensors = [(each.name, _tensor(whole, base + at, each)) for each, at in
               zip(planned.tensors, planned.placed.at, strict=True)]

    def read() -> Batch:
        with files.use(planned.file):
            return tensors, _moving.read(node, stop, planned.file, planned.placed.runs, memory, moves, base)

    return read


def _tensor(whole: Any, at: int, described: _safetensors.Tensor) -> Any:
    assert described.dtype is not None  # check_types has seen to that
    part = whole[at:at + described.bytes] if described.bytes else whole[:0]
    return part.view(_weights.dtype_of(described.dtype.name)).view(described.shape)


__all__ = ["Reader"]
