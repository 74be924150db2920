"""Which tensors of a model's files are read, and in which batches: what vLLM's loader does, without torch."""

import contextlib
import json
import os

import pytest
import safetensors.numpy
from array_files import values

import onecopy
from onecopy.formats import _opened
from onecopy.integrations import _shard_plan


@pytest.fixture
def files(tmp_path):
    found = []
    for number in range(3):
        found.append(str(tmp_path / f"{number}.safetensors"))
        safetensors.numpy.save_file({f"{number}.a": values(1000, "int8", number), f"{number}.b": values(10, "int8")}, found[-1])
    return found


def plan(files, index=(), most=10_000, wanted=lambda name: True):
    with _opened.OpenFiles() as opened:
        made = _shard_plan.plan(opened, files, dict(index), most, wanted, on_host=True)
        return [(os.path.basename(each.file.name), [tensor.name for tensor in each.tensors]) for each in made]


def test_batches(files):
    assert [names for _, names in plan(files)] == [[f"{number}.a", f"{number}.b"] for number in range(3)]
    assert len(plan(files, most=999)) == 6
    assert plan(files, wanted=lambda name: name == "1.b") == [("1.safetensors", ["1.b"])]
    assert plan(files, wanted=lambda name: False) == []


def test_of_a_tensor_in_two_files_the_index_says_which_counts(files):
    safetensors.numpy.save_file({"0.a": values(1000, "int8", 9), "2.a": values(9, "int8"), "more": values(1, "int8")}, files[2])
    index = {"0.a": files[0], "0.b": files[0], "1.a": files[1], "1.b": files[1], "2.a": files[2]}
    assert plan(files, index) == [("0.safetensors", ["0.a", "0.b"]), ("1.safetensors", ["1.a", "1.b"]),
                                  ("2.safetensors", ["2.a", "more"])]
    assert plan(files, {**index, "0.a": files[2]})[0] == ("0.safetensors", ["0.b"])
    for wrong, says in (({}, "there is no index to choose"), ({**index, "1.a": files[0]}, "the index says that it has '1.a'"),
                        ({**index, "gone": files[1]}, "the index says that it has 'gone'")):
        with pytest.raises(onecopy.InvalidArgument, match=says) as failure:
            plan(files, wrong)
        assert failure.value.reason == "BAD_FORMAT"
    # Of a file that is not read at all: those that hold its tensors, too, do not count.
    assert plan(files[1:], {**index, "1.a": files[0]}) == [("1.safetensors", ["1.b"]), ("2.safetensors", ["2.a", "more"])]


def test_the_index_of_a_folder(files, tmp_path):
    assert _shard_plan.index_of(str(tmp_path), "model.safetensors.index.json") == {}
    text = {"weight_map": {"0.a": "0.safetensors", "x": "sub/y.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(text))
    assert _shard_plan.index_of(str(tmp_path), "model.safetensors.index.json") == {
        "0.a": files[0], "x": str(tmp_path / "sub" / "y.safetensors")}
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(onecopy.InvalidArgument, match="weight_map"):
        _shard_plan.index_of(str(tmp_path), "model.safetensors.index.json")


def test_few_files_are_open_at_a_time(tmp_path):
    """All that a model has may be more than a process may open."""
    files = [str(tmp_path / f"{number}.safetensors") for number in range(100)]
    for number, file in enumerate(files):
        safetensors.numpy.save_file({f"{number}": values(1, "int8")}, file)

    def open_here():
        """Descriptors of these files alone: others of the process come and go."""
        links = []
        for each in os.listdir("/proc/self/fd"):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile, as the one that lists is
                links.append(os.readlink(f"/proc/self/fd/{each}"))
        return sum(link.startswith(f"{tmp_path}/") for link in links)

    with _opened.OpenFiles() as opened:
        made = _shard_plan.plan(opened, files, {}, 100, lambda name: True, on_host=True)
        assert open_here() <= _opened._MOST_IDLE
        for each in made:
            with opened.use(each.file):
                assert os.fstat(each.file.fd).st_ino == os.stat(each.file.name).st_ino
    assert len(made) == 100
    assert open_here() == 0
