"""Arrays on a GPU, in place: torch, CuPy, JAX and Numba as they are installed, between two processes and two nodes."""

import contextlib
import json
import os
import pathlib
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

HOLDER = pathlib.Path(__file__).with_name("gpu_holder.py")
MIB = 1 << 20
GIB = 1 << 30


class Holder:
    """Another process with a tensor under a name."""

    def __init__(self, daemon, name, size, device):
        self.name, self.size = name, size
        self._process = subprocess.Popen([sys.executable, HOLDER, str(daemon.run_dir), name, str(size), device],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout.readline() == "ready\n"

    def _ask(self, line):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def fill(self, value):
        assert self._ask(f"fill {value}") == "filled"

    def sum(self):
        return int(self._ask("sum"))

    def end(self):
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()


@contextlib.contextmanager
def holding(daemon, name, size, device="cuda:0"):
    made = Holder(daemon, name, size, device)
    try:
        yield made
    finally:
        made.end()


def pattern(size, seed=7):
    made = torch.arange(size, dtype=torch.int64, device="cuda").mul_(2654435761 + seed).bitwise_right_shift_(16)
    made = made.to(torch.uint8)
    torch.cuda.synchronize()
    return made


def test_a_tensor_of_another_process_inside_a_node(pair, east):
    with holding(pair.east, "there", 64 * MIB) as other:
        mine = pattern(64 * MIB)
        done = east.transfer(mine, "there")
        assert done.receipt.copies == 1, done.receipt
        assert other.sum() == int(mine.sum(dtype=torch.int64))
        other.fill(3)
        east.transfer("there", mine)
        assert bool((mine == 3).all())


def test_a_tensor_of_another_node(pair, east):
    with holding(pair.west, "far", 64 * MIB) as other:
        mine = pattern(64 * MIB, 11)
        done = east.transfer(mine, "west:far", checksum=True)
        assert (done.receipt.path, done.receipt.copies) == ("peer-direct", 1), done.receipt  # of one machine
        assert other.sum() == int(mine.sum(dtype=torch.int64))
        other.fill(0)
        done = east.transfer(mine, "west:far", checksum=True, path="tcp-staged")
        assert done.receipt.copies == 5, done.receipt
        assert other.sum() == int(mine.sum(dtype=torch.int64))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int8", "int64", "bool", "complex64",
                                   "float8_e4m3fn"])
def test_every_type(east, dtype):
    one = torch.randint(0, 2, (1000, 32), device="cuda").to(getattr(torch, dtype))
    two = torch.zeros_like(one)
    torch.cuda.synchronize()
    east.transfer(one, two)
    assert torch.equal(one.view(torch.uint8), two.view(torch.uint8))


@pytest.mark.parametrize("view", [lambda t: t[:, ::4], lambda t: t.t(), lambda t: t[10:20, 3:7], lambda t: t[5],
                                  lambda t: t.reshape(8, 128, 1024)[:, :, ::2]])
def test_strides(east, view):
    source = view(torch.rand(1024, 1024, device="cuda"))
    target = torch.zeros(source.shape, device="cuda")
    torch.cuda.synchronize()
    done = east.transfer(source, target)
    assert torch.equal(source, target)
    assert done.receipt.copies == 1, done.receipt


def test_between_the_processor_and_the_gpu(east):
    here = east.empty((MIB,), "float32")
    there = pattern(4 * MIB).view(torch.float32)
    east.transfer(there, here)
    assert torch.equal(torch.from_dlpack(here).view(torch.uint8), there.cpu().view(torch.uint8))
    ordinary = torch.zeros(MIB)
    east.transfer(there, ordinary)
    assert torch.equal(ordinary.view(torch.uint8), there.cpu().view(torch.uint8))
    pinned = torch.zeros(MIB).pin_memory()
    east.transfer(there, pinned)
    assert torch.equal(pinned.view(torch.uint8), there.cpu().view(torch.uint8))


def test_cupy(east):
    cupy = pytest.importorskip("cupy")
    one = cupy.arange(MIB, dtype=cupy.float32)
    two = torch.zeros(MIB, device="cuda")
    cupy.cuda.runtime.deviceSynchronize()
    east.transfer(one, two)
    assert (cupy.asnumpy(one) == two.cpu().numpy()).all()
    back = cupy.zeros((2, MIB), dtype=cupy.float32)
    cupy.cuda.runtime.deviceSynchronize()
    east.transfer(two, back[1])
    assert bool((back[1] == one).all()) and not bool(back[0].any())


def test_jax(east):
    jax = pytest.importorskip("jax")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if jax.default_backend() != "gpu":
        pytest.skip(f"jax uses its backend {jax.default_backend()}")
    one = jax.numpy.arange(MIB, dtype="float32").block_until_ready()
    two = torch.zeros(MIB, device="cuda")
    torch.cuda.synchronize()
    east.transfer(one, two)
    assert float(two[MIB - 1]) == MIB - 1
    with pytest.raises(onecopy.InvalidArgument):  # no array of JAX may be written
        east.transfer(two, one)


