"""Arrays of other packages, without copies and with the right lifetimes."""

import array
import ctypes
import gc
import weakref

import numpy
import pytest

import onecopy
from onecopy import _native
from onecopy.core.memory import _arrays


def address_of(value):
    return _arrays.view(value).address


def pattern(count, dtype="uint8", seed=1):
    return ((numpy.arange(count) * 7 + seed) % 119).astype(dtype)


class TestGiven:
    """What other packages make of our memory is our memory."""

    def test_numpy(self, east):
        ours = east.empty((3, 4), "float32")
        theirs = numpy.asarray(ours)
        assert theirs.ctypes.data == address_of(ours)
        assert (theirs.shape, theirs.dtype) == ((3, 4), numpy.float32)
        assert ours.numpy().ctypes.data == theirs.ctypes.data

    def test_numpy_by_dlpack(self, east):
        ours = east.empty((3, 4), "int16")
        theirs = numpy.from_dlpack(ours)
        assert theirs.ctypes.data == address_of(ours)
        assert (theirs.shape, theirs.strides, theirs.dtype) == ((3, 4), (8, 2), numpy.int16)

    def test_memoryview(self, east):
        ours = east.empty(10, "uint8")
        view = ours.memory
        view[3] = 7
        assert numpy.asarray(ours)[3] == 7
        assert ctypes.addressof(ctypes.c_char.from_buffer(view)) == address_of(ours)

    def test_torch(self, east):
        torch = pytest.importorskip("torch")
        ours = east.empty((5, 2), "bfloat16")
        theirs = torch.from_dlpack(ours)
        assert theirs.data_ptr() == address_of(ours)
        assert theirs.dtype == torch.bfloat16

    def test_arrow(self, east):
        arrow = pytest.importorskip("pyarrow")
        ours = east.empty(64, "uint8")
        assert arrow.py_buffer(ours.memory).address == address_of(ours)

    def test_a_legacy_capsule(self, east):
        ours = east.empty(4, "int64")
        taken = _native.import_tensor(ours.__dlpack__())
        assert (taken.protocol, taken.address) == ("dlpack-legacy", address_of(ours))
        taken = _native.import_tensor(ours.__dlpack__(max_version=(1, 0)))
        assert taken.protocol == "dlpack"

    @pytest.mark.parametrize("take", [numpy.asarray, numpy.from_dlpack, lambda ours: memoryview(ours.memory)])
    def test_the_memory_lives_as_long_as_a_view(self, east, take):
        ours = east.empty(1 << 16, "uint8")
        name = ours.buffer.id
        ours.memory[5] = 42
        kept = take(ours)
        del ours
        gc.collect()
        assert kept[5] == 42
        assert east.buffer(name).bytes == 1 << 16
        del kept
        gc.collect()
        with pytest.raises(onecopy.NotFound):
            east.buffer(name)

    def test_a_capsule_that_nobody_takes_lets_go(self, east):
        ours = east.empty(16, "uint8")
        name = ours.buffer.id
        capsule = ours.__dlpack__(max_version=(1, 0))
        del ours, capsule
        gc.collect()
        with pytest.raises(onecopy.NotFound):
            east.buffer(name)

    def test_after_close_the_bytes_stay(self, east):
        with east.empty(16, "uint8") as ours:
            kept = numpy.asarray(ours)
            kept[3] = 9
        assert kept[3] == 9
        with pytest.raises(onecopy.NotFound):
            east.buffer(ours.buffer.id)


