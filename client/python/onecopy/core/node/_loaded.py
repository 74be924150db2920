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
    """The arrays of a file, or of several files, by name, in the order of their bytes. All arrays of one file share one
    piece of memory, which is freed with the last of them."""

    def __init__(self, arrays: Mapping[str, Array], metadata: Mapping[str, str], transfers: Sequence[Transfer]) -> None:
        super().__init__(arrays)
        self.metadata = dict(metadata)
        """The file's own metadata: strings by name. For several files: what all of them have."""
        self.transfers = tuple(transfers)
        """The transfers that moved the bytes."""

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The receipts of the transfers; empty if there were no bytes to move."""
        return tuple(each.receipt for each in self.transfers)

    @property
    def array(self) -> Array:
        """The array, if there is exactly one, as from a .npy file."""
        if len(self) != 1:
            raise InvalidArgument(f"there are {len(self)} arrays", "BAD_ARGUMENT", "name one of them")
        return next(iter(self.values()))


class Saved(tuple[Transfer, ...]):
    """The transfers into a file: first one for the bytes that the client wrote itself, if there were any, then one for each
    buffer that has some of the arrays."""

    __slots__ = ()

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        return tuple(each.receipt for each in self)
