"""What torch, CuPy, Numba and RMM allocate by, with the packages that are installed and a driver without a GPU."""

import ctypes
import gc
import importlib
import logging
import os
import subprocess
import sys
import textwrap
import threading
import types

import fake_gpus
import pytest
from users import present

import onecopy
from onecopy import _native
from onecopy.core.memory import _pool

MIB = 1 << 20


class Torch:
    """As torch calls the module: by its C functions."""

    def __init__(self):
        library = ctypes.CDLL(_native.__file__)
        self.malloc = library.onecopy_torch_malloc
        self.malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.malloc.restype = ctypes.c_void_p
        self.free = library.onecopy_torch_free
        self.free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.free.restype = None
        self.record_stream = library.onecopy_torch_record_stream
        self.record_stream.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self.record_stream.restype = None


@pytest.fixture
def torch_calls(gpu_pool):
    _native.set_torch_pool(0, gpu_pool._native)
    yield Torch()
    _native.set_torch_pool(0, None)


class TestWhatTorchCalls:
    def test_memory_of_the_pool_is_found_by_its_address(self, gpu_node, gpu_pool, torch_calls):
        address = torch_calls.malloc(5000, 0, None)
        target = gpu_node.empty(100, "uint8")
        fake_gpus.write(address, bytes(range(100)) * 50)
        before = {each.id for each in gpu_node.buffers()}
        gpu_node.transfer(fake_gpus.Foreign(address + 1000, (100,)), target)
        assert bytes(target.memory) == bytes(range(100))
        assert {each.id for each in gpu_node.buffers()} == before
        assert gpu_pool.statistics.blocks_in_use == _native.torch_hooks()[0] == 1
        torch_calls.free(address, 5000, 0, None)
        assert gpu_pool.statistics.blocks_in_use == _native.torch_hooks()[0] == 0

    def test_null_with_a_reason(self, gpu_node, torch_calls):
        assert torch_calls.malloc(100, 1, None) is None
        assert "cuda:1" in _native.torch_hooks()[2]
        small = gpu_node.pool(device=0, slab="2MiB", limit="2MiB")
        _native.set_torch_pool(0, small._native)
        failures = _native.torch_hooks()[1]
        assert torch_calls.malloc(3 * MIB, 0, None) is None
        assert _native.torch_hooks()[1] == failures + 1
        assert _native.torch_hooks()[2].startswith("QUOTA")
        address = torch_calls.malloc(MIB, 0, None)  # and everything goes on
        assert address is not None
        torch_calls.free(address, MIB, 0, None)

    def test_nothing_is_nothing(self, torch_calls):
        before = _native.torch_hooks()
        assert torch_calls.malloc(0, 0, None) is None
        torch_calls.free(None, 0, 0, None)
        torch_calls.record_stream(None, None)
        assert _native.torch_hooks() == before

    def test_what_it_does_not_have_is_not_freed(self, gpu_pool, torch_calls):
        address = torch_calls.malloc(100, 0, None)
        torch_calls.free(address, 100, 0, None)
        torch_calls.free(address, 100, 0, None)
        torch_calls.free(0x1000, 100, 0, None)
        assert "does not own" in _native.torch_hooks()[2]
        assert gpu_pool.statistics.deallocations == 1

    def test_memory_goes_back_to_the_pool_that_it_is_of(self, gpus, gpu_node, torch_calls):
        other = onecopy.connect(gpus.run_dir, cuda_library=fake_gpus.LIBRARY)
        first = other.pool("first", device=0, slab="2MiB")
        _native.set_torch_pool(0, first._native)
        address = torch_calls.malloc(100, 0, None)
        id = first.buffers[0].id
        _native.set_torch_pool(0, gpu_node.pool(device=0, slab="2MiB")._native)
        del first, other
        gc.collect()
        fake_gpus.write(address, bytes(100))
        assert id in {each.id for each in gpu_node.buffers()}
        torch_calls.free(address, 100, 0, None)
        assert id not in {each.id for each in gpu_node.buffers()}  # the last of it

    def test_in_the_order_of_streams(self, gpu_pool, gpu_driver, torch_calls):
        ours, theirs = gpu_driver.stream(), gpu_driver.stream()
        address = torch_calls.malloc(1000, 0, ours.handle)
        torch_calls.record_stream(address, theirs.handle)
        gate = theirs.hold_up()
        torch_calls.free(address, 1000, 0, ours.handle)
        assert torch_calls.malloc(1000, 0, ours.handle) == address
        reached = ours.mark()
        assert not reached.wait(0.1)
        gate.set()
        assert reached.wait(60)
        torch_calls.free(address, 1000, 0, ours.handle)

    def test_many_threads(self, gpu_pool, torch_calls):
        def work():
            for round in range(200):
                address = torch_calls.malloc(100 + round, 0, None)
                torch_calls.free(address, 100 + round, 0, None)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert gpu_pool.statistics.blocks_in_use == 0
        assert gpu_pool.statistics.allocations == 800

    def test_a_child_gets_nothing(self, torch_calls):
        address = torch_calls.malloc(100, 0, None)
        child = os.fork()
        if child == 0:
            torch_calls.free(address, 100, 0, None)
            os._exit(0 if torch_calls.malloc(100, 0, None) is None and "FORKED" in _native.torch_hooks()[2] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        torch_calls.free(address, 100, 0, None)
        assert _native.torch_hooks()[0] == 0

    def test_it_frees_after_pythons_end(self, gpus):
        """As torch does with what its caches have."""
        script = """
            import ctypes, sys, onecopy
            from onecopy import _native
            node = onecopy.connect(sys.argv[1], cuda_library=sys.argv[2])
            pool = node.pool(device=0, slab="2MiB")
            _native.set_torch_pool(0, pool._native)
            library = ctypes.CDLL(_native.__file__)
            library.onecopy_torch_malloc.restype = ctypes.c_void_p
            address = library.onecopy_torch_malloc(ctypes.c_ssize_t(1000), 0, None)
            assert address
            ctypes.CDLL(sys.argv[2]).fakeCudaFreeAtExit(
                library.onecopy_torch_free, ctypes.c_void_p(address), ctypes.c_ssize_t(1000))
            print("allocated")
        """
        for _ in range(3):
            done = subprocess.run([sys.executable, "-c", textwrap.dedent(script), gpus.run_dir, fake_gpus.LIBRARY],
                                  capture_output=True, text=True, timeout=120, check=False)
            assert (done.returncode, done.stdout) == (0, "allocated\n"), done.stderr


@pytest.mark.parametrize("name", ["torch", "cupy", "numba", "rmm"])
def test_a_package_that_is_not_there_is_named(name):
    if present("numba.cuda" if name == "numba" else name):
        pytest.skip(f"{name} is installed")
    with pytest.raises(ModuleNotFoundError, match=f"'{name}"):
        importlib.import_module(f"onecopy.{name}")


class TestTorch:
    @pytest.fixture
    def ours(self):
        if not present("torch"):
            pytest.skip("torch is not installed")
        import onecopy.torch as module

        yield module
        module.release(0)

    def test_without_a_gpu(self, ours, east):
        if importlib.import_module("torch").cuda.is_available():
            pytest.skip("there is a GPU")
        for call in (ours.pool, ours.allocator):
            with pytest.raises(onecopy.FailedPrecondition) as refused:
                call(east)
            assert refused.value.reason == "NO_DRIVER"
        with pytest.raises(onecopy.NotFound):
            ours.statistics()

    def test_the_allocator_is_made_of_the_modules_functions(self, ours, gpu_pool):
        made = ours.allocator(gpu_pool)
        assert made is ours.allocator(gpu_pool)
        assert ours.device_pool(0) is gpu_pool
        assert ours.statistics(0).blocks_in_use == 0
        assert isinstance(made, importlib.import_module("torch").cuda.memory.CUDAPluggableAllocator)

    def test_one_pool_for_each_gpu(self, ours, gpu_node, gpu_pool):
        ours.allocator(gpu_pool)
        ours.allocator()
        for again in ((gpu_node,), (gpu_node.pool(device=0),)):
            with pytest.raises(onecopy.AlreadyExists, match="release"):
                ours.allocator(*again)
        ours.release(0)
        ours.allocator(gpu_node, 0, slab="2MiB")
        assert ours.device_pool(0) is not gpu_pool


class TestCupy:
    @pytest.fixture
    def ours(self, monkeypatch):
        if not present("cupy"):
            pytest.skip("cupy is not installed")
        cupy = importlib.import_module("cupy")
        if cupy.cuda.is_available():
            pytest.skip("there is a GPU: see test_gpu_allocators.py")
        import onecopy.cupy as module

        # What asks the driver.
        here = types.SimpleNamespace(get_device_id=lambda: 0)
        cuda = types.SimpleNamespace(
            get_allocator=cupy.cuda.get_allocator, set_allocator=cupy.cuda.set_allocator, device=here,
            UnownedMemory=cupy.cuda.UnownedMemory, MemoryPointer=cupy.cuda.MemoryPointer,
            get_current_stream=lambda: types.SimpleNamespace(ptr=0))
        monkeypatch.setattr(module, "_cupy", types.SimpleNamespace(cuda=cuda))
        return module

    def test_it_allocates_from_the_pool(self, ours, gpu_pool):
        cupy = importlib.import_module("cupy")
        before = cupy.cuda.get_allocator()
        with ours.use(gpu_pool) as allocator:
            assert cupy.cuda.get_allocator() is allocator
            memory = cupy.cuda.alloc(1000)
            assert _pool.find(memory.ptr, 1000, on_host=False).pool is gpu_pool
            assert cupy.cuda.alloc(0).ptr == 0
        assert cupy.cuda.get_allocator() == before
        assert gpu_pool.statistics.blocks_in_use == 1
        del memory
        assert gpu_pool.statistics.blocks_in_use == 0

    def test_an_exhausted_pool(self, ours, gpu_node):
        cupy = importlib.import_module("cupy")
        with ours.use(gpu_node, limit="2MiB", slab="2MiB") as allocator:
            with pytest.raises(onecopy.ResourceExhausted):
                cupy.cuda.alloc(3 * MIB)
            assert list(allocator.pools) == [0]


class TestNumba:
    @pytest.fixture
    def ours(self, monkeypatch):
        if not present("numba.cuda"):
            pytest.skip("numba is not installed")
        import onecopy.numba as module

        # Made as Numba opens the driver.
        monkeypatch.setattr(module._driver, "_logger", logging.getLogger("numba"), raising=False)
        return module

    def test_it_is_a_plug_in(self, ours, gpu_pool):
        driver_of_numba = importlib.import_module("numba.cuda.cudadrv.driver")
        before = driver_of_numba._memory_manager
        made = ours.use(gpu_pool)
        assert driver_of_numba._memory_manager is made
        driver_of_numba._memory_manager = before
        context = types.SimpleNamespace(device=types.SimpleNamespace(id=0))
        manager = made(context=context)
        memory = manager.memalloc(1000)
        assert _pool.find(memory.device_ctypes_pointer.value, 1000, on_host=False).pool is gpu_pool
        with pytest.raises(onecopy.FailedPrecondition, match="transfer"):
            manager.get_ipc_handle(memory)
        with manager.defer_cleanup():
            del memory
            gc.collect()
            assert gpu_pool.statistics.blocks_in_use == 1
            second = manager.memalloc(500)
        manager.deallocations.clear()
        assert gpu_pool.statistics.blocks_in_use == 1
        manager.reset()
        assert gpu_pool.statistics.blocks_in_use == 0
        del second

    def test_an_exhausted_pool_takes_back_what_was_dropped(self, ours, gpu_node):
        made = type("Manager", (ours.Manager,), {"pools": ours._hooks.DevicePools(gpu_node, 0, {"slab": "2MiB",
                                                                                         "limit": "2MiB"})})
        manager = made(context=types.SimpleNamespace(device=types.SimpleNamespace(id=0)))
        manager.deallocations.memory_capacity = 1 << 40
        first = manager.memalloc(2 * MIB)
        with pytest.raises(onecopy.ResourceExhausted):
            manager.memalloc(2 * MIB)
        del first
        gc.collect()
        assert len(manager.deallocations) == 1
        assert manager.memalloc(2 * MIB) is not None


class TestRmm:
    @pytest.fixture
    def ours(self):
        if not present("rmm"):
            pytest.skip("rmm is not installed")
        import onecopy.rmm as module

        return module

    def test_it_allocates_from_the_pool(self, ours, gpu_pool):
        made = ours.resource(gpu_pool)
        assert made.pool is gpu_pool
        address = made.allocate(1000)
        assert _pool.find(address, 1000, on_host=False).pool is gpu_pool
        made.deallocate(address, 1000)
        assert gpu_pool.statistics.blocks_in_use == 0

    def test_an_exhausted_pool(self, ours, gpu_node):
        made = ours.resource(gpu_node, 0, slab="2MiB", limit="2MiB")
        with pytest.raises(MemoryError):
            made.allocate(3 * MIB)
        address = made.allocate(MIB)
        made.deallocate(address, MIB)

    def test_what_is_not_of_it_is_warned_of(self, ours, gpu_pool):
        made = ours.resource(gpu_pool)
        with pytest.warns(RuntimeWarning, match="BAD_POINTER"):
            made.deallocate(0x1000, 100)
