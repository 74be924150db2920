"""Pools of a GPU's memory as torch, CuPy, JAX, Numba and RMM use them, as they are installed: what they allocate moves
without a registration, in the order of their streams."""

import gc
import importlib
import json
import os
import statistics
import subprocess
import sys
import textwrap
import time

import pytest

import onecopy

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU that torch can use", allow_module_level=True)

import onecopy.torch  # noqa: E402
from test_gpu import MIB, TestStreams, holding, pattern  # noqa: E402

hold_up = TestStreams.hold_up
del TestStreams  # its tests are not of this file


@pytest.fixture
def torch_pool(east):
    """A MemPool; torch has nothing of it afterwards."""
    yield onecopy.torch.pool(east, 0, slab="64MiB", limit="1GiB")
    gc.collect()
    torch.cuda.empty_cache()
    onecopy.torch.release(0)


@pytest.fixture
def pool(east):
    return east.pool(device=0, slab="64MiB")


def buffers(pair):
    return len(pair.east.cli("buffer", "ls"))


def bytes_of(tensor):
    return tensor.detach().contiguous().view(-1).view(torch.uint8)


class TestTorch:
    def test_a_training_loop_and_its_parameters(self, pair, east, torch_pool):
        torch.manual_seed(1)
        with torch.cuda.use_mem_pool(torch_pool), torch.autograd.set_multithreading_enabled(False):
            model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            data, wanted = torch.randn(256, 1024, device="cuda"), torch.randint(10, (256,), device="cuda")
            losses = []
            for _ in range(20):
                loss = torch.nn.functional.cross_entropy(model(data), wanted)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(float(loss))
            momenta = [optimizer.state[each]["momentum_buffer"] for each in model.parameters()]
        assert losses[-1] < losses[0] / 2
        torch.cuda.synchronize()
        sent = [*(each.detach() for each in model.parameters()), *(each.grad for each in model.parameters()), *momenta]
        size = sum(each.nbytes for each in sent)
        with holding(pair.east, "model", size) as other:
            known, offset = buffers(pair), 0
            for each in sent:
                done = east.transfer(each, f"model@{offset}+{each.nbytes}")
                assert (done.receipt.path, done.receipt.copies) in {("local", 1), ("peer-direct", 1)}, done.receipt
                offset += each.nbytes
            assert other.sum() == sum(int(bytes_of(each).sum(dtype=torch.int64)) for each in sent)
            done = east.transfer(sent, [f"model@{at}+{each.nbytes}" for at, each in with_offsets(sent)])
            assert done.receipt.copies == 1
            assert buffers(pair) == known
        print(f"{len(sent)} tensors, {size} bytes: registrations made {len(east._registrations)}, {done.receipt.path}")
        assert len(east._registrations) == 0
        print(onecopy.torch.statistics(0))

    def test_to_another_node(self, pair, east, torch_pool):
        with torch.cuda.use_mem_pool(torch_pool):
            mine = torch.arange(16 * MIB, device="cuda").to(torch.uint8)
        torch.cuda.synchronize()
        with holding(pair.west, "beyond", 16 * MIB) as other:
            done = east.transfer(mine, "west:beyond", checksum=True)
            assert (done.receipt.path, done.receipt.copies) == ("peer-direct", 1), done.receipt
            assert other.sum() == int(mine.sum(dtype=torch.int64))
        assert len(east._registrations) == 0

    @pytest.mark.parametrize("view", [lambda t: t[:, ::4], lambda t: t.t(), lambda t: t[10:20, 3:7], lambda t: t[5]])
    def test_views(self, pair, east, torch_pool, view):
        with torch.cuda.use_mem_pool(torch_pool):
            source = view(torch.rand(1024, 1024, device="cuda"))
            target = torch.zeros(source.shape, device="cuda")
        torch.cuda.synchronize()
        known = buffers(pair)
        assert east.transfer(source, target).receipt.copies == 1
        assert torch.equal(source, target)
        assert buffers(pair) == known

    def test_an_exhausted_pool(self, torch_pool):
        with torch.cuda.use_mem_pool(torch_pool):
            kept = torch.zeros(512 * MIB, dtype=torch.uint8, device="cuda")
            with pytest.raises(torch.OutOfMemoryError):
                torch.zeros(768 * MIB, dtype=torch.uint8, device="cuda")
            assert onecopy.torch.last_error().startswith("QUOTA"), onecopy.torch.last_error()
            assert onecopy.torch.failures() > 0
            more = torch.ones(256 * MIB, dtype=torch.uint8, device="cuda")
        assert int(more.sum(dtype=torch.int64)) == 256 * MIB
        assert int(kept.sum(dtype=torch.int64)) == 0
        assert float(torch.ones(4, device="cuda").sum()) == 4  # torch's own memory

    def test_what_torch_drops_goes_back(self, east):
        before = onecopy.torch.blocks()  # what libraries of CUDA keep, as cuBLAS its workspaces
        made = onecopy.torch.pool(east, 0, slab="64MiB")
        try:
            with torch.cuda.use_mem_pool(made):
                tensors = [torch.zeros(8 * MIB, dtype=torch.uint8, device="cuda") for _ in range(8)]
            assert onecopy.torch.statistics(0).bytes_asked >= 64 * MIB
            assert onecopy.torch.blocks() > before
            del tensors, made
            gc.collect()
            torch.cuda.empty_cache()
            assert onecopy.torch.blocks() == before
            assert onecopy.torch.statistics(0).blocks_in_use == 0
            assert onecopy.torch.device_pool(0).trim() >= 64 * MIB
        finally:
            onecopy.torch.release(0)

    def test_a_second_pool_of_the_same_memory(self, torch_pool):
        second = onecopy.torch.pool()
        assert second.id != torch_pool.id
        with torch.cuda.use_mem_pool(second):
            assert int(torch.ones(100, device="cuda").sum()) == 100

    def test_it_outlives_the_node(self, pair):
        before = onecopy.torch.blocks()
        node = onecopy.connect(pair.east.run_dir)
        made = onecopy.torch.pool(node, 0, slab="64MiB")
        with torch.cuda.use_mem_pool(made):
            one = torch.full((MIB,), 3, dtype=torch.uint8, device="cuda")
        onecopy.torch.release(0)
        del node
        gc.collect()
        assert int(one.sum(dtype=torch.int64)) == 3 * MIB
        with torch.cuda.use_mem_pool(made):  # what torch has of it is enough for this
            two = one[:1000] + 1
        assert int(two.min()) == 4
        del one, two, made
        gc.collect()
        torch.cuda.empty_cache()
        assert onecopy.torch.blocks() == before

    def test_a_graph_with_memory_of_it(self, east, torch_pool):
        with torch.cuda.use_mem_pool(torch_pool):
            source = torch.ones(MIB, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=torch_pool.id):
            result = source * 2
        source.fill_(21)
        graph.replay()
        torch.cuda.synchronize()
        back = torch.zeros(MIB)
        east.transfer(result, back)
        assert float(back.min()) == float(back.max()) == 42
        assert len(east._registrations) == 1  # of `back`

    ALLOCATOR = """
        import json, sys, torch, onecopy, onecopy.torch
        node = onecopy.connect(sys.argv[1])
        torch.cuda.memory.change_current_allocator(onecopy.torch.allocator(node, 0, slab="64MiB", limit="256MiB"))
        one = torch.arange(32 << 20, dtype=torch.int32, device="cuda").to(torch.uint8)
        two = torch.zeros_like(one)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            used = one[:1000].clone()
            one.record_stream(side)
        torch.cuda.synchronize()
        done = node.transfer(one, two)
        said = {"equal": torch.equal(one, two), "copies": done.receipt.copies, "registrations": len(node._registrations)}
        try:
            torch.zeros(1 << 30, dtype=torch.uint8, device="cuda")
        except (MemoryError, RuntimeError) as failure:
            said["failure"] = str(failure)
        del one
        said["goes on"] = int(torch.ones(1000, device="cuda").sum())
        print(json.dumps(said))
        del node                                  # and torch frees what is left after Python's end
    """

    def test_as_torchs_only_allocator(self, pair):
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(self.ALLOCATOR), str(pair.east.run_dir)],
                              capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout.splitlines()[-1])
        print(said)
        assert said["equal"] and said["copies"] == 1 and said["registrations"] == 0
        assert "QUOTA" in said["failure"]
        assert said["goes on"] == 1000

    ENDS = """
        import sys, torch, onecopy, onecopy.torch
        made = onecopy.torch.pool(onecopy.connect(sys.argv[1]), 0, slab="64MiB")
        with torch.cuda.use_mem_pool(made):
            kept = torch.ones(32 << 20, device="cuda")
        print(float(kept.sum()))
    """

    def test_a_process_ends_with_tensors_of_it(self, pair):
        for _ in range(3):
            done = subprocess.run([sys.executable, "-c", textwrap.dedent(self.ENDS), str(pair.east.run_dir)],
                                  capture_output=True, text=True, timeout=300, check=False)
            assert (done.returncode, done.stdout.splitlines()[-1]) == (0, str(float(32 << 20))), done.stderr