class TestTaken:
    """The memory of other packages' arrays is found."""

    def test_numpy(self):
        theirs = numpy.zeros((4, 6), "float64")[1:, ::2]
        found = _arrays.view(theirs)
        assert (found.address, found.shape, found.strides) == (theirs.ctypes.data, (3, 3), (48, 16))
        assert (found.protocol, found.read_only, found.device) == ("dlpack", False, (1, 0))

    def test_numpy_read_only(self):
        theirs = numpy.zeros(4)
        theirs.flags.writeable = False
        assert _arrays.view(theirs).read_only

    @pytest.mark.parametrize("dtype", ["datetime64[s]", "i4,f8", "S5", "U3"])
    def test_numpy_types_without_a_word_in_dlpack(self, dtype):
        theirs = numpy.zeros(6, dtype)
        found = _arrays.view(theirs)
        assert (found.address, found.bytes) == (theirs.ctypes.data, theirs.nbytes)

    def test_buffers(self):
        theirs = array.array("d", [1, 2, 3])
        found = _arrays.view(theirs)
        assert (found.address, found.bytes, found.protocol) == (theirs.buffer_info()[0], 24, "buffer")
        assert _arrays.view(b"abc").read_only
        with pytest.raises(BufferError):  # it is held
            theirs.append(4)
        del found
        theirs.append(4)

    def test_arrow(self):
        arrow = pytest.importorskip("pyarrow")
        theirs = arrow.array([1, 2, 3], arrow.int32())
        found = _arrays.view(theirs)
        assert (found.address, found.bytes, found.read_only) == (theirs.buffers()[1].address, 12, True)

    def test_torch(self):
        torch = pytest.importorskip("torch")
        theirs = torch.arange(24).reshape(4, 6)[:, 1::2]
        found = _arrays.view(theirs)
        assert (found.address, found.shape, found.strides) == (theirs.data_ptr(), (4, 3), (48, 16))
        if hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
            assert found.protocol == "dlpack-c"

    def test_torch_bool_and_bfloat16(self):
        torch = pytest.importorskip("torch")
        for dtype, size in ((torch.bool, 1), (torch.bfloat16, 2), (torch.complex64, 8)):
            assert _arrays.view(torch.zeros(5, dtype=dtype)).bytes == 5 * size

    def test_what_holds_the_memory_is_let_go(self):
        class Watched(numpy.ndarray):
            pass

        theirs = numpy.zeros(100).view(Watched)
        gone = weakref.ref(theirs)
        found = _arrays.view(theirs)
        del theirs
        gc.collect()
        assert gone() is not None
        del found
        gc.collect()
        assert gone() is None


class Cuda:
    """An array as CuPy, Numba and JAX describe theirs."""

    def __init__(self, **fields):
        self.__cuda_array_interface__ = {"version": 3, "shape": (4, 2), "typestr": "<f4", "data": (0x7000, False),
                                         "strides": None, **fields}


def test_cuda_array_interface():
    found = _arrays.view(Cuda())
    assert (found.address, found.bytes, found.strides, found.device) == (0x7000, 32, (8, 4), (2, 0))
    assert _arrays.view(Cuda(strides=(16, 4))).strides == (16, 4)
    assert _arrays.view(Cuda(data=(0x7000, True))).read_only
    with pytest.raises(onecopy.InvalidArgument, match="mask"):
        _arrays.view(Cuda(mask=object()))


class TestTransfers:
    """Between views of shared memory."""

    def test_a_slice_is_found_in_its_memory(self, east):
        ours, other = east.empty(1000, "int32"), east.empty(1000, "int32")
        numpy.asarray(ours)[...] = pattern(1000, "int32")
        done = east.transfer(numpy.asarray(ours)[100:200], numpy.asarray(other)[300:400], checksum=True)
        assert done.bytes == 400
        assert (numpy.asarray(other)[300:400] == numpy.asarray(ours)[100:200]).all()
        assert not numpy.asarray(other)[:300].any()

    @pytest.mark.parametrize("cut", [
        lambda a: a[::2], lambda a: a[:, ::3], lambda a: a[3:20:5, 1:7], lambda a: a.T, lambda a: a.T[::2],
        lambda a: a.reshape(4, 6, 20)[:, 1:4, ::2], lambda a: a[:1]])
    def test_strided(self, east, cut):
        ours, other = east.empty((24, 20), "int32"), east.empty((24, 20), "int32")
        numpy.asarray(ours)[...] = numpy.arange(480).reshape(24, 20)
        source = cut(numpy.asarray(ours))
        plain = east.empty(source.shape, "int32")
        east.transfer(source, plain)
        assert (numpy.asarray(plain) == source).all()
        target = cut(numpy.asarray(other))
        east.transfer(plain, target)
        assert (target == source).all()
        assert numpy.count_nonzero(numpy.asarray(other)) <= source.size  # and nothing beside it
        numpy.asarray(other)[...] = 0
        east.transfer(source, target)
        assert (target == source).all()

    def test_transposed_inside_one_buffer(self, east):
        both = numpy.asarray(east.empty((2, 1000, 1000), "int8"))
        both[0] = numpy.arange(1_000_000).reshape(1000, 1000) % 113
        east.transfer(both[0].T, both[1])
        assert (both[1] == both[0].T).all()
        both[1] = 0
        east.transfer(both[0], both[1].T)
        assert (both[1] == both[0].T).all()

    def test_to_another_node(self, east, west):
        ours, there = east.empty((64, 64), "float32"), west.empty((64, 16), "float32")
        numpy.asarray(ours)[...] = numpy.arange(4096).reshape(64, 64)
        done = east.transfer(numpy.asarray(ours)[:, ::4], there.buffer, checksum=True)
        assert done.receipt.checksum.verified
        assert (numpy.asarray(there) == numpy.asarray(ours)[:, ::4]).all()

    def test_torch(self, east):
        torch = pytest.importorskip("torch")
        one, other = torch.from_dlpack(east.empty(100, "float32")), torch.from_dlpack(east.empty(50, "float32"))
        one[:] = torch.arange(100)
        done = east.transfer(one[::2], other)
        assert done.receipt.copies == 1
        assert torch.equal(other, one[::2])

    def test_no_byte_is_copied_on_the_way_in(self, east):
        """The receipt counts every copy: one, between the two buffers."""
        ours, other = east.empty(1 << 20, "uint8"), east.empty(1 << 20, "uint8")
        done = east.transfer(numpy.asarray(ours), numpy.asarray(other))
        assert [(step.from_memory, step.to_memory) for step in done.receipt.steps] == [("host", "host")]

    def test_freed_during_a_transfer(self, east, west):
        """What was started keeps its memory."""
        ours = east.empty(1 << 20, "uint8")
        numpy.asarray(ours)[...] = 3
        target = west.empty(1 << 20, "uint8", "interop-freed")
        going = east.start(ours, "west:interop-freed")
        del ours
        gc.collect()
        assert going.wait().state == "SUCCEEDED"
        assert (numpy.asarray(target) == 3).all()


