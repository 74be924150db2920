"""Fuzzes the parsers that are written in Python: heads of .npy, Parquet, ORC and Arrow, and the formats that those are made of.

    python tests/python/fuzzing.py [TARGET…] [--seconds 600] [--seed 7]     other inputs than the suite's, by a seed
    python tests/python/fuzzing.py npy --seed 7 --input 1234                that input again
    python tests/python/fuzzing.py npy --guided --seconds 3600              by coverage: needs `pip install atheris`

Needs the wheel and what tests/python/requirements.txt has. An input is right files whose parts have changed, by the seed and
the input's number alone. A target fails if reading the input raises anything but an onecopy.Error with a reason and a remedy,
gives a result that is not right, or takes too much of the processor's time. What is right: places lie in the file; what the
format's own library reads as well, both have read the same; and of .npy files both refuse the same. Tables that pyarrow reads
although parts of them lie elsewhere or nowhere may be refused: test_reference_tables.py has those that must be read.
"""

import argparse
import contextlib
import functools
import importlib
import io
import itertools
import pathlib
import random
import re
import signal
import sys
import tempfile
import time
import traceback
import typing
import warnings

import numpy
import pyarrow
import pyarrow.orc
import pyarrow.parquet
from array_files import values
from reference import Arrow, Bytes, Refused, ours

import onecopy
from onecopy.formats import _arrow_file, _arrow_loading, _flat, _npy, _orc_footer, _parquet_footer, _protobuf, _thrift

PROCESSOR_SECONDS = 20  # that an input of a few KiB may take; all take milliseconds
_EDGES = [0, 1, 2, 3, 7, 8, 63, 64, 127, 128, 255, 256, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, (1 << 63) - 1, 1 << 63,
          (1 << 64) - 1]


class Wrong(Exception):
    """A file is read otherwise than it should be."""


class Target(typing.NamedTuple):
    """`seeds`: right files, each in parts; `join` makes a file of its parts, with the lengths that these have. `read` is tried
    on any bytes. `compare` gets what `read` returned, or the error, and the file; raises Wrong. Words are put into parts."""

    seeds: typing.Callable
    join: typing.Callable
    read: typing.Callable
    compare: typing.Callable = lambda found, whole, library: None
    words: tuple = ()


# ---- inputs


def _varint(number):
    made = b""
    while number > 127:
        made += bytes([number & 127 | 128])
        number >>= 7
    return made + bytes([number])


def _some(chance, words):
    """Bytes that are worth a try."""
    kind = chance.randrange(6)
    if kind == 0 and words:
        return chance.choice(words)
    number = chance.choice(_EDGES)
    if kind == 1:
        return _varint(number)
    if kind == 2:
        return bytes([chance.randrange(256)]) * chance.choice([1, 2, 9, 40, 400])
    if kind == 3:
        return bytes(chance.randrange(256) for _ in range(chance.randrange(1, 9)))
    return (number & (1 << 64) - 1).to_bytes(8, "little")[:chance.choice([1, 2, 4, 8])]


def _changed(part, other, chance, words):
    part = bytearray(part)
    for _ in range(chance.choice([1, 1, 1, 2, 3, 6])):
        at = chance.randrange(len(part) + 1)
        if chance.randrange(3) == 0:  # what matters most often lies at the end
            at = max(0, len(part) - chance.randrange(1, 65))
        kind = chance.randrange(8)
        if kind == 0 and at < len(part):
            part[at] ^= 1 << chance.randrange(8)
        elif kind == 1 and at < len(part):
            part[at] = chance.choice([0, 1, 127, 128, 255, part[at] + 1 & 255, part[at] - 1 & 255])
        elif kind == 2:
            some = _some(chance, words)
            part[at:at + len(some)] = some
        elif kind == 3:
            part[at:at] = _some(chance, words)
        elif kind == 4:
            del part[at:at + chance.randrange(1, 17)]
        elif kind == 5:
            part[at:at] = part[at:at + chance.randrange(1, 65)]
        elif kind == 6 and other:
            begin = chance.randrange(len(other))
            some = other[begin:begin + chance.randrange(1, 65)]
            part[at:at + (len(some) if chance.randrange(2) else 0)] = some
        else:
            del part[at:at + (len(part) if chance.randrange(8) == 0 else 1)]
    return bytes(part)


