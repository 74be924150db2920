"""Blocks of one length, such as those of a paged KV cache: a layout is made once, and its blocks move by their numbers."""

from __future__ import annotations

import array
from typing import Any, NamedTuple

from ... import _native
from ..memory import _arrays
from ..values import _numbers
from ..values._errors import InvalidArgument
from ..values._values import Buffer, Endpoint
from . import _pieces
from ._ends import End, Place
from ._places import Places
from ._range_arrays import Ranges, fields_of

_NO_BLOCKS = "pass source_blocks= and blocks=, two arrays of block numbers of one length"


class Blocks(NamedTuple):
    """Which blocks move, and where to: copies of the caller's numbers."""

    source: _native.BlockNumbers
    destination: _native.BlockNumbers

    @classmethod
    def of(cls, source_blocks: Any, blocks: Any) -> Blocks:
        for numbers, name in ((source_blocks, "source_blocks"), (blocks, "blocks")):
            if numbers is None:
                raise InvalidArgument(f"{name} is missing", "BAD_ARGUMENT", _NO_BLOCKS)
        return cls(_numbers_of(source_blocks, "source"), _numbers_of(blocks, "destination"))


def chosen_of(ranges: Ranges, source_blocks: Any, blocks: Any) -> Ranges | Blocks:
    """What of a call's arguments says what moves."""
    if source_blocks is None and blocks is None:
        return ranges
    if not (isinstance(ranges, tuple) and not ranges):
        raise InvalidArgument("both ranges and blocks say what moves", "BAD_ARGUMENT", "pass ranges=, or blocks of layouts")
    return Blocks.of(source_blocks, blocks)


def _numbers_of(numbers: Any, side: str) -> _native.BlockNumbers:
    if isinstance(numbers, (list, tuple, range)):
        try:
            numbers = array.array("q", numbers)
        except (TypeError, OverflowError) as failure:
            raise InvalidArgument(f"the {side}'s blocks are not block numbers: {failure}", "BAD_ARGUMENT",
                                  "pass whole numbers from 0 on") from None
    return _native.block_numbers(fields_of(numbers, side, "blocks"), side)


class Layout:
    """Blocks of one length at regular distances, in buffers of one node; made by Node.layout. `count`: the number of blocks
    in each layer; they have the numbers 0 to count - 1; `block_bytes`: the length of a block. It keeps its arrays alive;
    their memory must stay where it is. Any thread may use it.

    Node.layout raises InvalidArgument for blocks that overlap (RANGES_OVERLAP), for empty blocks (BAD_SIZE), for ends on
    different nodes (BAD_ENDPOINT) and for arrays with different rows (SIZE_MISMATCH). It raises OutOfRange
    (RANGE_OUT_OF_BUFFER) if blocks are not inside their end.

    Transfers take source_blocks and blocks: two lists or integer arrays of the same length. They raise OutOfRange
    (RANGE_OUT_OF_BUFFER) for a number outside the layout, and InvalidArgument for layouts or lists that do not match
    (SIZE_MISMATCH) and for a block that would be written twice (RANGES_OVERLAP). Nothing moves then. Empty lists move
    nothing. A transfer takes up to 131,072 blocks, counted over all layers."""

    __slots__ = ("__weakref__", "_ends", "_found", "_requests", "_shape", "block_bytes", "count")

    def __init__(self, requests: Places, ends: Any, block_bytes: int | str | None, count: int | None, offset: int | str,
                 stride: int | str | None, layers: int, layer_stride: int | str | None) -> None:
        self._requests = requests
        self._ends: list[End] = list(ends) if isinstance(ends, (list, tuple)) else [ends]
        if block_bytes is None:
            rows = {_rows(each) for each in self._ends} or {(1, 1, 1)}
            if len(rows) > 1:
                raise InvalidArgument(f"the arrays of a layout have unlike rows: {sorted(rows)} (bytes, count, stride)",
                                      "SIZE_MISMATCH", "pass arrays of one shape, or block_bytes= and count=")
            block_bytes, found_count, found_stride = rows.pop()
            count = found_count if count is None else count
            stride = found_stride if stride is None else stride
        if count is None:
            raise InvalidArgument("how many blocks a layout has is not known", "BAD_ARGUMENT", "pass count=")
        self.block_bytes = _numbers.size(block_bytes, "the bytes of a block")
        self.count = _numbers.whole(count, "a count of blocks")
        self._shape = (self.block_bytes, self.count, _numbers.size(offset, "an offset"),
                       0 if stride is None else _positive(stride, "a stride"), _numbers.whole(layers, "a number of layers"),
                       0 if layer_stride is None else _positive(layer_stride, "a layer's stride"))
        self._found = self._find()

    def _find(self) -> tuple[_native.BlockLayout, list[Place]]:
        """With memory that is not known yet registered."""
        requests, ready = self._requests, self._requests._ready(self._ends, [])
        places = [requests.place(each, f"end {number} of the layout", False, ready) for number, each in enumerate(self._ends)]
        for number, place in enumerate(places):
            rows = None if place.runs is None else _rows(self._ends[number])
            if rows is not None and (rows[0], rows[2]) != (self.block_bytes, self._shape[3]):
                raise InvalidArgument(f"end {number} of the layout is an array with gaps, whose rows are {rows[0]} bytes every "
                                      f"{rows[2]}", "BAD_ARGUMENT", "leave block_bytes= and stride= out, or pass arrays without gaps")
        return _native.make_layout([requests.with_length(each.endpoint) for each in places], *self._shape), places

    def _renew(self) -> None:
        """Registers again what the daemon has forgotten."""
        self._found = self._find()

    def __repr__(self) -> str:
        return f"<onecopy.Layout {self.count} blocks of {self.block_bytes} bytes, {len(self._ends)} ends>"