class TestOrdinaryMemory:
    """Memory that nobody made to be shared: registered once for what owns it, and moved by threads of the library."""

    @staticmethod
    def ids(node):
        return {each.id for each in node.buffers()}

    def test_numpy_to_another_node_and_back(self, east, west):
        ours, back = pattern(100_003), numpy.zeros(100_003, "uint8")
        west.create("ordinary-there", 100_003)
        done = east.transfer(ours, "west:ordinary-there", checksum=True)
        assert done.receipt.checksum.verified
        east.transfer("west:ordinary-there", back)
        assert (back == ours).all()

    def test_its_receipt_has_the_copy_that_it_takes_more(self, east):
        ours, shared = pattern(1 << 20), east.empty(1 << 20, "uint8")
        done = east.transfer(ours, shared)
        assert (numpy.asarray(shared) == ours).all()
        assert done.receipt.copies == 2
        with pytest.raises(onecopy.FailedPrecondition):
            east.transfer(ours, shared, at_most=1)

    def test_slices_share_a_registration(self, east):
        ours, shared = numpy.arange(1000, dtype="int32"), east.empty(10, "int32")
        before = self.ids(east)
        for at in range(0, 1000, 100):
            east.transfer(ours[at:at + 10], shared)
            assert numpy.asarray(shared)[0] == at
        assert len(self.ids(east) - before) == 1
        assert len(east._registrations) == 1
        del ours
        gc.collect()
        assert self.ids(east) == before

    def test_numpy_of_a_capsule(self, east):
        """Whose base is the capsule, which is of no use any more."""
        given = numpy.from_dlpack(pattern(4096))
        assert type(given.base).__name__ == "PyCapsule"
        target = numpy.zeros(4096, "uint8")
        assert east.transfer(given, target).state == "SUCCEEDED"
        assert (target == pattern(4096)).all()
        before = len(east._registrations)
        assert east.transfer(given[1000:2000], target[:1000]).state == "SUCCEEDED"
        assert len(east._registrations) == before
        assert (target[:1000] == pattern(4096)[1000:2000]).all()

    def test_strided(self, east):
        ours, shared = numpy.arange(480, dtype="int32").reshape(24, 20), east.empty((24, 10), "int32")
        east.transfer(ours[:, ::2], shared)
        assert (numpy.asarray(shared) == ours[:, ::2]).all()

    def test_memory_that_came_again_elsewhere_is_another(self, east):
        shared = east.empty(1 << 16, "uint8")
        for value in range(20):  # which the allocator puts where the one before was
            ours = numpy.full(1 << 16, value, "uint8")
            east.transfer(ours, shared)
            assert (numpy.asarray(shared) == value).all()
            del ours

    def test_the_oldest_goes_where_there_are_too_many(self, pair):
        node = onecopy.connect(pair.east.run_dir)
        node._registrations._most = 3
        shared, kept = node.empty(100, "uint8"), [pattern(100, seed=i) for i in range(5)]
        for ours in kept:
            node.transfer(ours, shared)
        assert len(node._registrations) == 3
        node.transfer(kept[0], shared)
        assert (numpy.asarray(shared) == kept[0]).all()
        assert len(node._registrations) == 3

    def test_what_may_grow_is_registered_for_the_transfer_alone(self, east):
        ours, shared = bytearray(b"x" * 100), east.empty(100, "uint8")
        before = self.ids(east)
        east.transfer(ours, shared)
        assert bytes(shared.memory) == ours
        shared.memory[:] = b"y" * 100
        east.transfer(shared, ours)
        assert ours == b"y" * 100
        gc.collect()
        assert self.ids(east) == before
        ours.extend(b"more")

    def test_what_may_grow_and_has_a_name_stays_as_it_is(self, east):
        ours = bytearray(100)
        east.register(ours, "ordinary-named")
        with pytest.raises(BufferError):
            ours.extend(b"more")
        assert east.unregister(ours)
        assert not east.unregister(ours)
        ours.extend(b"more")
        with pytest.raises(onecopy.NotFound):
            east.buffer("ordinary-named")

    def test_read_only_is_read_and_not_written(self, east):
        shared = east.empty(100, "uint8")
        east.transfer(b"z" * 100, shared)
        assert bytes(shared.memory) == b"z" * 100
        ours = pattern(100)
        ours.flags.writeable = False
        name = east.register(ours).id
        with pytest.raises(onecopy.Error):
            east.transfer(shared, east.buffer(name))
        assert (ours == pattern(100)).all()

    def test_arrow(self, east):
        arrow = pytest.importorskip("pyarrow")
        shared = east.empty(1000, "int32")
        east.transfer(arrow.array(range(1000), arrow.int32()), shared)
        assert (numpy.asarray(shared) == numpy.arange(1000)).all()

    def test_torch(self, east, west):
        torch = pytest.importorskip("torch")
        ours, back = torch.arange(1000, dtype=torch.float32), torch.zeros(500)
        there = west.empty(500, "float32", "ordinary-torch")
        east.transfer(ours[::2], "west:ordinary-torch")
        east.transfer("west:ordinary-torch", back)
        assert torch.equal(back, ours[::2])
        assert (numpy.asarray(there) == ours[::2].numpy()).all()

    def test_what_was_started_keeps_its_array(self, east, west):
        target = west.empty(1 << 20, "uint8", "ordinary-kept")
        going = east.start(numpy.full(1 << 20, 9, "uint8"), "west:ordinary-kept")
        gc.collect()
        assert going.wait().state == "SUCCEEDED"
        assert (numpy.asarray(target) == 9).all()

    def test_a_node_that_goes_takes_its_registrations(self, pair, east):
        other = onecopy.connect(pair.east.run_dir)
        ours = pattern(100)
        name = other.register(ours).id
        assert east.buffer(name)
        del other
        gc.collect()
        with pytest.raises(onecopy.NotFound):
            east.buffer(name)


