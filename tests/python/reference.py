"""What tests of formats against their own libraries have in common: what is compared, and counts."""

import ast
import collections
import contextlib
import os
import subprocess
import sys
import types

import hypothesis

import onecopy

# More than what every run tries: ONECOPY_EXAMPLES=100 tries a hundred times as many.
_TIMES = int(os.environ.get("ONECOPY_EXAMPLES", "1"))


def examples(count):
    """Settings for so many examples, which are the same in every run unless more are asked for."""
    return hypothesis.settings(max_examples=count * _TIMES, derandomize=_TIMES == 1, deadline=None, database=None,
                               suppress_health_check=list(hypothesis.HealthCheck))


class Bytes:
    """A file that is bytes, for the code that reads heads."""

    def __init__(self, whole, name="a file"):
        self.whole, self.name, self.size = bytes(whole), name, len(whole)

    def read(self, offset, bytes):
        return self.whole[offset:offset + bytes]


@contextlib.contextmanager
def in_memory(whole, name="a file"):
    """Bytes as an open file, for the code that reads descriptors."""
    with open(os.memfd_create("test"), "wb", buffering=0) as file:
        file.write(whole)
        yield types.SimpleNamespace(name=name, fd=file.fileno(), size=len(whole))


class Corpus:
    """Counts of files that ours and theirs have read, or refused, alike. `end` says them, where output is shown."""

    def __init__(self, name, record):
        self.name = name
        self._record = record
        self._counts = collections.Counter()
        self._unlike = []

    def add(self, what, ours, theirs):
        """Each is what was read, or the exception of what was refused. What we refuse as Unimplemented is counted by itself:
        it is documented."""
        if isinstance(ours, Exception) and isinstance(theirs, Exception):
            self._counts["refused by both"] += 1
        elif isinstance(ours, onecopy.Unimplemented):
            self._counts["not loaded, and said so"] += 1
        elif not isinstance(ours, Exception) and not isinstance(theirs, Exception) and ours == theirs:
            self._counts["read alike"] += 1
        else:
            self._unlike.append(f"{what}: {ours!r:.300}, and theirs {theirs!r:.300}")

    def end(self, *, least):
        """least: of files that are read alike."""
        text = f"{self.name}: {sum(self._counts.values()) + len(self._unlike)} files: " + ", ".join(
            f"{count} {what}" for what, count in sorted(self._counts.items()))
        print(text)
        self._record("corpus", text)
        assert not self._unlike, "\n".join([f"{len(self._unlike)} of {text}", *self._unlike[:5]])
        assert self._counts["read alike"] >= least, text
        return self._counts


def attempt(call):
    """What it returns, or the exception."""
    try:
        return call()
    except Exception as failure:  # others raise what they meet
        return failure


def ours(call):
    """Likewise, of ours, whose exceptions are onecopy's own."""
    try:
        return call()
    except onecopy.Error as failure:
        assert failure.reason == "BAD_FORMAT", failure  # noqa: PT017
        assert failure.remedy, failure  # noqa: PT017
        assert len(str(failure)) < 2000, str(failure)[:2000]  # noqa: PT017
        return failure


CHILD = """
import sys
import pyarrow, pyarrow.orc, pyarrow.parquet

def parquet(path):
    found = pyarrow.parquet.ParquetFile(path)
    return [found.metadata.num_rows, found.metadata.num_row_groups, found.metadata.num_columns]

def parquet_data(path):
    pyarrow.parquet.ParquetFile(path).read()

def orc(path):
    found = pyarrow.orc.ORCFile(path)
    return [found.nrows, found.nstripes]

def orc_data(path):
    found = pyarrow.orc.ORCFile(path)
    for number in range(found.nstripes):
        found.read_stripe(number)

def ipc(path):
    with pyarrow.OSFile(path) as opened:
        return [pyarrow.ipc.open_file(opened).num_record_batches]

def ipc_data(path):
    with pyarrow.OSFile(path) as opened:
        pyarrow.ipc.open_file(opened).read_all().validate(full=True)

for line in sys.stdin:
    call, path = line.rstrip().split(" ", 1)
    try:
        answer = repr(globals()[call](path))
    except BaseException as failure:
        answer = f"failed {type(failure).__name__}: {failure}".replace(chr(10), " ")
    print(answer, flush=True)
"""


class Refused(Exception):
    """By pyarrow, or its process has ended over it."""


class Arrow:
    """pyarrow in a process of its own: some files that are not right end that."""

    def __init__(self):
        self._process = None

    def call(self, name, path):
        """Of `CHILD`. Raises Refused."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=subprocess.DEVNULL, text=True)
        self._process.stdin.write(f"{name} {path}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._process.wait()
            raise Refused("its process has ended")
        if answer.startswith("failed "):
            raise Refused(answer)
        return ast.literal_eval(answer)

    def end(self):
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process.stdout.close()
