"""The numbers that GPUs have in this process."""

from __future__ import annotations

import sys
from typing import Any

from ..values._errors import InvalidArgument


def ordinal(device: Any) -> int:
    """The number of a GPU in this process: of an int, "cuda:1", or a device of torch, CuPy or Numba. Without a number
    ("cuda") the current one."""
    number: object = None
    if isinstance(device, int) and not isinstance(device, bool):
        number = device
    elif isinstance(device, str):
        kind, colon, text = device.partition(":")
        if kind == "cuda":
            number = (int(text) if text.isdecimal() else None) if colon else current()
    elif hasattr(device, "type"):  # torch's
        if device.type == "cuda":
            number = current() if device.index is None else device.index
    else:  # CuPy's, Numba's
        number = getattr(device, "id", None)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 1 << 31:
        raise InvalidArgument(f"{device!r} is not a GPU", "BAD_ARGUMENT",
                              'pass its number, "cuda:0", or a device of torch, CuPy or Numba')
    return number


def current() -> int:
    """The number of the current GPU, as torch or CuPy has it where one of them is in use; else 0."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return int(torch.cuda.current_device())
    cupy: Any = sys.modules.get("cupy")
    if cupy is not None and cupy.cuda.is_available():
        return int(cupy.cuda.device.get_device_id())
    return 0
