"""Ranges of many buffers, as one request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from ... import _native
from ..memory import _arrays

Place: TypeAlias = "tuple[str, str, int | None, int | None]"  # node, buffer or path, where in it, and how many bytes
Request: TypeAlias = "tuple[object, ...]"  # what the native part takes

MOST_BUFFERS = 4096  # at one end of a request, and pairs of them


class Ends(NamedTuple):
    """What moves: each piece is a range of a source and one of a destination, which may have behind it which of them."""

    sources: Sequence[Place]
    destinations: Sequence[Place]
    pieces: Sequence[tuple[tuple[int, ...], ...]] | _native.Ranges


class Joining:
    """Makes one request of the pieces of many ends. `node`: this one's name."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._numbers: tuple[dict[tuple[str, str], int], dict[tuple[str, str], int]] = ({}, {})
        self._pairs: set[tuple[int, int]] = set()
        self._pieces: list[tuple[tuple[int, ...], ...]] = []

    def add(self, source: Place, destination: Place,
            pieces: Iterable[tuple[_arrays.Range, ...]]) -> None:
        """`pieces`: counted from where the two places begin."""
        one, other = (self._number(0, source), self._number(1, destination))
        self._pairs.add((one, other))
        for from_, to in pieces:
            self._pieces.append((_moved(from_, source[2] or 0, one), _moved(to, destination[2] or 0, other)))

    def has_room(self, pieces: int) -> bool:
        """Whether one more pair of places with as many pieces can be in the same request."""
        return len(self._pairs) < MOST_BUFFERS and len(self._pieces) + pieces <= _arrays.MOST_RANGES

    def ends(self) -> Ends:
        sources, destinations = ([_whole(*each) for each in numbers] for numbers in self._numbers)
        return Ends(sources, destinations, self._pieces)

    def _number(self, end: int, place: Place) -> int:
        numbers = self._numbers[end]
        return numbers.setdefault((place[0] or self._node, place[1]), len(numbers))


def _whole(node: str, buffer: str) -> Place:
    return node, buffer, None, None


def _moved(piece: _arrays.Range, by: int, buffer: int) -> tuple[int, ...]:
    return piece[0] + by, piece[1], piece[2], piece[3], buffer


def request(ends: Ends, *, path: str = "", at_most: int | None = None, link: str = "", allow_emulated: bool = False,
            checksum: bool = False, deadline_ms: int | None = None, sync: bool = False, message: bytes = b"",
            rate_limit: int = 0, priority: str = "normal", trace: str = "") -> Request:
    pieces = ends.pieces if isinstance(ends.pieces, _native.Ranges) else list(ends.pieces)
    return (ends.sources[0], ends.destinations[0], pieces, path, at_most, link, allow_emulated, checksum,
            deadline_ms, "", list(ends.sources[1:]), list(ends.destinations[1:]), sync, message, rate_limit,
            priority, trace)


def places(request: Request) -> list[Place]:
    """Of both ends."""
    made: list[Place] = [request[0], request[1], *request[10], *request[11]]  # type: ignore[list-item, misc]
    return made