@functools.cache
def _seeds(name):
    return [tuple(map(bytes, parts)) for parts in TARGETS[name].seeds()]


def input_of(name, seed, number):
    """The same bytes each time."""
    target, seeds = TARGETS[name], _seeds(name)
    if number < len(seeds):
        return target.join(*seeds[number])
    chance = random.Random(f"{name} {seed} {number}")
    parts = list(chance.choice(seeds))
    for _ in range(chance.choice([1, 1, 2])):
        which = chance.randrange(len(parts))
        parts[which] = _changed(parts[which], chance.choice(seeds)[which], chance, target.words)
    whole = target.join(*parts)
    return _changed(whole, b"", chance, target.words) if chance.randrange(5) == 0 else whole


# ---- npy


def _npy_join(version, head, payload):
    return b"\x93NUMPY" + version + len(head).to_bytes(2 if version[:1] in (b"", b"\1") else 4, "little")[:4] + head + payload


def _npy_seeds():
    for descr, order, shape in itertools.product(("<i4", "<f8", "|u1", "|b1", "<c8", ">i2", "<U3", "|O"), (False, True),
                                                 ((), (3,), (2, 3), (0, 9), (1, 1, 1, 4))):
        head = f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
        yield b"\1\0", head.ljust(117) + b"\n", bytes(range(96))
    for version in (b"\2\0", b"\3\0"):
        yield version, b"{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }\n", bytes(8)


def _npy_read(whole):
    length = _npy.header_bytes("a file", whole[:_npy.FIRST_BYTES], len(whole))
    found = _npy.parse("a file", whole[:length], len(whole))
    if found.offset < length or found.offset + found.bytes > len(whole):
        raise Wrong(f"{found} does not lie in {len(whole)} bytes")
    return found.dtype.typestr.lstrip("<|"), found.shape, whole[found.offset:found.offset + found.bytes], found.fortran


def _npy_compare(found, whole, _library):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python 2, and of escapes
            array = numpy.load(io.BytesIO(whole), allow_pickle=False)
    except Exception as failure:  # NumPy raises what it meets
        if not isinstance(found, Exception):
            raise Wrong(f"read as {found!r:.200}, and NumPy says: {failure}") from failure
        return
    if not isinstance(array, numpy.ndarray) or isinstance(found, onecopy.Unimplemented):
        return
    if isinstance(found, Exception):
        raise Wrong(f"refused, and NumPy reads {array.dtype} {array.shape}: {found}")
    turned = array.flags.f_contiguous and not array.flags.c_contiguous
    theirs = array.dtype.str.lstrip("<|"), array.shape, array.tobytes("F" if turned else "C"), turned
    if found != theirs:
        raise Wrong(f"read as {found!r:.300}, and by NumPy as {theirs!r:.300}")


# ---- tables


def _tables():
    numbers = numpy.arange(60)
    yield pyarrow.table({
        "id": numbers, "name": [f"n {each % 7}" if each % 5 else None for each in range(60)], "price": numbers / 7,
        "tags": pyarrow.array([[int(each), 2] if each % 3 else None for each in range(60)], pyarrow.list_(pyarrow.int64())),
        "point": pyarrow.StructArray.from_arrays([numbers, numbers], ["x", "y"]),
        "pairs": pyarrow.array([[("k", i)] * (i % 3) for i in range(60)], pyarrow.map_(pyarrow.string(), pyarrow.int64()))})
    yield pyarrow.table({"a": values(9, "int32"), "d": pyarrow.array(range(9), pyarrow.decimal128(20, 3))})
    yield pyarrow.table({"a": pyarrow.array([], "int8")})
    yield pyarrow.table({"s": ["x", None, "yz"] * 3})


def _written(write):
    sink = pyarrow.BufferOutputStream()
    write(sink)
    return sink.getvalue().to_pybytes()


