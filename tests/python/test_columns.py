"""Columns of Parquet files, and record batches of Arrow's."""

import gc
import random

import fake_gpus
import numpy
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest

import onecopy
import onecopy.arrow
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


# ---- files of Arrow


def arrow_table(rows=1000):
    return table(rows).append_column("kind", pyarrow.array([f"kind {each % 7}" for each in range(rows)]).dictionary_encode()) \
        .append_column("flag", pyarrow.array([each % 3 == 0 for each in range(rows)])) \
        .append_column("nothing", pyarrow.nulls(rows)) \
        .append_column("fixed", pyarrow.array([b"abc"] * rows, pyarrow.binary(3)))


@pytest.fixture
def arrow(tmp_path):
    path = tmp_path / "table.arrow"
    with pyarrow.ipc.new_file(path, arrow_table().schema) as writer:
        writer.write_table(arrow_table(), max_chunksize=300)
    return path


def test_record_batches_are_read_in_place(east, arrow):
    loaded = onecopy.arrow.load(east, arrow, checksum=True)
    assert len(loaded) == 4
    assert loaded.schema.equals(arrow_table().schema)
    assert pyarrow.Table.from_batches([each.batch for each in loaded]).equals(arrow_table())
    for each in loaded:
        each.batch.validate(full=True)
    done, = loaded.transfers
    assert done.receipt.path == "storage-bounce"
    assert done.receipt.checksum.verified
    kept = loaded[3].batch
    del loaded, each, done
    gc.collect()
    assert kept.column("id").to_pylist() == list(range(900, 1000))


def test_a_file_of_feather(east, tmp_path):
    pyarrow.feather.write_feather(arrow_table(), tmp_path / "x.feather", compression="uncompressed")
    loaded = onecopy.arrow.load(east, tmp_path / "x.feather")
    assert pyarrow.Table.from_batches([each.batch for each in loaded]).equals(arrow_table())


def test_columns_and_batches_are_chosen(east, arrow):
    for columns in (["price"], ["kind", "id"], "point", ["nothing"], []):
        loaded = onecopy.arrow.load(east, arrow, columns, [2, 0])
        names = [each for each in arrow_table().schema.names if each == columns or each in columns]
        for each, start in zip(loaded, (600, 0), strict=True):
            if names:
                assert pyarrow.Table.from_batches([each.batch]).equals(arrow_table().select(names).slice(start, 300))
    moved = onecopy.arrow.load(east, arrow, ["price"], [0]).transfers[0].bytes
    assert 300 * 8 <= moved < 300 * 8 + 64
    for options in ({"columns": ["none"]}, {"columns": "poin"}, {"batches": [4]}, {"batches": [-1]}):
        with pytest.raises(onecopy.NotFound):
            onecopy.arrow.load(east, arrow, **options)


def test_a_batch_on_a_gpu(gpu_node, gpu_pool, arrow):
    loaded = onecopy.arrow.load(gpu_node, arrow, ["id"], [1], pool=gpu_pool)
    _, values = loaded[0].layout.columns[0].buffers
    assert fake_gpus.read(loaded[0].memory.pointer + values[0], values[1]) == numpy.arange(300, 600).tobytes()
    with pytest.raises(onecopy.InvalidArgument, match="GPU"):
        _ = loaded[0].batch


def test_what_is_not_loaded_of_arrow(east, tmp_path):
    path = tmp_path / "x.arrow"
    options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
    views = pyarrow.table({"a": pyarrow.array(["x" * 50] * 3, pyarrow.string_view())})
    nested = pyarrow.table({"a": pyarrow.StructArray.from_arrays([pyarrow.array(["x"]).dictionary_encode()], ["b"])})
    for given, written in ((arrow_table(), options), (views, None), (nested, None)):
        with pyarrow.ipc.new_file(path, given.schema, options=written) as writer:
            writer.write_table(given)
        with pytest.raises(onecopy.Unimplemented) as failure:
            onecopy.arrow.load(east, path)
        assert failure.value.remedy
    with pyarrow.ipc.new_stream(path, arrow_table().schema) as writer:
        writer.write_table(arrow_table())
    with pytest.raises(onecopy.InvalidArgument, match="other formats"):
        onecopy.arrow.load(east, path)


def test_any_arrow_file_is_read_or_refused(east, arrow):
    chance = random.Random(14)
    whole = arrow.read_bytes()
    read = 0
    for number in range(600):
        changed = bytearray(whole)
        if number % 3 == 0:
            changed = changed[:chance.randrange(len(changed))]
        footer = int.from_bytes(whole[-10:-6], "little") + 10
        for _ in range(chance.randrange(1, 4)):
            at = len(whole) - chance.randrange(1, footer) if number % 2 else chance.randrange(2000)
            if at < len(changed):
                changed[at] = chance.choice([0, 255, chance.randrange(256)])
        arrow.write_bytes(changed)
        try:
            loaded = onecopy.arrow.load(east, arrow)
            for each in loaded:
                _ = each.batch
        except onecopy.Error as failure:
            assert failure.reason == "BAD_FORMAT", failure  # noqa: PT017
            continue
        read += 1
    assert read > 0
    east.ping()
