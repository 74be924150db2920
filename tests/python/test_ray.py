"""Ray's Direct Transport by onecopy: actors on two nodes, of one machine."""

import concurrent.futures
import gc
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import onecopy
from users import present

INSTALLED = present("ray") and present("torch")
pytestmark = pytest.mark.skipif(not INSTALLED, reason="ray and torch are not installed: the suite python-matrix has them")
if INSTALLED:
    import ray
    import ray.experimental
    import torch

    import onecopy.ray
    from onecopy.ray import OneCopyTransport

LAYERS = 12


def weights(seed=0.0):
    """Of a small model, and what else a tensor may be."""
    made = {f"layer.{number}": torch.full((1000 + number,), seed + number) for number in range(LAYERS)}
    return {**made, "transposed": torch.arange(12).reshape(3, 4).T, "nothing": torch.zeros(0, 5), "one": torch.tensor(7),
            "half": torch.ones(3, dtype=torch.bfloat16), "truth": torch.tensor([True, False]),
            "conjugate": torch.tensor([1 + 2j]).conj(), "repeated": torch.tensor([[3.0]]).expand(4, 5)}


def targets():
    """Room for them."""
    return [each.contiguous().resolve_conj() for each in weights(9.0).values()]


def same(one, other):
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]) for name in one)


class Plain:
    """What the actors do."""

    def __init__(self):
        self.kept = weights()

    def make(self, seed=0.0):
        return weights(seed)

    def give_kept(self):
        return self.kept

    def give_sparse(self):
        return torch.eye(3).to_sparse()

    def put(self):
        return [ray.put(self.kept, _tensor_transport="onecopy")]

    def equal(self, got, seed=0.0):
        return same(got, weights(seed))

    def receipts(self):
        return [(each.object_id, each.tensors, each.receipt.path, [step.by for step in each.receipt.steps])
                for each in onecopy.ray.receipts()]

    def fetch_into(self, refs):
        target = targets()
        ray.experimental.set_target_for_ref(refs[0], target)
        got = ray.get(refs[0])
        return [a.data_ptr() for a in got.values()] == [b.data_ptr() for b in target] and same(got, weights())

    def die(self):
        os._exit(1)