class TestRanges:
    """Arrays as ranges, against a plain reading of every byte."""

    @staticmethod
    def places(runs):
        return [offset + index * stride + byte for offset, length, stride, count in runs
                for index in range(count) for byte in range(length)]

    def test_runs(self):
        random = numpy.random.default_rng(1)
        memory = numpy.arange(4096, dtype="uint8").view("uint16")
        for _ in range(300):
            shape = random.integers(1, 6, 3)
            strides = random.permutation([1, 7, 50]) * 2 * random.integers(1, 3)
            made = numpy.lib.stride_tricks.as_strided(memory, shape, strides)
            found = _arrays.view(made)
            expected = [found.itemsize and int(sum(i * s for i, s in zip(index, strides, strict=True))) + byte
                        for index in numpy.ndindex(*shape) for byte in range(2)]
            assert self.places(_arrays.runs(found)) == expected

    def test_pairs(self):
        random = numpy.random.default_rng(2)
        for _ in range(300):
            one, other = [], []
            for pieces in (one, other):
                left, at = 240, 0
                while left:
                    length = int(random.integers(1, min(left, 9) + 1))
                    count = min(int(random.integers(1, 8)), left // length)
                    stride = length + int(random.integers(0, 4)) if count > 1 else 0
                    pieces.append((at, length, stride, count))
                    at += 100
                    left -= length * count
            made = _arrays.pairs(one, other)
            assert all(a[1] * a[3] == b[1] * b[3] for a, b in made)
            assert self.places(a for a, _ in made) == self.places(one)
            assert self.places(b for _, b in made) == self.places(other)
