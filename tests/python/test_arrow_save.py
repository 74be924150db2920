"""Files of Arrow that are saved: what pyarrow and onecopy.arrow.load read of them."""

import os
import subprocess

import fake_gpus
import numpy
import pyarrow
import pyarrow.feather
import pytest

import onecopy
import onecopy.arrow
from onecopy.formats import _arrow_file, _flat, _opened
from onecopy.arrow import Column


def table(rows=1000):
    """Every kind of column that is loaded."""
    numbers = range(rows)
    return pyarrow.table({
        "int": pyarrow.array([None if i % 7 == 0 else i for i in numbers], pyarrow.int32()),
        "whole": pyarrow.array(numbers, pyarrow.int64()),
        "bool": pyarrow.array([i % 3 == 0 for i in numbers]),
        "string": pyarrow.array([None if i % 5 == 0 else "ab" * (i % 9) for i in numbers], pyarrow.string()),
        "large": pyarrow.array([f"{i}" for i in numbers], pyarrow.large_string()),
        "decimal": pyarrow.array(list(numbers), pyarrow.decimal128(20)),
        "list": pyarrow.array([None if i % 4 == 0 else list(range(i % 6)) for i in numbers], pyarrow.list_(pyarrow.int16())),
        "fixed": pyarrow.array([[i, i + 1] for i in numbers], pyarrow.list_(pyarrow.float32(), 2)),
        "binary": pyarrow.array([b"abc"] * rows, pyarrow.binary(3)),
        "struct": pyarrow.array([{"a": i, "b": None if i % 2 else str(i)} for i in numbers],
                                pyarrow.struct({"a": pyarrow.int64(), "b": pyarrow.string()})),
        "map": pyarrow.array([[("k", i)] * (i % 3) for i in numbers], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
        "dictionary": pyarrow.array([["x", "y", None, "z"][i % 4] for i in numbers], pyarrow.string()).dictionary_encode(),
        "null": pyarrow.nulls(rows),
        "time": pyarrow.array(list(numbers), pyarrow.timestamp("us", "UTC")),
        "nested": pyarrow.array([[[i], None, []] for i in numbers], pyarrow.list_(pyarrow.list_(pyarrow.int32()))),
    }).replace_schema_metadata({"made": "here"})


def read(path):
    with pyarrow.OSFile(str(path)) as opened:
        found = pyarrow.ipc.open_file(opened).read_all()
    found.validate(full=True)
    return found


def loaded(node, path):
    batches = onecopy.arrow.load(node, path)
    made = pyarrow.Table.from_batches([each.batch for each in batches], batches.schema)
    made.validate(full=True)
    return made


@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_a_table_comes_back(east, tmp_path, rows):
    path = tmp_path / "table.arrow"
    saved = onecopy.arrow.save(east, path, table(rows), checksum=True, sync=True)
    assert read(path).equals(table(rows), check_metadata=True)
    assert loaded(east, path).equals(table(rows))
    assert pyarrow.feather.read_table(path).equals(table(rows))
    assert os.listdir(tmp_path) == ["table.arrow"]
    assert all(each.receipt.checksum.verified and each.receipt.path == "storage-bounce" for each in saved)
    assert all("client" not in (step.by for step in each.receipt.steps) for each in saved if each.bytes > 1 << 20)


def test_the_buffers_are_written_as_they_are(east, tmp_path):
    path = tmp_path / "table.arrow"
    batch = table().to_batches()[0]
    onecopy.arrow.save(east, path, batch)
    with pyarrow.OSFile(str(path)) as opened:
        again = pyarrow.ipc.open_file(opened).get_batch(0)
    for one, other in zip(batch.columns, again.columns, strict=True):
        for before, after in zip(one.buffers(), other.buffers(), strict=True):
            size = 0 if before is None else before.size
            assert (None if not size else before.to_pybytes()) == (None if not size else after.to_pybytes()[:size])


def test_many_batches_and_slices(east, tmp_path):
    whole = table().unify_dictionaries()
    sliced = [whole.slice(at, 100).to_batches()[0] for at in range(13, 900, 100)]
    for given, expected in [
        (sliced, pyarrow.Table.from_batches(sliced)),
        (whole.slice(500, 7), whole.slice(500, 7)),
        (pyarrow.concat_tables([whole, whole.slice(3, 0), whole]).unify_dictionaries(), pyarrow.concat_tables([whole, whole])),
        (pyarrow.table({}), pyarrow.table({})),
        (whole.schema.empty_table(), whole.schema.empty_table()),
    ]:
        path = tmp_path / "table.arrow"
        onecopy.arrow.save(east, path, given)
        assert read(path).equals(expected)
        assert loaded(east, path).equals(expected)
    onecopy.arrow.save(east, path, whole.slice(500, 7))
    assert path.stat().st_size < 20_000  # and not the thousand rows that it is a slice of


def test_large_buffers_begin_with_a_page(east, tmp_path):
    path = tmp_path / "table.arrow"
    big = pyarrow.table({"a": numpy.arange(1 << 18), "b": numpy.arange(1 << 18) / 3})
    onecopy.arrow.save(east, path, big)
    assert read(path).equals(big)
    file = _opened.OpenFile(path)
    footer = _arrow_file.open_footer(file)
    buffers = _arrow_file.read_batch(file, footer, footer.batches[0]).buffers
    file.close()
    assert [(at % 4096, bytes) for at, bytes in buffers if bytes] == [(0, 8 << 18)] * 2


def test_what_was_loaded_or_placed_is_saved_by_one_request(east, tmp_path):
    first, second = tmp_path / "first.arrow", tmp_path / "second.arrow"
    onecopy.arrow.save(east, first, table())
    batches = onecopy.arrow.load(east, first)
    saved = onecopy.arrow.save(east, second, batches)
    assert len(saved) == 1  # all of one memory
    assert read(second).equals(table())
    placed = onecopy.arrow.place(east, table().drop_columns(["dictionary"]).to_batches()[0])
    assert len(onecopy.arrow.save(east, second, placed)) == 1
    assert read(second).equals(table().drop_columns(["dictionary"]))
    onecopy.arrow.save(east, second, onecopy.arrow.load(east, first, [], []))
    assert read(second).num_columns == 0


def on_gpu(pool, data):
    """An array there, of bytes."""
    data = bytes(data)
    made = pool.empty(max(1, len(data)), "uint8")
    fake_gpus.write(made.pointer, data)
    return made


def test_columns_of_a_gpu(gpu_node, gpu_pool, tmp_path):
    path = tmp_path / "table.arrow"
    ids = gpu_pool.empty(1000, "int64")
    fake_gpus.write(ids.pointer, numpy.arange(1000).tobytes())
    names = pyarrow.array([None if i % 3 else f"name {i}" for i in range(1000)])
    points = pyarrow.array([[i, i] for i in range(1000)], pyarrow.list_(pyarrow.float32(), 2))
    kinds = pyarrow.array(["a", None, "b", "a"] * 250).dictionary_encode()

    def there(array):
        return [None if each is None else on_gpu(gpu_pool, each) for each in array.buffers()]

    inner = Column(pyarrow.float32(), 2000, [None, on_gpu(gpu_pool, points.values.buffers()[1])])
    columns = {
        "id": ids, "host": numpy.arange(1000) / 2,
        "name": Column(pyarrow.string(), 1000, there(names), null_count=names.null_count),
        "point": Column(points.type, 1000, [None], children=[inner]),
        "kind": Column(kinds.type, 1000, there(kinds.indices), null_count=kinds.null_count, dictionary=kinds.dictionary),
        "other": Column(kinds.type, 1000, there(kinds.indices), null_count=kinds.null_count,
                        dictionary=Column(pyarrow.string(), 2, there(kinds.dictionary))),
    }
    saved = onecopy.arrow.save(gpu_node, path, columns, checksum=True)
    expected = pyarrow.table({"id": numpy.arange(1000), "host": numpy.arange(1000) / 2, "name": names, "point": points,
                              "kind": kinds, "other": kinds})
    assert read(path).equals(expected)
    assert len(saved) == 4  # the pool's slab, NumPy's array, and two buffers of a dictionary on the host
    batches = onecopy.arrow.load(gpu_node, path, pool=gpu_pool)
    assert len(onecopy.arrow.save(gpu_node, tmp_path / "again.arrow", batches)) == 1
    assert read(tmp_path / "again.arrow").equals(expected)


def test_columns_without_rows(east, tmp_path):
    path = tmp_path / "table.arrow"
    empty = Column(pyarrow.string(), 0, [None, None, None])
    onecopy.arrow.save(east, path, {"a": numpy.zeros(0, "int32"), "b": empty, "c": Column(pyarrow.null(), 0, [])})
    assert read(path).equals(pyarrow.schema({"a": pyarrow.int32(), "b": pyarrow.string(), "c": pyarrow.null()}).empty_table())


def test_what_cannot_be_saved_is_said_and_leaves_all_as_it_was(east, tmp_path):
    path = tmp_path / "table.arrow"
    path.write_bytes(b"as it was")
    eight = numpy.arange(8)
    gone = east.empty(4_000_000, "uint8")
    gone.close()
    wrong = [
        (3, {}, onecopy.InvalidArgument), ([3], {}, onecopy.InvalidArgument), ([], {}, onecopy.InvalidArgument),
        ({"a": eight, "b": eight[:3]}, {}, onecopy.InvalidArgument), ({"a": eight[::2]}, {}, onecopy.InvalidArgument),
        ({"a": eight.reshape(2, 4)}, {}, onecopy.InvalidArgument), ({"a": eight > 3}, {}, onecopy.InvalidArgument),
        ({"a": [1, 2]}, {}, onecopy.InvalidArgument),
        ({"a": Column(pyarrow.int64(), 9, [None, eight])}, {}, onecopy.InvalidArgument),
        ({"a": Column(pyarrow.int64(), 8, [eight])}, {}, onecopy.InvalidArgument),
        ({"a": Column(pyarrow.int64(), 8, [None, eight], null_count=1)}, {}, onecopy.InvalidArgument),
        ({"a": Column(pyarrow.int64(), 8, [None, eight], null_count=9)}, {}, onecopy.InvalidArgument),
        ({"a": Column(pyarrow.int64(), -1, [None, eight])}, {}, onecopy.InvalidArgument),
        ({"a": Column(pyarrow.int64(), 8, [eight[:0], None])}, {}, onecopy.InvalidArgument),
        ({"a": Column(pyarrow.string(), 100, [None, eight, eight])}, {}, onecopy.InvalidArgument),
        ({"a": Column(pyarrow.list_(pyarrow.int8()), 1, [None, eight])}, {}, onecopy.InvalidArgument),
        ({"a": Column(pyarrow.list_(pyarrow.int8()), 1, [None, eight], children=[Column(pyarrow.int16(), 2, [None, eight])])},
         {}, onecopy.InvalidArgument),
        ({"a": Column(pyarrow.dictionary(pyarrow.int8(), pyarrow.string()), 8, [None, eight])}, {}, onecopy.InvalidArgument),
        ([table(), table()], {}, onecopy.InvalidArgument),
        ([table(3).to_batches()[0], table(3).drop_columns(["int"]).to_batches()[0]], {}, onecopy.InvalidArgument),
        (pyarrow.table({"a": pyarrow.array(["x"], pyarrow.string_view())}), {}, onecopy.Unimplemented),
        (pyarrow.table({"a": pyarrow.array([{"b": "x"}]).cast(pyarrow.struct({"b": pyarrow.string_view()}))}), {},
         onecopy.Unimplemented),
        ([pyarrow.record_batch({"a": pyarrow.array([each]).dictionary_encode()}) for each in ("x", "y")], {},
         onecopy.Unimplemented),
        (table(), {"at_most": 1}, onecopy.FailedPrecondition), (table(), {"deadline": -1}, onecopy.InvalidArgument),
        ({"a": numpy.zeros(4_000_000, "uint8"), "b": gone}, {}, onecopy.NotFound),
        ({f"{n}": numpy.zeros(4_000_000, "uint8") for n in range(20)}, {"deadline": 0.001}, onecopy.DeadlineExceeded),
    ]
    for given, options, failure in wrong:
        with pytest.raises(failure):
            onecopy.arrow.save(east, path, given, **options)
        assert (path.read_bytes(), os.listdir(tmp_path)) == (b"as it was", [path.name])
    with pytest.raises(onecopy.NotFound):
        onecopy.arrow.save(east, tmp_path / "gone" / "table.arrow", table())
    with pytest.raises(onecopy.InvalidArgument, match=r"onecopy\.arrow\.save"):
        east.save(path, {"a": eight})
    onecopy.arrow.save(east, path, table())
    assert read(path).equals(table())


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as failure:
        pytest.skip(f"no file system can be mounted: {failure}")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def test_a_full_disk(east, small_disk):
    path = small_disk / "table.arrow"
    onecopy.arrow.save(east, path, table(100))
    with pytest.raises(onecopy.ResourceExhausted) as failure:
        onecopy.arrow.save(east, path, {"a": numpy.arange(100_000)})
    assert failure.value.reason == "NO_SPACE"
    assert os.listdir(small_disk) == [path.name]
    assert read(path).equals(table(100))


def test_after_a_restart_of_the_daemon(daemon, tmp_path):
    node = onecopy.connect(daemon.run_dir)
    onecopy.arrow.save(node, tmp_path / "first.arrow", table())
    batches = onecopy.arrow.load(node, tmp_path / "first.arrow")
    daemon.kill()
    daemon.start_again()
    onecopy.arrow.save(node, tmp_path / "second.arrow", batches)
    assert read(tmp_path / "second.arrow").equals(table())


def test_flatbuffers_are_read_as_they_were_written():
    text = _flat.Writing.root({0: ("<h", -4), 3: ("<q", 1 << 40), 1: ("<B", 7), 5: (_flat.TABLE, {
        2: ("<qq", [(1, 2), (3, -4)]), 0: ("<i", 9)}), 6: ("<qq", [])})
    root = _flat.Table.root(text)
    assert [root.number(each, format, 5) for each, format in ((0, "<h"), (3, "<q"), (1, "<B"), (2, "<i"), (9, "<i"))] == [
        -4, 1 << 40, 7, 5, 5]
    inner = root.table(5)
    assert inner.structs(2, "<qq") == [(1, 2), (3, -4)]
    assert inner.number(0, "<i") == 9
    assert root.structs(6, "<qq") == []
    again = _flat.Table.root(_flat.with_vectors(text, {6: ("<qq", [(5, 6)])}))
    assert again.structs(6, "<qq") == [(5, 6)]
    assert again.table(5).structs(2, "<qq") == [(1, 2), (3, -4)]
    with pytest.raises(ValueError, match="field 4"):
        _flat.with_vectors(text, {4: ("<qq", [])})
