"""What the daemon reports, as frozen values that print as the command line does."""

from __future__ import annotations

import dataclasses
import datetime
import html
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ... import _native
from ._errors import InvalidArgument
from ._refusal import Refusal, known


def _table(rows: Iterable[Iterable[object]], heads: Iterable[str]) -> str:
    """HTML of a table; everything is escaped."""
    top = "".join(f"<th style='text-align:left'>{html.escape(head)}</th>" for head in heads)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{html.escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _time(text: str | None) -> datetime.datetime | None:
    return None if text is None else datetime.datetime.fromisoformat(text)


@dataclasses.dataclass(frozen=True)
class Export:
    """A folder of a node. The caller may copy files from it, or to it."""

    node: str
    name: str
    """As in [exports.NAME] of the node's configuration."""
    path: str
    read: bool
    write: bool


@dataclasses.dataclass(frozen=True)
class Step:
    """One copy: a pass of the payload from one memory to another. `bytes` is None in a plan."""

    from_memory: str
    to_memory: str
    by: str
    node: str
    loopback: bool
    emulated: bool
    bytes: int | None = None

    @classmethod
    def _of(cls, fields: Mapping[str, Any]) -> Step:
        return cls(fields["from"], fields["to"], fields["by"], fields["node"], fields["loopback"], fields["emulated"],
                   fields.get("bytes"))

    def __str__(self) -> str:
        how = self.by + (", loopback" if self.loopback else "") + (", emulated" if self.emulated else "")
        return f"{self.from_memory} -> {self.to_memory}  {how}" + (f"  on {self.node}" if self.node else "")


@dataclasses.dataclass(frozen=True)
class Lane:
    """What one stream of a link carried."""

    device: str
    peer: str
    bytes: int


@dataclasses.dataclass(frozen=True)
class Checksum:
    """The checksum of the destination's range. `verified`: whether the source's checksum was equal."""

    algorithm: str
    value: str
    verified: bool


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One attempt to move the bytes. `outcome` is SUCCEEDED, or the reason of the failure."""

    path: str
    outcome: str
    bytes: int


@dataclasses.dataclass(frozen=True)
class Receipt:
    """What really happened in a transfer. str() of it is what `onecopy cp` prints."""

    path: str
    copies: int
    link: str
    emulated: bool
    registration: str
    key: str
    encryption: str
    steps: tuple[Step, ...]
    lanes: tuple[Lane, ...]
    seconds: float
    bytes_per_second: int
    negotiation_seconds: float
    asked_seconds: float
    checksum: Checksum | None
    refused: tuple[Refusal, ...]
    attempts: tuple[Attempt, ...]
    evidence: Mapping[str, str]
    ranges: int
    merged_ranges: int
    text: str = dataclasses.field(repr=False, compare=False, default="")

    @classmethod
    def _of(cls, fields: Mapping[str, Any], text: str) -> Receipt:
        checksum = fields["checksum"]
        return cls(
            path=fields["path"], copies=fields["copies"], link=fields["link"], emulated=fields["emulated"],
            registration=fields["registration"], key=fields["key"], encryption=fields["encryption"],
            steps=tuple(Step._of(each) for each in fields["steps"]),
            lanes=tuple(known(Lane, each) for each in fields["lanes"]), seconds=fields["seconds"],
            bytes_per_second=fields["bytes_per_second"], negotiation_seconds=fields["negotiation_seconds"],
            asked_seconds=fields["asked_seconds"],
            checksum=None if checksum is None else known(Checksum, checksum),
            refused=tuple(known(Refusal, each) for each in fields["refused"]),
            attempts=tuple(known(Attempt, each) for each in fields["attempts"]), evidence=fields["evidence"],
            ranges=fields["ranges"], merged_ranges=fields["merged_ranges"], text=text)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        head = html.escape(self.text.partition("\n")[0])
        facts = [("path", f"{self.path}, {self.copies} {'copy' if self.copies == 1 else 'copies'}"),
                 ("took", f"{self.seconds:.6g} s, {self.bytes_per_second / 1e9:.4g} GB/s")]
        if self.checksum is not None:
            equal = "equal at both ends" if self.checksum.verified else "DIFFERENT"
            facts.append(("checksum", f"{self.checksum.algorithm} {self.checksum.value}, {equal}"))
        return "".join([
            f"<b>{head}</b>", _table(facts, ("", "")), _steps(self.steps), _refused(self.refused)])


def _steps(steps: tuple[Step, ...]) -> str:
    rows = [(number, each.from_memory, each.to_memory, each.by, each.node) for number, each in enumerate(steps, 1)]
    return _table(rows, ("copy", "from", "to", "by", "on"))


def _refused(refused: tuple[Refusal, ...]) -> str:
    if not refused:
        return ""
    rows = [(each.path, each.reason, each.detail, each.remedy) for each in refused]
    return "<details><summary>why nothing better</summary>" + _table(
        rows, ("path", "reason", "detail", "what to do")) + "</details>"


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a transfer would do. str() of it is what `onecopy explain` prints."""

    source: str
    destination: str
    path: str
    copies: int
    link: str
    steps: tuple[Step, ...]
    estimated_bytes_per_second: int
    measured: bool
    measure_time: datetime.datetime | None
    measured_transfers: int
    tried_again: str
    placement: str
    refused: tuple[Refusal, ...]
    text: str = dataclasses.field(repr=False, compare=False, default="")

    @classmethod
    def _of(cls, fields: Mapping[str, Any], text: str) -> Plan:
        return known(
            cls, fields, steps=tuple(Step._of(each) for each in fields["steps"]),
            measure_time=_time(fields["measure_time"]),
            refused=tuple(known(Refusal, each) for each in fields["refused"]), text=text)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        ends = html.escape(f"{self.source} -> {self.destination}")
        copies = "copy" if self.copies == 1 else "copies"
        return f"<b>{ends}</b><br>{html.escape(self.path)}, {self.copies} {copies}" + _steps(self.steps) + _refused(
            self.refused)


_RANGE = r"(?:@(?P<offset>[^+@]+)(?:\+(?P<bytes>[^+@]+))?)?"
_ENDPOINT = re.compile(r"(?:(?P<node>[^:@/]*):)?(?P<buffer>[^:@/]+)" + _RANGE)
_FILE = re.compile(r"(?P<node>[^:@/]+):(?P<buffer>/.*?)" + _RANGE.replace("[^+@]+", r"\d[^+@/]*"), re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """A range of a buffer, or of a file in a folder that its node exports: `buffer` is then the file's absolute path. An
    empty `node` is the node of the connection. If `bytes` is None, the range goes to the buffer's end or, at a destination,
    is as long as the source. A file that is written as a whole gets its name when all bytes are there. With `offset` or
    `bytes`, the file is written in place and must exist."""

    buffer: str
    node: str = ""
    offset: int | None = None
    bytes: int | None = None

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """Parses text as on the command line: `west:weights@4096+1MiB`, `west:/data/model.bin`."""
        found = _ENDPOINT.fullmatch(text) or _FILE.fullmatch(text)
        if found is None:
            raise InvalidArgument(
                f"'{text}' is not a range of a buffer", "BAD_ENDPOINT",
                "write NAME, NODE:NAME, NAME@OFFSET, NAME@OFFSET+LENGTH or NODE:/PATH; for files of this "
                "process use Node.copy_from_file and copy_to_file")
        sizes = [None if found[key] is None else _native.parse_bytes(found[key]) for key in ("offset", "bytes")]
        return cls(found["buffer"], found["node"] or "", *sizes)

    def __str__(self) -> str:
        text = f"{self.node}:{self.buffer}" if self.node else self.buffer
        if self.offset is None and self.bytes is None:
            return text
        return f"{text}@{self.offset or 0}" + ("" if self.bytes is None else f"+{self.bytes}")

    def _tuple(self) -> tuple[str, str, int | None, int | None]:
        return self.node, self.buffer, self.offset, self.bytes


def whole_buffer(text: str, node: str = "") -> tuple[str, str]:
    """The node and the name of a buffer: of `west:weights`, or of a name on `node`. Raises InvalidArgument for a range."""
    if node or ":" not in text:
        return node, text
    end = Endpoint.parse(text)
    if str(end) != text.removeprefix(":") or end.offset is not None or end.buffer.startswith("/"):
        raise InvalidArgument(f"'{text}' is not a whole buffer", "BAD_ENDPOINT", "write NAME, or NODE:NAME")
    return end.node, end.buffer


@dataclasses.dataclass(frozen=True)
class Buffer:
    """A buffer as it was when the daemon was asked. `form`: in which form the daemon uses a client's memory ("memfd",
    "process", "cuda-ipc", …); empty for memory that the daemon allocated.

    A view is a name for a part of another buffer's memory. Its `view_of` is the other buffer's id (else empty), and
    `offset_bytes` is where the view begins there. A view of an array has its `dtype`, `shape` and `strides` (in bytes);
    offsets in it count the bytes of the elements in order, and skip the gaps."""

    node: str
    name: str
    id: str
    memory: str
    device: str
    bytes: int
    owner: str
    registered: bool
    create_time: datetime.datetime | None
    transfers: int
    form: str = ""
    view_of: str = ""
    offset_bytes: int = 0
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None

    @classmethod
    def _of(cls, fields: Mapping[str, Any]) -> Buffer:
        array = fields.get("array") or {}
        shape, strides = (tuple(array[key]) if array else None for key in ("shape", "strides"))
        return known(cls, fields, create_time=_time(fields["create_time"]), view_of=fields.get("view_of") or "",
                     dtype=array.get("dtype", ""), shape=shape, strides=strides)

    def endpoint(self, offset: int | None = None, bytes: int | None = None) -> Endpoint:
        """A range of it, by its id. If the buffer is removed and created again with the same name, the id is another one."""
        return Endpoint(self.id, self.node, offset, bytes)

    def __getitem__(self, range: slice) -> Endpoint:
        """The bytes from `start` to `stop`."""
        start, stop, step = range.indices(self.bytes)
        if step != 1:
            raise InvalidArgument(
                f"a slice with step {step} of buffer {self.name} is not a range", "BAD_ENDPOINT",
                "for elements with gaps between them, pass ranges=[…] to transfer")
        return self.endpoint(start, max(0, stop - start))

    def __str__(self) -> str:
        where = f"{self.memory} {self.device}" if self.device else self.memory
        array = "" if self.shape is None else f"  {self.dtype}{list(self.shape)}"
        return f"{self.node}:{self.name}  {self.bytes} bytes{array}  {where}"

    def _repr_html_(self) -> str:
        rows = [(field.name, getattr(self, field.name)) for field in dataclasses.fields(self)]
        return _table(rows, ("", ""))


@dataclasses.dataclass(frozen=True)
class Sum:
    """The checksum of a range, as it was when the daemon read it.

    `value`: xxh3-128, as `xxhsum -H2` prints it of a file; `tree`: xxh3-128-tree, which receipts have. Hexadecimal.
    """

    algorithm: str
    value: str
    bytes: int
    tree: str = ""

    def __str__(self) -> str:
        return f"{self.algorithm} {self.value}"


@dataclasses.dataclass(frozen=True)
class Grant:
    """The right of another owner to access a range of a buffer, until `expire_time` (None: without end)."""

    id: str
    buffer: str
    offset_bytes: int
    bytes: int
    to: str
    read: bool
    write: bool
    expire_time: datetime.datetime | None
    owner: str
    node: str

    @classmethod
    def _of(cls, fields: Mapping[str, Any]) -> Grant:
        return known(cls, fields, expire_time=_time(fields["expire_time"]))


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something that keeps the node from the one-copy path (severity "blocks"), or that could be better."""

    code: str
    severity: str
    evidence: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.code}  {self.severity}\n  seen  {self.evidence}" + (
            f"\n  do    {self.remedy}" if self.remedy else "")


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What `onecopy doctor` found."""

    works: bool
    proof: str
    findings: tuple[Finding, ...]
    facts: Mapping[str, Any] = dataclasses.field(repr=False)

    @classmethod
    def _of(cls, document: str) -> Diagnosis:
        fields = json.loads(document)
        findings = tuple(known(Finding, each) for each in fields["findings"])
        return cls(fields["works"], fields["proof"], findings, fields["facts"])

    def __str__(self) -> str:
        verdict = "the one-copy path works" if self.works else "the one-copy path does not work yet"
        return "\n".join([*map(str, self.findings), f"{verdict}: {self.proof}" if self.proof else verdict])

    def _repr_html_(self) -> str:
        rows = [(each.code, each.severity, each.evidence, each.remedy) for each in self.findings]
        verdict = "works" if self.works else "does not work yet"
        return f"<b>the one-copy path {verdict}</b>" + _table(rows, ("", "", "seen", "what to do"))
