"""Every number that a caller passes is looked at: what cannot be one is an InvalidArgument that names it, and nothing has
happened."""

import asyncio
import math

import numpy
import pytest

import onecopy
from onecopy.core.values import _numbers

# What is not a number of seconds, or of things, anywhere.
NO_SECONDS = [-1, -0.5, 0, math.nan, math.inf, -math.inf, True, numpy.bool_(True), "5", b"5", 1e300, 10 ** 400, [1], object()]
NO_COUNT = [-1, 1.5, math.nan, math.inf, True, numpy.bool_(True), b"5", 1 << 64, 10 ** 400, [1], object()]


def refused(call, value, what=""):
    with pytest.raises(onecopy.InvalidArgument) as failure:
        call(value)
    assert failure.value.remedy, f"{what} {value!r}"
    assert failure.value.reason in ("BAD_ARGUMENT", "BAD_SIZE"), f"{what} {value!r}: {failure.value}"


@pytest.fixture
def ends(east):
    """A buffer of this node, and an array."""
    array = east.empty(64, "uint8")
    return array.buffer, array


def test_seconds(east, pair, ends, folder):
    buffer, array = ends
    file = folder / "file"
    file.write_bytes(bytes(64))
    calls = {
        "connect": lambda value: onecopy.connect(pair.east.run_dir, timeout=value),
        "grant": lambda value: east.grant(buffer, "1234@east", read=True, seconds=value),
        "transfer": lambda value: east.transfer(array, buffer, deadline=value),
        "start": lambda value: east.start(array, buffer, deadline=value),
        "prepare": lambda value: east.prepare(array, buffer, deadline=value),
        "enqueue": lambda value: east.enqueue(array, buffer, deadline=value),
        "copy_from_file": lambda value: east.copy_from_file(file, buffer, deadline=value),
        "copy_to_file": lambda value: east.copy_to_file(buffer, file, deadline=value),
        "copy_file_to_each": lambda value: east.copy_file_to_each(file, [buffer], deadline=value),
        "broadcast": lambda value: east.broadcast(array, [buffer], deadline=value),
        "load": lambda value: east.load(file, format="npy", deadline=value),
        "save": lambda value: east.save(file, {"a": array}, format="safetensors", deadline=value),
    }
    for what, call in calls.items():
        for value in NO_SECONDS:
            refused(call, value, what)
    assert east.grants() == []
    assert file.read_bytes() == bytes(64)
    for value in (numpy.float32(60), numpy.int64(60), 60, 0.001 + 60, _numbers.MOST_SECONDS):
        assert east.transfer(array.endpoint(0, 8), array.endpoint(8, 8), deadline=value).state == "SUCCEEDED"
    with pytest.raises(onecopy.InvalidArgument):
        onecopy.connect(pair.east.run_dir, timeout=None)


def test_counts(east, ends, folder):
    buffer, array = ends
    other = east.empty(64, "uint8")
    file = folder / "file"
    file.write_bytes(bytes(64))
    pool = east.pool(slab="1MiB")
    calls = {
        "at_most": lambda value: east.transfer(array, other, at_most=value),
        "at_most of a file": lambda value: east.copy_from_file(file, buffer, at_most=value),
        "at_most of load": lambda value: east.load(file, format="npy", at_most=value),
        "explain": lambda value: east.explain(array, other, at_most=value),
        "create": lambda value: east.create("numbers", value),
        "shape": lambda value: east.empty((2, value)),
        "slab": lambda value: east.pool(slab=value),
        "initial": lambda value: east.pool(slab="1MiB", initial=value),
        "limit": lambda value: east.pool(slab="1MiB", limit=value),
        "grow": pool.grow,
        "trim": pool.trim,
        "empty of a pool": lambda value: pool.empty((2, value)),
        "map": lambda value: east.map(buffer, (1, value)),
        "offset": lambda value: east.copy_from_file(file, buffer, offset=value, bytes=1),
        "bytes": lambda value: east.copy_from_file(file, buffer, bytes=value),
        "offset of a file that is written": lambda value: east.copy_to_file(buffer, file, offset=value),
        "an end's offset": lambda value: east.transfer(onecopy.Endpoint(buffer.id, "east", value, 1), other.endpoint(0, 1)),
        "an end's bytes": lambda value: east.transfer(onecopy.Endpoint(buffer.id, "east", 0, value), other.endpoint(0, 1)),
        "a range": lambda value: east.transfer(array, other, ranges=[((0, 1), (value, 1))]),
        "a stride": lambda value: east.transfer(array, other, ranges=[((0, 1, value, 1), (0, 1))]),
        "a sum": lambda value: east.sum(onecopy.Endpoint(buffer.id, "east", value, 1)),
    }

    for what, call in calls.items():
        for value in NO_COUNT:
            refused(call, value, what)
    for value in (-1, True, 1 << 64, 10 ** 400):
        refused(lambda handle: east.enqueue(array, other, after=handle), value, "a stream")
    assert "numbers" not in {each.name for each in east.buffers()}
    assert east.transfer(array.endpoint(numpy.int32(0), numpy.uint64(8)), other.endpoint(8, 8), at_most=numpy.int8(1))
    assert east.empty(numpy.int64(3)).shape == (3,)
    refused(lambda value: east.create("numbers", value), "64 MiBs")


def test_numbers_of_asyncio(pair):
    async def run():
        refused_by = []
        for value in NO_SECONDS:
            try:
                await onecopy.aio.connect(pair.east.run_dir, timeout=value)
            except onecopy.InvalidArgument:
                refused_by.append(value)
        node = await onecopy.aio.connect(pair.east.run_dir)
        array = await node.empty(8)
        for value in NO_SECONDS:
            with pytest.raises(onecopy.InvalidArgument):
                await node.transfer(array, array, deadline=value)
        return refused_by

    assert len(asyncio.run(run())) == len(NO_SECONDS)
