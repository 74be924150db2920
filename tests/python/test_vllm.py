"""vLLM's weight transfer by onecopy: a trainer on east and workers of vLLM on west, with vLLM's own modules.

Those are all Python files of its wheel (fetch_vllm.py); what is missing is its compiled part, which weight transfer does
without. A worker of vLLM calls its engine as `Worker` below does.
"""

import json
import os
import subprocess
import sys
import types

import fetch_vllm
import pytest

import onecopy
from users import present
from vllm_processes import VERSIONS, Failed, Remote

pytestmark = pytest.mark.skipif(not present("torch"), reason="torch is not installed: the suite python-matrix has it")
if present("torch"):
    import torch

    import onecopy.vllm


def weights(seed=0.0):
    """As a trainer has them: of several types, transposed, without elements, tied."""
    made = {f"layers.{number}.weight": torch.full((300, 7), seed + number) for number in range(6)}
    return {**made, "turned": torch.arange(12.0).reshape(3, 4).T + seed, "nothing": torch.zeros(0, 5),
            "half": torch.full((9,), seed, dtype=torch.bfloat16), "tied": made["layers.0.weight"],
            "parameter": torch.nn.Parameter(torch.full((5,), seed))}


def same(one, other):
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]) for name in one)


class Calls:
    """A client that keeps what a trainer asks for, as JSON, which is what HTTP carries."""

    def __init__(self):
        self.asked = []

    def __getattr__(self, name):
        return lambda *arguments: self.asked.append((name, *json.loads(json.dumps(arguments))))


# ---- the trainer's half, which needs no vLLM


@pytest.fixture
def trainer(pair):
    return onecopy.vllm.Trainer(Calls(), run_dir=pair.east.run_dir)


def asked(trainer, name):
    return [each[1] for each in trainer._client.asked if each[0] == name]


def test_a_round(trainer, pair):
    trainer.send(weights())
    assert [each[0] for each in trainer._client.asked] == [
        "init_weight_transfer_engine", "start_weight_update", "update_weights", "finish_weight_update"]
    info, = asked(trainer, "update_weights")
    assert info["names"] == list(weights())
    assert info["node"] == "east"
    assert info["dtype_names"][info["names"].index("half")] == "bfloat16"
    assert asked(trainer, "init_weight_transfer_engine")[0]["node"] == "east"


def test_weights_are_offered_in_batches_where_that_is_wanted(pair):
    trainer = onecopy.vllm.Trainer(Calls(), run_dir=pair.east.run_dir, batch_bytes=20_000)
    trainer.send(weights().items())
    batches = [info["names"] for info in asked(trainer, "update_weights")]
    assert len(batches) == 4  # 8,400 bytes a layer
    assert [name for names in batches for name in names] == list(weights())


def test_what_cannot_be_sent_is_refused(pair, trainer):
    with pytest.raises(onecopy.InvalidArgument, match="no plain bytes"):
        trainer.send({"sparse": torch.eye(3).to_sparse()})
    for wrong in ({"batch_bytes": 0}, {"room_bytes": -1}):
        with pytest.raises(onecopy.InvalidArgument):
            onecopy.vllm.Trainer(run_dir=pair.east.run_dir, **wrong)
    with pytest.raises(onecopy.InvalidArgument, match="no client"):
        onecopy.vllm.Trainer(run_dir=pair.east.run_dir).send({})


def test_without_a_daemon_a_trainer_says_so(folder):
    with pytest.raises(onecopy.Unavailable, match="onecopyd --name"):
        onecopy.vllm.Trainer(run_dir=folder)


# ---- the descriptions, from whoever sends them


