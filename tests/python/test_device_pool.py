"""Arrays of pools on GPUs, and what finds them, by a driver without a GPU. What a GPU really does: test_gpu_pool.py."""

import gc
import os
import threading
import weakref

import fake_gpus
import numpy
import pytest

import onecopy
from onecopy import _native
from onecopy.core.memory import _device

MIB = 1 << 20


def ids(node):
    return {each.id for each in node.buffers()}


def pattern(count, seed=1):
    return ((numpy.arange(count) * 7 + seed) % 119).astype("uint8")


class TestArrays:
    def test_they_move_and_share_one_registration(self, gpu_node, gpu_pool):
        arrays = [gpu_pool.empty((10, 100 + index), "float32") for index in range(20)]
        before = ids(gpu_node)
        back = numpy.zeros((10, 119), "float32")
        for index, array in enumerate(arrays):
            gpu_node.transfer(numpy.full(array.shape, index, "float32"), array)
            done = gpu_node.transfer(array, back[:, :100 + index], checksum=True)
            assert (back[:, :100 + index] == index).all(), done.receipt
        assert {array.buffer.id for array in arrays} == {gpu_pool.buffers[0].id}
        assert gpu_pool.buffers[0].memory == "cuda"
        assert [each.id for each in gpu_pool.buffers if each.id not in before] == []

    def test_from_one_to_another_is_one_copy(self, gpu_node, gpu_pool):
        one, two = gpu_pool.empty(1000, "uint8"), gpu_pool.empty(1000, "uint8")
        fake_gpus.write(one.pointer, pattern(1000).tobytes())
        done = gpu_node.transfer(one, two)
        assert done.receipt.copies == 1, done.receipt
        assert fake_gpus.read(two.pointer, 1000) == pattern(1000).tobytes()

    def test_what_it_says_of_itself(self, gpu_pool):
        array = gpu_pool.empty((3, 5), "bfloat16")
        assert (array.shape, array.dtype, array.nbytes, array.device, array.stream) == ((3, 5), "bfloat16", 30, 0, 0)
        assert len(array) == 3
        assert array.pool is gpu_pool
        assert repr(array).startswith("<onecopy.DeviceArray bfloat16[3, 5] on cuda:0, buffer gpus:")
        assert repr(gpu_pool) == "<onecopy.DevicePool 30 of 2097152 bytes in 1 slabs>"

    def test_it_is_no_memory_of_the_host(self, gpu_pool):
        array = gpu_pool.empty(10, "uint8")
        with pytest.raises(TypeError, match=r"from_dlpack"):
            numpy.asarray(array)
        with pytest.raises(BufferError, match="GPU"):
            memoryview(array._memory)

    def test_a_range_does_not_reach_into_the_next_array(self, gpu_pool):
        array = gpu_pool.empty(100, "uint8")
        assert array.endpoint(10).bytes == 90
        with pytest.raises(onecopy.OutOfRange):
            array.endpoint(0, 101)

    def test_memory_goes_back_with_the_array_and_is_had_again(self, gpu_pool):
        array = gpu_pool.empty(1000, "uint8")
        address = array.pointer
        del array
        assert gpu_pool.empty(1000, "uint8").pointer == address
        assert gpu_pool.statistics.from_recent == 1
        assert gpu_pool.statistics.blocks_in_use == 0

    def test_freed_explicitly_it_cannot_be_used_nor_freed_again(self, gpu_pool):
        array = gpu_pool.empty(1000, "uint8")
        array.free()
        assert gpu_pool.statistics.blocks_in_use == 0
        for use in (array.free, lambda: array.pointer, array.__dlpack__, array.endpoint):
            with pytest.raises(onecopy.InvalidArgument) as refused:
                use()
            assert refused.value.reason == "BAD_POINTER"
        assert "freed" in repr(array)

    def test_freed_explicitly_what_has_views_or_transfers_stays_until_they_end(self, gpu_node, gpu_pool):
        one, two, seen = (gpu_pool.empty(1000, "uint8") for _ in range(3))
        fake_gpus.write(one.pointer, pattern(1000).tobytes())
        addresses = {each.pointer for each in (one, two, seen)}
        prepared = gpu_node.prepare(one, two)
        assert seen.__cuda_array_interface__["data"][0] in addresses  # whose user keeps the array
        for each in (one, two, seen):
            each.free()
        others = [gpu_pool.empty(1000, "uint8") for _ in range(3)]
        assert not addresses & {each.pointer for each in others}
        assert prepared.run().state == "SUCCEEDED"
        del prepared, one, two, seen, each
        gc.collect()
        assert gpu_pool.statistics.blocks_in_use == len(others)

    def test_an_exhausted_pool_raises_and_goes_on(self, gpu_node):
        pool = gpu_node.pool(device=0, slab="2MiB", limit="4MiB")
        kept = [pool.empty(2 * MIB, "uint8") for _ in range(2)]
        with pytest.raises(onecopy.ResourceExhausted) as refused:
            pool.empty(1, "uint8")
        assert refused.value.reason == "QUOTA"
        kept.pop().free()
        assert pool.empty(1, "uint8").nbytes == 1

    def test_it_outlives_the_node_and_the_pool(self, gpus):
        node = onecopy.connect(gpus.run_dir, cuda_library=fake_gpus.LIBRARY)
        array = node.pool(device=0, slab="2MiB").empty(1000, "uint8")
        del node
        gc.collect()
        fake_gpus.write(array.pointer, bytes(1000))
        assert array.buffer.memory == "cuda"
        array.free()

    def test_a_started_transfer_keeps_its_pieces_though_nobody_waits(self, gpu_node, gpu_pool):
        one, two = gpu_pool.empty(MIB // 2, "uint8"), gpu_pool.empty(MIB // 2, "uint8")
        id = gpu_node.start(one, two).id
        del one, two
        gpu_node.transfer_of(id).wait()
        gpu_pool.empty(1)  # looks whether it has ended
        gc.collect()
        assert gpu_pool.statistics.blocks_in_use == 0

    def test_a_pool_that_goes_while_transfers_use_it_leaves_nothing(self, gpus):
        node = onecopy.connect(gpus.run_dir, cuda_library=fake_gpus.LIBRARY)
        pool = node.pool("going", device=0, slab="2MiB")
        node.start(pool.empty(1000, "uint8"), pool.empty(1000, "uint8"))
        id = pool.buffers[0].id
        del pool
        gc.collect()
        assert id not in ids(node)

    def test_it_outlives_its_daemon(self, gpu_daemon):
        node = onecopy.connect(gpu_daemon.run_dir, cuda_library=fake_gpus.LIBRARY)
        pool = node.pool("p", device=0, slab="2MiB")
        one, two = pool.empty(1000, "uint8"), pool.empty(1000, "uint8")
        fake_gpus.write(one.pointer, pattern(1000).tobytes())
        before = one.buffer.id
        node.transfer(fake_gpus.Foreign(one.pointer, (500,)), fake_gpus.Foreign(two.pointer, (500,)))
        gpu_daemon.kill()
        gpu_daemon.start_again()
        node.ping()
        node.transfer(fake_gpus.Foreign(one.pointer, (1000,)), fake_gpus.Foreign(two.pointer, (1000,)))
        assert fake_gpus.read(two.pointer, 1000) == pattern(1000).tobytes()
        assert one.buffer.id != before
        assert one.buffer.name == "p.1"
        assert len(node._registrations) == 0

    def test_a_child_is_refused(self, gpu_pool):
        array = gpu_pool.empty(10, "uint8")
        child = os.fork()
        if child == 0:
            try:
                gpu_pool.empty(1)
            except onecopy.FailedPrecondition as failure:
                os._exit(0 if failure.reason == "FORKED" else 2)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert array.nbytes == 10


class TestOthersArrays:
    """Of whichever framework, found by their addresses."""

    def test_inside_a_piece_without_a_registration(self, gpu_node, gpu_pool):
        whole, target = gpu_pool.empty(4096, "uint8"), gpu_pool.empty(1000, "uint8")
        before = ids(gpu_node)
        fake_gpus.write(whole.pointer, pattern(4096).tobytes())
        done = gpu_node.transfer(fake_gpus.Foreign(whole.pointer + 500, (1000,)), target)
        assert fake_gpus.read(target.pointer, 1000) == pattern(4096)[500:1500].tobytes()
        assert done.receipt.copies == 1
        assert ids(gpu_node) == before
        assert len(gpu_node._registrations) == 0

    def test_strided(self, gpu_node, gpu_pool):
        whole, target = gpu_pool.empty((64, 64), "uint8"), gpu_pool.empty((64, 16), "uint8")
        before = ids(gpu_node)
        fake_gpus.write(whole.pointer, pattern(4096).tobytes())
        gpu_node.transfer(fake_gpus.Foreign(whole.pointer + 8, (64, 16), (64, 2)), target)
        wanted = pattern(4096).reshape(64, 64)[:, 8:40:2]
        assert fake_gpus.read(target.pointer, 1024) == wanted.tobytes()
        assert ids(gpu_node) == before

    def test_of_several_pools(self, gpu_node, gpu_pool):
        other = gpu_node.pool("other", device=1, slab="2MiB")
        one, two = gpu_pool.empty(100, "uint8"), other.empty(100, "uint8")
        fake_gpus.write(one.pointer, pattern(100).tobytes())
        before = ids(gpu_node)
        gpu_node.transfer(fake_gpus.Foreign(one.pointer, (100,)), fake_gpus.Foreign(two.pointer, (100,)))
        assert fake_gpus.read(two.pointer, 100) == pattern(100).tobytes()
        assert ids(gpu_node) == before

    def test_of_a_pool_of_another_node(self, gpu_node, gpu_pool, gpus):
        other = onecopy.connect(gpus.run_dir, cuda_library=fake_gpus.LIBRARY)
        array, target = gpu_pool.empty(100, "uint8"), numpy.zeros(100, "uint8")
        fake_gpus.write(array.pointer, pattern(100).tobytes())
        other.transfer(fake_gpus.Foreign(array.pointer, (100,)), target)  # by its name, as one owner's
        assert (target == pattern(100)).all()

    def test_what_reaches_beyond_its_piece_is_not_of_the_pool(self, gpu_pool):
        from onecopy.core.memory import _pool

        array, next = gpu_pool.empty(256, "uint8"), gpu_pool.empty(256, "uint8")
        assert _pool.find(array.pointer + 255, 1, on_host=False) is not None
        assert _pool.find(array.pointer + 255, 2, on_host=False) is None
        assert _pool.find(array.pointer, 1, on_host=True) is None
        address = next.pointer
        del next
        assert _pool.find(address, 1, on_host=False) is None


class TestHandedOver:
    def test_by_dlpack(self, gpu_pool):
        array = gpu_pool.empty((4, 6), "float16")
        assert array.__dlpack_device__() == (2, 0)
        for version, protocol in ((None, "dlpack-legacy"), ((1, 0), "dlpack")):
            taken = _native.import_tensor(array.__dlpack__(stream=-1, max_version=version))
            assert (taken.protocol, taken.address, taken.device) == (protocol, array.pointer, (2, 0))
            assert (taken.shape, taken.strides, taken.bits) == ([4, 6], [96, 16], 16)

    def test_the_memory_lives_as_long_as_a_view(self, gpu_pool):
        array = gpu_pool.empty(1000, "uint8")
        taken = _native.import_tensor(array.__dlpack__(stream=-1, max_version=(1, 0)))
        array.free()
        assert gpu_pool.statistics.blocks_in_use == 1
        del taken
        assert gpu_pool.statistics.blocks_in_use == 0

    def test_the_takers_stream_begins_after_the_arrays(self, gpu_pool, gpu_driver):
        ours, theirs = gpu_driver.stream(), gpu_driver.stream()
        array = gpu_pool.empty(1000, "uint8", stream=ours)
        gate = ours.hold_up()
        capsule = array.__dlpack__(stream=theirs.handle)
        reached = theirs.mark()
        assert not reached.wait(0.1)
        unordered = gpu_driver.stream().mark()
        assert unordered.wait(60) and not reached.is_set()
        gate.set()
        assert reached.wait(60)
        del capsule

    def test_without_order_nobody_waits(self, gpu_pool, gpu_driver):
        ours, theirs = gpu_driver.stream(), gpu_driver.stream()
        array = gpu_pool.empty(1000, "uint8", stream=ours)
        gate = ours.hold_up()
        array.__dlpack__(stream=-1)
        array.__dlpack__(stream=ours.handle)
        assert theirs.mark().wait(60)
        gate.set()

    @pytest.mark.parametrize("stream", [0, -2, True, "1"])
    def test_streams_that_are_none(self, gpu_pool, stream):
        with pytest.raises(BufferError, match="array API"):
            gpu_pool.empty(10).__dlpack__(stream=stream)

    @pytest.mark.parametrize("wish", [{"dl_device": (1, 0)}, {"dl_device": (2, 1)}, {"copy": True}])
    def test_what_it_does_not_do(self, gpu_pool, wish):
        with pytest.raises(BufferError, match="copy it"):
            gpu_pool.empty(10).__dlpack__(stream=-1, **wish)

    def test_by_the_cuda_array_interface(self, gpu_pool, gpu_driver):
        stream = gpu_driver.stream()
        array = gpu_pool.empty((4, 6), "int32", stream=stream)
        assert array.__cuda_array_interface__ == {
            "version": 3, "shape": (4, 6), "typestr": "<i4", "data": (array.pointer, False), "strides": None,
            "stream": stream.handle}
        assert not hasattr(gpu_pool.empty(4, "bfloat16"), "__cuda_array_interface__")


class TestStreams:
    def test_memory_is_had_again_by_its_stream_at_once(self, gpu_pool, gpu_driver):
        stream = gpu_driver.stream()
        array = gpu_pool.empty(1000, "uint8", stream=stream)
        address = array.pointer
        gate = stream.hold_up()
        del array
        assert gpu_pool.empty(1000, "uint8", stream=stream).pointer == address
        gate.set()

    def test_and_by_another_one_in_order_after_it(self, gpu_node, gpu_driver):
        pool = gpu_node.pool(device=0, slab="2MiB", limit="2MiB")
        one, two = gpu_driver.stream(), gpu_driver.stream()
        array = pool.empty(2 * MIB, "uint8", stream=one)
        address = array.pointer
        gate = one.hold_up()
        del array
        assert pool.empty(2 * MIB, "uint8", stream=two).pointer == address
        reached = two.mark()
        assert not reached.wait(0.1)
        gate.set()
        assert reached.wait(60)
        assert pool.statistics.from_others == 1

    def test_what_is_loaded_comes_after_what_streams_still_do(self, gpu_node, gpu_driver, tmp_path):
        pool = gpu_node.pool(device=0, slab="2MiB", limit="2MiB")
        values = pattern(MIB)
        numpy.save(tmp_path / "array.npy", values)
        stream = gpu_driver.stream()
        array = pool.empty(2 * MIB, "uint8", stream=stream)
        address = array.pointer
        gate, late = stream.hold_up(), stream.mark()
        del array
        loaded = []

        def load():
            loaded.append(gpu_node.load(tmp_path / "array.npy", pool=pool))
            loaded.append(late.is_set())

        loader = threading.Thread(target=load)
        loader.start()
        loader.join(0.2)
        assert not loaded
        gate.set()
        loader.join(60)
        result, was_late = loaded
        [array] = result.values()
        assert was_late and array.pointer == address
        assert fake_gpus.read(address, MIB) == values.tobytes()

    def test_what_is_loaded_waits_for_no_stream_where_there_is_room(self, gpu_node, gpu_driver, tmp_path):
        pool = gpu_node.pool(device=0, slab="2MiB", limit="8MiB")
        numpy.save(tmp_path / "array.npy", pattern(MIB))
        stream = gpu_driver.stream()
        busy = pool.empty(2 * MIB, "uint8", stream=stream)
        address = busy.pointer
        gate = stream.hold_up()
        del busy
        loaded = [gpu_node.load(tmp_path / "array.npy", pool=pool) for _ in range(3)]
        pointers = [array.pointer for each in loaded for array in each.values()]
        assert not any(address <= each < address + 2 * MIB for each in pointers)
        assert pool.statistics.synchronized == 0
        gate.set()

    def test_its_stream_lives_as_long_as_the_array(self, gpu_pool, gpu_driver):
        stream = gpu_driver.stream()
        seen = weakref.ref(stream)
        array = gpu_pool.empty(1000, "uint8", stream=stream)
        del stream
        gc.collect()
        assert seen() is not None
        del array
        gc.collect()
        assert seen() is None

    def test_a_stream_that_was_recorded_is_waited_for_on_the_gpu(self, gpu_pool, gpu_driver):
        ours, theirs = gpu_driver.stream(), gpu_driver.stream()
        array = gpu_pool.empty(1000, "uint8", stream=ours)
        array.record_stream(theirs)
        capsule = array.__dlpack__(stream=theirs.handle)  # known already
        gate = theirs.hold_up()
        del array, capsule
        reached = ours.mark()
        assert not reached.wait(0.1)
        gate.set()
        assert reached.wait(60)
        assert gpu_pool.statistics.synchronized == 0

    def test_of_a_stream_that_may_be_gone_the_host_waits(self, gpu_pool, gpu_driver):
        ours, theirs = gpu_driver.stream(), gpu_driver.stream()
        array = gpu_pool.empty(1000, "uint8", stream=ours)
        capsule = array.__dlpack__(stream=theirs.handle)
        reached = theirs.mark()
        del array, capsule
        assert reached.is_set()
        assert gpu_pool.statistics.blocks_in_use == 0

    def test_freed_on_a_stream_it_goes_to_that(self, gpu_pool, gpu_driver):
        ours, theirs = gpu_driver.stream(), gpu_driver.stream()
        array = gpu_pool.empty(1000, "uint8", stream=ours)
        address = array.pointer
        gate = ours.hold_up()
        array.free(stream=theirs)
        assert gpu_pool.empty(1000, "uint8", stream=theirs).pointer == address
        reached = theirs.mark()
        assert not reached.wait(0.1)
        gate.set()
        assert reached.wait(60)

    def test_a_stream_that_is_released(self, gpu_pool, gpu_driver):
        one, two = gpu_driver.stream(), gpu_driver.stream()
        array = gpu_pool.empty(1000, "uint8", stream=one)
        address = array.pointer
        del array
        gpu_pool.release_stream(one)
        assert gpu_pool.empty(1000, "uint8", stream=two).pointer == address

    def test_what_is_no_stream(self, gpu_pool):
        with pytest.raises(onecopy.InvalidArgument):
            gpu_pool.empty(10, stream="first")


class TestOptions:
    @pytest.mark.parametrize("bad", [{"device": -1}, {"device": "cpu"}, {"device": "cuda:x"}, {"device": True},
                                     {"device": 0.5}, {"device": 0, "pinned": True}, {"managed_overflow": True},
                                     {"device": 0, "slab": 0}])
    def test_bad_ones(self, gpu_node, bad):
        with pytest.raises(onecopy.InvalidArgument):
            gpu_node.pool(**bad)

    def test_a_gpu_that_is_not_there(self, gpu_node):
        with pytest.raises(onecopy.Error) as refused:
            gpu_node.pool(device=7)
        assert "7" in str(refused.value)

    def test_without_a_driver(self, gpus):
        node = onecopy.connect(gpus.run_dir, cuda_library="/nowhere/libcuda.so.1")
        for options in ({"device": 0}, {"pinned": True}):
            with pytest.raises(onecopy.FailedPrecondition) as refused:
                node.pool(**options)
            assert refused.value.reason == "NO_DRIVER"

    def test_pinned_memory_of_the_host_is_an_array_like_others(self, gpu_node):
        pool = gpu_node.pool(pinned=True, slab="1MiB")
        array = pool.empty(100, "uint8")
        assert isinstance(array, onecopy.PoolArray)
        numpy.asarray(array)[:] = pattern(100)
        target = numpy.zeros(100, "uint8")
        gpu_node.transfer(numpy.asarray(array)[10:], target[10:])
        assert (target[10:] == pattern(100)[10:]).all()

    def test_how_a_gpu_is_named(self):
        class Torchs:
            type, index = "cuda", 3

        class Cupys:
            id = 2

        for name, number in ((0, 0), (4, 4), ("cuda:1", 1), ("cuda", 0), (Torchs(), 3), (Cupys(), 2)):
            assert _device.ordinal(name) == number
        Torchs.type = "cpu"
        with pytest.raises(onecopy.InvalidArgument):
            _device.ordinal(Torchs())
