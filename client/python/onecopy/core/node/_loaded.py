"""What Node.load and Node.save return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..memory._pool import DeviceArray
from ..memory._shared import SharedArray
from ..values._errors import InvalidArgument
from ..values._transfer import Transfer
from ..values._values import Receipt

Array = SharedArray | DeviceArray


class Loaded(dict[str, Array]):
    """The arrays of a file, or of several, by their names, in order of their bytes. They share one memory for each file,
    which goes with the last of them."""

    def __init__(self, arrays: Mapping[str, Array], metadata: Mapping[str, str], transfers: Sequence[Transfer]) -> None:
        super().__init__(arrays)
        self.metadata = dict(metadata)
        """The file's own metadata, as strings by name; of several files, what they have in common."""
        self.transfers = tuple(transfers)
        """The transfers that moved it."""

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """What really happened to the bytes; empty where there were none."""
        return tuple(each.receipt for each in self.transfers)

    @property
    def array(self) -> Array:
        """The only one, as of a .npy file."""
        if len(self) != 1:
            raise InvalidArgument(f"there are {len(self)} arrays", "BAD_ARGUMENT", "name one of them")
        return next(iter(self.values()))


class Saved(tuple[Transfer, ...]):
    """What was moved into a file: a transfer for each buffer that the arrays lie in, after one for what the client wrote
    itself."""

    __slots__ = ()

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        return tuple(each.receipt for each in self)
