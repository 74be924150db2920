"""Numbers that callers pass, looked at where they come in: a bool, a text, NaN or what is out of bounds is refused by name."""

from __future__ import annotations

import contextlib
import math
import numbers
import operator
from typing import Any

from ... import _native
from ._errors import InvalidArgument

MOST_BYTES = (1 << 63) - 1  # what a file, or a buffer, can have
MOST_COPIES = (1 << 32) - 1  # that somebody may accept
LEAST_RATE = 1 << 20
PRIORITIES = ("low", "normal", "high")
MOST_SECONDS = 10 * 365 * 86400.0 - 1  # what the daemon takes: below ten years


def whole(value: Any, what: str, *, least: int = 0, most: int = MOST_BYTES, reason: str = "BAD_ARGUMENT") -> int:
    """A whole number: an int, or an object with __index__ (such as NumPy's). `what`: with its article ("an offset")."""
    # NumPy's bool has no __index__.
    number = None if isinstance(value, bool) or not hasattr(type(value), "__index__") else operator.index(value)
    if number is None or not least <= number <= most:
        raise InvalidArgument(f"{what} cannot be {value!r}", reason, f"pass a whole number from {least} to {most}")
    return number


def size(value: Any, what: str, *, most: int = MOST_BYTES) -> int:
    """Bytes: a number of them, or "64MiB"."""
    return whole(_native.parse_bytes(value) if isinstance(value, str) else value, what, most=most)


def rate(value: Any) -> int:
    """Bytes per second: a number of them, or "64MiB"; 0: no limit."""
    number = size(value, "a rate limit")
    if 0 < number < LEAST_RATE:
        raise InvalidArgument(f"a rate limit cannot be {value!r}", "BAD_ARGUMENT", f"pass at least {LEAST_RATE} bytes per second, or 0 for no limit")
    return number


def priority(value: Any) -> str:
    if value not in PRIORITIES:
        raise InvalidArgument(f"a priority cannot be {value!r}", "BAD_ARGUMENT", "pass 'low', 'normal' or 'high'")
    return str(value)


def trace(value: Any) -> str:
    """A traceparent; what is in it is looked at later."""
    if not isinstance(value, str):
        raise InvalidArgument(f"a trace cannot be {value!r}", "BAD_ARGUMENT", "pass a W3C traceparent, as text")
    return value


def is_untraced(wanted: Any) -> bool:
    """Whether the caller left out the trace. False for what `trace` refuses."""
    return type(wanted) is str and not wanted


def is_unpaced(limit: Any, wanted: Any) -> bool:
    """Whether a rate limit and a priority are the usual ones. Not of what `rate` or `priority` refuses."""
    return type(limit) is int and limit == 0 and type(wanted) is str and wanted == "normal"


def seconds(value: Any, what: str, *, zero: bool = False) -> float:
    """zero: 0 is one, too."""
    number = math.nan
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            number = float(value)
    if not 0 <= number <= MOST_SECONDS or (number == 0 and not zero):
        least = "0" if zero else "above 0"
        raise InvalidArgument(f"{what} of {value!r} seconds is not possible", "BAD_ARGUMENT",
                              f"pass a number of seconds, {least} to {MOST_SECONDS:.0f} (ten years), or None for none")
    return number


def milliseconds(value: Any, what: str) -> int | None:
    """Of seconds, rounded up; None stays None."""
    return None if value is None else max(1, math.ceil(seconds(value, what) * 1000))
