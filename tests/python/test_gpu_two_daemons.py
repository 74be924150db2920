"""Tensors of two processes, each with its own daemon on one host, by the caller's clock."""

import statistics
import time

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU that torch can use", allow_module_level=True)

from test_gpu import GIB, MIB, holding, pattern, ratio, seconds_of

OTHER = "cuda:1" if torch.cuda.device_count() > 1 else "cuda:0"


def beside_a_plain_copy(ours, plain):
    ours(), ours(), ours(), plain()  # by gRPC, which shows that a copy is one pass; then by the ring
    return ratio(ours, plain)


@pytest.mark.parametrize("size, floor", [(GIB, 0.9), (64 * MIB, 0.75), (MIB, 0.5)])
def test_a_tensor_comes_from_another_daemon_at_the_rate_of_a_plain_copy(pair, east, size, floor):
    with holding(pair.west, "far", size, OTHER) as other:
        mine = torch.zeros(size, dtype=torch.uint8, device="cuda:0")
        there = torch.ones(size, dtype=torch.uint8, device=OTHER)
        other.fill(5)
        measured = beside_a_plain_copy(lambda: east.transfer("west:far", mine), lambda: mine.copy_(there))
        done = east.transfer("west:far", mine)
        assert done.receipt.path == "peer-direct"
        assert int(mine.sum(dtype=torch.int64)) == 5 * size
        moving = done.receipt.seconds / seconds_of(lambda: mine.copy_(there), 5)
        print(f"{size} bytes from another daemon's GPU memory: {measured:.3f} of a plain copy and its wait; by its receipt "
              f"{1 / moving:.3f}")
        assert east.transfer_of(done.id).receipt.evidence["submitted"] == "ring"
        assert measured >= floor


def test_four_kib_from_another_daemon_take_little_longer_than_inside_one(pair, east):
    """In one run, as quiet as it gets, beside transfers inside a daemon."""
    size = 4096
    with holding(pair.west, "far", size, OTHER) as other, holding(pair.east, "near", size, OTHER):
        mine = torch.zeros(size, dtype=torch.uint8, device="cuda:0")
        other.fill(7)
        far, near = lambda: east.transfer("west:far", mine), lambda: east.transfer("near", mine)
        for _ in range(5):
            near(), far()
        assert int(mine.sum()) == 7 * size
        times = {far: [], near: []}
        for _ in range(300):
            for each, into in times.items():
                begun = time.perf_counter()
                each()
                into.append(time.perf_counter() - begun)
        apart, inside = statistics.median(times[far]), statistics.median(times[near])
        print(f"4 KiB from another daemon: {apart * 1e6:.1f} µs; inside one: {inside * 1e6:.1f} µs")
        assert apart <= 3 * inside


@pytest.mark.parametrize("size, floor", [(GIB, 0.8), (64 * MIB, 0.5), (MIB, 0.25)])
def test_a_tensor_goes_to_another_daemon_at_the_rate_of_a_plain_copy(pair, east, size, floor):
    """The other daemon makes the copy, out of this one's memory."""
    with holding(pair.west, "far", size, OTHER) as other:
        mine = pattern(size)
        there = torch.empty(size, dtype=torch.uint8, device=OTHER)
        measured = beside_a_plain_copy(lambda: east.transfer(mine, "west:far"), lambda: there.copy_(mine))
        done = east.transfer(mine, "west:far")
        assert done.receipt.path == "peer-direct"
        assert other.sum() == int(mine.sum(dtype=torch.int64))
        moving = done.receipt.seconds / seconds_of(lambda: there.copy_(mine), 5)
        print(f"{size} bytes to another daemon's GPU memory: {measured:.3f} of a plain copy and its wait; by its receipt "
              f"{1 / moving:.3f}")
        assert east.transfer_of(done.id).receipt.evidence["submitted"] == "ring"
        assert measured >= floor


def test_four_kib_to_another_daemon_take_a_few_times_as_long_as_inside_one(pair, east):
    """A message goes there and one comes back."""
    size = 4096
    with holding(pair.west, "far", size, OTHER) as other, holding(pair.east, "near", size, OTHER):
        mine = pattern(size)
        far, near = lambda: east.transfer(mine, "west:far"), lambda: east.transfer(mine, "near")
        for _ in range(5):
            near(), far()
        assert other.sum() == int(mine.sum(dtype=torch.int64))
        times = {far: [], near: []}
        for _ in range(300):
            for each, into in times.items():
                begun = time.perf_counter()
                each()
                into.append(time.perf_counter() - begun)
        apart, inside = statistics.median(times[far]), statistics.median(times[near])
        print(f"4 KiB to another daemon: {apart * 1e6:.1f} µs; inside one: {inside * 1e6:.1f} µs")
        assert apart <= 15 * inside