def test_numba(east):
    cuda = pytest.importorskip("numba.cuda")
    one = torch.rand(MIB, device="cuda")
    two = cuda.device_array(MIB, dtype="float32")
    torch.cuda.synchronize()
    east.transfer(one, two)
    assert (two.copy_to_host() == one.cpu().numpy()).all()


ALLOCATIONS = {
    "cudaMalloc": "",
    "expandable segments": "expandable_segments:True",
    "cudaMallocAsync": "backend:cudaMallocAsync",
}
MOVES = """
    import json, sys, torch, onecopy
    node = onecopy.connect(sys.argv[1])
    one = torch.arange(64 << 20, dtype=torch.int64, device="cuda").to(torch.uint8)
    two = torch.zeros_like(one)
    torch.cuda.synchronize()
    try:
        done = node.transfer(one, two)
    except onecopy.Error as error:
        print(json.dumps({"reason": error.reason, "message": error.message, "remedy": error.remedy}))
    else:
        print(json.dumps({"equal": torch.equal(one, two), "copies": done.receipt.copies, "path": done.receipt.path}))
"""


@pytest.mark.parametrize("kind", ALLOCATIONS)
def test_every_allocator_of_torch(pair, kind):
    env = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=ALLOCATIONS[kind])
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(MOVES), str(pair.east.run_dir)], env=env,
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    print(kind, said)
    if kind in {"cudaMalloc", "expandable segments"}:
        assert said["equal"] and said["copies"] == 1
    else:  # no other process can map it: this one copies it, through its slab
        assert said["equal"] and said["copies"] == 2 and said["path"] == "peer-bounce"


class TestStreams:
    """Transfers in the order of streams."""

    SIZE = 64 * MIB

    @staticmethod
    def hold_up(stream, milliseconds=300):
        """Work that takes about so long: whoever does not wait for it reads what was there before."""
        with torch.cuda.stream(stream):
            torch.cuda._sleep(int(milliseconds * 1_500_000))

    def test_a_transfer_waits_for_its_stream_and_the_stream_for_it(self, east):
        one = torch.zeros(self.SIZE, dtype=torch.uint8, device="cuda")
        two, three = torch.zeros_like(one), torch.zeros_like(one)
        east.transfer(one, two)  # everything has been registered
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        self.hold_up(stream)
        with torch.cuda.stream(stream):
            one.fill_(7)
            queued = east.enqueue(one, two, stream=stream)
            three.copy_(two)
            one.fill_(9)
        assert not stream.query()  # the host was not held up
        assert not queued.done
        stream.synchronize()
        assert int(three.min()) == int(three.max()) == 7
        assert queued.done and queued.wait().receipt.copies == 1

    def test_the_default_stream(self, east):
        one = torch.full((self.SIZE,), 3, dtype=torch.uint8, device="cuda")
        two = torch.zeros_like(one)
        torch.cuda._sleep(100_000_000)
        one.fill_(4)
        queued = east.enqueue(one, two, stream=torch.cuda.current_stream())
        total = two.sum(dtype=torch.int64)
        assert int(total) == 4 * self.SIZE
        queued.wait()

    def test_one_stream_before_and_another_behind(self, east):
        one = torch.zeros(self.SIZE, dtype=torch.uint8, device="cuda")
        two = torch.zeros_like(one)
        torch.cuda.synchronize()
        writes, reads = torch.cuda.Stream(), torch.cuda.Stream()
        self.hold_up(writes)
        with torch.cuda.stream(writes):
            one.fill_(5)
        queued = east.enqueue(one, two, after=writes, then=reads)
        with torch.cuda.stream(reads):
            total = two.sum(dtype=torch.int64)
        reads.synchronize()
        assert int(total) == 5 * self.SIZE
        queued.wait()

    def test_a_thousand_rounds_of_a_late_writer_and_an_early_reader(self, east):
        one = torch.zeros(MIB, dtype=torch.uint8, device="cuda")
        two = torch.zeros_like(one)
        stale = torch.zeros((), dtype=torch.int64, device="cuda")
        east.transfer(one, two)
        writes, reads = torch.cuda.Stream(), torch.cuda.Stream()
        torch.cuda.synchronize()
        queued = []
        for turn in range(1000):
            with torch.cuda.stream(writes):
                torch.cuda._sleep(20_000)
                one.fill_(turn % 251 + 1)
            queued.append(east.enqueue(one, two, after=writes, then=reads))
            with torch.cuda.stream(reads):
                stale += (two != turn % 251 + 1).sum()
            writes.wait_stream(reads)
        torch.cuda.synchronize()
        assert int(stale) == 0
        assert all(each.wait().state == "SUCCEEDED" for each in queued)

    def test_a_stream_that_captures_is_refused_and_its_graph_is_whole(self, east):
        one = torch.zeros(MIB, dtype=torch.uint8, device="cuda")
        two = torch.zeros_like(one)
        east.transfer(one, two)
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with torch.cuda.graph(graph, stream=stream):
            one.add_(1)
            with pytest.raises(onecopy.FailedPrecondition) as refused:
                east.enqueue(one, two, stream=stream)
            one.add_(1)
        assert refused.value.reason == "STREAM_CAPTURING"
        graph.replay()
        torch.cuda.synchronize()
        assert int(one.min()) == int(one.max()) == 2
        east.enqueue(one, two, stream=stream).wait()
        assert int(two.max()) == 2

    def test_a_failure_lets_the_stream_go_on(self, east):
        one = torch.zeros(MIB, dtype=torch.uint8, device="cuda")
        queued = east.enqueue(one, "nowhere:x", stream=torch.cuda.current_stream())
        torch.cuda.synchronize()
        with pytest.raises(onecopy.Error):
            queued.wait()

    def test_a_daemon_that_dies_lets_the_stream_go_on(self, pair, tmp_path):
        one = torch.zeros(self.SIZE, dtype=torch.uint8, device="cuda")
        two = torch.zeros_like(one)
        node = onecopy.connect(pair.east.run_dir)
        node.transfer(one, two)
        stream = torch.cuda.Stream()
        self.hold_up(stream, 1500)
        queued = [node.enqueue(one, two, stream=stream) for _ in range(3)]
        pair.east.kill()
        stream.synchronize()
        pair.east.start_again()
        for each in queued:  # those that came to a new daemon may have been carried out
            with contextlib.suppress(onecopy.Error):
                each.wait()
        assert all(each.done for each in queued)


