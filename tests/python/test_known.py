"""Requests that a node remembers: what is checked is checked each time, and what has gone is found anew."""

import gc
import weakref

import numpy
import pytest

import onecopy

SIZE = 4096


def shared(node, count, shape=(64, 64), dtype="uint8"):
    return [node.empty(shape, dtype) for _ in range(count)]


def fill(array, value):
    numpy.asarray(array)[...] = value


def test_shapes_are_compared_each_time(east):
    one, other = shared(east, 2)
    source, destination = numpy.asarray(one), numpy.asarray(other)
    for _ in range(3):
        east.transfer(source, destination)
        east.transfer(source.reshape(-1), destination)
    for wrong in (source.reshape(32, 128), source.reshape(2, 32, 64)):
        with pytest.raises(onecopy.InvalidArgument) as refused:
            east.transfer(wrong, destination)
        assert refused.value.reason == "SIZE_MISMATCH"
    with pytest.raises(onecopy.InvalidArgument) as refused:
        east.transfer(source.view("int8"), destination)
    assert refused.value.reason == "TYPE_MISMATCH"


def test_a_name_means_the_buffer_of_now(east):
    destination, = shared(east, 1)
    for value in (3, 4):
        named = east.empty((64, 64), "uint8", name="renamed")
        fill(named, value)
        for _ in range(4):
            fill(destination, 99)
            east.transfer("renamed", destination)
            assert (numpy.asarray(destination) == value).all()
        named.close()
        with pytest.raises(onecopy.NotFound):
            east.transfer("renamed", destination)


def test_a_mapping_moves_what_it_has_now(east):
    sources = dict(zip("abc", shared(east, 3), strict=True))
    destinations = dict(zip("cba", shared(east, 3), strict=True))
    for value in range(4):
        for number, each in enumerate(sources.values()):
            fill(each, 10 * value + number)
        done = east.transfer(sources, destinations)
        assert (done.state, done.bytes) == ("SUCCEEDED", 3 * SIZE)
        for number, key in enumerate("abc"):
            assert (numpy.asarray(destinations[key]) == 10 * value + number).all()
    sources["a"], sources["b"] = sources["b"], sources["a"]
    east.transfer(sources, destinations)
    assert numpy.asarray(destinations["a"])[0, 0] == 31
    del sources["a"]
    with pytest.raises(onecopy.InvalidArgument):
        east.transfer(sources, destinations)
    assert east.transfer({}, {}).state == "SUCCEEDED"


def test_lists_go_pair_by_pair(east):
    sources, destinations = shared(east, 3), shared(east, 3)
    for value in range(3):
        for number, each in enumerate(sources):
            fill(each, 10 * value + number)
        east.transfer(sources, destinations)
        assert [int(numpy.asarray(each)[0, 0]) for each in destinations] == [10 * value + number for number in range(3)]
        east.transfer(sources, destinations[::-1])
        assert [int(numpy.asarray(each)[0, 0]) for each in destinations] == [10 * value + 2 - number for number in range(3)]
    with pytest.raises(onecopy.InvalidArgument):
        east.transfer(sources, destinations[:2])


def test_what_is_started_keeps_its_arrays_and_nothing_else_does(east):
    for turn in range(4):
        source, destination = shared(east, 2)
        fill(source, turn)
        started = [east.start(source, destination) for _ in range(3)]
        view = numpy.asarray(destination)
        gone = weakref.ref(source)
        del source
        for each in started:
            each.wait()
        assert (view == turn).all()
        del started, each
        gc.collect()
        assert gone() is None


def test_what_is_started_holds_a_pools_memory(east):
    pool = east.pool(slab="1MiB")
    destination, = shared(east, 1)
    for turn in range(4):
        source = pool.empty((64, 64), "uint8")
        fill(source, turn)
        started = [east.start(source, destination) for _ in range(3)]
        del source
        other = pool.empty((64, 64), "uint8")  # not where what moves lies
        fill(other, 77)
        for each in started:
            each.wait()
        assert (numpy.asarray(destination) == turn).all()
        del other, started, each


def test_memory_that_has_gone_is_found_anew_by_start(east):
    array, destination = shared(east, 2)
    view = numpy.asarray(array)
    view[:] = 3
    for _ in range(4):
        east.start(view, destination).wait()
    array.close()
    view[:] = 4
    assert east.start(view, destination).wait().receipt.copies == 2  # the library copies it now
    assert (numpy.asarray(destination) == 4).all()


def test_a_policy_counts_each_time_and_only_where_it_was_said(east):
    source, destination = shared(east, 2)
    for value in range(4):
        fill(source, value)
        assert east.transfer(source, destination, at_most=1, path="local").receipt.path == "local"
        assert east.start(source, destination, path="loc*").wait().state == "SUCCEEDED"
        assert east.transfer(source, destination).state == "SUCCEEDED"
        assert (numpy.asarray(destination) == value).all()
        for wrong in ({"path": "rdma-*"}, {"link": "tcp"}):
            with pytest.raises(onecopy.FailedPrecondition):
                east.transfer(source, destination, **wrong)
    for wrong in ({"at_most": 0}, {"at_most": True}, {"at_most": 1.5}, {"at_most": -1}, {"path": ["local"]}, {"link": b"tcp"}):
        with pytest.raises((onecopy.InvalidArgument, TypeError, RuntimeError)):
            east.transfer(source, destination, **wrong)
