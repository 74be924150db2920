"""The ends of a transfer: as callers name them, and as they were found."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from ..memory import _arrays, _mapped, _pool, _ranges, _registrations, _shared
from ..values._errors import DeadlineExceeded, InvalidArgument, Unavailable
from ..values._values import Buffer, Endpoint
from . import _pieces

End: TypeAlias = "str | Endpoint | Buffer | _shared.SharedArray | Any"
"""A source or a destination of a transfer: `west:weights@0+4096` or `west:/data/model.bin` as people type it, an Endpoint, a
Buffer, or an array."""

OURS = (_shared.SharedArray, _pool.DeviceArray, _mapped.MappedArray)


class Place:
    """One end of a transfer, found: a range of a buffer and, of an array with gaps, its pieces in it."""

    __slots__ = ("bytes", "dtype", "endpoint", "keeps", "pool", "registration", "runs", "shape")

    def __init__(self, endpoint: _pieces.Place, bytes: int | None, runs: list[_arrays.Range] | None, keeps: object,
                 registration: _registrations.Registration | None = None, pool: _ranges.Slabs | None = None, *,
                 dtype: str = "", shape: tuple[int, ...] | None = None) -> None:
        self.endpoint = endpoint
        self.bytes = bytes  # None: not known here
        self.runs = runs
        self.keeps = keeps
        self.registration = registration  # of memory that was not made to be shared
        self.pool = pool  # that it lies in
        self.dtype = dtype  # of its elements; "": not known, or plain bytes
        self.shape = shape  # None: not known


class Keeps:
    """What must live as long as a transfer, the pools that it is of, and the registrations of its ends."""

    __slots__ = ("ends", "pools", "registrations")

    def __init__(self, places: Sequence[Place]) -> None:
        self.ends = [each.keeps for each in places]
        self.registrations = [each.registration for each in places]
        self.pools = {each.pool for each in places if each.pool is not None}

    @contextlib.contextmanager
    def held_if_lost(self) -> Iterator[None]:
        """Around a transfer that is waited for: if it fails so that it may be under way still, its pools keep its memory
        until it has ended, instead of giving it to others."""
        try:
            yield
        except (DeadlineExceeded, Unavailable) as failure:
            if self.pools and "may be under way still" in failure.message:
                named = re.match(r"transfer (\S+) may be", failure.message)
                for pool in self.pools:
                    pool._hold(named[1] if named else None, self)
            raise


class NothingToMove(InvalidArgument):
    """Of lists that are empty, or of arrays without elements: a transfer of these succeeds."""


def is_empty(end: End) -> bool:
    """Whether it is an array without elements."""
    if isinstance(end, OURS):
        return end.nbytes == 0
    shape = None if isinstance(end, (str, Buffer, Endpoint)) else getattr(end, "shape", None)
    return shape is not None and 0 in tuple(shape)
