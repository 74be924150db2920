"""A name is the array that it was given for: nothing beside it, with its gaps, and for as long as its memory."""

import gc
import os
import subprocess

import numpy
import pytest
from conftest import BIN

import onecopy


def test_a_name_of_a_slice_is_the_slice(east, west):
    base = numpy.arange(1000, dtype="float64")
    buffer = west.register(base[100:200], "slice")
    assert (buffer.name, buffer.bytes, buffer.dtype, buffer.shape) == ("slice", 800, "float64", (100,))
    east.transfer(numpy.ones(100), "west:slice@0+800")
    expected = numpy.arange(1000, dtype="float64")
    expected[100:200] = 1
    assert (base == expected).all()
    got = numpy.zeros(50)
    base[100:200] = numpy.arange(100)
    east.transfer("west:slice@400+400", got)
    assert (got == numpy.arange(50, 100)).all()
    for beyond in ("west:slice@0+808", "west:slice@800+8"):
        with pytest.raises(onecopy.OutOfRange):
            east.transfer(beyond, numpy.zeros(101 if "0+808" in beyond else 1))
    listed = {each.name: each for each in east.buffers("west")}
    assert listed["slice"].bytes == 800
    west.unregister(base)
    assert "slice" not in {each.name for each in east.buffers("west")}


@pytest.mark.parametrize("cut", [
    (slice(None), slice(None, None, 3)), (slice(2, 9, 3), slice(5, 20)), (slice(None), 4), (3, slice(None)),
], ids=["columns", "rows", "one column", "one row"])
def test_an_array_with_gaps_keeps_them_behind_its_name(east, west, cut):
    base = numpy.arange(600, dtype="int32").reshape(20, 30)
    part = base[cut]
    name = west.register(part, "gaps")
    assert name.shape == part.shape and name.strides == part.strides and name.bytes == part.nbytes
    got = numpy.zeros(part.shape, "int32")
    done = east.transfer("west:gaps", got, checksum=True)
    assert (got == part).all() and done.receipt.checksum.verified
    before = base.copy()
    east.transfer(numpy.full(part.shape, -1, "int32"), "west:gaps")
    before[cut] = -1
    assert (base == before).all()
    one = numpy.zeros(3, "int32")
    part[...] = numpy.arange(part.size).reshape(part.shape)
    east.transfer("west:gaps@8+12", one)  # in its own bytes, without the gaps
    assert list(one) == [2, 3, 4]
    assert east.sum("west:gaps").value == west.sum(numpy.ascontiguousarray(part)).value == west.sum(part).value
    west.unregister(base)


def test_turned_arrays_arrive_as_they_are_meant(east, west):
    turned = numpy.asfortranarray(numpy.arange(12.0).reshape(3, 4))
    west.register(turned, "turned")
    got = numpy.zeros((3, 4))
    east.transfer("west:turned", got)
    assert (got == turned).all()
    west.unregister(turned)


def test_a_list_is_a_buffer_for_each_array(east, west):
    base = numpy.arange(10_000, dtype="uint16")
    parts = [base[start:start + 7] for start in range(0, 2030, 7)]
    buffers = west.register(parts)
    assert len(buffers) == 290 and len({each.id for each in buffers}) == 290
    assert {each.bytes for each in buffers} == {14} and len({each.view_of for each in buffers}) == 1
    for number in (0, 13, 289):
        got = numpy.zeros(7, "uint16")
        east.transfer(buffers[number], got)
        assert (got == parts[number]).all()
    assert west.register(parts) == buffers  # no second ones
    assert west.unregister(base)


def test_others_find_any_array_by_its_endpoint(east, west):
    base = numpy.arange(100, dtype="int64")
    for part in (base, base[10:20], base[::9]):
        end = west.endpoint(part)
        assert end.node == "west" and str(end).startswith("west:")
        for address in (end, str(end)):
            got = numpy.zeros(part.shape, "int64")
            east.transfer(address, got)
            assert (got == part).all()
    got = numpy.zeros(2, "int64")
    east.transfer(f"{west.endpoint(base[::9])}@8+16", got)
    assert list(got) == [9, 18]
    west.unregister(base)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is other users, too")
def test_a_grant_on_an_array_opens_no_neighbour(pair, west):
    pair.west.run_dir.parent.parent.chmod(0o711)  # of this test, as /run is
    base = numpy.arange(100, dtype="int32")
    grant = west.grant(base[50:60], "4711", read=True)
    whole = west.register(base)
    assert (grant.offset_bytes, grant.bytes) == (0, 40)

    def read(range):
        return subprocess.run([BIN / "onecopy", "--run-dir", pair.west.run_dir, "--quiet", "cp", range, "-"],
                              user=4711, group=4711, extra_groups=[], capture_output=True, check=False, cwd="/")

    done = read(grant.buffer)
    assert done.returncode == 0, done.stderr
    assert done.stdout == base[50:60].tobytes()
    for beyond in (f"{grant.buffer}@40+4", f"{whole.id}@200+4", f"{whole.name}@0+4"):
        done = read(beyond)
        assert done.returncode in (2, 3, 4) and done.stdout == b"", (beyond, done)
    west.unregister(base)
    assert grant.id not in {each.id for each in west.grants()}