@pytest.mark.parametrize(("change", "says"), [
    ({"names": "a"}, "instead of a list"),
    ({"names": []}, "0 names have 1 types"),
    ({"names": [1]}, "no text"),
    ({"dtype_names": ["float99"]}, "float99"),
    ({"dtype_names": ["Tensor"]}, "Tensor"),
    ({"dtype_names": [7]}, "7"),
    ({"shapes": [[-1]]}, "shape"),
    ({"shapes": ["ab"]}, "shape"),
    ({"shapes": [[3]]}, "SIZE_MISMATCH"),
    ({"places": [[0]]}, "place"),
    ({"places": [[1, [[0, 8, 0, 1]]]]}, "place"),
    ({"places": [[-1, [[0, 8, 0, 1]]]]}, "place"),
    ({"places": [[0, [[0, 8, 0]]]]}, "place"),
    ({"places": [[0, [[0, -8, 0, -1]]]]}, "place"),
    ({"places": [[True, [[0, 8, 0, 1]]]]}, "place"),
    ({"places": [None]}, "place"),
    ({"node": None}, "no text"),
    ({"buffers": None}, "instead of a list"),
])
def test_what_describes_no_weights_is_refused(change, says):
    from onecopy.integrations import _weights
    good = {"names": ["a"], "dtype_names": ["float32"], "shapes": [[2]], "node": "east", "buffers": ["b"],
            "places": [[0, [[0, 8, 0, 1]]]]}
    assert _weights.parse(**good)[0].bytes == 8
    with pytest.raises(onecopy.InvalidArgument, match=says):
        _weights.parse(**{**good, **change})


# ---- vLLM's half, in processes of their own: one for each version


WORKER = """
import types
import torch
import vllm
from vllm.plugins import load_general_plugins
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.config.weight_transfer import WeightTransferConfig

load_general_plugins()  # as every process of vLLM does
load_general_plugins()
import onecopy.vllm
onecopy.vllm.register()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(300, 7), requires_grad=False)
        self.register_buffer("scale", torch.zeros(4))
        self.loaded, self.calls = {}, 0

    def load_weights(self, weights):
        self.calls += 1
        for name, tensor in weights:
            assert name != "explode", "load_weights failed"
            self.loaded[name] = tensor.clone()


class Worker:
    '''Calls the engine as vLLM's gpu_worker does.'''

    def __init__(self):
        self.model = Model()
        config = WeightTransferConfig(backend="onecopy")
        parallel = types.SimpleNamespace()
        whole = types.SimpleNamespace(parallel_config=parallel, model_config=None)
        self.old = hasattr(__import__("vllm.distributed.weight_transfer.base", fromlist="x").WeightTransferUpdateInfo(),
                           "update_kind")
        rest = (parallel, self.model) if self.old else (whole, torch.device("cpu"), self.model)
        self.engine = WeightTransferEngineFactory.create_engine(config, *rest)

    def init_weight_transfer_engine(self, info):
        self.engine.init_transfer_engine(self.engine.parse_init_info(info))

    def start_weight_update(self):
        if not self.old:
            self.engine.start_weight_update()

    def update_weights(self, info):
        if self.old:
            self.engine.receive_weights(self.engine.parse_update_info(info), load_weights=self.model.load_weights)
        else:
            self.engine.update_weights(info)

    def finish_weight_update(self):
        if not self.old:
            self.engine.finish_weight_update()

    def state(self):
        '''What was loaded, and the parameters, as lists.'''
        all = {**self.model.loaded, **{"model." + name: each for name, each in self.model.state_dict().items()}}
        return {name: [str(each.dtype), each.tolist()] for name, each in all.items()}

    def calls(self):
        return self.model.calls

    def receipts(self):
        return [[each.update, each.tensors, each.receipt.path, str(each)] for each in onecopy.vllm.receipts()]

    def printed(self):
        return onecopy.vllm.printed(self)

    def version(self):
        return vllm.__version__

    def shutdown(self):
        self.engine.shutdown()


serve(Worker())
"""


class Worker(Remote):
    """Which is a VLLMWeightSyncClient as well."""

    def state(self):
        return {name: torch.tensor(values, dtype=getattr(torch, dtype.rpartition(".")[2]))
                for name, (dtype, values) in self.call("state").items()}

    def loaded(self):
        return {name: each for name, each in self.state().items() if not name.startswith("model.")}


