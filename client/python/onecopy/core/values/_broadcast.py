"""What the destinations of a broadcast came to."""

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
    """Why the destination stopped taking from there, at least for a while; None: it did not."""


@dataclasses.dataclass(frozen=True)
class BroadcastCopy:
    """One destination. Its transfer is all of those into it together: it has an empty `id`, and its receipt is theirs."""

    transfer: Transfer
    origins: list[BroadcastOrigin]
    """In the order of the chain, the source first."""

    @property
    def error(self) -> Error | None:
        """Why not all bytes are there; None: they are."""
        return self.transfer.error

    @property
    def destination(self) -> str:
        return self.transfer.destination