def with_offsets(tensors):
    at = 0
    for each in tensors:
        yield at, each
        at += each.nbytes


class TestCupy:
    @pytest.fixture
    def cupy(self):
        return pytest.importorskip("cupy")

    def test_its_arrays_move_without_a_registration(self, pair, east, cupy):
        import onecopy.cupy

        with onecopy.cupy.use(east, slab="64MiB") as allocator:
            one = cupy.arange(MIB, dtype=cupy.float32).reshape(1024, 1024)
            two = cupy.zeros((1024, 256), dtype=cupy.float32)
            with cupy.cuda.Stream() as stream:
                three = one * 2
                stream.synchronize()
            del stream
        cupy.cuda.runtime.deviceSynchronize()
        known = buffers(pair)
        done = east.transfer(one[:, ::4], two)
        assert done.receipt.copies == 1
        assert bool((two == one[:, ::4]).all())
        east.transfer(three, one)
        assert float(one[0, 3]) == 6
        assert buffers(pair) == known
        assert len(east._registrations) == 0
        del one, two, three  # whose stream has gone
        gc.collect()
        assert allocator.pools[0].statistics.blocks_in_use == 0

    def test_an_exhausted_pool(self, east, cupy):
        import onecopy.cupy

        with onecopy.cupy.use(east, slab="64MiB", limit="64MiB"):
            kept = cupy.zeros(32 * MIB, dtype=cupy.uint8)
            with pytest.raises(onecopy.ResourceExhausted):
                cupy.zeros(64 * MIB, dtype=cupy.uint8)
            more = cupy.ones(16 * MIB, dtype=cupy.uint8)
        assert int(more.sum()) + int(kept.sum()) == 16 * MIB


