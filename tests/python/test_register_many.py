"""The tensors of a model made known in one go."""

import math
import time

import numpy
import pytest

import onecopy

SIZE = 64 << 10


def model(count=1000, of_each=8):
    """Arrays in memory of malloc, several in each allocation."""
    made = []
    while len(made) < count:
        whole = numpy.zeros(of_each * SIZE, "uint8")
        made += [whole[at * SIZE:(at + 1) * SIZE] for at in range(of_each)]
    return made


def seconds_of(call):
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def test_a_thousand_tensors_cost_at_most_five_pings_an_allocation(east):
    # On idle processors registering takes two to three pings an allocation. Pings mostly wait, and registering computes,
    # so that other programs on the machine slow it down more: it may take its time to find a quiet moment.
    pings = 5 * 125
    ratios = [math.inf]
    while ratios[-1] > 1 and len(ratios) <= 60:
        tensors = model()
        peer = seconds_of(lambda: [east.ping() for _ in range(pings)])
        took = seconds_of(lambda: east.register(tensors))
        ratios.append(took / peer)
        print(f"1,000 tensors in 125 allocations: {took * 1e3:.1f} ms, {ratios[-1]:.2f} of {pings} pings")
    assert min(ratios) <= 1


def test_each_is_a_view_of_its_memory_which_is_registered_once(east):
    tensors, shared = model(16), east.empty(SIZE, "uint8")
    alone = east.register(tensors[3])
    buffers = east.register([*tensors, shared])
    assert buffers[3] == alone
    assert len({each.id for each in buffers}) == 17
    assert [len({each.view_of for each in part}) for part in (buffers[:8], buffers[8:16], buffers[:16])] == [1, 1, 2]
    assert [each.offset_bytes for each in buffers[8:16]] == [at * SIZE for at in range(8)]
    assert {each.bytes for each in buffers} == {SIZE}
    assert buffers[-1] == shared.buffer
    assert east.register(tuple(tensors)) == buffers[:-1]
    assert east.register([]) == []


def test_what_was_deleted_meanwhile_is_registered_again(pair, east):
    tensors = model(160)  # more than are asked for one by one
    first = east.register(tensors)
    for view in first[:80:20]:  # a name alone
        pair.east.cli("buffer", "rm", view.id)
    for memory in {each.view_of for each in first[80:]}:  # with all its names
        pair.east.cli("buffer", "rm", memory, "--force")
    second = east.register(tensors)
    assert {number for number in range(160) if first[number].id != second[number].id} == {0, 20, 40, 60, *range(80, 160)}
    assert {each.id for each in east.buffers()} >= {each.id for each in second}


def test_lists_are_refused_as_a_whole(east):
    known = len(east.buffers())
    with pytest.raises(onecopy.InvalidArgument):
        east.register([numpy.zeros(10), "no array"])
    with pytest.raises(onecopy.InvalidArgument):
        east.register([numpy.zeros(10), numpy.zeros(0)])
    with pytest.raises(onecopy.InvalidArgument):
        east.register([numpy.zeros(10)], "a name")
    assert len(east.buffers()) == known


def test_transfers_of_lists_register_what_is_missing(east):
    sources = [numpy.full(1000, at, "uint8") for at in range(100)]
    targets = [numpy.zeros(1000, "uint8") for _ in range(100)]
    before = len(east.buffers())
    done = east.transfer(sources, targets)
    assert done.bytes == 100_000
    assert all((one == other).all() for one, other in zip(sources, targets, strict=True))
    assert len(east.buffers()) == before + 200
    del sources, targets