def _library(call, whole, library):
    """What pyarrow says in its own process, some files end which; None where it refuses."""
    with tempfile.NamedTemporaryFile(suffix=f".{call}") as file:
        file.write(whole)
        file.flush()
        try:
            return True, library.call(call, file.name)
        except Refused:
            return False, None


def _compare_counts(name, counts):
    """What we read pyarrow reads with as many rows and parts, if it does."""

    def compare(found, whole, library):
        if isinstance(found, Exception):
            return
        is_read, theirs = _library(name, whole, library)
        if is_read and theirs != counts(found):
            raise Wrong(f"read with the counts {counts(found)}, and by pyarrow with {theirs}")

    return compare


def _parquet_join(data, footer):
    return data + footer + (len(footer) & 0xffffffff).to_bytes(4, "little") + b"PAR1"


def _parquet_seeds():
    for table, options in itertools.product(_tables(), ({"compression": "none"}, {"row_group_size": 20, "data_page_version": "2.0"},
                                                        {"store_schema": False, "write_statistics": False, "use_dictionary": False})):
        whole = _written(lambda sink, table=table, options=options: pyarrow.parquet.write_table(table, sink, **options))
        end = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
        yield whole[:end], whole[end:-8]


def _parquet_read(whole):
    length = _parquet_footer.footer_bytes("a file", whole[-8:], len(whole))
    footer = _parquet_footer.parse("a file", whole[len(whole) - 8 - length:len(whole) - 8])
    places = _parquet_footer.places("a file", footer, range(min(footer.row_groups, 64)), range(min(len(footer.columns), 64)),
                                    len(whole) - length)
    for each in places:
        if each.bytes and not 0 <= each.offset <= each.offset + each.bytes <= len(whole) - length - 8:
            raise Wrong(f"{each} does not lie in {len(whole)} bytes")
    return footer


def _orc_join(data, footer, script):
    """`script`: the postscript without the footer's length, with which it begins."""
    script = b"\x08" + _varint(len(footer)) + script
    return data + footer + script + bytes([len(script) & 255])


def _orc_seeds():
    for table, options in itertools.product(_tables(), ({"compression": "uncompressed"}, {"compression": "zlib"},
                                                        {"compression": "uncompressed", "stripe_size": 1 << 12})):
        whole = _written(lambda sink, table=table, options=options: pyarrow.orc.write_table(table, sink, **options))
        script = whole[-1 - whole[-1]:-1]
        length, at = _protobuf.varint(script, 1)
        end = len(whole) - 1 - len(script)
        yield whole[:end - length], whole[end - length:end], script[at:]


def _orc_read(whole):
    file = Bytes(whole)
    footer = _orc_footer.open_footer(file)
    for number in range(min(len(footer.stripes), 64)):
        for each in _orc_footer.streams(file, footer, number)[2]:
            if not 0 <= each.offset <= each.offset + each.bytes <= len(whole):
                raise Wrong(f"{each} does not lie in {len(whole)} bytes")
    return footer


def _arrow_join(data, footer):
    return data + footer + (len(footer) & 0xffffffff).to_bytes(4, "little") + b"ARROW1"


def _arrow_seeds():
    for table, rows in itertools.product((*_tables(), pyarrow.table({"k": pyarrow.array(["a", "b"] * 9).dictionary_encode()})),
                                         (1000, 7)):
        def write(sink, table=table, rows=rows):
            with pyarrow.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table, max_chunksize=rows)

        whole = _written(write)
        end = len(whole) - 10 - int.from_bytes(whole[-10:-6], "little")
        yield whole[:end], whole[end:-10]


def _arrow_read(whole):
    """Without pyarrow, which has the schema from the footer and is tried in its own process."""
    file = Bytes(whole)
    footer = _arrow_file.open_footer(file)
    with contextlib.suppress(ValueError):  # which the caller makes an error of the file's
        _arrow_file.dictionary_numbers(footer.schema)
    batches = [_arrow_file.read_batch(file, footer, each) for each in footer.batches[:64]]
    batches += [batch for _, batch in _arrow_file.read_dictionaries(file, footer)]
    for batch in batches:
        for (at, bytes_), end in zip(batch.buffers, batch.ends, strict=True):
            if end and not 0 <= at <= at + bytes_ <= end <= len(whole):
                raise Wrong(f"a buffer of {bytes_} bytes at {at} ends with its padding at {end} of {len(whole)}")
    return footer


