"""A daemon that goes and comes again under a client, and a client that forks."""

import gc
import os
import signal
import threading

import numpy
import pytest

import onecopy


def restarted(daemon):
    daemon.kill()
    daemon.start_again()


@pytest.mark.parametrize("count", [4096, 1 << 20])
def test_arrays_move_again_after_a_restart(daemon, count):
    node = onecopy.connect(daemon.run_dir)
    shared = node.empty(count, "uint8")
    view = numpy.asarray(shared)
    view[...] = 3
    plain = numpy.zeros(count, "uint8")
    for _ in range(3):  # by shared memory in the end, where they are small
        node.transfer(shared, plain)
    old = shared.buffer
    restarted(daemon)
    node.ping()
    view[...] = 4
    assert node.transfer(shared, plain).state == "SUCCEEDED"
    assert (plain == 4).all()
    assert shared.buffer.id != old.id
    assert shared.endpoint().buffer == shared.buffer.id
    plain[...] = 5
    assert node.start(plain, view).wait().state == "SUCCEEDED"  # a view of it is the same memory
    assert (view == 5).all()
    assert node.explain(plain, shared).path
    restarted(daemon)
    node.ping()
    assert node.start(shared, plain).wait().state == "SUCCEEDED"
    assert len(node.buffers()) == 2


def test_the_first_call_may_be_the_transfer(daemon):
    node = onecopy.connect(daemon.run_dir)
    shared, plain = node.empty(1 << 20, "uint8"), numpy.zeros(1 << 20, "uint8")
    numpy.asarray(shared)[...] = 6
    node.transfer(plain, numpy.zeros(1 << 20, "uint8"))
    restarted(daemon)
    node.transfer(shared, plain)
    assert (plain == 6).all()


def test_register_tells_what_the_daemon_of_now_knows(daemon):
    node = onecopy.connect(daemon.run_dir)
    plain = numpy.zeros(4096, "uint8")
    old = node.register(plain, "mine")
    assert node.register(plain, "mine") == old
    restarted(daemon)
    new = node.register(plain, "mine")
    assert new.id != old.id
    assert node.buffer("mine").id == new.id
    assert len(node._registrations) == 1


def test_what_is_not_there_is_still_told(daemon):
    node = onecopy.connect(daemon.run_dir)
    plain = numpy.zeros(4096, "uint8")
    id = node.register(plain).id
    with pytest.raises(onecopy.NotFound) as failure:
        node.transfer(plain, "nowhere")
    assert failure.value.reason == "BUFFER_NOT_FOUND"
    assert node.register(plain).id == id


def test_a_child_leaves_arrays_to_its_parent(daemon):
    """Also while another thread has the locks, which the child inherits as held."""
    node = onecopy.connect(daemon.run_dir)
    plain, shared = numpy.zeros(4096, "uint8"), node.empty(4096, "uint8")
    id, pool = node.register(plain).id, node.pool()
    held, done = threading.Event(), threading.Event()

    def hold():
        with node._registrations._lock, node._views._lock, onecopy.core.memory._shared._lock, pool._lock:
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        os.dup2(writes, 2)
        status = 1
        try:
            node.transfer(plain, numpy.zeros(4096, "uint8"))
        except onecopy.FailedPrecondition as failure:
            status = 0 if failure.reason == "FORKED" else 2
        if node.unregister(plain) or len(node._registrations) != 0:
            status = 3
        try:
            pool.trim()
            status = 4
        except onecopy.FailedPrecondition as failure:
            status = status if failure.reason == "FORKED" else 5
        del plain, shared, node, pool
        gc.collect()
        os._exit(status)
    os.close(writes)
    with os.fdopen(reads) as errors:
        assert errors.read() == ""
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    done.set()
    holder.join()
    assert node.buffer(id).id == id
    assert node.transfer(plain, shared).state == "SUCCEEDED"
