"""Arrays of a pool of a GPU's memory: handed to torch, CuPy and JAX, in the order of their streams, and at a pool's limits."""

import gc
import importlib
import os
import statistics
import time

import pytest

import onecopy

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU that torch can use", allow_module_level=True)

from test_gpu import MIB, TestStreams, pattern  # noqa: E402

hold_up = TestStreams.hold_up
del TestStreams  # its tests are not of this file


@pytest.fixture
def pool(east):
    return east.pool(device=0, slab="64MiB")


class TestHandedOver:
    """What `empty` gives is the other framework's array, at the same address."""

    def test_torch(self, pool):
        array = pool.empty((3, 5), "bfloat16")
        tensor = torch.from_dlpack(array)
        assert (tensor.data_ptr(), tuple(tensor.shape), tensor.dtype) == (array.pointer, (3, 5), torch.bfloat16)
        other = pool.empty((3, 5), "int32")
        assert torch.as_tensor(other, device="cuda").data_ptr() == other.pointer  # the CUDA array interface
        tensor.fill_(2)
        array.free()
        assert float(tensor.sum()) == 30
        del tensor, other
        gc.collect()
        assert pool.statistics.blocks_in_use == 0

    def test_cupy(self, pool):
        cupy = pytest.importorskip("cupy")
        array = pool.empty((3, 5), "float32")
        for take in (cupy.from_dlpack, cupy.asarray):
            theirs = take(array)
            assert (theirs.data.ptr, theirs.shape, theirs.dtype) == (array.pointer, (3, 5), cupy.float32)
        theirs[:] = 7
        assert float(torch.from_dlpack(array).sum()) == 105
        del theirs, array
        gc.collect()
        assert pool.statistics.blocks_in_use == 0

    def test_jax(self, pool):
        jax = pytest.importorskip("jax")
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        if jax.default_backend() != "gpu":
            pytest.skip(f"jax uses its backend {jax.default_backend()}")
        array = pool.empty((64, 64), "float32")
        torch.from_dlpack(array).fill_(3)
        torch.cuda.synchronize()
        theirs = jax.dlpack.from_dlpack(array)
        assert theirs.unsafe_buffer_pointer() == array.pointer
        assert float(theirs.sum()) == 3 * 64 * 64

    def test_it_takes_microseconds(self, pool):
        array = pool.empty(MIB, "float32")
        peers = {"torch to itself": torch.empty(MIB, device="cuda")}
        try:
            peers["CuPy to torch"] = importlib.import_module("cupy").empty(MIB, dtype="float32")
        except ImportError:
            pass
        ours = microseconds(lambda: torch.from_dlpack(array))
        theirs = {name: microseconds(lambda each=each: torch.from_dlpack(each)) for name, each in peers.items()}
        taken = microseconds(lambda: array.__cuda_array_interface__)
        print(f"DLPack to torch: {ours:.1f} µs; " + ", ".join(f"{name} {took:.1f} µs" for name, took in theirs.items())
              + f"; the CUDA array interface: {taken:.1f} µs")
        assert ours <= 20 or ours <= 2 * max(theirs.values())

    def test_allocating_again_takes_no_new_slab(self, pool):
        def cycle():
            pool.empty(MIB, "uint8")

        ours = microseconds(cycle)
        torchs = microseconds(lambda: torch.empty(MIB, dtype=torch.uint8, device="cuda"))
        print(f"an array of a pool made and dropped: {ours:.1f} µs; of torch's cache: {torchs:.1f} µs")
        assert pool.statistics.slabs == 1


def microseconds(work, rounds=2000):
    work()
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6