@pytest.fixture(scope="module", params=VERSIONS)
def workers(request, pair):
    made = Worker(request.param, pair.west.run_dir, WORKER)
    assert made.version() == request.param
    yield made
    made.end()


def received(worker, trainer, sent):
    """Whether the worker has loaded what was sent, in a round without the reload of vLLM's own layers."""
    with trainer.offer(sent) as offered:
        worker.update_weights(json.loads(json.dumps(offered.update_info)))
    got = worker.loaded()
    return all(got[name].dtype == each.dtype and torch.equal(got[name].reshape(each.shape), each.detach())
               for name, each in sent.items())


def trainer_of(pair, worker, **options):
    return onecopy.vllm.Trainer(worker_init(worker), run_dir=pair.east.run_dir, **options)


def worker_init(worker):
    return types.SimpleNamespace(init_weight_transfer_engine=worker.init_weight_transfer_engine)


def test_a_model_arrives_by_one_transfer(pair, workers):
    trainer = trainer_of(pair, workers, checksum=True)
    before = len(workers.receipts())
    assert received(workers, trainer, weights(2.0))
    (update, tensors, path, text), = workers.receipts()[before:]
    assert tensors == len(weights())
    assert path == "tcp-bounce"
    assert f"update {update}, {tensors} tensors: east:" in text
    assert "equal at both ends" in text
    assert workers.printed()[-1] == text


def test_the_next_round_has_what_changed(pair, workers):
    trainer = trainer_of(pair, workers)
    sent = weights(3.0)
    assert received(workers, trainer, sent)
    sent["layers.1.weight"].fill_(77.0)
    assert received(workers, trainer, sent)


def test_more_than_the_room_comes_in_batches(pair, workers):
    trainer = trainer_of(pair, workers, room_bytes=20_000)
    before, calls = len(workers.receipts()), workers.calls()
    assert received(workers, trainer, weights(4.0))
    assert len(workers.receipts()) - before == workers.calls() - calls == 4


def test_in_place(pair, workers):
    trainer = trainer_of(pair, workers, in_place=True)
    sent = {"weight": torch.rand(300, 7), "scale": torch.rand(4)}
    calls = workers.calls()
    workers.start_weight_update()
    with trainer.offer(sent) as offered:
        workers.update_weights(offered.update_info)
    workers.finish_weight_update()
    state = workers.state()
    assert all(torch.equal(state["model." + name], each) for name, each in sent.items())
    assert workers.calls() == calls
    kept = state["model.weight"]
    for wrong, says in (({"weight": torch.zeros(7, 300)}, "was sent as"), ({"other": torch.zeros(1)}, "not in the model"),
                        ({"weight": torch.zeros(300, 7, dtype=torch.float16)}, "float16")):
        with trainer.offer(wrong) as offered, pytest.raises(Failed, match=says):
            workers.update_weights(offered.update_info)
    assert torch.equal(workers.state()["model.weight"], kept)


def test_a_policy_that_no_path_meets_is_refused(pair, workers):
    trainer = trainer_of(pair, workers, path="rdma-*")
    with trainer.offer(weights()) as offered, pytest.raises(Failed, match="POLICY_UNMET"):
        workers.update_weights(offered.update_info)
    assert received(workers, trainer_of(pair, workers), weights(5.0))


def test_weights_that_are_gone_are_an_error(pair, workers):
    trainer = trainer_of(pair, workers)
    with trainer.offer({"gone": torch.ones(1000)}) as offered:
        info = offered.update_info
    del offered
    with pytest.raises(Failed, match="NotFound: BUFFER_NOT_FOUND"):
        workers.update_weights(info)
    assert received(workers, trainer, weights(6.0))


def test_what_load_weights_raises_comes_through(pair, workers):
    trainer = trainer_of(pair, workers, room_bytes=1)  # a batch for each, the next one on its way
    with trainer.offer({"explode": torch.ones(1000), "next": torch.ones(1000)}) as offered:
        with pytest.raises(Failed, match="load_weights failed"):
            workers.update_weights(offered.update_info)
    assert received(workers, trainer_of(pair, workers), weights(7.0))


