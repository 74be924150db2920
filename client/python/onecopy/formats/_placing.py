"""Where parts of a file lie in one memory: few ranges, each array at an address that fits its elements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

PAGE = 4096
_ALIGNMENT = 256  # of a new beginning
_WORTH_A_PAGE = 1 << 20  # bytes; for less, past the page cache is not tried


class Part(NamedTuple):
    """Of a file. `alignment`: what its address must be a multiple of."""

    offset: int
    bytes: int
    alignment: int


class Run(NamedTuple):
    """Bytes of the file that lie in memory as they do there."""

    offset: int  # in the file
    at: int  # in the memory
    bytes: int


class Placed(NamedTuple):
    """The memory's bytes; where in it each part begins; and the ranges to move, in order of the file."""

    bytes: int
    at: list[int]
    runs: list[Run]


def joined(ends: dict[int, int]) -> tuple[list[tuple[int, int]], dict[int, tuple[int, int]]]:
    """Of what begins and ends there: ranges that share no bytes, in their order; and of each that begins somewhere, which of
    these it lies in and how far from its beginning."""
    ranges: list[tuple[int, int]] = []
    places = {}
    for at in sorted(ends):
        if ranges and at < ranges[-1][1]:
            ranges[-1] = ranges[-1][0], max(ranges[-1][1], ends[at])
        else:
            ranges.append((at, ends[at]))
        places[at] = len(ranges) - 1, at - ranges[-1][0]
    return ranges, places


def place(parts: Iterable[Part], *, pages: bool) -> Placed:
    """Parts that follow one another in the file stay together, unless the next one would then lie at an address that does
    not fit it: that one begins there again. The parts are in order of the file and share no bytes; those without bytes lie at 0.

    pages: a large part with a new beginning lies as far into a page as it does in the file, which is what the daemon needs to
    read it into memory of the host past the page cache. The memory then begins with a page, else at a multiple of 256.
    """
    known = list(parts)
    rest = sum(each.bytes for each in known)  # that may still join a run that begins now
    end, at, runs = 0, [], list[Run]()
    for part in known:
        if part.bytes == 0:
            at.append(0)
            continue
        last = runs[-1] if runs else None
        if last is not None and last.offset + last.bytes == part.offset and end % part.alignment == 0:
            runs[-1] = last._replace(bytes=last.bytes + part.bytes)
        else:
            begin = _begin(end, part, rest, pages)
            runs.append(Run(part.offset, begin, part.bytes))
            end = begin
        at.append(end)
        end += part.bytes
        rest -= part.bytes
    return Placed(end, at, runs)


def _begin(end: int, part: Part, rest: int, pages: bool) -> int:
    if pages and rest >= _WORTH_A_PAGE and part.offset % part.alignment == 0:
        return end + (part.offset - end) % PAGE
    return -(-end // _ALIGNMENT) * _ALIGNMENT