def test_a_name_goes_with_its_memory(east, west):
    base = numpy.zeros(100)
    west.register(base[3:5], "gone")
    kept = west.empty(100, "float64", name="kept")
    west.register(numpy.asarray(kept)[10:20], "part")
    del base
    gc.collect()
    names = {each.name for each in west.buffers()}
    assert "gone" not in names and {"kept", "part"} <= names
    del kept
    gc.collect()
    assert "part" not in {each.name for each in west.buffers()}


def test_a_name_in_a_pool_ends_before_its_memory_is_another_arrays(east, west):
    pool = west.pool(slab="1MiB", limit="1MiB")
    first = pool.empty(1000, "float32")
    numpy.asarray(first)[:] = 1
    west.register(first, "pooled")
    west.register(numpy.asarray(first)[10:20], "inner")
    got = numpy.zeros(10, "float32")
    east.transfer("west:inner", got)
    assert (got == 1).all()
    where = numpy.asarray(first).ctypes.data
    del first
    gc.collect()
    second = pool.empty(1000, "float32")
    assert numpy.asarray(second).ctypes.data == where  # the same memory, for somebody else
    for name in ("west:pooled", "west:inner"):
        with pytest.raises(onecopy.NotFound):
            east.transfer(numpy.zeros(10, "float32"), name, as_bytes=True)


def test_memory_of_ours_is_found_and_not_registered_once_more(west):
    shared = west.empty((10, 10), "float32", name="ours")
    view = numpy.asarray(shared)
    assert west.register(view) == shared.buffer
    named = west.register(view[2:4], "rows")
    assert named.view_of == shared.buffer.id and named.offset_bytes == 80
    done = west.transfer(view[2:4], west.empty((2, 10), "float32"))
    assert done.receipt.copies == 1
    assert west.register(shared, "alias").view_of == shared.buffer.id


def test_what_cannot_be_watched_stays_until_it_is_forgotten(east, west):
    data = bytearray(range(100))
    west.register(memoryview(data)[10:20], "bytes")
    got = bytearray(10)
    east.transfer("west:bytes", got)
    assert list(got) == list(range(10, 20))
    with pytest.raises(BufferError):
        data.extend(b"x")
    assert west.unregister(data)
    data.extend(b"x")
    with pytest.raises(onecopy.NotFound):
        east.transfer("west:bytes", got)


def test_a_name_is_one_arrays(west):
    base = numpy.zeros(100)
    first = west.register(base[:10], "one")
    assert west.register(base[:10], "one") == first
    with pytest.raises(onecopy.AlreadyExists, match="one"):
        west.register(base[:11], "one")
    other = west.register(base[:10], "two")  # one memory may have many names
    assert other.id != first.id and other.view_of == first.view_of
    assert west.unregister(base)


def test_a_name_can_be_deleted_and_the_memory_stays(east, west):
    base = numpy.arange(100.0)
    name = west.register(base[:10], "short")
    west.delete(name)
    assert "short" not in {each.name for each in west.buffers()}
    got = numpy.zeros(100)
    west.transfer(base, got)
    assert (got == base).all()
    assert west.register(base[:10], "short").id != name.id
    west.unregister(base)


def test_mapping_a_name_gives_its_array(west, pair):
    shared = west.empty((8, 8), "int32", name="board")
    board = numpy.asarray(shared)
    board[:] = numpy.arange(64).reshape(8, 8)
    west.register(board[::2, 1::3], "squares")
    other = onecopy.connect(pair.west.run_dir)
    with other.map("squares") as squares:
        assert squares.shape == (4, 3) and squares.dtype == "int32"
        seen = numpy.asarray(squares)
        assert (seen == board[::2, 1::3]).all()
        seen[:] = -1
        assert (board[::2, 1::3] == -1).all() and (board[1::2] >= 0).all()
        got = numpy.zeros((4, 3), "int32")
        other.transfer(squares, got)
        assert (got == -1).all()
        del seen
    with other.map("board") as whole:  # a buffer without a shape is bytes
        assert whole.shape == (256,) and whole.dtype == "uint8"
    with pytest.raises(onecopy.InvalidArgument, match="gaps"):
        other.map("squares", 48)


def test_names_are_looked_at_by_prepare_explain_and_start(east, west):
    base = numpy.arange(40, dtype="int16")
    west.register(base[::4], "fourth")
    got = east.empty(10, "int16")
    prepared = east.prepare("west:fourth", got)
    for _ in range(3):
        numpy.asarray(got)[:] = 0
        assert prepared.run().state == "SUCCEEDED"
        assert (numpy.asarray(got) == base[::4]).all()
    assert east.explain("west:fourth", got).path.startswith("tcp-")
    numpy.asarray(got)[:] = 0
    assert east.start(west.endpoint(base[::4]), got).wait().state == "SUCCEEDED"
    assert (numpy.asarray(got) == base[::4]).all()
    west.unregister(base)


def test_the_command_line_names_parts_too(pair, west):
    shared = west.empty(1000, "uint8", name="raw")
    made = pair.west.cli("buffer", "view", "head", "raw@100+48", "--shape", "4,3", "--dtype", "float32")
    assert made["array"] == {"dtype": "float32", "item_bytes": 4, "shape": [4, 3], "strides": [12, 4]}
    assert made["view_of"] == shared.buffer.id and made["offset_bytes"] == 100
    assert west.buffer("head").shape == (4, 3)
    with west.map("head") as head:
        numpy.asarray(head)[:] = 1.0
    assert numpy.asarray(shared)[100:148].view("float32").tolist() == [1.0] * 12
    pair.west.cli("buffer", "rm", "head")
