"""Which columns, and which row groups or stripes, of a file are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..core.values import _errors


def columns(name: str, paths: Sequence[str], wanted: str | Iterable[str] | None) -> list[int]:
    """The numbers of those that have one of these paths, or a path that begins with one; all where it is None."""
    if wanted is None:
        return list(range(len(paths)))
    chosen: set[int] = set()
    for column in [wanted] if isinstance(wanted, str) else list(wanted):
        found = {number for number, path in enumerate(paths) if path == column or path.startswith(f"{column}.")}
        if not found:
            named = [each for each in paths if each]
            some = ", ".join(named[:5]) + (", …" if len(named) > 5 else "")
            raise _errors.NotFound(f"{name} has no column {column!r}", "BAD_ARGUMENT", f"it has {some}")
        chosen |= found
    return sorted(chosen)


def parts(name: str, what: str, count: int, wanted: Iterable[int] | None) -> list[int]:
    """`what`: "row group"."""
    chosen = list(range(count)) if wanted is None else sorted(set(wanted))
    for each in chosen:
        if not isinstance(each, int) or not 0 <= each < count:
            raise _errors.NotFound(f"{name} has no {what} {each!r}", "BAD_ARGUMENT", f"it has {count}, numbered from 0")
    return chosen
