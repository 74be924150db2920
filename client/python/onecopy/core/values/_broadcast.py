"""The result of a broadcast, for each destination."""

from __future__ import annotations

import dataclasses

from ._errors import Error
from ._transfer import Transfer


@dataclasses.dataclass(frozen=True)
class BroadcastOrigin:
    """What a destination took from one buffer."""

    source: str
    """The buffer: `NODE:NAME`."""
    bytes: int
    left: Error | None
    """Why the destination stopped taking from there, at least for a while; None if it did not stop."""


@dataclasses.dataclass(frozen=True)
class BroadcastCopy:
    """The result for one destination. `transfer` stands for all transfers into it together: it has an empty `id`, and its
    receipt is the receipt of them all."""

    transfer: Transfer
    origins: list[BroadcastOrigin]
    """In the order of the chain, the source first."""

    @property
    def error(self) -> Error | None:
        """Why some bytes are missing; None if all bytes are there."""
        return self.transfer.error

    @property
    def destination(self) -> str:
        return self.transfer.destination
