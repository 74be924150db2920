"""A transfer, as the daemon last told of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from ... import _native
from ._errors import Error
from ._values import Plan, Receipt


class Transfer:
    """A transfer, as it was when the daemon last reported it. This object does not change; refresh() returns a newer one. A
    transfer from Node.start keeps its arrays alive. If you drop the transfer and the arrays, the memory is freed and the
    transfer is cancelled. If there was nothing to move, or the client copied the bytes itself, the transfer has an empty
    `id` and has ended."""

    __slots__ = ("__weakref__", "_fields", "_keeps", "_native", "_node")

    def __init__(self, node: _native.Node, native: _native.Transfer, keeps: object) -> None:
        self._node = node
        self._native = native
        self._keeps = keeps
        self._fields: dict[str, Any] | None = None

    @classmethod
    def nothing(cls, node: _native.Node) -> Transfer:
        """The transfer of empty lists: it has succeeded."""
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
        """Whether the state is final: SUCCEEDED, FAILED or CANCELLED."""
        return self._native.is_final

    @property
    def bytes(self) -> int:
        return self._native.bytes

    @property
    def bytes_done(self) -> int:
        """How many bytes have arrived so far."""
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
        """What keeps the bytes from moving now; empty if nothing does."""
        return str(self._document()["waits_for"])

    @property
    def trace(self) -> str:
        """The W3C traceparent that the request had; empty if it had none."""
        return str(self._document().get("trace", ""))

    @property
    def error(self) -> Error | None:
        """Why the transfer did not succeed; None if it succeeded or has not ended."""
        found = self._native.error
        return found if isinstance(found, Error) else None

    @property
    def receipt(self) -> Receipt:
        """What really happened; complete when the transfer has SUCCEEDED. The receipt of a small transfer that went through
        shared memory lacks `refused`, `attempts` and `evidence`: refresh() has them."""
        return Receipt._of(self._document(), self._native.text())

    @property
    def plan(self) -> Plan | None:
        """The plan of the path that was chosen; None before the transfer runs."""
        fields = json.loads(self._native.plan_document())
        return None if fields is None else Plan._of(fields, self._native.plan_text())

    def refresh(self) -> Transfer:
        """The transfer as it is now."""
        if not self.id:
            return self
        return Transfer(self._node, self._node.get_transfer(self.id), self._keeps)

    def wait(self, progress: Callable[[Transfer], object] | None = None) -> Transfer:
        """Waits for the end. Raises an Error with its reason if the transfer did not succeed."""
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
        """Asks for the end of the transfer, and returns the transfer as it is now. Does nothing if it has ended."""
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
"""A function that is called with the transfer at each change. An exception in it cancels the transfer."""
