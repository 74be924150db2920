"""Arrays in pieces of few buffers, against real daemons."""

import gc
import os
import signal
import threading

import numpy
import pytest

import onecopy


def test_arrays_of_a_pool_move_in_place_and_share_one_registration(east, west):
    pool, there = east.pool("mine", slab="8MiB"), west.pool("theirs", slab="8MiB")
    arrays = [pool.empty((10, 100 + index), "float32") for index in range(20)]
    for index, array in enumerate(arrays):
        numpy.asarray(array)[:] = index
        target = there.empty(array.shape, "float32")
        done = east.transfer(array, target.endpoint(), checksum=True)
        assert done.receipt.path == "tcp-direct"
        assert [step.by for step in done.receipt.steps] == ["cpu", "wire", "cpu"]
        assert (numpy.asarray(target) == index).all()
    assert [each.name for each in pool.buffers] == ["mine.1"]
    assert [each.name for each in east.buffers() if each.name.startswith("mine")] == ["mine.1"]
    assert {array.buffer.id for array in arrays} == {pool.buffers[0].id}


def test_views_and_slices_are_found_by_the_slab(east):
    pool = east.pool(slab="1MiB")
    first, second = pool.empty((8, 64), "int32"), pool.empty((8, 32), "int32")
    view = numpy.asarray(first)
    view[:] = numpy.arange(8 * 64).reshape(8, 64)
    known = {each.id for each in east.buffers()}
    done = east.transfer(view[:, ::2], second)  # with gaps
    assert (numpy.asarray(second) == view[:, ::2]).all()
    assert {each.id for each in east.buffers()} == known
    assert done.receipt.copies == 1
    row = numpy.zeros(64, "int32")
    east.transfer(view[3], row)
    assert (row == view[3]).all()


def test_memory_goes_back_with_its_last_view_and_is_had_again(east):
    pool = east.pool(slab="1MiB")
    array = pool.empty(1000, "uint8")
    address = numpy.asarray(array).ctypes.data
    view = numpy.asarray(array)[10:20]
    array.close()
    del array
    gc.collect()
    assert pool.statistics.blocks_in_use == 1
    view[:] = 7
    del view
    gc.collect()
    again = pool.empty(1000, "uint8")
    assert numpy.asarray(again).ctypes.data == address
    assert pool.statistics.from_recent == 1
    assert repr(pool) == "<onecopy.Pool 1000 of 1048576 bytes in 1 slabs>"


def test_a_started_transfer_keeps_its_pieces_though_nobody_waits(east):
    pool = east.pool(slab="64MiB")
    source, target = pool.empty(8 << 20, "uint8"), pool.empty(8 << 20, "uint8")
    numpy.asarray(source)[:] = 5
    id = east.start(source, target).id
    del source, target
    gc.collect()
    assert pool.statistics.blocks_in_use == 2
    found = east.transfer_of(id)
    found.wait()
    pool.empty(1)  # looks whether it has ended
    gc.collect()
    assert pool.statistics.blocks_in_use == 0


def test_an_exhausted_pool_raises_and_goes_on(east):
    pool = east.pool(slab="1MiB", limit="2MiB")
    kept = [pool.empty(1 << 20, "uint8") for _ in range(2)]
    with pytest.raises(onecopy.ResourceExhausted) as refused:
        pool.empty(1, "uint8")
    assert refused.value.reason == "QUOTA"
    assert "2 MiB of at most 2 MiB" in refused.value.message
    kept.pop()
    gc.collect()
    assert pool.empty(1, "uint8").nbytes == 1
    assert pool.statistics.failures == 1


@pytest.mark.parametrize("range", [(0, 101), (100, 1), (-1, 2), (101, None), (0, -1)])
def test_a_range_does_not_reach_into_the_next_array(east, range):
    pool = east.pool(slab="1MiB")
    array, next = pool.empty(100, "uint8"), pool.empty(100, "uint8")
    assert array.endpoint(10, 90).bytes == array.endpoint(10).bytes == 90
    assert next.endpoint().offset - array.endpoint().offset == 256
    with pytest.raises(onecopy.OutOfRange) as refused:
        array.endpoint(*range)
    assert refused.value.reason == "RANGE_OUT_OF_BUFFER"


def test_growing_and_trimming(east):
    pool = east.pool(slab="1MiB", initial="3MiB")
    assert pool.statistics.bytes_reserved == 3 << 20
    pool.grow(1 << 20)
    assert len(pool.buffers) == 2
    array = pool.empty(10)
    assert pool.trim() > 0
    assert pool.statistics.slabs == 1
    del array
    gc.collect()
    assert pool.trim() > 0
    assert pool.buffers == []


@pytest.mark.parametrize("bad", [{"slab": 0}, {"initial": "2MiB", "limit": "1MiB"}, {"slab": "many"}])
def test_bad_options(east, bad):
    with pytest.raises(onecopy.InvalidArgument):
        east.pool(**bad)


def test_bad_shapes_and_types(east):
    pool = east.pool()
    with pytest.raises(onecopy.InvalidArgument):
        pool.empty(-1)
    with pytest.raises(onecopy.InvalidArgument):
        pool.empty(1, "nonsense")
    with pytest.raises(onecopy.InvalidArgument):
        east.transfer(pool.empty(0), pool.empty(0))


def test_a_pool_outlives_its_daemon(daemon):
    node = onecopy.connect(daemon.run_dir)
    pool = node.pool("p", slab="1MiB")
    one, two = pool.empty(1000, "uint8"), pool.empty(1000, "uint8")
    numpy.asarray(one)[:] = 9
    before = one.buffer.id
    daemon.kill()
    daemon.start_again()
    node.ping()
    assert one.buffer.id != before
    assert one.buffer.name == "p.1"
    node.transfer(one, numpy.asarray(two))
    assert (numpy.asarray(two) == 9).all()


def test_threads_share_a_pool(east):
    pool = east.pool(slab="1MiB")
    wrong = []

    def work(index):
        for round in range(50):
            array = pool.empty(100 + round, "uint8")
            numpy.asarray(array)[:] = index
            if not (numpy.asarray(array) == index).all():
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    gc.collect()
    assert not wrong
    assert pool.statistics.blocks_in_use == 0


def test_a_child_is_refused(east):
    pool = east.pool()
    array = pool.empty(10, "uint8")
    child = os.fork()
    if child == 0:
        try:
            pool.empty(1)
        except onecopy.FailedPrecondition as failure:
            os._exit(0 if failure.reason == "FORKED" else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert array.nbytes == 10


def test_memory_of_a_transfer_that_may_be_under_way_is_nobody_elses(daemon):
    node = onecopy.connect(daemon.run_dir, timeout=1)
    pool = node.pool(slab="4MiB")
    source = numpy.full(1 << 20, 7, "uint8")
    target = pool.empty(1 << 20, "uint8")
    address = numpy.asarray(target).ctypes.data
    daemon.signal(signal.SIGSTOP)
    try:
        with pytest.raises((onecopy.DeadlineExceeded, onecopy.Unavailable)) as lost:
            node.transfer(source, target, deadline=1)
        if "under way still" not in str(lost.value):
            pytest.skip("the daemon has not heard of it")
        del target, lost
        gc.collect()
        assert numpy.asarray(pool.empty(1 << 20, "uint8")).ctypes.data != address
    finally:
        daemon.signal(signal.SIGCONT)
