"""Record batches: moved at once, and read in place."""

import gc

import pytest

import onecopy

arrow = pytest.importorskip("pyarrow")
arrow_of = pytest.importorskip("onecopy.arrow")


def everything(rows=100):
    numbers = [None if i % 7 == 0 else i for i in range(rows)]
    return arrow.record_batch({
        "int": arrow.array(numbers, arrow.int32()),
        "bool": arrow.array([i % 3 == 0 for i in range(rows)]),
        "string": arrow.array([None if i % 5 == 0 else "ab" * (i % 9) for i in range(rows)]),
        "large": arrow.array([f"{i}" for i in range(rows)], arrow.large_string()),
        "decimal": arrow.array([i for i in range(rows)], arrow.decimal128(20)),
        "list": arrow.array([None if i % 4 == 0 else list(range(i % 6)) for i in range(rows)], arrow.list_(arrow.int16())),
        "fixed": arrow.array([[i, i + 1] for i in range(rows)], arrow.list_(arrow.float32(), 2)),
        "struct": arrow.array([{"a": i, "b": None if i % 2 else str(i)} for i in range(rows)]),
        "map": arrow.array([[("k", i)] * (i % 3) for i in range(rows)], arrow.map_(arrow.string(), arrow.int64())),
        "dictionary": arrow.array(["x", "y", None, "z"] * (rows // 4)).dictionary_encode(),
        "null": arrow.nulls(rows),
        "union": arrow.UnionArray.from_sparse(arrow.array([i % 2 for i in range(rows)], arrow.int8()),
                                              [arrow.array(range(rows)), arrow.array([f"{i}" for i in range(rows)])]),
        "nulls inside": arrow.array([{"n": None, "i": i} for i in range(rows)]),
        "time": arrow.array([i for i in range(rows)], arrow.timestamp("us", "UTC")),
        "nested": arrow.array([[[i], None, []] for i in range(rows)], arrow.list_(arrow.list_(arrow.int8()))),
    })


def inside(buffer, memory):
    start = memory.__array_interface__["data"][0]
    return start <= buffer.address and buffer.address + buffer.size <= start + memory.nbytes


def buffers_of(batch):
    return [buffer for column in batch.columns for buffer in column.buffers() if buffer is not None]


def test_placed_and_read_in_place(east):
    batch = everything()
    placed = arrow_of.place(east, batch)
    assert placed.batch.equals(batch)
    placed.batch.validate(full=True)
    for buffer in buffers_of(placed.batch):
        assert inside(buffer, placed.memory)
        assert buffer.address % 64 == 0


def test_to_another_node_by_one_transfer(east, west):
    placed = arrow_of.place(east, everything())
    ready = arrow_of.empty(west, arrow_of.Layout.from_json(placed.layout.to_json()), "arrow-there")
    done = east.transfer(placed.memory, "west:arrow-there", checksum=True)
    assert done.receipt.checksum.verified
    assert done.receipt.ranges == 1
    got = ready.batch
    assert got.equals(everything())
    got.validate(full=True)
    assert all(inside(buffer, ready.memory) for buffer in buffers_of(got))


def test_a_slice(east):
    batch = everything().slice(13, 40)
    assert arrow_of.place(east, batch).batch.equals(batch)


def test_the_memory_lives_as_long_as_the_batch(east):
    placed = arrow_of.place(east, everything())
    name, batch = placed.memory.buffer.id, placed.batch
    del placed
    gc.collect()
    assert batch.equals(everything())
    assert east.buffer(name)
    del batch
    gc.collect()
    with pytest.raises(onecopy.NotFound):
        east.buffer(name)


def test_no_rows_and_no_columns(east):
    empty = everything().slice(0, 0)
    assert arrow_of.place(east, empty).batch.num_rows == 0
    assert arrow_of.place(east, arrow.record_batch({})).batch.num_columns == 0


def test_what_is_no_layout():
    for text in ("", "{}", "[1]", '{"schema": "eA==", "rows": 1, "bytes": 1, "columns": []}'):
        with pytest.raises(onecopy.InvalidArgument, match="layout"):
            arrow_of.Layout.from_json(text)


def test_a_layout_that_lies_about_its_bytes():
    good = arrow_of.layout_of(arrow.record_batch({"a": arrow.array([1, 2, 3])}))
    text = good.to_json().replace(f'"bytes": {good.bytes}', '"bytes": 8')
    with pytest.raises(onecopy.InvalidArgument, match="8 bytes"):
        arrow_of.Layout.from_json(text)


def test_a_dictionary_inside_a_list(east):
    inner = arrow.array(["a", "b"]).dictionary_encode()
    nested = arrow.ListArray.from_arrays([0, 1, 2], inner)
    with pytest.raises(onecopy.InvalidArgument, match="dictionary_decode"):
        arrow_of.place(east, arrow.record_batch({"a": nested}))


def test_views(east):
    views = arrow.array(["a"]).cast(arrow.string_view())
    with pytest.raises(onecopy.InvalidArgument, match="cast it first"):
        arrow_of.place(east, arrow.record_batch({"a": views}))
