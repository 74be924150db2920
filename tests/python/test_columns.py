"""Columns of Parquet files, and record batches of Arrow's."""

import gc
import random

import fake_gpus
import numpy
import pyarrow
import pyarrow.parquet
import pytest

import onecopy
import onecopy.parquet


def table(rows=5000):
    numbers = numpy.arange(rows)
    return pyarrow.table({
        "id": numbers, "price": numbers / 7, "name": [f"name {each % 100}" if each % 5 else None for each in range(rows)],
        "tags": [[int(each), 2] if each % 3 else None for each in range(rows)],
        "point": pyarrow.StructArray.from_arrays([numbers * 2, numbers * 3], ["x", "y"]),
    })


@pytest.fixture(params=["none", "snappy", "zstd"])
def file(request, tmp_path):
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(table(), path, row_group_size=1500, compression=request.param)
    return path


def rebuilt(file, chunks, target):
    """A file of these chunks alone, where they were, with the footer: for a decoder."""
    whole = file.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    made = bytearray(len(whole))
    made[:4], made[-footer:] = whole[:4], whole[-footer:]
    for each in chunks:
        made[each.offset:each.offset + each.data.nbytes] = bytes(each.data.memory)
    target.write_bytes(made)
    return target


def test_chunks_are_what_a_decoder_wants(east, file, tmp_path):
    chunks = onecopy.parquet.load(east, file, checksum=True)
    assert len(chunks) == 4 * 6
    assert pyarrow.parquet.read_table(rebuilt(file, chunks, tmp_path / "again.parquet")).equals(table())
    done, = chunks.transfers
    assert done.receipt.path == "storage-bounce"
    assert done.receipt.checksum.verified
    assert done.bytes == sum(each.data.nbytes for each in chunks)
    footer = pyarrow.parquet.read_metadata(file)
    first, described = chunks[0], footer.row_group(0).column(0)
    assert (first.column.path, first.row_group, first.column.physical_type, first.codec) == (
        "id", 0, "INT64", described.compression)
    assert first.encodings == tuple(described.encodings)
    assert (first.values, first.uncompressed_bytes) == (1500, described.total_uncompressed_size)
    assert chunks.rows == 5000
    for number, each in enumerate(chunks.columns):
        leaf = footer.schema.column(number)
        assert (each.path, each.physical_type, each.max_definition_level, each.max_repetition_level) == (
            leaf.path, leaf.physical_type, leaf.max_definition_level, leaf.max_repetition_level)
    assert chunks.columns[2].logical_type == "STRING"
    tags = next(each for each in chunks if each.column.path.startswith("tags."))
    assert (tags.column.max_definition_level, tags.column.max_repetition_level) == (3, 1)


def test_columns_and_row_groups_are_chosen(east, file, tmp_path):
    chunks = onecopy.parquet.load(east, file, ["price", "point"], [3, 1])
    assert [(each.row_group, each.column.path) for each in chunks] == [
        (1, "price"), (1, "point.x"), (1, "point.y"), (3, "price"), (3, "point.x"), (3, "point.y")]
    assert chunks.transfers[0].bytes == sum(each.data.nbytes for each in chunks)
    path = rebuilt(file, chunks, tmp_path / "part.parquet")
    again = pyarrow.parquet.ParquetFile(path).read_row_group(3, ["price", "point"])
    assert again.equals(table().select(["price", "point"]).slice(4500))
    assert [each.column.path for each in onecopy.parquet.load(east, file, "point.y", [0])] == ["point.y"]
    assert len(onecopy.parquet.load(east, file, [])) == 0
    for options in ({"columns": ["none"]}, {"columns": "poin"}, {"row_groups": [4]}, {"row_groups": [-1]}):
        with pytest.raises(onecopy.NotFound):
            onecopy.parquet.load(east, file, **options)


def test_chunks_on_a_gpu(gpu_node, gpu_pool, file):
    chunks = onecopy.parquet.load(gpu_node, file, ["id"], pool=gpu_pool)
    for each in chunks:
        expected = file.read_bytes()[each.offset:each.offset + each.data.nbytes]
        assert fake_gpus.read(each.data.pointer, each.data.nbytes) == expected


def test_a_corrupt_footer_is_refused_before_anything_moves(east, file):
    whole = file.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    pool = east.pool(slab="4MiB")
    for bytes in (b"", b"PAR1", whole[:-1], whole[:-5000], whole[4:], whole[:-8] + b"\xff\xff\xff\x7fPAR1",
                  whole[:-8] + b"\xff\xff\xff\xffPAR1", whole[:-8] + b"\0\0\0\0PAR1", whole[footer:] + whole[-footer:-8]):
        file.write_bytes(bytes)
        with pytest.raises(onecopy.InvalidArgument, match="BAD_FORMAT"):
            onecopy.parquet.load(east, file, pool=pool)
    file.write_bytes(whole[:4] + whole[-footer:])  # whose columns lie behind its end
    with pytest.raises(onecopy.InvalidArgument, match="BAD_FORMAT"):
        onecopy.parquet.load(east, file, pool=pool)
    assert pool.statistics.allocations == 0


def test_any_footer_is_read_or_refused(east, tmp_path):
    chance = random.Random(14)
    file = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(table(), file, row_group_size=1500)
    whole = file.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little")
    read = 0
    for _ in range(400):
        changed = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            changed[-8 - chance.randrange(1, footer + 1)] = chance.randrange(256)
        file.write_bytes(changed)
        try:
            chunks = onecopy.parquet.load(east, file)
        except onecopy.Error as failure:
            assert failure.reason == "BAD_FORMAT", failure  # noqa: PT017
            continue
        read += 1
        for each in chunks:
            assert bytes(each.data.memory) == bytes(changed[each.offset:each.offset + each.data.nbytes])
    assert read > 0
    gc.collect()
    east.ping()