class TestNumba:
    SCRIPT = """
        import json, sys, numpy, onecopy, onecopy.numba
        node = onecopy.connect(sys.argv[1])
        onecopy.numba.use(node, slab="64MiB", limit="256MiB")
        from numba import cuda
        one = cuda.to_device(numpy.arange(1 << 20, dtype="float32"))
        two = cuda.device_array(1 << 20, dtype="float32")
        cuda.synchronize()
        done = node.transfer(one, two)
        said = {"equal": bool((two.copy_to_host() == one.copy_to_host()).all()), "copies": done.receipt.copies,
                "registrations": len(node._registrations), "free": cuda.current_context().get_memory_info().free}
        try:
            cuda.device_array(1 << 30, dtype="uint8")
        except onecopy.ResourceExhausted as failure:
            said["failure"] = failure.reason
        for _ in range(100):                      # what was dropped is had again
            cuda.device_array(100 << 20, dtype="uint8")
        print(json.dumps(said))
    """

    def test_its_arrays_move_without_a_registration(self, pair):
        pytest.importorskip("numba.cuda")
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(self.SCRIPT), str(pair.east.run_dir)],
                              capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout.splitlines()[-1])
        print(said)
        assert said["equal"] and said["copies"] == 1 and said["registrations"] == 0
        assert said["failure"] == "QUOTA" and said["free"] > 0


class TestRmm:
    def test_its_buffers_move_without_a_registration(self, pair, east):
        rmm = pytest.importorskip("rmm")
        import onecopy.rmm

        resource = onecopy.rmm.resource(east, 0, slab="64MiB", limit="256MiB")
        before = rmm.mr.get_current_device_resource()
        rmm.mr.set_current_device_resource(resource)
        try:
            one = rmm.DeviceBuffer.to_device(os.urandom(MIB))
            two = rmm.DeviceBuffer(size=MIB)
            torch.cuda.synchronize()
            known = buffers(pair)
            assert east.transfer(one, two).receipt.copies == 1
            assert one.tobytes() == two.tobytes()
            assert buffers(pair) == known
            with pytest.raises(MemoryError):
                rmm.DeviceBuffer(size=1 << 30)
            del one, two
            gc.collect()
            assert resource.pool.statistics.blocks_in_use == 0
        finally:
            rmm.mr.set_current_device_resource(before)


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

    def test_allocating_takes_microseconds(self, pool):
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
