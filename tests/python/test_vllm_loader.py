"""vLLM's model loader by onecopy: `--load-format onecopy`, with vLLM's own modules, of which it is made.

Those are all Python files of its wheel (fetch_vllm.py). Its compiled part and its engine are missing: the loader is made by
vLLM's factory and called as its workers do, for a model that keeps what it gets.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import safetensors.numpy
from array_files import values

import onecopy
from users import present
from vllm_processes import VERSIONS, Failed, Remote

pytestmark = pytest.mark.skipif(not present("torch"), reason="torch is not installed: the suite python-matrix has it")

WORKER = """
import gc
import types
import torch
import vllm
from safetensors.torch import load_file
from vllm.plugins import load_general_plugins
load_general_plugins()  # as every process of vLLM does
import onecopy.vllm
onecopy.vllm.register()
import vllm.config.vllm
from vllm.config.load import LoadConfig
from vllm.model_executor.model_loader import BaseModelLoader, get_model_loader

vllm.config.vllm._current_vllm_config = types.SimpleNamespace(
    engram_config=None, parallel_config=types.SimpleNamespace(enable_expert_parallel=False))


class Model(torch.nn.Module):
    def __init__(self, names, keep):
        super().__init__()
        self.keep, self.kept, self.most_bytes, self.seen = keep, {}, 0, []
        for name in names:
            self.register_parameter(name.replace(".", "_"), torch.nn.Parameter(torch.zeros(1)))

    def load_weights(self, weights):
        loaded = set()
        for name, tensor in weights:
            self.seen.append(name)
            self.kept[name] = tensor if self.keep else tensor.clone()
            held = sum(each.bytes for each in onecopy.vllm.worker_node().buffers())
            self.most_bytes = max(self.most_bytes, held)
            loaded.add(name.replace(".", "_"))
            del tensor
        return loaded


class Worker:
    def load(self, folder, config=None, keep=False, experts=None, secondary=None, parameters=(), **options):
        '''The names that came, in their order; the bytes that moved; the most that buffers had; and their paths.'''
        before = len(onecopy.vllm.receipts())
        self.model = Model(parameters, keep)
        loader = get_model_loader(LoadConfig(load_format="onecopy", model_loader_extra_config=config or {}, **options))
        assert isinstance(loader, BaseModelLoader) and isinstance(loader, onecopy.vllm.OneCopyModelLoader)
        if secondary:
            self.model.secondary_weights = [loader.Source(secondary, revision=None, prefix="second.")]
        described = types.SimpleNamespace(model=folder, revision=None, quantization=None, multimodal_config=None, is_moe=False)
        loader.local_expert_ids = None if experts is None else set(experts)
        loader.download_model(described)
        loader.load_weights(self.model, described)
        moved = onecopy.vllm.receipts()[before:]
        return [list(self.model.kept), sum(each.transfer.bytes for each in moved), self.model.most_bytes,
                [each.receipt.path for each in moved], [str(each) for each in moved]]

    def load_by_vllm(self, folder):
        '''The names that come from vLLM's own loader, in their order.'''
        self.model = Model((), False)
        loader = get_model_loader(LoadConfig(load_format="safetensors"))
        loader.local_expert_ids = None
        loader.load_weights(self.model, types.SimpleNamespace(
            model=folder, revision=None, quantization=None, multimodal_config=None, is_moe=False))
        return self.model.seen

    def load_with(self, keywords):
        return self.load(**keywords)

    def equal(self, files, prefix=""):
        '''Whether what was kept is what safetensors loads.'''
        expected = {prefix + name: each for file in files for name, each in load_file(file).items()}
        kept = {name: each for name, each in self.model.kept.items() if name.startswith(prefix)}
        return kept.keys() == expected.keys() and all(
            kept[name].dtype == each.dtype and kept[name].shape == each.shape
            and torch.equal(kept[name].contiguous().view(torch.uint8), each.view(torch.uint8)) if each.dim() else
            torch.equal(kept[name], each) for name, each in expected.items())

    def left(self):
        gc.collect()
        return len(onecopy.vllm.worker_node().buffers())

    def let_go(self):
        self.model = None

    def version(self):
        return vllm.__version__


serve(Worker())
"""


@pytest.fixture(scope="module", params=VERSIONS)
def worker(request, pair):
    made = Remote(request.param, pair.west.run_dir, WORKER)
    assert made.version() == request.param
    yield made
    made.end()


def shard(number):
    return {f"layers.{number}.{name}": each for name, each in {
        "weight": values(30_000, "float32", number).reshape(100, 300), "half": values(1001, "float16", number),
        "bias": values(7, "float64", number), "empty": values(0, "float32").reshape(0, 3), "one": values(1, "int64").reshape(()),
        "experts.0.weight": values(5000, "int8", number), "experts.1.weight": values(5000, "int8", number + 1)}.items()}


def bytes_of(arrays):
    return sum(each.nbytes for each in arrays.values())


@pytest.fixture
def model(tmp_path):
    """In three files, with one beside them that is none of the model's."""
    files = []
    for number in range(3):
        files.append(tmp_path / f"model-0000{number}-of-00003.safetensors")
        safetensors.numpy.save_file(shard(number), files[-1])
    safetensors.numpy.save_file({"else": values(9, "int8")}, tmp_path / "consolidated.safetensors")
    weights = {name: files[number].name for number in range(3) for name in shard(number)}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weights}))
    return tmp_path, list(map(str, files))


