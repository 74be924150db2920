"""Parquet files of one kind of column each: a type, how many different values, how long runs of one, and a codec."""

import itertools
import json
import os
from typing import NamedTuple

import numpy

TYPES = ("integers", "floats", "strings", "decimals", "nested lists", "mixed")
_COLUMNS = 4
_ROW_GROUPS = 4
_FEW = 1000
_VALUE_BYTES = {"integers": 8, "floats": 8, "strings": 20, "decimals": 16, "nested lists": 24}  # in Arrow, about


class Case(NamedTuple):
    type: str
    few: bool  # 1,000 different values instead of new ones each
    run: int  # how often each comes, one after the other
    codec: str  # "none", "snappy"

    @property
    def name(self):
        return f"{self.type}, {'1,000 values' if self.few else 'all values differ'}, runs of {self.run}, {self.codec}"


ALL = [Case(*each) for each in itertools.product(TYPES, (False, True), (1, 32), ("none", "snappy"))]
SOME = [each for each in ALL if (each.few, each.run, each.codec) in ((False, 1, "none"), (True, 32, "snappy"))
        and each.type in ("integers", "strings", "nested lists", "mixed")]


class Table:
    """A file on the disk, and where its column chunks are."""

    def __init__(self, folder, files, rows, chunks):
        self.folder = folder
        self.files = files
        self.rows = rows
        self.chunks = chunks  # [offset, bytes] in order of row groups and columns
        self.bytes = sum(bytes for _, bytes in chunks)

    def write_facts(self):
        """Leaves a file for other processes, and returns its path."""
        path = os.path.join(self.folder, "facts.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"files": self.files, "rows": self.rows, "chunks": self.chunks}, file)
        return path

    @classmethod
    def read_facts(cls, path):
        """What `write_facts` has left in that file."""
        with open(path, encoding="utf-8") as file:
            facts = json.load(file)
        return cls(os.path.dirname(path), facts["files"], facts["rows"], facts["chunks"])


def write(folder, case, size, seed=1):
    """A table that takes about that many bytes in Arrow's memory, on the disk when this returns. Needs pyarrow."""
    import pyarrow
    import pyarrow.parquet

    os.makedirs(folder)
    types = [case.type] * _COLUMNS if case.type != "mixed" else [each for each in TYPES if each != "mixed"]
    rows = max(_ROW_GROUPS, size // sum(_VALUE_BYTES[each] for each in types))
    table = pyarrow.table({f"column{number}": _column(type, _numbers(case, rows, seed + number))
                           for number, type in enumerate(types)})
    path = os.path.join(folder, "table.parquet")
    pyarrow.parquet.write_table(table, path, row_group_size=-(-rows // _ROW_GROUPS), compression=case.codec)
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    return Table(folder, [path], rows, _chunks(pyarrow.parquet.read_metadata(path)))


def _chunks(footer):
    found = []
    for group, column in itertools.product(range(footer.num_row_groups), range(footer.num_columns)):
        chunk = footer.row_group(group).column(column)
        begin = chunk.data_page_offset
        if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
            begin = min(begin, chunk.dictionary_page_offset)
        found.append([begin, chunk.total_compressed_size])
    return found


def _numbers(case, rows, seed):
    """For each row the 64 bits that its value is made of."""
    random = numpy.random.Generator(numpy.random.SFC64(seed))
    distinct = -(-rows // case.run)
    if case.few:
        values = random.integers(0, 1 << 63, _FEW, dtype=numpy.uint64)[random.integers(0, _FEW, distinct)]
    else:
        values = random.integers(0, 1 << 63, distinct, dtype=numpy.uint64)
    return numpy.repeat(values, case.run)[:rows]


def _column(type, numbers):
    import pyarrow

    if type == "integers":
        return pyarrow.array(numbers.astype(numpy.int64))
    if type == "floats":
        return pyarrow.array(numbers.astype(numpy.float64) / 3)
    if type == "strings":
        digits = numpy.array([f"{byte:02x}" for byte in range(256)], dtype="S2")[numbers.view(numpy.uint8)]
        offsets = pyarrow.py_buffer(numpy.arange(numbers.size + 1, dtype=numpy.int32) * 16)
        return pyarrow.StringArray.from_buffers(numbers.size, offsets, pyarrow.py_buffer(digits.tobytes()))
    if type == "decimals":
        wide = numpy.zeros((numbers.size, 2), dtype=numpy.uint64)
        wide[:, 0] = numbers % numpy.uint64(10 ** 18)
        values = pyarrow.py_buffer(wide.tobytes())
        return pyarrow.Array.from_buffers(pyarrow.decimal128(18, 2), numbers.size, [None, values])
    # Lists of two lists of two numbers.
    leaves = pyarrow.array(numpy.repeat(numbers.view(numpy.int32), 2))
    for size in (2, 2):
        offsets = numpy.arange(0, len(leaves) + 1, size, dtype=numpy.int32)
        leaves = pyarrow.ListArray.from_arrays(pyarrow.array(offsets), leaves)
    return leaves