# ---- what they are made of


def _no_value_error(read):
    """Of a part whose ValueError the callers make an error of the file's."""

    def attempt(whole):
        try:
            return read(whole)
        except ValueError as failure:
            raise onecopy.InvalidArgument(str(failure), "BAD_FORMAT", "write it again") from None

    return attempt


def _thrift_read(text):
    reader = _thrift.Reader(text)
    fields = reader.struct({1: _thrift.I32, 2: _thrift.Many(_thrift.STRUCT, lambda each: each.skip_struct()), 3: _thrift.I64,
                            4: _thrift.BINARY, 5: _thrift.Many(_thrift.I32), 6: {1: _thrift.I32, 2: {}}, 7: _thrift.TRUE})
    if reader.at > len(text) or any(number not in range(1, 8) for number in fields):
        raise Wrong(f"{fields!r:.200} of {len(text)} bytes, up to {reader.at}")


def _protobuf_read(text):
    fields = _protobuf.read(text, (1, 2, 3), 1000)
    if any(isinstance(each, int) and not 0 <= each < 1 << 64 for found in fields.values() for each in found):
        raise Wrong(f"a number has more than 64 bits: {fields!r:.200}")
    for number in (1, 2, 3):
        _protobuf.number(fields, number)
        _protobuf.numbers(fields, number, 1000)
        list(_protobuf.messages(fields, number, (1,), 1000))


def _flat_read(text):
    table = _flat.Table.root(text)
    table.number(0, "<q")
    table.structs(1, "<qq")
    table.text(2)
    for each in table.tables(3):
        each.number(0, "<i")
        each.text(1)


def _one(text):
    return text


TARGETS = {
    "npy": Target(_npy_seeds, _npy_join, _npy_read, _npy_compare, (
        b"'descr'", b"'<f8'", b"'|O'", b"True", b"(", b")", b"{", b"}", b",", b"L", b"1_0", b"-", b"+", b"0x", b"9" * 20, b"'", b"\\",
        b"#", b"\n", b"None", b"[('a', '<i4')]", b"b", b"u", b"\xff", b"j", b"*", b" " * 9)),
    "parquet": Target(_parquet_seeds, _parquet_join, _parquet_read, _compare_counts("parquet", lambda footer: [
        footer.rows, footer.row_groups, len(footer.columns)]), (b"\x15\x00", b"\x19\x0c", b"\x1c\x00", b"\xf0\xff\xff\xff\x0f")),
    "orc": Target(_orc_seeds, _orc_join, _orc_read, _compare_counts("orc", lambda footer: [footer.rows, len(footer.stripes)]), (
        b"\x08\x0c", b"\x1a\x00", b"\x22\x00", b"\x82\xf4\x03\x03ORC", b"\x10\x01", b"\x18\x80\x80\x04")),
    "arrow": Target(_arrow_seeds, _arrow_join, _arrow_read, _compare_counts("ipc", lambda footer: [len(footer.batches)]), (b"\xff\xff\xff\xff", b"\x10\0\0\0", b"\0\0\x0a\0")),
    "thrift": Target(lambda: [(parts[1],) for parts in _parquet_seeds()], _one, _no_value_error(_thrift_read), words=(
        b"\x1c", b"\x19\xfc", b"\x1b\x01\x88", b"\x18\xff\xff\xff\xff\x0f")),
    "protobuf": Target(lambda: [(parts[1],) for parts in _orc_seeds()], _one, _no_value_error(_protobuf_read), words=(
        b"\x0a", b"\x0b", b"\x0d", b"\x09", b"\x12\xff\x01")),
    "flatbuffer": Target(lambda: [(parts[1],) for parts in _arrow_seeds()], _one, _no_value_error(_flat_read), words=(
        b"\x04\0\0\0", b"\xff\xff\xff\x7f", b"\x04\0\x04\0")),
}


