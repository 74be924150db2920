"""A transfer, as the daemon last told of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from ... import _native
from ._errors import Error
from ._values import Plan, Receipt


class Transfer:
    """Does not change; refresh() returns a newer one. One that was started keeps the arrays that it uses: where both are
    dropped, the memory goes, and the transfer is cancelled. What had nothing to move, or what this client copied itself,
    without the daemon, has an empty `id`, and has ended."""

    __slots__ = ("__weakref__", "_fields", "_keeps", "_native", "_node")

    def __init__(self, node: _native.Node, native: _native.Transfer, keeps: object) -> None:
        self._node = node
        self._native = native
        self._keeps = keeps
        self._fields: dict[str, Any] | None = None

    @classmethod
    def nothing(cls, node: _native.Node) -> Transfer:
        """Of lists without an element: it has succeeded."""
        return cls(node, _native.nothing_moved(), None)

    def _document(self) -> dict[str, Any]:
        if self._fields is None:
            self._fields = json.loads(self._native.document())
        return self._fields

    @property
    def id(self) -> str:
        return self._native.id

    @property
    def state(self) -> str:
        """PENDING, RUNNING, SUCCEEDED, FAILED, CANCELLED or UNCONFIRMED."""
        return self._native.state

    @property
    def ended(self) -> bool:
        """Whether the state is a last one."""
        return self._native.is_final

    @property
    def bytes(self) -> int:
        return self._native.bytes

    @property
    def bytes_done(self) -> int:
        """Arrived so far."""
        return self._native.bytes_done

    @property
    def source(self) -> str:
        return str(self._document()["source"])

    @property
    def destination(self) -> str:
        return str(self._document()["destination"])

    @property
    def owner(self) -> str:
        return str(self._document()["owner"])

    @property
    def waits_for(self) -> str:
        """What keeps its bytes from moving just now; empty: nothing."""
        return str(self._document()["waits_for"])

    @property
    def error(self) -> Error | None:
        """Why it did not succeed, of one that has ended so."""
        found = self._native.error
        return found if isinstance(found, Error) else None

    @property
    def receipt(self) -> Receipt:
        """What really happened; complete once the transfer SUCCEEDED. A small transfer that went by shared memory lacks
        `refused`, `attempts` and `evidence`: refresh() has them."""
        return Receipt._of(self._document(), self._native.text())

    @property
    def plan(self) -> Plan | None:
        """What was chosen; None before it runs."""
        fields = json.loads(self._native.plan_document())
        return None if fields is None else Plan._of(fields, self._native.plan_text())

    def refresh(self) -> Transfer:
        """As it is now."""
        if not self.id:
            return self
        return Transfer(self._node, self._node.get_transfer(self.id), self._keeps)

    def wait(self, progress: Callable[[Transfer], object] | None = None) -> Transfer:
        """Until it has ended; raises an Error with its reason where it did not succeed."""
        return self._wait(_native.Stop(), progress)

    def _wait(self, stop: _native.Stop, progress: Callable[[Transfer], object] | None) -> Transfer:
        if not self.id:
            return self
        note = None
        if progress is not None:
            call = progress

            def note(update: _native.Transfer) -> None:
                call(Transfer(self._node, update, self._keeps))

        return Transfer(self._node, self._node.wait(self.id, note, stop), None)

    def cancel(self) -> Transfer:
        """Asks for its end, and returns it as it is; one that has ended stays as it is."""
        if not self.id:
            return self
        return Transfer(self._node, self._node.cancel(self.id), self._keeps)

    def __str__(self) -> str:
        return self._native.text()

    def __repr__(self) -> str:
        return f"<onecopy.Transfer {self.id} {self.state}, {self.bytes_done} of {self.bytes} bytes>"

    def _repr_html_(self) -> str:
        return self.receipt._repr_html_()


Progress: TypeAlias = "Callable[[Transfer], object]"
"""What is called with a transfer as it goes. What it raises cancels the transfer."""