class TestStreams:
    """A late writer on one stream, and who has its memory next."""

    ROUNDS = 1000

    @pytest.mark.parametrize("order", ["the default's by another", "another's by the default", "one's by another",
                                       "one's by itself", "by a transfer"])
    def test_a_late_writer_and_an_early_reuse(self, east, order):
        default, one, two = torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()
        late, early = {"the default's by another": (default, one), "another's by the default": (one, default),
                       "one's by itself": (one, one)}.get(order, (one, two))
        pool = east.pool(device=0, slab="2MiB", limit="2MiB")  # for two arrays: memory is had again and again
        source = torch.arange(MIB, device="cuda").to(torch.uint8)
        torch.cuda.synchronize()
        stale = torch.zeros((), dtype=torch.int64, device="cuda")
        torch.cuda.synchronize()
        addresses = set()
        for turn in range(self.ROUNDS):
            array = pool.empty(MIB + 4096, "uint8", stream=late)
            with torch.cuda.stream(late):
                tensor = torch.from_dlpack(array)
                torch.cuda._sleep(20_000)
                tensor.fill_(255)
            addresses.add(array.pointer)
            del tensor, array
            array = pool.empty(MIB + 4096, "uint8", stream=early)
            addresses.add(array.pointer)
            with torch.cuda.stream(early):
                tensor = torch.from_dlpack(array)[:MIB]
                if order == "by a transfer":
                    queued = east.enqueue(source, tensor, stream=early)
                    stale += (tensor != source).sum()
                    queued.wait()
                else:
                    tensor.fill_(turn % 251)
                    torch.cuda._sleep(20_000)
                    stale += (tensor != turn % 251).sum()
            early.synchronize() if turn % 100 == 99 else None
            del tensor, array
        torch.cuda.synchronize()
        now = pool.statistics
        print(f"{order}: {int(stale)} stale bytes in {self.ROUNDS} rounds; {now}")
        assert int(stale) == 0
        assert len(addresses) == 1  # there is no room for a second one

    def test_a_view_on_another_stream_is_waited_for(self, pool):
        side = torch.cuda.Stream()
        stale = 0
        for _ in range(20):
            array = pool.empty(MIB, "uint8")
            with torch.cuda.stream(side):
                tensor = torch.from_dlpack(array)  # asks for that stream
                torch.cuda._sleep(2_000_000)
                tensor.fill_(9)
            del tensor, array
            again = torch.from_dlpack(pool.empty(MIB, "uint8"))
            again.fill_(1)
            torch.cuda.synchronize()
            stale += int((again != 1).sum())
        assert stale == 0

    def test_a_recorded_stream_does_not_hold_up_the_host(self, pool):
        side, main = torch.cuda.Stream(), torch.cuda.Stream()
        array = pool.empty(MIB, "uint8", stream=main)
        array.record_stream(side)
        with torch.cuda.stream(side):
            tensor = torch.from_dlpack(array)
        hold_up(side)
        with torch.cuda.stream(side):
            tensor.fill_(9)
        del tensor
        array.free()
        again = pool.empty(MIB, "uint8", stream=main)
        assert not side.query()  # the host did not wait
        with torch.cuda.stream(main):
            second = torch.from_dlpack(again)
            second.fill_(1)
        torch.cuda.synchronize()
        assert int(second.max()) == 1

    def test_a_capture_goes_on(self, pool):
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        kept = pool.empty(MIB, "float32", stream=stream)
        with torch.cuda.stream(stream):
            source = torch.from_dlpack(kept)
            source.fill_(1)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            made = pool.empty(MIB, "float32", stream=stream)
            result = torch.from_dlpack(made)
            torch.mul(source, 2, out=result)
        graph.replay()
        torch.cuda.synchronize()
        assert float(result.min()) == float(result.max()) == 2


class TestLimits:
    def test_a_full_gpu_is_an_error_and_all_goes_on(self, east):
        pool = east.pool(device=0, slab="64MiB")
        free, _ = torch.cuda.mem_get_info()
        with pytest.raises(onecopy.ResourceExhausted) as refused:
            pool.empty(free + (8 << 30), "uint8")
        print(refused.value)
        assert refused.value.reason == "NO_MEMORY"
        assert pool.empty(MIB, "uint8").nbytes == MIB
        assert float(torch.ones(4, device="cuda").sum()) == 4

    def test_a_double_free(self, pool):
        array = pool.empty(MIB, "uint8")
        array.free()
        with pytest.raises(onecopy.InvalidArgument) as refused:
            array.free()
        assert refused.value.reason == "BAD_POINTER"
        with pytest.raises(onecopy.InvalidArgument):
            pool._native.deallocate(pattern(64).data_ptr(), 64, 0)

    def test_pinned_memory_of_the_host(self, east):
        pool = east.pool(pinned=True, slab="64MiB")
        array, there = pool.empty(MIB, "float32"), torch.rand(MIB, device="cuda")
        torch.cuda.synchronize()
        east.transfer(there, array)
        ours = torch.from_dlpack(array)
        assert torch.equal(ours, there.cpu())
        assert ours.is_pinned()

    def test_a_restart_of_the_daemon(self, daemon):
        node = onecopy.connect(daemon.run_dir)
        pool = node.pool(device=0, slab="64MiB")
        one, two = torch.from_dlpack(pool.empty(MIB, "uint8")), torch.from_dlpack(pool.empty(MIB, "uint8"))
        one.fill_(5)
        torch.cuda.synchronize()
        node.transfer(one, two)
        daemon.kill()
        daemon.start_again()
        two.zero_()
        torch.cuda.synchronize()
        done = node.transfer(one, two)
        assert done.receipt.copies == 1
        assert int(two.min()) == 5
        assert len(node._registrations) == 0
