"""Files of one array: .npy, loaded and saved."""

import random

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


def test_npy_files_that_are_not_loaded(east, tmp_path):
    path = tmp_path / "x.npy"
    for array, failure in [
        (numpy.asfortranarray(values(60, "int16").reshape(5, 12)), onecopy.Unimplemented),
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
            continue
        read += 1
        assert numpy.asarray(loaded.array).tobytes() == numpy.load(path).tobytes()
    assert read > 0
