"""Tensors whose memory changes behind a request that a node remembers, and how little such a request costs."""

import gc
import statistics
import time

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU that torch can use", allow_module_level=True)

import onecopy

MIB = 1 << 20
SIZE = 32 * MIB  # an allocation of its own


def check(node, source, destination, value, times=3):
    source.fill_(value)
    torch.cuda.synchronize()
    for _ in range(times):
        destination.zero_()
        torch.cuda.synchronize()
        node.transfer(source, destination)
        assert int(destination.sum(dtype=torch.int64)) == value * destination.numel()


def test_a_tensor_at_the_address_of_an_earlier_one(east):
    destination = torch.zeros(SIZE, dtype=torch.uint8, device="cuda:0")
    places = set()
    for value in range(1, 9):
        source = torch.empty(SIZE, dtype=torch.uint8, device="cuda:0")
        places.add(source.data_ptr())
        check(east, source, destination, value)
        del source
        if value % 2 == 0:  # also in another allocation of the driver's at that address
            torch.cuda.empty_cache()
    assert len(places) < 8


def test_a_storage_that_is_emptied_and_comes_back(east):
    """As sharded training does it: one storage, whose memory goes and comes."""
    destination = torch.zeros(SIZE, dtype=torch.uint8, device="cuda:0")
    source = torch.empty(SIZE, dtype=torch.uint8, device="cuda:0")
    for value in range(1, 6):
        check(east, source, destination, value)
        source.untyped_storage().resize_(0)
        torch.cuda.empty_cache()
        between = torch.full((SIZE,), 200, dtype=torch.uint8, device="cuda:0")  # perhaps where the source was
        check(east, between, destination, 201)
        if value % 2:
            del between
        source.untyped_storage().resize_(SIZE)


def test_a_registration_that_made_room_for_others(pair):
    node = onecopy.connect(pair.east.run_dir)
    node._registrations._most = 2
    sources = [torch.full((SIZE,), value, dtype=torch.uint8, device="cuda:0") for value in (1, 2, 3, 4)]
    destination = torch.zeros(SIZE, dtype=torch.uint8, device="cuda:0")
    for _ in range(3):
        for value, source in enumerate(sources, 1):
            node.transfer(source, destination)
            assert int(destination[0]) == value
            node.start(source, destination).wait()
    del sources
    gc.collect()


def test_shapes_and_types_are_compared_each_time(east):
    source = torch.zeros((64, 64), dtype=torch.uint8, device="cuda:0")
    destination = torch.zeros((64, 64), dtype=torch.uint8, device="cuda:0")
    for _ in range(3):
        east.transfer(source, destination)
    for wrong in (source.reshape(32, 128), source.view(torch.int8), source[:32]):
        with pytest.raises(onecopy.InvalidArgument):
            east.transfer(wrong, destination)
    east.transfer(source.t(), destination)  # with gaps between what is next to each other


def test_a_thousand_tensors_of_one_pair_of_mappings(east):
    sources = {str(number): torch.full((4096,), number % 251, dtype=torch.uint8, device="cuda:0") for number in range(1000)}
    destinations = {key: torch.zeros_like(each) for key, each in sources.items()}
    for _ in range(3):
        east.transfer(sources, destinations)
        torch.cuda.synchronize()
        assert all(int(each[0]) == int(key) % 251 for key, each in destinations.items())
        for each in destinations.values():
            each.zero_()
        torch.cuda.synchronize()


def test_a_small_transfer_of_tensors_costs_little_more_than_a_prepared_one(east):
    """Beside each other in one run; each a median of 400."""
    source = torch.ones(4096, dtype=torch.uint8, device="cuda:0")
    destination = torch.zeros_like(source)
    torch.cuda.synchronize()
    prepared = east.prepare(source, destination)
    times = {"known": [], "prepared": []}
    for _ in range(5):
        east.transfer(source, destination), prepared.run()
    for _ in range(400):
        for name, call in (("known", lambda: east.transfer(source, destination)), ("prepared", prepared.run)):
            begun = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begun)
    known, bare = (statistics.median(times[name]) for name in ("known", "prepared"))
    print(f"4 KiB between tensors: {known * 1e6:.1f} µs, prepared {bare * 1e6:.1f}")
    assert known <= 2.5 * bare
