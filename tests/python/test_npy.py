"""Files of one array: .npy, loaded and saved."""

import random

import fake_gpus
import numpy
import pytest
from array_files import DTYPES, mutated, same, values

import onecopy


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_files(east, tmp_path, version):
    for dtype in [*DTYPES, "complex128"]:
        for array in (values(60, dtype).reshape(3, 4, 5), values(0, dtype), values(1, dtype).reshape(()), values(7, dtype)):
            path = tmp_path / "some.npy"
            with path.open("wb") as opened:
                numpy.lib.format.write_array(opened, array, version)
            loaded = east.load(path)
            same(loaded, {"some": array})
            assert loaded.array is loaded["some"]
            east.save(tmp_path / "again.npy", loaded.array if array.size else array)
            same({"": numpy.load(tmp_path / "again.npy")}, {"": array})
            east.save(tmp_path / "once-more.npy", {"x": array})
            same({"": numpy.load(tmp_path / "once-more.npy")}, {"": array})


def fortran(dtype="int16"):
    return numpy.asfortranarray(values(120, dtype).reshape(5, 3, 8))


def same_order(path, expected):
    """Whether the file has this array, in Fortran order."""
    found = numpy.load(path)
    assert (found.dtype, found.shape, found.strides) == (expected.dtype, expected.shape, expected.strides)
    assert found.flags.f_contiguous
    assert (found == expected).all()


def test_fortran_order(east, west, tmp_path):
    path, again = tmp_path / "x.npy", tmp_path / "again.npy"
    for dtype in DTYPES:
        numpy.save(path, fortran(dtype))
        array = east.load(path).array
        found = numpy.asarray(array)
        assert (array.shape, array.strides) == (fortran(dtype).shape, fortran(dtype).strides)
        assert (found.dtype, found.flags.f_contiguous, found.flags.c_contiguous) == (fortran(dtype).dtype, True, False)
        assert (found == fortran(dtype)).all()
        for given in (array, fortran(dtype), found):
            east.save(again, given)
            same_order(again, fortran(dtype))
    assert (numpy.from_dlpack(array) == fortran(dtype)).all()
    # Its elements have their order, whatever that of the other end.
    there = west.empty((5, 3, 8), dtype)
    east.transfer(array, there.buffer)
    assert (numpy.asarray(there) == fortran(dtype)).all()
    back = numpy.zeros((5, 3, 8), dtype, order="F")
    east.transfer(array, back)
    assert (back == fortran(dtype)).all()
    east.transfer(numpy.zeros((5, 3, 8), dtype), array)
    assert not numpy.asarray(array).any()
    for wrong in (lambda: east.save(tmp_path / "x.safetensors", {"a": array}),
                  lambda: east.save(tmp_path / "x.safetensors", {"a": fortran()}),
                  lambda: east.copy_to_file(array, again), lambda: east.copy_from_file(again, array)):
        with pytest.raises(onecopy.InvalidArgument, match="order"):
            wrong()
    for one_order in (numpy.asfortranarray(values(60, "int16").reshape(1, 60)), values(0, "int16").reshape(0, 3),
                      values(60, "int16").reshape(5, 12)):
        east.save(again, one_order)
        numpy.save(path, one_order)
        assert numpy.load(again).flags.c_contiguous
        same({"": numpy.load(again)}, {"": one_order})
        same({"": numpy.asarray(east.load(path).array)}, {"": one_order})


def test_many_elements_in_fortran_order(east, tmp_path):
    """More of them than a transfer has ranges, which as they lie it needs not."""
    path, again = tmp_path / "x.npy", tmp_path / "again.npy"
    large = numpy.asfortranarray(values(700 * 300 * 10, "int8").reshape(700, 300, 10))
    numpy.save(path, large)
    loaded = east.load(path, checksum=True)
    assert len(loaded.transfers) == 1
    assert (numpy.asarray(loaded.array) == large).all()
    for given in (loaded.array, large):
        saved = east.save(again, given)
        assert len(saved) == 1
        same_order(again, large)
    with pytest.raises(onecopy.InvalidArgument, match="pieces"):
        east.transfer(loaded.array, numpy.zeros(large.shape, "int8"))


def test_fortran_order_on_a_gpu(gpu_node, gpu_pool, tmp_path):
    path, again = tmp_path / "x.npy", tmp_path / "again.npy"
    numpy.save(path, fortran())
    array = gpu_node.load(path, pool=gpu_pool).array
    assert array.__cuda_array_interface__["strides"] == array.strides == fortran().strides
    assert fake_gpus.read(array.pointer, array.nbytes) == fortran().tobytes("F")
    gpu_node.save(again, array)
    same_order(again, fortran())


def test_npy_files_that_are_not_loaded(east, tmp_path):
    path = tmp_path / "x.npy"
    for array, failure in [
        (values(5, ">i4"), onecopy.Unimplemented),
        (numpy.array(["a", "b"]), onecopy.Unimplemented),
        (numpy.zeros(3, [("a", "i4"), ("b", "f8")]), onecopy.Unimplemented),
        (numpy.array(["2020-01-01"], "M8[D]"), onecopy.Unimplemented),
        (numpy.array([None]), onecopy.Unimplemented),
    ]:
        numpy.save(path, array)
        with pytest.raises(failure) as refused:
            east.load(path)
        assert refused.value.remedy
    numpy.save(path, numpy.asfortranarray(values(60, "int16").reshape(1, 60)))  # either order
    assert numpy.asarray(east.load(path).array).tobytes() == values(60, "int16").tobytes()


def refused_by_numpy(path, failure):
    """Or of a type that arrays of ours do not have."""
    try:
        theirs = numpy.load(path)
    except Exception:  # it raises what it meets
        return
    assert isinstance(failure, onecopy.Unimplemented), failure
    assert theirs.dtype.kind not in "biufc" or theirs.dtype.char in "gG" or theirs.dtype.byteorder == ">", failure


def test_any_head_of_npy_is_read_as_numpy_reads_it_or_refused(east, tmp_path):
    chance = random.Random(14)
    path = tmp_path / "any.npy"
    numpy.save(path, values(60, "float32").reshape(3, 20))
    whole = path.read_bytes()
    read = 0
    for number in range(1500):
        changed = mutated(whole[:128], chance)
        path.write_bytes(changed + (whole[128:] if number % 3 else whole[128:-chance.randrange(1, 40)]))
        try:
            loaded = east.load(path)
        except onecopy.Error as failure:
            assert failure.reason == "BAD_FORMAT", failure  # noqa: PT017
            refused_by_numpy(path, failure)
            continue
        read += 1
        assert numpy.asarray(loaded.array).tobytes() == numpy.load(path).tobytes()
    assert read > 0
