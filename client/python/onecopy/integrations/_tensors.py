"""Tensors of torch that one process keeps for others to read, and room for what others read."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _native
from ..core.memory import _arrays
from ..core.requests import _pieces
from ..core.values._errors import InvalidArgument
from ..core.values._transfer import Transfer

if TYPE_CHECKING:
    from ..core.memory._registrations import Registration
    from ..core.node._node import Node

_torch: Any = importlib.import_module("torch")  # not for mypy, which would read all of it

ALIGNMENT = 256  # bytes, of each tensor in memory that holds many
_MOST_RUNS = 1024  # of a tensor with gaps; one with more is copied into one without


class Offered(NamedTuple):
    """A tensor that others may read: the buffer, and the ranges of it, in order of the elements. It goes between
    processes. Without elements it has no buffer."""

    node: str
    buffer: str
    ranges: list[_arrays.Range]

    @property
    def place(self) -> _pieces.Place:
        return self.node, self.buffer, None, None

    @property
    def bytes(self) -> int:
        return sum(piece[1] * piece[3] for piece in self.ranges)


class Offer:
    """Tensors that others may read until this is released. Their memory stays known to the daemon afterwards, for the
    next time, while it lives."""

    def __init__(self, node: Node, tensors: Sequence[Any]) -> None:
        self._node = node
        self._kept: list[object] = []
        self._registrations: list[Registration] = []
        self.tensors: list[Offered] = []
        try:
            for number, tensor in enumerate(tensors):
                self.tensors.append(self._add(tensor, f"tensor {number}"))
            synchronize(tensors)  # and what copies were made
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """May be called again."""
        while self._registrations:
            self._node._registrations.unpin(self._registrations.pop())
        self._kept.clear()

    def _add(self, tensor: Any, what: str) -> Offered:
        plain = bytes_of(tensor, what)
        if plain.numel() == 0:
            return Offered(self._node.name, "", [])
        place = self._node._requests.place(plain, what, written=False)
        if place.registration is not None:
            self._node._registrations.pin(place.registration)
            self._registrations.append(place.registration)
        self._kept.append(place.keeps)
        node, buffer, offset, _ = place.endpoint
        assert place.bytes is not None
        ranges = place.runs or [(0, place.bytes, 0, 1)]
        return Offered(node, buffer, [(at + (offset or 0), *rest) for at, *rest in ranges])  # type: ignore[misc]


def bytes_of(tensor: Any, what: str) -> Any:
    """The tensor, or a copy of it that has the bytes of its elements in memory: tensors may be conjugated or negated
    when they are read, repeat their elements, or be in too many pieces."""
    if tensor.layout != _torch.strided or tensor.is_quantized:
        raise InvalidArgument(f"{what} is {tensor.layout} or quantized, and has no plain bytes", "BAD_ARGUMENT",
                              "pass its parts (its values and indices), or dequantize()")
    if tensor.device.type not in ("cpu", "cuda"):
        raise InvalidArgument(f"{what} is on {tensor.device}", "NOT_SHAREABLE", "move it to the CPU or to an NVIDIA GPU")
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.is_contiguous():
        return tensor
    if any(stride == 0 and length > 1 for length, stride in zip(tensor.shape, tensor.stride(), strict=True)):
        return tensor.contiguous()
    found = _arrays.view(tensor)
    if math.prod(found.shape[:-1]) > _MOST_RUNS and len(_arrays.runs(found)) > _MOST_RUNS:
        return tensor.contiguous()
    return tensor


def synchronize(tensors: Sequence[Any]) -> None:
    """Until what was asked of the GPUs that have these tensors is done: the daemon does not wait for streams."""
    for device in {each.device for each in tensors if each.device.type == "cuda"}:
        _torch.cuda.synchronize(device)


def room(node: Node, shapes: Sequence[tuple[Any, Any]], device: str) -> list[Any]:
    """A tensor for each shape and dtype, all in one memory, which lives as long as one of them. On the CPU the daemon
    writes it in place."""
    at, offsets = 0, []
    for shape, dtype in shapes:
        offsets.append(at)
        bytes = math.prod(shape) * dtype.itemsize
        at += (bytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    if at == 0:
        return [_torch.empty(tuple(shape), dtype=dtype, device=device) for shape, dtype in shapes]
    if _torch.device(device).type == "cpu":
        whole = _torch.from_dlpack(node.empty(at, "uint8"))
    else:
        whole = _torch.empty(at, dtype=_torch.uint8, device=device)
    return [whole[offset:offset + math.prod(shape) * dtype.itemsize].view(dtype).view(tuple(shape))
            for offset, (shape, dtype) in zip(offsets, shapes, strict=True)]


def read(node: Node, offered: Sequence[Offered], targets: Sequence[Any], stop: _native.Stop,
         policy: Callable[[_pieces.Ends], _pieces.Request] = _pieces.request) -> list[Transfer]:
    """Fills the targets with what was offered, by one transfer, or as few as take so many ranges. Returns when all of it
    has arrived; where it fails, the targets have anything. policy: makes the request of what moves."""
    for number, (each, target) in enumerate(zip(offered, targets, strict=True)):
        if each.bytes != target.numel() * target.dtype.itemsize:
            raise InvalidArgument(
                f"tensor {number} has {each.bytes} bytes, and its target {target.numel() * target.dtype.itemsize}",
                "SIZE_MISMATCH", "pass targets with the shapes and types that were sent")
        if target.is_conj() or target.is_neg():
            raise InvalidArgument(f"target {number} has its conjugate or negative bit set", "BAD_ARGUMENT",
                                  "pass target.resolve_conj().resolve_neg()")
    synchronize(targets)
    done: list[Transfer] = []
    joining = _pieces.Joining(node.name)
    keeps: list[object] = []

    def move() -> None:
        if keeps:
            done.append(Transfer(node._native, node._native.run(policy(joining.ends()), None, stop), None))

    for number, (each, target) in enumerate(zip(offered, targets, strict=True)):
        if not each.ranges:
            continue
        place = node._requests.place(target.detach(), f"target {number}", written=True)
        pieces = _arrays.pairs(each.ranges, place.runs or [(0, each.bytes, 0, 1)])
        if not joining.has_room(len(pieces)):
            move()
            joining, keeps = _pieces.Joining(node.name), []
        joining.add(each.place, place.endpoint, pieces)
        keeps.append(place.keeps)
    move()
    return done
