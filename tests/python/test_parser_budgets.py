"""Heads of files from anybody: time in proportion to their bytes, little memory, and errors of ours alone."""

import json
import pathlib
import subprocess
import sys

import hypothesis
import hostile_heads
import numpy
import pyarrow
import pyarrow.orc
import pyarrow.parquet
import pytest
import safetensors.numpy
from array_files import values
from hypothesis import strategies
from reference import Bytes, examples, in_memory, ours

from onecopy.formats import _arrow_file, _flat, _npy, _orc_footer, _parquet_footer, _safetensors

MOST_TIMES = 10  # as long for four times as many bytes; 4 and what measuring adds
NOISE = 0.03  # seconds that a measurement may be off by
MOST_MEMORY = 40  # times the bytes
FIXED_MEMORY = 24 << 20  # beside that: what parts of a parser take once, and a footer of ORC before it is too large


@pytest.fixture(scope="module")
def measured():
    done = subprocess.run([sys.executable, pathlib.Path(hostile_heads.__file__)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return {each["name"]: each for each in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", hostile_heads.HOSTILE)
def test_time_and_memory_are_in_proportion_to_the_file(measured, name):
    found = measured[name]
    assert found["large"] <= MOST_TIMES * found["small"] + NOISE, found
    assert found["memory"] <= MOST_MEMORY * found["bytes"] + FIXED_MEMORY, found


# ---- any bytes


def whole_safetensors():
    return safetensors.numpy.save({"a": values(9, "float32"), "b.c": values(4, "int8").reshape(2, 2)}, {"made": "here"})


def read_safetensors(whole):
    with in_memory(whole) as file:
        header = _safetensors.read(file)
    assert sum(each.bytes for each in header.tensors) == len(whole) - 8 - int.from_bytes(whole[:8], "little")


def whole_index():
    return json.dumps({"metadata": {"total_size": 1}, "weight_map": {"a": "b.safetensors", "c": "d/e.safetensors"}}).encode()


def read_index(whole):
    assert all(isinstance(each, str) and each for each in _safetensors.parse_index("f", whole).values())


def whole_npy():
    head = repr({"descr": "<f4", "fortran_order": True, "shape": (3, 4)}).encode()
    return b"\x93NUMPY\x01\0\x60\0" + head.ljust(95) + b"\n" + bytes(48)


def read_npy(whole):
    length = _npy.header_bytes("f", whole[:_npy.FIRST_BYTES], len(whole))
    found = _npy.parse("f", whole[:length], len(whole))
    assert found.offset + found.bytes <= len(whole)


TABLE = pyarrow.table({"id": numpy.arange(100), "name": ["a", None] * 50, "point": pyarrow.StructArray.from_arrays(
    [numpy.arange(100)] * 2, ["x", "y"]), "tags": [[1, 2]] * 100})


def written(write):
    sink = pyarrow.BufferOutputStream()
    write(sink)
    return sink.getvalue().to_pybytes()


def whole_parquet():
    return written(lambda sink: pyarrow.parquet.write_table(TABLE, sink, row_group_size=40))


def read_parquet(whole):
    length = _parquet_footer.footer_bytes("f", whole[-8:], len(whole))
    footer = _parquet_footer.parse("f", whole[len(whole) - 8 - length:len(whole) - 8])
    places = _parquet_footer.places("f", footer, range(footer.row_groups), range(len(footer.columns)), len(whole) - length)
    assert all(each.offset + each.bytes <= len(whole) for each in places if each.bytes)


def whole_orc():
    return written(lambda sink: pyarrow.orc.write_table(TABLE, sink, compression="zlib"))


def read_orc(whole):
    file = Bytes(whole)
    footer = _orc_footer.open_footer(file)
    for number in range(len(footer.stripes)):
        _, _, places = _orc_footer.streams(file, footer, number)
        assert all(each.offset + each.bytes <= len(whole) for each in places)


def whole_arrow():
    def write(sink):
        with pyarrow.ipc.new_file(sink, TABLE.schema) as writer:
            writer.write_table(TABLE, max_chunksize=40)

    return written(write)


def read_arrow(whole):
    file = Bytes(whole)
    footer = _arrow_file.open_footer(file)
    try:
        _arrow_file.dictionary_numbers(footer.schema)
    except ValueError:  # which the caller makes an error of the file's
        pass
    for each in footer.batches:
        batch = _arrow_file.read_batch(file, footer, each)
        assert all(end <= len(whole) for end in batch.ends)
    list(_arrow_file.read_dictionaries(file, footer))


PARSERS = {"safetensors": (whole_safetensors, read_safetensors), "index": (whole_index, read_index), "npy": (whole_npy, read_npy),
           "Parquet": (whole_parquet, read_parquet), "ORC": (whole_orc, read_orc), "Arrow": (whole_arrow, read_arrow)}
SPLICES = [b"", b"\0", b"\xff", b"\x7f\xff\xff\xff", b"\xff" * 8, b"{", b"]", b'"', b"9" * 30, b"(" * 40, b"-", b"L",
           b"\x1c" * 40, b"\x19" * 40]


@strategies.composite
def changes(draw):
    """Where in the bytes, counted from the end, how many go, and what comes there."""
    return draw(strategies.lists(strategies.tuples(
        strategies.integers(0, 900), strategies.integers(0, 9), strategies.sampled_from(SPLICES) | strategies.binary(max_size=5)),
        min_size=1, max_size=4))


@pytest.mark.parametrize("name", PARSERS)
def test_any_bytes_are_read_or_refused(name):
    make, read = PARSERS[name]
    whole = make()
    read(whole)
    seen = {"read": 0, "refused": 0}

    def attempt(changed):
        seen["refused" if isinstance(ours(lambda: read(changed)), Exception) else "read"] += 1

    @examples(200)
    @hypothesis.given(changes())
    def run(each):
        changed = bytearray(whole)
        for at, gone, come in each:
            begin = max(0, len(changed) - at)
            changed[begin:begin + gone] = come
        attempt(bytes(changed))

    @examples(40)
    @hypothesis.given(strategies.binary(max_size=200), strategies.integers(0, 300))
    def run_any(some, kept):
        attempt(some)
        attempt(some + whole[-kept:])
        attempt(whole[:kept] + some)

    run()
    run_any()
    assert seen["refused"] > 50


@hypothesis.given(strategies.binary(max_size=64))
@examples(200)
def test_any_flatbuffer_is_walked_or_refused(text):
    try:
        table = _flat.Table.root(text)
        table.number(0, "<q")
        table.structs(1, "<qq")
        table.text(2)
        [each.number(0, "<i") for each in table.tables(3)]
    except ValueError:
        return