def test_nonsense_is_refused(pair, workers):
    with pytest.raises(Failed, match="init_info"):
        workers.init_weight_transfer_engine({"nothing": 1})
    with pytest.raises(Failed, match="room_bytes"):
        workers.init_weight_transfer_engine({"room_bytes": 0})
    with pytest.raises(Failed, match="NODE_UNKNOWN.*--peer north"):
        workers.init_weight_transfer_engine({"node": "north"})
    with pytest.raises(Failed, match="update_info"):
        workers.update_weights({"names": []})


def test_a_worker_that_let_go_of_a_trainer_takes_the_next_one(pair, workers):
    workers.shutdown()
    assert received(workers, trainer_of(pair, workers), weights(8.0))


# ---- the trainer's engine of vLLM, where it has one

TRAINER = """
import json, sys
import torch
import vllm.plugins
from vllm.distributed.weight_transfer import ModuleSource, WeightTransferTrainerFactory
vllm.plugins.load_general_plugins()
from onecopy.vllm import OneCopyTrainerInitInfo

class Client:
    def __getattr__(self, name):
        return lambda *arguments: print("asked", json.dumps([name, *arguments]), flush=True)

model = torch.nn.Linear(3, 2)
for rank in (0, 1):
    made = WeightTransferTrainerFactory.trainer_init(
        OneCopyTrainerInitInfo(rank=rank, batch_bytes=24), client=Client(), source=ModuleSource(model))
    made.send_weights()
    made.shutdown()
try:
    WeightTransferTrainerFactory.trainer_init(OneCopyTrainerInitInfo(rank=0), client=Client())
except ValueError as failure:
    print("refused", failure)
"""


@pytest.mark.skipif("0.33.0" not in VERSIONS, reason="vLLM 0.33 is not there")
def test_vllms_own_factory_makes_the_trainer(pair):
    env = dict(os.environ, ONECOPY_RUN_DIR=str(pair.east.run_dir), PYTHONPATH=str(fetch_vllm.place("0.33.0")),
               VLLM_LOGGING_LEVEL="ERROR")
    done = subprocess.run([sys.executable, "-c", TRAINER], env=env, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    asked = [json.loads(line.partition(" ")[2]) for line in done.stdout.splitlines() if line.startswith("asked")]
    assert [each[0] for each in asked] == [
        "init_weight_transfer_engine", "start_weight_update", "update_weights", "update_weights", "finish_weight_update"]
    assert [each[1]["names"] for each in asked[2:4]] == [["weight"], ["bias"]]
    assert asked[0][1]["node"] == "east"
    assert "refused" in done.stdout


def test_a_vllm_without_weight_transfer_is_left_alone(tmp_path):
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").touch()
    subprocess.run([sys.executable, "-c", "import onecopy.vllm; onecopy.vllm.register()"], check=True, timeout=120,
                   env=dict(os.environ, PYTHONPATH=str(tmp_path)))


@pytest.mark.skipif(not (present("torch") and torch.cuda.is_available()), reason="no GPU")
def test_on_a_gpu(pair, east, west):
    """Without vLLM: what its engine does with what a trainer sends."""
    from onecopy import _native
    from onecopy.integrations import _weights
    sent = {name: each.detach().cuda() for name, each in weights(1.0).items()}
    with onecopy.vllm.Offer(east, sent.items()) as offered:
        described = _weights.parse(**json.loads(json.dumps(offered.update_info)))
        with _weights.Reader(west, described, "cuda:0", 20_000, _weights.Policy()) as reader:
            got = {name: each for named, _ in reader for name, each in named}
        assert all(each.is_cuda for each in got.values())
        assert same(got, sent)
        targets = _weights.targets_in({name: torch.empty_like(each, memory_format=torch.contiguous_format)
                                       for name, each in sent.items()}, described)
        done = _weights.Policy(checksum=True).read(west, described, targets, _native.Stop())
        assert all(torch.equal(one, other) for one, other in zip(targets, sent.values(), strict=True))
        assert all(each.receipt.checksum.verified for each in done)