def load(worker, folder, **options):
    return worker.load_with({"folder": str(folder), **options})


def test_a_model_is_loaded(worker, model):
    folder, files = model
    names, moved, _, paths, texts = load(worker, folder, config={"checksum": True})
    assert worker.equal(files)
    assert set(names) == {name for number in range(3) for name in shard(number)}
    assert [name.split(".")[1] for name in names] == sorted(name.split(".")[1] for name in names)  # file after file
    assert moved == sum(bytes_of(shard(number)) for number in range(3))
    assert set(paths) == {"storage-bounce"}
    assert len(paths) == 3  # a request for each file
    assert all(text.startswith("load, 7 tensors: ") and "equal at both ends" in text for text in texts)


def test_little_memory_is_needed(worker, model):
    folder, files = model
    worker.let_go()
    names, moved, most, paths, _ = load(worker, folder, config={"staging_bytes": 10_000})
    assert worker.equal(files)
    largest = shard(0)["layers.0.weight"].nbytes  # has more, and goes alone
    assert len(paths) > 9
    assert most <= 2 * (largest + 3 * 4096)
    assert moved == sum(bytes_of(shard(number)) for number in range(3))


def test_what_the_model_keeps_stays_as_it_is(worker, model):
    folder, files = model
    load(worker, folder, config={"staging_bytes": 4000}, keep=True)
    assert worker.equal(files)
    worker.let_go()
    assert worker.left() == 0


def test_of_a_tensor_in_two_files_the_index_says_which_counts(worker, model):
    """vLLM's own loader reads both, and the model keeps the last: this is the difference between the two."""
    folder, files = model
    stale = values(30_000, "float32", 99).reshape(100, 300)
    safetensors.numpy.save_file({**shard(2), "layers.0.weight": stale}, files[2])
    names, moved, *_ = load(worker, folder)
    assert names.count("layers.0.weight") == 1
    assert moved == sum(bytes_of(shard(number)) for number in range(3))
    assert worker.equal([files[2], files[0], files[1]])  # of which the last counts
    assert worker.load_by_vllm(str(folder)).count("layers.0.weight") == 2
    assert worker.equal([files[0], files[1], files[2]])
    # Without an index nothing says so.
    index = folder / "model.safetensors.index.json"
    right = index.read_text()
    index.unlink()
    (folder / "consolidated.safetensors").unlink()
    with pytest.raises(Failed, match=r"layers\.0\.weight.*no index says which one counts"):
        load(worker, folder)
    # One that names a file without the tensor is wrong.
    index.write_text(right.replace('"layers.1.one": "model-00001', '"layers.1.one": "model-00000'))
    with pytest.raises(Failed, match=r"the index says that it has 'layers\.1\.one'"):
        load(worker, folder)


def test_tensors_that_no_index_names_are_read(worker, model):
    folder, files = model
    safetensors.numpy.save_file({**shard(1), "more": values(9, "int8")}, files[1])
    names, *_ = load(worker, folder)
    assert "more" in names
    assert worker.equal(files)


def test_experts_of_others_are_not_read(worker, model):
    folder, _ = model
    names, moved, *_ = load(worker, folder, experts=[1])
    assert set(names) == {name for number in range(3) for name in shard(number) if "experts.0" not in name}
    assert moved == sum(bytes_of(shard(number)) - 5000 for number in range(3))


def test_weights_of_a_second_model(worker, model, tmp_path_factory):
    second = tmp_path_factory.mktemp("second") / "model.safetensors"
    safetensors.numpy.save_file(shard(7), second)
    load(worker, model[0], secondary=str(second.parent))
    assert worker.equal([str(second)], "second.")


def test_parameters_without_weights_are_noticed(worker, model):
    load(worker, model[0], parameters=["layers.0.weight"])
    with pytest.raises(Failed, match=r"not initialized.*nobody"):
        load(worker, model[0], parameters=["layers.0.weight", "nobody"])
    load(worker, model[0], parameters=["nobody"], config={"enable_weights_track": False})


