"""Buffers of the daemon that are there again after it was killed, under clients that stay."""

import numpy
import pytest

import onecopy
from keeping import kept_daemon, restart


@pytest.fixture
def kept(folder):
    with kept_daemon(folder) as daemon:
        yield daemon


@pytest.mark.parametrize("count", [4096, 1 << 20])
def test_a_client_uses_the_same_buffer_after_each_restart(kept, count):
    node = onecopy.connect(kept.run_dir)
    made = node.create("weights", count)
    source = numpy.arange(count, dtype=numpy.int64).astype("uint8")
    target = numpy.zeros(count, "uint8")
    for _ in range(3):  # by shared memory in the end, where they are small
        node.transfer(source, "weights")
    for _ in range(3):
        restart(kept)
        target[...] = 0
        node.transfer("weights", target)
        assert (target == source).all()
        source += 1
        for _ in range(3):
            node.transfer(source, "weights")
    assert [each.id for each in node.buffers() if each.name == "weights"] == [made.id]
    node.delete("weights")
    restart(kept)
    with pytest.raises(onecopy.NotFound):
        node.transfer("weights", target)


def test_arrays_of_the_client_and_buffers_of_the_daemon_move_together_again(kept):
    node = onecopy.connect(kept.run_dir)
    node.create("weights", 1 << 20)
    array = node.empty(1 << 20, "uint8")
    numpy.asarray(array)[...] = 7
    node.transfer(array, "weights")
    restart(kept)
    numpy.asarray(array)[...] = 0
    node.transfer("weights", array)
    assert (numpy.asarray(array) == 7).all()
    # The client's own buffer is registered anew, the daemon's is the one from before.
    assert len(node.buffers()) == 2


def test_a_view_is_there_again_as_an_array(kept):
    node = onecopy.connect(kept.run_dir)
    node.create("weights", 6000)
    source = numpy.arange(1500, dtype="float32")
    node.transfer(source, "weights")
    kept.cli("buffer", "view", "columns", "weights@400+4000", "--dtype", "float32", "--shape", "10,100")
    restart(kept)
    target = numpy.zeros(1000, "float32")
    node.transfer("columns", target)
    assert (target == source[100:1100]).all()
    shown = next(each for each in kept.cli("buffer", "ls") if each["name"] == "columns")
    assert shown["array"]["shape"] == [10, 100]
