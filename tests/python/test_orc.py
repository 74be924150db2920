"""Columns of ORC files, stream by stream."""

import gc
import random
import zlib

import fake_gpus
import numpy
import pyarrow
import pyarrow.orc
import pytest

import onecopy
import onecopy.orc
from onecopy.formats import _opened, _orc_footer, _protobuf

ROWS = 20_000
CODECS = ["uncompressed", "zlib", "snappy", "zstd", "lz4"]


def table(rows=ROWS):
    numbers = numpy.arange(rows)
    return pyarrow.table({
        "id": numbers, "price": numbers / 7,
        "name": pyarrow.array([f"name {each % 100}" if each % 5 else None for each in range(rows)], pyarrow.string()),
        "tags": pyarrow.array([[int(each), 2] if each % 3 else None for each in range(rows)], pyarrow.list_(pyarrow.int64())),
        "point": pyarrow.StructArray.from_arrays([numbers * 2, numbers * 3], ["x", "y"]),
        "pairs": pyarrow.array([[("k", i)] * (i % 3) for i in range(rows)], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
        "sum": pyarrow.array(range(rows), pyarrow.decimal128(20, 3)),
        "at": pyarrow.array(range(rows), pyarrow.timestamp("ns")),
    })


def write(path, codec="zlib", rows=ROWS, **options):
    pyarrow.orc.write_table(table(rows), path, compression=codec, stripe_size=16_384, batch_size=512,
                            compression_block_size=65_536, dictionary_key_size_threshold=1.0, **options)
    return path


@pytest.fixture(params=CODECS)
def file(request, tmp_path):
    return write(tmp_path / "table.orc", request.param)


def rebuilt(file, chunks, target):
    """A file of these streams alone, where they were, with all footers: for a decoder."""
    whole = file.read_bytes()
    opened = _opened.OpenFile(file)
    footer = _orc_footer.open_footer(opened)
    opened.close()
    made = bytearray(len(whole))
    made[:3] = whole[:3]
    last = 3
    for _, at, length in footer.stripes:
        made[at:at + length] = whole[at:at + length]
        last = at + length
    made[last:] = whole[last:]
    for chunk in chunks:
        for each in chunk.streams:
            made[each.offset:each.offset + each.data.nbytes] = bytes(each.data.memory)
    target.write_bytes(made)
    return target


def test_streams_are_what_a_decoder_wants(east, file, tmp_path):
    chunks = onecopy.orc.load(east, file, checksum=True, indexes=True)
    described = pyarrow.orc.ORCFile(file)
    assert described.nstripes > 1
    assert len(chunks) == described.nstripes * len(chunks.columns)
    assert pyarrow.orc.read_table(rebuilt(file, chunks, tmp_path / "again.orc")).equals(table())
    done, = chunks.transfers
    assert done.receipt.path == "storage-bounce"
    assert done.receipt.checksum.verified
    assert done.bytes == sum(stream.data.nbytes for each in chunks for stream in each.streams)
    assert done.bytes + sum(length for _, _, length in footer_of(file).stripes) == described.content_length
    assert (chunks.rows, chunks.codec.lower()) == (ROWS, {"uncompressed": "none"}.get(described.compression.lower(),
                                                                                     described.compression.lower()))
    assert chunks.block_bytes == described.compression_size
    assert sum(each.stripe.rows for each in chunks.column("id")) == ROWS
    assert [(each.path, each.kind) for each in chunks.columns] == [
        ("", "STRUCT"), ("id", "LONG"), ("price", "DOUBLE"), ("name", "STRING"), ("tags", "LIST"), ("tags.item", "LONG"),
        ("point", "STRUCT"), ("point.x", "LONG"), ("point.y", "LONG"), ("pairs", "MAP"), ("pairs.key", "STRING"),
        ("pairs.value", "LONG"), ("sum", "DECIMAL"), ("at", "TIMESTAMP")]
    assert (chunks.columns[12].precision, chunks.columns[12].scale) == (20, 3)
    name = chunks.column("name")[0]
    assert (name.encoding, name.dictionary_size) == ("DICTIONARY_V2", 80)
    assert {each.kind for each in name.streams} >= {"PRESENT", "DATA", "LENGTH", "DICTIONARY_DATA", "ROW_INDEX"}
    assert name.stripe.timezone


def footer_of(file):
    opened = _opened.OpenFile(file)
    try:
        return _orc_footer.open_footer(opened)
    finally:
        opened.close()


def test_the_bytes_of_each_stream_are_the_files(east, file):
    whole = file.read_bytes()
    for chunk in onecopy.orc.load(east, file):
        for each in chunk.streams:
            assert bytes(each.data.memory) == whole[each.offset:each.offset + each.data.nbytes]
            assert each.kind not in ("ROW_INDEX", "BLOOM_FILTER_UTF8")


def test_columns_and_stripes_are_chosen(east, file, tmp_path):
    chunks = onecopy.orc.load(east, file, ["price", "point", "tags.item"], [1, 0])
    assert [(each.stripe.number, each.column.path) for each in chunks] == [
        (stripe, path) for stripe in (0, 1) for path in ("", "price", "tags", "tags.item", "point", "point.x", "point.y")]
    assert chunks.transfers[0].bytes == sum(stream.data.nbytes for each in chunks for stream in each.streams)
    again = pyarrow.orc.ORCFile(rebuilt(file, chunks, tmp_path / "part.orc")).read_stripe(1, ["price", "point", "tags"])
    start, rows = chunks.column("price")[0].stripe.rows, chunks.column("price")[1].stripe.rows
    assert pyarrow.Table.from_batches([again]).equals(table().select(["price", "tags", "point"]).slice(start, rows))
    assert [each.column.path for each in onecopy.orc.load(east, file, "point.y", [0])] == ["", "point", "point.y"]
    assert len(onecopy.orc.load(east, file, [])) == 0
    assert len(onecopy.orc.load(east, file, "id", [])) == 0
    for options in ({"columns": ["none"]}, {"columns": "poin"}, {"stripes": [400]}, {"stripes": [-1]}):
        with pytest.raises(onecopy.NotFound):
            onecopy.orc.load(east, file, **options)


def test_streams_on_a_gpu(gpu_node, gpu_pool, file):
    for chunk in onecopy.orc.load(gpu_node, file, ["id"], pool=gpu_pool):
        for each in chunk.streams:
            expected = file.read_bytes()[each.offset:each.offset + each.data.nbytes]
            assert fake_gpus.read(each.data.pointer, each.data.nbytes) == expected


def test_a_file_without_rows_or_columns(east, tmp_path):
    assert onecopy.orc.load(east, write(tmp_path / "none.orc", rows=0)).rows == 0
    pyarrow.orc.write_table(pyarrow.table({}), tmp_path / "empty.orc")
    assert [each.kind for each in onecopy.orc.load(east, tmp_path / "empty.orc").columns] == ["STRUCT"]
    with pytest.raises(onecopy.InvalidArgument, match=r"onecopy\.orc\.load"):
        east.load(tmp_path / "none.orc")


def test_bloom_filters_come_with_the_indexes(east, tmp_path):
    file = write(tmp_path / "bloom.orc", bloom_filter_columns=[0])
    plain, whole = onecopy.orc.load(east, file, "id"), onecopy.orc.load(east, file, "id", indexes=True)
    assert {each.kind for chunk in plain for each in chunk.streams} == {"DATA"}
    assert {each.kind for chunk in whole for each in chunk.streams} == {"DATA", "ROW_INDEX", "BLOOM_FILTER_UTF8"}


# ---- what is none


def test_a_corrupt_footer_is_refused_before_anything_moves(east, file):
    whole = file.read_bytes()
    pool = east.pool(slab="4MiB")
    tail = whole[-1] + 1
    for bytes in (b"", b"ORC", b"ORC\x00", whole[:-1], whole[:-5000], whole[3:], whole[:-1] + b"\xff", whole[:-1] + b"\0",
                  whole[:3] + whole[-tail:], whole[:200] + whole[-tail:]):
        file.write_bytes(bytes)
        with pytest.raises(onecopy.InvalidArgument, match="BAD_FORMAT"):
            onecopy.orc.load(east, file, pool=pool)
    assert pool.statistics.allocations == 0


def varint(value):
    made = b""
    while value >= 128:
        made += bytes([value & 127 | 128])
        value >>= 7
    return made + bytes([value])


def message(*fields):
    """Of (number, value): an int, or bytes."""
    return b"".join(varint(number << 3) + varint(value) if isinstance(value, int) else
                    varint(number << 3 | 2) + varint(len(value)) + value for number, value in fields)


def orc(footer, body=b"", codec=0, block=None, length=None, metadata=0):
    """A file of these parts, right or not."""
    script = message((1, len(footer) if length is None else length), (2, codec), *(() if block is None else ((3, block),)),
                     (5, metadata), (8000, b"ORC"))
    return b"ORC" + body + footer + script + bytes([len(script)])


STRUCT = (4, message((1, 12)))
HUGE = (1 << 63) - 1
STRIPE_FOOTER = message((1, message((1, 1), (2, 0), (3, 4))), (2, message((1, 0))))
INFLATED = zlib.compressobj(9, zlib.DEFLATED, -15)
BOMB = INFLATED.compress(bytes(1 << 20)) + INFLATED.flush()
WRONG = {
    "a footer longer than the file": orc(b"", length=1000),
    "a footer of 2^63": orc(b"", length=1 << 63),
    "blocks of no bytes": orc(message(STRUCT), codec=1, block=0),
    "blocks of 2^40": orc(message(STRUCT), codec=1, block=1 << 40),
    "no schema": orc(message((6, 1))),
    "rows past all": orc(message(STRUCT, (6, 1 << 63))),
    "a type below itself": orc(message((4, message((1, 12), (2, b"\0"), (3, b"a"))))),
    "a type that is not there": orc(message((4, message((1, 12), (2, b"\x09"), (3, b"a"))))),
    "a type below two": orc(message((4, message((1, 12), (2, b"\1\1"), (3, b"a"), (3, b"b"))), STRUCT)),
    "a type of nobody's": orc(message(STRUCT, STRUCT)),
    "names missing": orc(message((4, message((1, 12), (2, b"\1"))), STRUCT)),
    "a list of two": orc(message((4, message((1, 10), (2, b"\1\2"))), STRUCT, STRUCT)),
    "a name that is not UTF-8": orc(message((4, message((1, 12), (2, b"\1"), (3, b"\xff"))), STRUCT)),
    "a stripe past the end": orc(message(STRUCT, (3, message((1, 3), (2, 0), (3, HUGE), (4, 1), (5, 1))))),
    "a stripe before the beginning": orc(message(STRUCT, (3, message((1, 0), (3, 4), (5, 1)))), bytes(100)),
    "two stripes in one place": orc(message(STRUCT, *[(3, message((1, 3), (3, 4), (5, 1)))] * 2), bytes(100)),
    "a stripe's footer past the end": orc(message(STRUCT, (3, message((1, 3), (3, 4), (4, HUGE), (5, 1)))), bytes(100)),
    "a stream longer than the stripe": orc(message(STRUCT, (3, message((1, 3), (3, 3), (4, len(STRIPE_FOOTER)), (5, 1)))),
                                           bytes(3) + STRIPE_FOOTER),
    "a stripe without encodings": orc(message(STRUCT, (3, message((1, 3), (3, 4), (4, 0), (5, 1)))), bytes(4)),
    "more columns than any has": orc(message((4, message((1, 12)))) * ((1 << 18) + 1)),
    "more stripes than any has": orc(message(STRUCT) + message((3, b"")) * ((1 << 17) + 1)),
    "paths longer than any": orc(message((4, message((1, 12), (2, b"\1"), (3, b"a" * (33 << 20)))), STRUCT)),
    "a number without an end": orc(b"\x08" + b"\xff" * 3),
    "a number of 80 bits": orc(b"\x08" + b"\xff" * 11 + b"\1"),
    "a field without a number": orc(b"\0\0"),
    "a group": orc(b"\x0b"),
    "bytes past the end": orc(b"\x1a\xff\xff\xff\xff\x0f"),
    "a number where bytes belong": orc(message((4, 1))),
    "a block longer than the footer": orc(b"\xff\xff\xff", codec=1),
    "blocks of more than a footer has": orc(((len(BOMB) << 1).to_bytes(3, "little") + BOMB) * 65, codec=1, block=1 << 20),
    "a block that is cut short": orc(b"\x02", codec=1),
    "blocks of another codec": orc(b"\x08\0\0abcd", codec=1),
    "a block with more than it may": orc((len(BOMB) << 1).to_bytes(3, "little") + BOMB, codec=1, block=1000),
    "Snappy's with more than it may": orc((5 << 1).to_bytes(3, "little") + varint(1 << 34), codec=2, block=1000),
    "Snappy's that are none": orc((4 << 1).to_bytes(3, "little") + b"\x03abc", codec=2),
    "LZ4's that are none": orc((4 << 1).to_bytes(3, "little") + b"\xf0\xff\xff\xff", codec=4),
    "Zstandard's that are none": orc((4 << 1).to_bytes(3, "little") + b"abcd", codec=5),
}


@pytest.mark.parametrize("what", WRONG)
def test_absurd_footers(east, tmp_path, what):
    path = tmp_path / "wrong.orc"
    path.write_bytes(WRONG[what])
    with pytest.raises(onecopy.InvalidArgument) as failure:
        onecopy.orc.load(east, path)
    assert failure.value.reason == "BAD_FORMAT"
    assert str(path) in failure.value.message
    assert failure.value.remedy


def test_what_is_not_loaded_is_said(east, tmp_path):
    path = tmp_path / "x.orc"
    for made in (orc(message(STRUCT, (10, b""))), orc(b"\x08\0\0abcd", codec=3), orc(b"\x08\0\0abcd", codec=6),
                 orc(b"\x08\0\0abcd", codec=4, block=8 << 20)):
        path.write_bytes(made)
        with pytest.raises(onecopy.Unimplemented) as failure:
            onecopy.orc.load(east, path)
        assert failure.value.remedy
    # Footers in blocks that are not compressed, which any codec may have.
    plain = message(STRUCT)
    path.write_bytes(orc((len(plain) << 1 | 1).to_bytes(3, "little") + plain, codec=3))
    assert onecopy.orc.load(east, path).codec == "LZO"


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "zstd", "lz4", "snappy"])
def test_any_footer_is_read_or_refused(east, tmp_path, codec):
    chance = random.Random(14)
    file = write(tmp_path / "table.orc", codec, 2000)
    whole = file.read_bytes()
    footers = [range(at, at + length) for _, at, length in footer_of(file).stripes]
    end = footers[-1].stop
    footers.append(range(end, len(whole)))
    read = 0
    for _ in range(300):
        changed = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            changed[chance.choice(chance.choice(footers))] = chance.choice([0, 255, chance.randrange(256)])
        file.write_bytes(changed)
        try:
            chunks = onecopy.orc.load(east, file)
        except onecopy.Error as failure:
            assert failure.reason == "BAD_FORMAT", failure  # noqa: PT017
            continue
        read += 1
        for chunk in chunks:
            for each in chunk.streams:
                assert bytes(each.data.memory) == bytes(changed[each.offset:each.offset + each.data.nbytes])
    assert read > 0
    gc.collect()
    east.ping()


def test_protocol_buffers():
    text = message((1, 300), (2, b"abc"), (1, 7), (3, b"\x01\xac\x02"), (3, 5)) + b"\x25\1\2\3\4\x29" + bytes(8)
    read = _protobuf.read(text, range(9), 5)
    assert _protobuf.number(read, 1) == 7
    assert _protobuf.number(read, 9, 4) == 4
    assert _protobuf.texts(read, 2) == [b"abc"]
    assert _protobuf.numbers(read, 3, 3) == [1, 300, 5]
    assert 4 not in read  # nobody asks for numbers of a fixed size
    assert (_protobuf.texts(read, 1), _protobuf.number(read, 2, 9)) == ([], 9)
    assert _protobuf.read(text, (2,), 1) == {2: [b"abc"]}
    for over in (lambda: _protobuf.read(text, range(9), 4), lambda: _protobuf.numbers(read, 3, 1)):
        with pytest.raises(ValueError, match="more"):
            over()