def test_what_is_wrong_is_said(worker, model):
    folder, files = model
    for config, says in (({"stagingbytes": 1}, "staging_bytes"), ({"staging_bytes": 0}, "staging_bytes"),
                         ({"staging_bytes": True}, "staging_bytes"), ({"checksum": 1}, "checksum"), ({"run_dir": 3}, "run_dir"),
                         ({"at_most": 1}, "POLICY_UNMET"), ({"run_dir": "/nowhere"}, "DAEMON_UNREACHABLE")):
        with pytest.raises(Failed, match=says):
            load(worker, folder, config=config)
    with pytest.raises(Failed, match="safetensors_load_strategy"):
        load(worker, folder, safetensors_load_strategy="eager")
    last = pathlib.Path(files[2])
    whole = last.read_bytes()
    last.write_bytes(whole[:-1])
    worker.let_go()
    with pytest.raises(Failed, match="BAD_FORMAT"):
        load(worker, folder)
    assert worker.left() == 0  # the heads of all files are looked at first
    last.write_bytes(whole)
    load(worker, folder)
    for each in files:
        os.rename(each, each.replace(".safetensors", ".bin"))
    for each in ("consolidated.safetensors", "model.safetensors.index.json"):
        (folder / each).unlink()
    with pytest.raises(Failed, match="weights"):
        load(worker, folder)


OTHER = {
    "vllm/__init__.py": "__version__ = '9.9'",
    "vllm/model_executor/__init__.py": "",
    "vllm/model_executor/model_loader/__init__.py": """
_LOAD_FORMAT_TO_MODEL_LOADER = {}
def register_model_loader(name):
    return lambda made: _LOAD_FORMAT_TO_MODEL_LOADER.__setitem__(name, made)
""",
    "vllm/model_executor/model_loader/default_loader.py": """
class DefaultModelLoader:
    def __init__(self, load_config): raise AssertionError("not to be reached")
    def _prepare_weights(self, model): pass
    def _get_weights_iterator(self, source): pass
""",
    "vllm/model_executor/model_loader/weight_utils.py": "def enable_tqdm(use): return use",
    "vllm/model_executor/model_loader/ep_weight_filter.py": "def should_skip_weight(name, ids): return False",
}


@pytest.mark.parametrize("without", [None, "ep_weight_filter", "weight_utils"])
def test_a_vllm_whose_loader_is_another_one_is_named(tmp_path, without):
    for name, text in OTHER.items():
        if without is not None and without in name:
            continue
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", "import onecopy.vllm; onecopy.vllm.register()\n"
         "from vllm.model_executor.model_loader import _LOAD_FORMAT_TO_MODEL_LOADER as made\n"
         "made['onecopy'](None)"], env=dict(os.environ, PYTHONPATH=str(tmp_path)), capture_output=True, text=True, check=False,
        timeout=120)
    assert "Unimplemented" in done.stderr
    assert "vLLM 9.9" in done.stderr


def test_batches_without_vllm(east, model):
    """As the loader reads them."""
    import torch

    from onecopy.formats import _array_files
    from onecopy.integrations import _shards
    files = model[1]
    with _shards.Reader(east, files, "cpu", 50_000, lambda name: "half" in name or "bias" in name,
                        _array_files.options(None, True, None)) as reader:
        assert reader.tensors == 6
        got = [(name, tensor.clone()) for named, _ in reader for name, tensor in named]
    assert [name for name, _ in got] == [f"layers.{number}.{name}" for number in range(3) for name in ("bias", "half")]
    assert all(tensor.equal(torch.from_numpy(shard(int(name.split(".")[1]))[name])) for name, tensor in got)
    if hasattr(torch, "float4_e2m1fn_x2"):
        import safetensors.torch

        pairs = torch.arange(24, dtype=torch.uint8).reshape(2, 12).view(torch.float4_e2m1fn_x2)
        safetensors.torch.save_file({"pairs": pairs}, files[0] + ".pairs.safetensors")
        with _shards.Reader(east, [files[0] + ".pairs.safetensors"], "cpu", 50_000, lambda name: True,
                            _array_files.options(None, False, None)) as reader:
            (_, tensor), = (each for named, _ in reader for each in named)
            assert (tensor.dtype, tensor.shape) == (pairs.dtype, pairs.shape)
            assert tensor.view(torch.uint8).equal(pairs.view(torch.uint8))
    safetensors.numpy.save_file({"layers.0.bias": values(7, "float64", 99)}, files[0] + ".stale.safetensors")
    index = {name: files[number] for number in range(3) for name in shard(number)}
    with _shards.Reader(east, [*files, files[0] + ".stale.safetensors"], "cpu", 50_000, lambda name: name == "layers.0.bias",
                        _array_files.options(None, False, None), index) as reader:
        (name, tensor), = (each for named, _ in reader for each in named)
        assert tensor.equal(torch.from_numpy(shard(0)["layers.0.bias"]))
    reader = _shards.Reader(east, files, "cpu", 50_000, lambda name: True, _array_files.options(None, False, None))
    reader.close()  # in the midst of it
    with pytest.raises(onecopy.NotFound):
        _shards.Reader(east, [*files, files[0] + ".gone"], "cpu", 1, lambda name: True, _array_files.options(None, False, None))