def ends_of(requests: Places, source: End, destination: End, blocks: object) -> tuple[_pieces.Ends, list[Place]]:
    """What moves between two layouts. Empty pieces: nothing."""
    for end, what in ((source, "source"), (destination, "destination")):
        if not isinstance(end, Layout):
            raise InvalidArgument(f"the {what} is a {type(end).__name__}, and blocks move between layouts", "BAD_ARGUMENT",
                                  "make one: node.layout(buffer, block_bytes, count)")
        if end._requests is not requests:
            raise InvalidArgument(f"the {what}'s layout was made by another connection", "BAD_ARGUMENT",
                                  "make it by the node whose transfer it is for")
    if not isinstance(blocks, Blocks):
        raise InvalidArgument("which blocks of the layouts move is not said", "BAD_ARGUMENT", _NO_BLOCKS)
    assert isinstance(source, Layout) and isinstance(destination, Layout)
    (from_, places), (to, more) = source._found, destination._found
    for number, end in enumerate(destination._ends):
        if not isinstance(end, (str, Buffer, Endpoint)) and _arrays.view(end).read_only:
            raise InvalidArgument(f"end {number} of the destination's layout is read-only", "BAD_ARGUMENT",
                                  "make it of arrays that may be written")
    pieces = _native.pack_blocks(from_, blocks.source, to, blocks.destination)
    sources, destinations = ([(node, buffer, None, None) for node, buffer in each.ends()] for each in (from_, to))
    return _pieces.Ends(sources, destinations, pieces), [*places, *more]


def _positive(value: int | str, what: str) -> int:
    found = _numbers.size(value, what)
    if found == 0:
        raise InvalidArgument(f"{what} cannot be 0", "BAD_ARGUMENT", "leave it out for blocks without gaps")
    return found


def _rows(end: End) -> tuple[int, int, int]:
    """Of an array the bytes of a row, how many there are, and from one to the next."""
    if isinstance(end, (str, Buffer, Endpoint)):
        raise InvalidArgument("how long the blocks of a buffer are is not known", "BAD_ARGUMENT",
                              "pass block_bytes= and count=")
    found = _arrays.view(end)
    if not found.shape or 0 in found.shape:
        raise InvalidArgument(f"an array of the shape {found.shape} has no blocks", "BAD_SIZE", "pass one with rows")
    row = found._replace(shape=found.shape[1:], strides=found.strides[1:])
    if not _arrays.is_compact(row):
        raise InvalidArgument(f"the rows of an array with the strides {found.strides} have gaps", "BAD_ARGUMENT",
                              "pass one whose rows are blocks without gaps")
    return row.bytes, found.shape[0], found.strides[0] if found.shape[0] > 1 else row.bytes
