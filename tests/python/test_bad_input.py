"""What is wrong with an array, a type or a call is said, with what to do; nothing crashes."""

import numpy
import pytest

import onecopy
from onecopy import _native
from onecopy.core.memory import _arrays
from onecopy.core.values import _dtypes


@pytest.fixture
def plain(east):
    return east.empty(64, "uint8")


def refused(kind, call, *words):
    with pytest.raises(kind) as failure:
        call()
    for word in words:
        assert word in str(failure.value), str(failure.value)
    return failure.value


def test_a_capsule_that_was_consumed(east, plain):
    capsule = numpy.arange(8).__dlpack__()
    _native.import_tensor(capsule)
    refused(onecopy.InvalidArgument, lambda: east.transfer(capsule, plain), "already consumed", "pass the array itself")
    used = plain.__dlpack__()
    numpy.from_dlpack(type("Once", (), {"__dlpack__": lambda self, **_: used,
                                        "__dlpack_device__": lambda self: (1, 0)})())
    refused(onecopy.InvalidArgument, lambda: east.transfer(used, plain), "already consumed")


def test_a_capsule_of_something_else(east, plain):
    import datetime
    capsule = datetime.datetime_CAPI
    refused(onecopy.InvalidArgument, lambda: east.transfer(capsule, plain), "does not hold a DLPack tensor")


def test_a_device_that_is_out_of_reach(east, plain):
    class Metal:
        def __dlpack__(self, **_):
            return _native.export_tensor(self, 0x1000, (8, 0), (0, 8, 1), [64], [1], False, True)

        def __dlpack_device__(self):
            return 8, 0

    refused(onecopy.FailedPrecondition, lambda: east.transfer(Metal(), plain), "kind 8", "copy it to the CPU")


def test_a_read_only_destination(east, plain):
    theirs = numpy.asarray(east.empty(64, "uint8"))
    theirs.flags.writeable = False
    refused(onecopy.InvalidArgument, lambda: east.transfer(plain, theirs), "read-only", "array.copy()")
    refused(onecopy.InvalidArgument, lambda: east.transfer(plain, bytes(64)), "read-only")
    assert east.transfer(theirs, plain).state == "SUCCEEDED"


def test_negative_strides(east, plain):
    backwards = numpy.asarray(plain)[::-1]
    other = east.empty(64, "uint8")
    refused(onecopy.InvalidArgument, lambda: east.transfer(backwards, other), "backwards", "ascontiguousarray")


def test_repeated_elements(east, plain):
    many = numpy.broadcast_to(numpy.asarray(plain)[:1], (64,))
    other = east.empty(64, "uint8")
    refused(onecopy.InvalidArgument, lambda: east.transfer(many, other), "repeats its elements")


@pytest.mark.parametrize("shape", [0, (3, 0), (0, 5)])
def test_no_elements(east, plain, shape):
    refused(onecopy.InvalidArgument, lambda: east.transfer(numpy.zeros(shape), plain), "has no bytes", "leave")
    refused(onecopy.InvalidArgument, lambda: east.transfer(east.empty(shape), plain), "has no bytes")


def test_bool(east):
    one, other = east.empty(7, "bool"), east.empty(7, bool)
    numpy.asarray(one)[::2] = True
    east.transfer(numpy.asarray(one), numpy.asarray(other))
    assert numpy.asarray(other).tolist() == [True, False] * 3 + [True]


def test_less_than_a_byte(east, plain):
    class Int4:
        def __dlpack__(self, **_):
            return _native.export_tensor(self, 0x1000, (1, 0), (0, 4, 1), [64], [1], False, True)

        def __dlpack_device__(self):
            return 1, 0

    refused(onecopy.InvalidArgument, lambda: east.transfer(Int4(), plain), "4 bits", "view the array as bytes")


def test_sizes_that_differ(east, plain):
    other = east.empty(65, "uint8")
    error = refused(onecopy.InvalidArgument, lambda: east.transfer(plain, other), "64 bytes", "65", "slice")
    assert error.reason == "SIZE_MISMATCH"
    refused(onecopy.InvalidArgument, lambda: east.transfer(numpy.asarray(other)[::2], plain), "33 bytes")


def test_too_many_pieces():
    memory = numpy.lib.stride_tricks.as_strided(numpy.zeros(1, "uint8"), (400, 400, 2), (10 ** 6, 10, 3))
    refused(onecopy.InvalidArgument, lambda: _arrays.runs(_arrays.view(memory)), "160000 pieces", "ascontiguousarray")


def test_objects(east, plain):
    refused(onecopy.InvalidArgument, lambda: east.transfer(numpy.array([{}, []], dtype=object), plain), "Python objects")
    refused(onecopy.InvalidArgument, lambda: east.transfer(object(), plain), "pass an array of")
    refused(onecopy.InvalidArgument, lambda: east.transfer(None, plain), "pass an array of")


def test_a_tensor_that_wants_its_gradient(east):
    """Its bytes are moved where torch hands them out (from its C exchange API on), else it says what to pass."""
    torch = pytest.importorskip("torch")
    wants, there = torch.arange(16, dtype=torch.float32).requires_grad_(), east.empty(16, "float32")
    if hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        east.transfer(wants, there)
        assert torch.equal(torch.from_dlpack(there), wants.detach())
    else:
        refused(onecopy.InvalidArgument, lambda: east.transfer(wants, there), "detach")


def test_types_and_shapes(east):
    refused(onecopy.InvalidArgument, lambda: east.empty(3, "float33"), "float33", "bfloat16")
    refused(onecopy.InvalidArgument, lambda: east.empty((3, -1)), "shape")
    assert _dtypes.of(numpy.float32) == _dtypes.of("float32") == _dtypes.of(numpy.dtype("f4"))
    assert _dtypes.of(float).name == "float64"


def test_handing_out_what_cannot_be(plain):
    with pytest.raises(BufferError, match="stream"):
        plain.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="copy"):
        plain.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="device"):
        plain.__dlpack__(dl_device=(2, 0))


def test_a_name_that_is_anothers(east):
    ours = east.empty(10, "uint8", "bad-named")
    assert east.register(ours).name == "bad-named"
    refused(onecopy.AlreadyExists, lambda: east.register(numpy.zeros(3), "bad-named"), "bad-named")
    refused(onecopy.InvalidArgument, lambda: east.register("bad-named"), "array")


def test_a_daemon_that_has_gone(daemon):
    node = onecopy.connect(daemon.run_dir, timeout=10)
    ours, other = node.empty(10, "uint8"), node.empty(10, "uint8")
    daemon.end()
    refused(onecopy.Unavailable, lambda: node.transfer(ours, other), "DAEMON_UNREACHABLE")
    assert len(ours.memory) == 10  # the memory is still there
    ours.close()


def test_structures_that_contain_python_objects_are_refused(east):
    for dtype in ([("a", "O"), ("b", "i8")], [("a", [("b", "i4"), ("c", "O")])], "O"):
        array = numpy.zeros(100, dtype)
        with pytest.raises(onecopy.InvalidArgument, match="pointers"):
            east.transfer(array, numpy.zeros(array.nbytes, "uint8"))
        with pytest.raises(onecopy.InvalidArgument, match="pointers"):
            east.transfer(numpy.zeros(array.nbytes, "uint8"), array, as_bytes=True)