@pytest.fixture(scope="module")
def cluster(pair):
    """Ray, with this process on east."""
    before = os.environ.get("ONECOPY_RUN_DIR")
    os.environ["ONECOPY_RUN_DIR"] = str(pair.east.run_dir)
    onecopy.ray._node.cache_clear()
    onecopy.ray.register()
    onecopy.ray.register()
    ray.init(num_cpus=2, object_store_memory=200 << 20, include_dashboard=False, logging_level="ERROR",
             log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": os.path.dirname(__file__)}})
    yield pair
    ray.shutdown()
    onecopy.ray._node.cache_clear()
    os.environ.pop("ONECOPY_RUN_DIR")
    if before is not None:
        os.environ["ONECOPY_RUN_DIR"] = before


def actor(run_dir):
    """On the node of that daemon."""
    kind = type("Actor", (Plain,), {
        name: ray.method(tensor_transport="onecopy")(getattr(Plain, name)) for name in ("make", "give_kept", "give_sparse")})
    return ray.remote(num_cpus=0, enable_tensor_transport=True)(kind).options(
        runtime_env={"env_vars": {"ONECOPY_RUN_DIR": str(run_dir), "PYTHONPATH": os.path.dirname(__file__)}}).remote()


@pytest.fixture(scope="module")
def sender(cluster):
    return actor(cluster.west.run_dir)


@pytest.fixture(scope="module")
def receiver(cluster):
    return actor(cluster.east.run_dir)


def ids(daemon):
    return {each["id"] for each in daemon.cli("buffer", "ls")}


def wait_until(true, what):
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, what
        gc.collect()
        time.sleep(0.05)


def test_a_state_dict_from_one_node_to_another(sender, receiver):
    before = len(ray.get(receiver.receipts.remote()))
    ref = sender.make.remote(2.0)
    assert ray.get(receiver.equal.remote(ref, 2.0))
    done = ray.get(receiver.receipts.remote())[before:]
    assert [each[0] for each in done] == [ref.hex()]  # one transfer
    assert done[0][1:] == (LAYERS + 7, "tcp-bounce", ["client", "cpu", "wire", "cpu"])


def test_get_by_the_driver(sender):
    before = len(onecopy.ray.receipts())
    assert same(ray.get(sender.make.remote()), weights())
    received, = onecopy.ray.receipts()[before:]
    assert received.receipt.copies == 4
    assert "process -> slab" in str(received)


def test_several_objects_at_once(sender, receiver):
    refs = [sender.make.remote(float(seed)) for seed in range(10)]
    for seed, got in enumerate(ray.get(refs)):
        assert same(got, weights(float(seed)))
    assert all(ray.get([receiver.equal.remote(ref, float(seed)) for seed, ref in enumerate(refs)]))


def test_put(sender, receiver):
    ref, = ray.get(sender.put.remote())
    assert same(ray.get(ref), weights())
    mine = ray.put(weights(4.0), _tensor_transport="onecopy")
    assert ray.get(receiver.equal.remote(mine, 4.0))


def test_into_given_tensors(sender, receiver):
    ref = sender.make.remote()
    target = targets()
    ray.experimental.set_target_for_ref(ref, target)
    got = ray.get(ref)
    assert [each.data_ptr() for each in got.values()] == [each.data_ptr() for each in target]
    assert same(got, weights())
    assert ray.get(receiver.fetch_into.remote(ray.get(sender.put.remote())))


def test_what_was_received_may_be_kept_in_part(sender, cluster):
    before = ids(cluster.east)
    got = ray.get(sender.make.remote())
    last = got["layer.3"]
    del got
    gc.collect()
    assert (last == 3).all()
    assert len(ids(cluster.east) - before) == 1
    del last
    wait_until(lambda: not ids(cluster.east) - before, "the room is still registered")


def test_weights_stay_registered_and_what_was_made_does_not(sender, cluster):
    ray.get(sender.give_kept.remote())
    before = ids(cluster.west)
    for _ in range(3):
        assert same(ray.get(sender.give_kept.remote()), weights())
    ref = sender.make.remote()
    ray.get(ref)
    assert len(ids(cluster.west) - before) >= LAYERS
    del ref
    wait_until(lambda: len(ids(cluster.west) - before) <= 2, "what Ray has freed is still registered")  # 2: made anew


def test_a_timeout_leaves_both_sides_usable(sender, receiver, cluster):
    ref = sender.make.remote()
    ray.wait([ref], fetch_local=False, timeout=60)
    cluster.west.signal(signal.SIGSTOP)
    try:
        with pytest.raises(ray.exceptions.GetTimeoutError):
            ray.get(ref, timeout=1)
    finally:
        cluster.west.signal(signal.SIGCONT)
    wait_until(lambda: not transport_of_this_process()._running, "it still runs")
    assert same(ray.get(ref), weights())
    assert ray.get(receiver.equal.remote(ref))


def transport_of_this_process():
    """As Ray has made it."""
    from ray.experimental.rdt.util import get_tensor_transport_manager

    return get_tensor_transport_manager(onecopy.ray.NAME)


def test_a_sender_that_dies(cluster, receiver):
    lost = actor(cluster.west.run_dir)
    ref = lost.make.remote()
    assert same(ray.get(ref), weights())
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(lost.die.remote())
    with pytest.raises(ray.exceptions.RayError) as failure:
        ray.get(ref)
    assert "did not arrive through onecopy" in str(failure.value)
    with pytest.raises(ray.exceptions.RayError):
        ray.get(receiver.equal.remote(ref))
    again = actor(cluster.west.run_dir)
    assert ray.get(receiver.equal.remote(again.make.remote()))


def test_a_receiver_that_dies(cluster, sender, receiver):
    lost = actor(cluster.east.run_dir)
    ref = sender.make.remote()
    assert ray.get(lost.equal.remote(ref))
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(lost.die.remote())
    assert ray.get(receiver.equal.remote(ref))


def test_tensors_without_plain_bytes_are_refused(sender):
    with pytest.raises(ray.exceptions.RayTaskError, match="no plain bytes"):
        ray.get(sender.give_sparse.remote())


def test_an_actor_without_a_daemon_says_so(cluster, folder):
    alone = actor(folder)
    with pytest.raises(onecopy.Unavailable, match="onecopyd --name"):
        alone.make.remote()


def test_without_a_daemon_register_says_so(folder):
    done = subprocess.run([sys.executable, "-c", "import onecopy.ray; onecopy.ray.register()"], text=True,
                          capture_output=True, env=dict(os.environ, ONECOPY_RUN_DIR=str(folder)), check=False, timeout=120)
    assert done.returncode == 1
    assert "Unavailable: DAEMON_UNREACHABLE" in done.stderr
    assert "onecopyd --name" in done.stderr


class TestTransport:
    """The transport alone, in one process."""

    @pytest.fixture
    def ours(self, cluster):
        return OneCopyTransport()

    @staticmethod
    def offer(transport, node, monkeypatch, name, tensors):
        """As an actor on that node does it."""
        with monkeypatch.context() as patched:
            patched.setattr(onecopy.ray, "_node", lambda: node)
            return transport.extract_tensor_transport_metadata(name, tensors)

    def test_abort_ends_what_runs_and_nothing_else(self, ours, cluster, west, monkeypatch):
        tensors = [torch.arange(1 << 20, dtype=torch.float32)]
        meta = self.offer(ours, west, monkeypatch, "one", tensors)
        cluster.west.signal(signal.SIGSTOP)
        try:
            fetch = ours.fetch_multiple_tensors("one", meta, None)
            with pytest.raises(TimeoutError):
                ours.wait_fetch_complete(fetch, timeout=0.2)
            ours.abort_transport("one", None)
        finally:
            cluster.west.signal(signal.SIGCONT)
        with pytest.raises(ray.exceptions.RayDirectTransportError, match="CANCELLED"):
            ours.wait_fetch_complete(fetch)
        ours.abort_transport("one", None)  # late: it has ended
        got, = ours.recv_multiple_tensors("one", meta, None)
        assert torch.equal(got, tensors[0])
        ours.garbage_collect("one", meta, tensors)

    def test_abort_before_it_began(self, ours, west, monkeypatch):
        tensors = [torch.ones(4)]
        meta = self.offer(ours, west, monkeypatch, "early", tensors)
        ours.abort_transport("early", None)
        with pytest.raises(ray.exceptions.RayDirectTransportError, match="aborted"):
            ours.recv_multiple_tensors("early", meta, None)
        assert torch.equal(ours.recv_multiple_tensors("early", meta, None)[0], tensors[0])

    def test_a_fetch_that_nobody_wants_is_cancelled(self, ours, cluster, west, monkeypatch):
        meta = self.offer(ours, west, monkeypatch, "dropped", [torch.ones(1 << 20)])
        cluster.west.signal(signal.SIGSTOP)
        try:
            fetch = ours.fetch_multiple_tensors("dropped", meta, None)
            future = fetch.future
            del fetch
            gc.collect()
        finally:
            cluster.west.signal(signal.SIGCONT)
        with pytest.raises((onecopy.Cancelled, concurrent.futures.CancelledError)):
            future.result(60)

    def test_what_was_offered_is_kept_until_it_is_freed(self, ours, cluster, west, monkeypatch):
        before = ids(cluster.west)
        tensors = [torch.ones(10_000), torch.zeros(0)]
        meta = self.offer(ours, west, monkeypatch, "kept", tensors)
        assert len(ids(cluster.west) - before) == 1
        del tensors
        gc.collect()
        got, empty = ours.recv_multiple_tensors("kept", meta, None)
        assert (got == 1).all()
        assert empty.shape == (0,)
        ours.garbage_collect("kept", meta, [])
        ours.garbage_collect("kept", meta, [])
        gc.collect()
        assert not ids(cluster.west) - before
        with pytest.raises(ray.exceptions.RayDirectTransportError, match="BUFFER_NOT_FOUND"):
            ours.recv_multiple_tensors("kept", meta, None)

    def test_an_object_that_was_made_again_is_offered_once(self, ours, west, monkeypatch, cluster):
        before = ids(cluster.west)
        for _ in range(3):
            self.offer(ours, west, monkeypatch, "again", [torch.ones(100)])
        gc.collect()
        assert len(ids(cluster.west) - before) == 1
        ours.garbage_collect("again", None, [])
        gc.collect()
        assert not ids(cluster.west) - before

    def test_an_object_without_tensors(self, ours, west, monkeypatch):
        meta = self.offer(ours, west, monkeypatch, "empty", [])
        assert ours.recv_multiple_tensors("empty", meta, None) == []

    def test_many_tensors_take_as_few_transfers_as_can_be(self, ours, west, monkeypatch):
        monkeypatch.setattr(onecopy.core.requests._pieces, "MOST_BUFFERS", 4)
        tensors = [torch.full((10,), float(number)) for number in range(10)]
        meta = self.offer(ours, west, monkeypatch, "many", tensors)
        before = len(onecopy.ray.receipts())
        for one, other in zip(ours.recv_multiple_tensors("many", meta, None), tensors, strict=True):
            assert torch.equal(one, other)
        assert len(onecopy.ray.receipts()) - before == 3
        ours.garbage_collect("many", meta, tensors)

    def test_targets_of_another_size_are_refused(self, ours, west, monkeypatch):
        meta = self.offer(ours, west, monkeypatch, "size", [torch.ones(10)])
        with pytest.raises(ray.exceptions.RayDirectTransportError, match="SIZE_MISMATCH"):
            ours.recv_multiple_tensors("size", meta, None, [torch.zeros(11)])

    def test_a_target_that_is_read_otherwise_is_refused(self, ours, west, monkeypatch):
        meta = self.offer(ours, west, monkeypatch, "conjugate", [torch.ones(10, dtype=torch.complex64)])
        with pytest.raises(ray.exceptions.RayDirectTransportError, match="conjugated"):
            ours.recv_multiple_tensors("conjugate", meta, None, [torch.zeros(10, dtype=torch.complex64).conj()])

    def test_from_many_threads(self, ours, west, monkeypatch):
        metas = [self.offer(ours, west, monkeypatch, f"thread-{number}", [torch.full((1000,), float(number))])
                 for number in range(16)]
        wrong = []

        def receive(number):
            for _ in range(5):
                got, = ours.recv_multiple_tensors(f"thread-{number}", metas[number], None)
                if not (got == number).all():
                    wrong.append(number)

        threads = [threading.Thread(target=receive, args=(number,)) for number in range(16)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert not wrong
        assert not ours._running

    @pytest.mark.skipif(not (INSTALLED and torch.cuda.is_available()), reason="no GPU")
    def test_on_a_gpu(self, ours, west, monkeypatch):
        tensors = [torch.arange(1 << 20, device="cuda"), torch.arange(64, device="cuda").reshape(8, 8).T]
        meta = self.offer(ours, west, monkeypatch, "gpu", tensors)
        for one, other in zip(ours.recv_multiple_tensors("gpu", meta, None), tensors, strict=True):
            assert one.is_cuda
            assert torch.equal(one, other)
        on_host = [torch.zeros_like(each, device="cpu") for each in tensors]
        ours.recv_multiple_tensors("gpu", meta, None, on_host)
        for one, other in zip(on_host, tensors, strict=True):
            assert torch.equal(one, other.cpu())
        ours.garbage_collect("gpu", meta, tensors)