# ---- trying them


def _too_long(*_):
    raise Wrong(f"it takes more than {PROCESSOR_SECONDS} s of the processor")


def check(name, whole, library):
    """Tries one input. Whether it was read; raises what is wrong."""
    target = TARGETS[name]
    before = signal.signal(signal.SIGVTALRM, _too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, PROCESSOR_SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python, of numbers and escapes in texts
            found = ours(lambda: target.read(whole))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    target.compare(found, whole, library)
    return not isinstance(found, Exception)


def again(name, seed, number):
    """The command that tries an input again."""
    return f"python tests/python/fuzzing.py {name} --seed {seed} --input {number}"


def run(name, seed, numbers, library):
    """Tries inputs by their numbers. How many were read, and how many refused; raises AssertionError for the first that is wrong."""
    read = refused = 0
    for number in numbers:
        whole = input_of(name, seed, number)
        try:
            if check(name, whole, library):
                read += 1
            else:
                refused += 1
        except Exception as failure:
            raise AssertionError(f"{type(failure).__name__}: {failure}\n{len(whole)} bytes: {whole[:100]!r} … {whole[-300:]!r}\n"
                                 f"once more: {again(name, seed, number)}") from failure
    return read, refused


def _until(end):
    number = 0
    while time.monotonic() < end:
        yield number
        number += 1


def _guided(name, seconds, library):
    """By libFuzzer, which follows the coverage of the parsers. Does not return."""
    atheris = importlib.import_module("atheris")
    parsers = (_npy, _parquet_footer, _thrift, _orc_footer, _protobuf, _arrow_file, _flat, _arrow_loading)
    for module in parsers:
        for item in vars(module).values():
            if getattr(item, "__module__", None) == module.__name__ and hasattr(item, "__code__"):
                atheris.instrument_func(item)
            elif isinstance(item, type) and item.__module__ == module.__name__:
                for each in vars(item).values():
                    if hasattr(each, "__code__"):
                        atheris.instrument_func(each)
    corpus = pathlib.Path(tempfile.mkdtemp(prefix=f"onecopy-fuzz-{name}."))
    for number, parts in enumerate(_seeds(name)):
        (corpus / f"seed-{number}").write_bytes(TARGETS[name].join(*parts))
    print(f"{name}: the inputs are in {corpus}; one that fails is written to the current folder", flush=True)
    atheris.Setup([sys.argv[0], f"-max_total_time={seconds}", "-max_len=65536", "-timeout=60", str(corpus)],
                  lambda data: check(name, bytes(data), library))
    atheris.Fuzz()


def main():
    parser = argparse.ArgumentParser(description=re.sub(r"\n\n.*", "", __doc__, flags=re.DOTALL))
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)} (default: all)")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default: 60)")
    parser.add_argument("--seed", default=None, help="of the inputs (default: another one each time)")
    parser.add_argument("--input", type=int, help="only the input of this number")
    parser.add_argument("--guided", action="store_true", help="by coverage, one target")
    arguments = parser.parse_args()
    names = arguments.targets or list(TARGETS)
    if unknown := [name for name in names if name not in TARGETS]:
        parser.error(f"{unknown[0]} is not a target; the targets are {', '.join(TARGETS)}")
    if arguments.guided and len(names) != 1:
        parser.error("--guided takes one target")
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 32)
    library, failed = Arrow(), False
    try:
        if arguments.guided:
            _guided(names[0], arguments.seconds, library)
        for name in names:
            numbers = [arguments.input] if arguments.input is not None else _until(time.monotonic() + arguments.seconds)
            print(f"{name}: seed {seed}", flush=True)
            try:
                read, refused = run(name, seed, numbers, library)
            except AssertionError:
                traceback.print_exc()
                failed = True
                continue
            print(f"{name}: {read + refused} inputs, {read} read, {refused} refused", flush=True)
    finally:
        library.end()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
