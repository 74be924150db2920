"""Kernels on GPU memory of the daemon, and of another process, where it lies: no copy on the way."""

import subprocess
import sys
import textwrap

import pytest

import onecopy

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU that torch can use", allow_module_level=True)

ELEMENTS = 5_000_003

# Another process with GPU memory under a name; each line asks for the sum of its elements.
OWNER = textwrap.dedent("""
    import sys, torch, onecopy
    node = onecopy.connect(sys.argv[1])
    held = torch.arange(int(sys.argv[3]), dtype=torch.int32, device="cuda:0")
    torch.cuda.synchronize()
    node.register(held, sys.argv[2])
    print("ready", flush=True)
    for line in sys.stdin:
        torch.cuda.synchronize()
        print(int(held.sum(dtype=torch.int64)), flush=True)
""")


@pytest.fixture
def lone(daemon):
    return onecopy.connect(daemon.run_dir)


def host_bytes(node, name):
    """What the daemon has in that buffer, by a transfer."""
    target = node.empty(4 * ELEMENTS, "uint8")
    node.transfer(name, target)
    return torch.from_dlpack(target).view(torch.int32)


def test_a_kernel_works_on_the_daemons_buffer(lone):
    lone.create("weights", 4 * ELEMENTS, "cuda:0")
    with lone.map("weights", dtype="int32") as array:
        assert array.device == 0 and array.shape == (ELEMENTS,)
        tensor = torch.from_dlpack(array)
        assert tensor.is_cuda and tensor.data_ptr() == array.__cuda_array_interface__["data"][0]
        assert int(tensor.abs().max()) == 0
        torch.arange(ELEMENTS, dtype=torch.int32, device="cuda:0", out=tensor)
        tensor.mul_(3).add_(1)
        torch.cuda.synchronize()
        expected = torch.arange(ELEMENTS, dtype=torch.int32) * 3 + 1
        assert torch.equal(host_bytes(lone, "weights"), expected)
        # What the daemon writes the kernel sees.
        source = lone.empty(ELEMENTS, "int32")
        torch.from_dlpack(source)[...] = 7
        lone.transfer(source, "weights")
        assert int(tensor.sum(dtype=torch.int64)) == 7 * ELEMENTS
        with pytest.raises((TypeError, BufferError)):
            memoryview(array.memory)
        del tensor


def test_a_kernel_works_on_another_processs_memory(daemon, lone):
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(daemon.run_dir), "theirs", str(ELEMENTS)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout.readline() == "ready\n"

        def theirs():
            owner.stdin.write("sum\n")
            owner.stdin.flush()
            return int(owner.stdout.readline())

        first = theirs()
        assert first == ELEMENTS * (ELEMENTS - 1) // 2
        array = lone.map("theirs", dtype="int32")
        tensor = torch.as_tensor(array, device=f"cuda:{array.device}")  # by the CUDA array interface
        assert torch.equal(tensor.cpu(), torch.arange(ELEMENTS, dtype=torch.int32))
        tensor.add_(2)
        torch.cuda.synchronize()
        assert theirs() == first + 2 * ELEMENTS
        again = torch.from_dlpack(lone.map("theirs", dtype="int32"))  # the driver opens a handle once
        assert torch.equal(again, tensor)
        del again
        array.check()
        del tensor, array
    finally:
        owner.stdin.close()
        owner.wait(timeout=60)
        owner.stdout.close()


def test_gpu_memory_stays_readable_when_it_is_taken_back(lone):
    lone.create("a", 4 * ELEMENTS, "cuda:0")
    array = lone.map("a", dtype="int32")
    tensor = torch.from_dlpack(array)
    tensor.fill_(5)
    torch.cuda.synchronize()
    lone.delete("a", force=True)
    assert not array.valid
    assert int(tensor.sum(dtype=torch.int64)) == 5 * ELEMENTS
    del tensor
    array.close()


def test_another_gpu_reaches_it(lone):
    if torch.cuda.device_count() < 2 or not torch.cuda.can_device_access_peer(1, 0):
        pytest.skip("no two GPUs that reach each other")
    lone.create("a", 4 * ELEMENTS, "cuda:0")
    array = lone.map("a", dtype="int32", device=1)
    assert array.device == 1
    tensor = torch.from_dlpack(array)
    with torch.cuda.device(1):
        tensor.fill_(6)
        torch.cuda.synchronize(1)
    assert int(host_bytes(lone, "a").sum(dtype=torch.int64)) == 6 * ELEMENTS


def test_cupy_takes_it(lone):
    cupy = pytest.importorskip("cupy")
    lone.create("a", 4 * ELEMENTS, "cuda:0")
    array = lone.map("a", dtype="float32")
    seen = cupy.asarray(array)
    assert seen.data.ptr == array.__cuda_array_interface__["data"][0]
    seen[...] = 1.5
    seen += 1
    cupy.cuda.Device(0).synchronize()
    target = lone.empty(ELEMENTS, "float32")
    lone.transfer("a", target)
    assert (target.numpy() == 2.5).all()
