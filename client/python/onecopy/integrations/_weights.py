"""A model's weights on their way from a trainer to its server: described as JSON, read in few transfers."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import _native
from ..core.requests import _pieces
from ..core.values._errors import InvalidArgument
from ..core.values._transfer import Transfer
from . import _ahead, _tensors

if TYPE_CHECKING:
    from ..core.node._node import Node

_torch: Any = importlib.import_module("torch")  # not for mypy, which would read all of it

_CHECK_BOTH = "use the same version of onecopy at both ends, and pass the Trainer's result unchanged"


def _wrong(what: str) -> InvalidArgument:
    return InvalidArgument(f"these are not weights of onecopy: {what}", "BAD_ARGUMENT", _CHECK_BOTH)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def dtype_of(name: object) -> Any:
    """torch's, by the name that vLLM has for it ("bfloat16")."""
    found = getattr(_torch, name, None) if isinstance(name, str) else None
    if not isinstance(found, _torch.dtype):
        raise _wrong(f"{name!r} is not an element type of torch")
    return found


def name_of(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


@dataclasses.dataclass(frozen=True)
class Weight:
    """A tensor that a trainer offers."""

    name: str
    dtype: Any
    shape: tuple[int, ...]
    offered: _tensors.Offered

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * int(self.dtype.itemsize)


def describe(weights: Sequence[tuple[str, Any]], offer: _tensors.Offer, node: str) -> dict[str, Any]:
    """What `parse` takes, in what JSON has. Buffers are named once, as most tensors share one."""
    numbers: dict[str, int] = {}
    places = [[numbers.setdefault(each.buffer, len(numbers)), [list(piece) for piece in each.ranges]] if each.ranges
              else [0, []] for each in offer.tensors]
    return {
        "names": [name for name, _ in weights],
        "dtype_names": [name_of(tensor.dtype) for _, tensor in weights],
        "shapes": [list(tensor.shape) for _, tensor in weights],
        "node": node, "buffers": list(numbers), "places": places,
    }


def parse(names: Any, dtype_names: Any, shapes: Any, node: Any, buffers: Any, places: Any) -> list[Weight]:
    """The weights that somebody describes. Raises InvalidArgument for what is none."""
    lists = {"names": names, "dtype_names": dtype_names, "shapes": shapes, "buffers": buffers, "places": places}
    for word, each in lists.items():
        if not isinstance(each, (list, tuple)):
            raise _wrong(f"{word} is a {type(each).__name__} instead of a list")
    if not len(names) == len(dtype_names) == len(shapes) == len(places):
        raise _wrong(f"{len(names)} names have {len(dtype_names)} types, {len(shapes)} shapes and {len(places)} places")
    if not isinstance(node, str) or not all(isinstance(each, str) for each in (*names, *buffers)):
        raise _wrong("a name is not a string")
    return [_weight(*each, node, buffers) for each in zip(names, dtype_names, shapes, places, strict=True)]


def _weight(name: str, dtype_name: Any, shape: Any, place: Any, node: str, buffers: Sequence[str]) -> Weight:
    if not isinstance(shape, (list, tuple)) or not all(map(_is_count, shape)):
        raise _wrong(f"the shape of {name} is {shape}")
    try:
        number, pieces = place
        ranges = [(offset, bytes, stride, count) for offset, bytes, stride, count in pieces]
    except (TypeError, ValueError):
        raise _wrong(f"the place of {name} is {place}") from None
    if not _is_count(number) or (ranges and number >= len(buffers)) or not all(map(_is_count, itertools.chain(*ranges))):
        raise _wrong(f"the place of {name} is {place}")
    offered = _tensors.Offered(node, buffers[number] if ranges else "", ranges)
    made = Weight(name, dtype_of(dtype_name), tuple(shape), offered)
    if made.bytes != offered.bytes:
        raise InvalidArgument(f"{name} of {tuple(shape)}, {dtype_name}, has {made.bytes} bytes, and its place {offered.bytes}",
                              "SIZE_MISMATCH", _CHECK_BOTH)
    return made


@dataclasses.dataclass(frozen=True)
class Policy:
    """How the reader may read it."""

    at_most: int | None = None
    path: str = ""
    checksum: bool = False

    def read(self, node: Node, weights: Sequence[Weight], targets: Sequence[Any], stop: _native.Stop) -> list[Transfer]:
        made = functools.partial(_pieces.request, at_most=self.at_most, path=self.path, checksum=self.checksum)
        return _tensors.read(node, [each.offered for each in weights], targets, stop, made)


class Reader(_ahead.Ahead["tuple[list[tuple[str, Any]], list[Transfer]]"]):
    """Reads weights batch by batch, the next one while somebody takes care of the last. Of each batch the names with their
    tensors, and the transfers that brought it."""

    def __init__(self, node: Node, weights: Sequence[Weight], device: str, most_bytes: int, policy: Policy) -> None:
        stop = _native.Stop()
        super().__init__(self._calls_of(node, weights, device, most_bytes, policy, stop), stop, "onecopy-weights")

    @staticmethod
    def _calls_of(node: Node, weights: Sequence[Weight], device: str, most_bytes: int, policy: Policy,
                  stop: _native.Stop) -> Iterator[Callable[[], tuple[list[tuple[str, Any]], list[Transfer]]]]:
        for batch in _ahead.batches(weights, lambda each: each.bytes, most_bytes):
            def read(batch: list[Weight], tensors: list[Any]) -> tuple[list[tuple[str, Any]], list[Transfer]]:
                done = policy.read(node, batch, tensors, stop)
                return [(each.name, tensor) for each, tensor in zip(batch, tensors, strict=True)], done

            yield functools.partial(read, batch, _tensors.room(node, [(each.shape, each.dtype) for each in batch], device))


def targets_in(tensors: Mapping[str, Any], weights: Sequence[Weight]) -> list[Any]:
    """The tensors that the weights are written into, by name. Raises before anything is written where one does not fit."""
    wrong, found = [], []
    for each in weights:
        target = tensors.get(each.name)
        found.append(target)
        if target is None:
            wrong.append(f"{each.name} is not in the model")
        elif target.device.type == "meta":
            wrong.append(f"{each.name} has no memory: it is on the device meta")
        elif (tuple(target.shape), target.dtype) != (each.shape, each.dtype):
            wrong.append(f"{each.name} is {tuple(target.shape)}, {name_of(target.dtype)}, in the model, and was sent as "
                         f"{each.shape}, {name_of(each.dtype)}")
    if wrong:
        more = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise InvalidArgument(f"the weights do not fit in place: {'; '.join(wrong[:3])}{more}", "SIZE_MISMATCH",
                              "send the parameters with the worker's shapes and types, or leave out in_place")
    return found


__all__ = ["Policy", "Reader", "Weight", "describe", "parse", "targets_in"]
