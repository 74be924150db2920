"""Why a path was not taken, and how values are made of the daemon's documents."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

_T = TypeVar("_T")


def known(kind: type[_T], fields: Mapping[str, Any], **more: Any) -> _T:
    """A value of those fields of a document that its class has: the command line's documents may grow."""
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in {**fields, **more}.items() if name in names})


@dataclasses.dataclass(frozen=True)
class Refusal:
    """Why a path was not taken."""

    path: str
    reason: str
    detail: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}  {self.reason}  {self.detail}" + (f" ({self.remedy})" if self.remedy else "")
