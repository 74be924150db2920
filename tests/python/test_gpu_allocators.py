"""Pools of a GPU's memory behind the allocators of torch, CuPy, Numba and RMM, as they are installed: what they allocate moves
without a registration."""

import gc
import json
import os
import subprocess
import sys
import textwrap

import pytest

import onecopy

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU that torch can use", allow_module_level=True)

import onecopy.torch  # noqa: E402
from test_gpu import MIB, holding  # noqa: E402


@pytest.fixture
def torch_pool(east):
    """A MemPool; torch has nothing of it afterwards."""
    yield onecopy.torch.pool(east, 0, slab="64MiB", limit="1GiB")
    gc.collect()
    torch.cuda.empty_cache()
    onecopy.torch.release(0)


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