def seconds_of(work, rounds=9, wait=torch.cuda.synchronize):
    """By the caller's clock. `wait`: what the caller does to know that the work is done."""
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        work()
        wait()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def nothing():
    """A transfer has ended when its call returns: nobody waits for the GPU."""


def ratio(ours, plain, rounds=5):
    """Of the rate of a plain copy and its wait, one beside the other."""
    return statistics.median(seconds_of(plain, 5) / seconds_of(ours, 5, nothing) for _ in range(rounds))


def ratio_to_a_plain_copy(pair, east, device, size):
    with holding(pair.east, "large", size, device):
        mine = torch.ones(size, dtype=torch.uint8, device="cuda:0")
        other = torch.empty(size, dtype=torch.uint8, device=device)
        plain = lambda: other.copy_(mine)
        ours = lambda: east.transfer(mine, "large")
        plain(), ours(), ours(), ours()  # by gRPC, which shows that a copy is one pass; then by the ring
        return ratio(ours, plain)


def test_a_gibibyte_between_gpus_moves_as_fast_as_a_plain_copy(pair, east):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs 2 GPUs")
    measured = ratio_to_a_plain_copy(pair, east, "cuda:1", GIB)
    print(f"1 GiB from the GPU of one process to another's: {measured:.3f} of a plain copy")
    assert measured >= 0.9  # 0.94 was measured, the aim is 0.97: docs/decisions/long-transfers-by-ring.md


def test_within_a_gpu_a_large_copy_loses_little(pair, east):
    """To another process's tensor: a plain copy is faster there than any other, and its beginning weighs more."""
    if torch.cuda.get_device_properties(0).total_memory < 32 * GIB:
        pytest.skip("not enough memory on the GPU")
    measured = ratio_to_a_plain_copy(pair, east, "cuda:0", 4 * GIB)
    print(f"4 GiB within a GPU: {measured:.3f} of a plain copy")
    assert measured >= 0.5


def test_a_thousand_tensors_of_a_model_are_one_registration_an_allocation(pair, east):
    before = len(pair.east.cli("buffer", "ls"))
    tensors = [torch.zeros(64 * 1024, device="cuda") for _ in range(1000)]  # torch takes them from few allocations
    torch.cuda.synchronize()
    segments = {each["address"] for each in torch.cuda.memory_snapshot()}
    kept = torch.zeros(64 << 20, dtype=torch.uint8, device="cuda")  # of an allocation of its own
    east.register(kept)  # opens the GPU in the daemon, where nothing else has
    begun = time.perf_counter()
    buffers = east.register(tensors)
    elapsed = time.perf_counter() - begun
    added = len(pair.east.cli("buffer", "ls")) - before
    registered = added - 1 - sum(1 for each in buffers if each.view_of)
    print(f"1,000 tensors: {registered} registrations, {elapsed * 1000:.1f} ms")
    assert registered <= len({each.view_of or each.id for each in buffers}) <= len(segments)
    assert [east.register(each).id for each in tensors[::100]] == [each.id for each in buffers[::100]]


def test_handing_over_copies_nothing_and_takes_microseconds(east):
    del east
    from onecopy.core.memory import _arrays
    tensor = torch.empty(GIB, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated()
    times = []
    for _ in range(1000):
        begun = time.perf_counter()
        view = _arrays.view(tensor)
        times.append(time.perf_counter() - begun)
    assert torch.cuda.memory_allocated() == held
    assert view.address == tensor.data_ptr()
    taken = statistics.median(times) * 1e6
    print(f"1 GiB by DLPack: {taken:.1f} µs")
    copying = seconds_of(lambda: tensor.clone(), 3) * 1e6
    assert taken < copying / 10
