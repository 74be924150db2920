"""torch.distributed's one-sided transport "onecopy": two endpoints on two nodes, here in one process."""

import asyncio
import datetime
import gc
import json
import os
import signal
import subprocess
import sys

import pytest

import onecopy
from users import present

pytestmark = pytest.mark.skipif(not present("torch"), reason="torch is not installed: the suite python-matrix has it")
if present("torch"):
    import torch

    if not present("torch.distributed._transport"):
        pytest.skip("this torch has no transports", allow_module_level=True)
    from torch.distributed._transport import available_transports, new_transport, wait_all


@pytest.fixture
def ends(pair):
    """Of east and of west, connected."""
    made = [new_transport("onecopy", run_dir=each.run_dir) for each in (pair.east, pair.west)]
    urls = [each.bind() for each in made]
    for each, url in zip(made, reversed(urls), strict=True):
        each.connect(url)
    yield made
    for each in made:
        each.close()


def remote_of(memory):
    """As the peer gets it."""
    descriptor = memory.to_remote_buffer()
    return type(descriptor).deserialize(descriptor.serialize())


def ids(daemon):
    return {each["id"] for each in daemon.cli("buffer", "ls")}


def test_it_is_found():
    assert "onecopy" in available_transports()


def test_write_and_read(ends):
    east, west = ends
    weights, there, back = torch.arange(100_000, dtype=torch.float32), torch.zeros(100_000), torch.zeros(100_000)
    target = remote_of(west.register_memory(there))
    assert east.write(east.register_memory(weights).to_view(), target) == 0
    assert torch.equal(there, weights)
    assert east.read(east.register_memory(back).to_mutable_view(), target) == 0
    assert torch.equal(back, weights)
    assert [each.path for each in east.receipts()] == ["tcp-staged"] * 2
    assert [each.by for each in east.receipts()[0].steps] == ["client", "cpu", "wire", "cpu", "client"]


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "bfloat16", "float64", "complex64"])
def test_every_type_of_elements(ends, dtype):
    east, west = ends
    ours = torch.arange(600).remainder(3).to(getattr(torch, dtype))
    there = torch.zeros_like(ours)
    east.write(east.register_memory(ours).to_view(), remote_of(west.register_memory(there)))
    assert torch.equal(there, ours)


def test_views_are_ranges_of_bytes(ends):
    east, west = ends
    ours, there = torch.arange(100, dtype=torch.uint8), torch.zeros(50, dtype=torch.uint8)
    memory = east.register_memory(ours)
    target = remote_of(west.register_memory(there))
    east.write(memory.to_view(20, 30), target)
    assert torch.equal(there[:30], ours[20:50])
    assert not there[30:].any()
    east.write(memory.to_view(99, 0), target)  # nothing
    for offset, length in ((-1, 5), (0, 101), (100, 1), (5, -1)):
        with pytest.raises(onecopy.InvalidArgument):
            memory.to_view(offset, length)
    with pytest.raises(onecopy.InvalidArgument, match="do not fit"):
        east.write(memory.to_view(), target)


def test_many_at_once(ends):
    east, west = ends
    ours = [torch.full((10_000,), float(number)) for number in range(40)]
    there = [torch.zeros(10_000) for _ in ours]
    works = [east.write(east.register_memory(one).to_view(), remote_of(west.register_memory(other)), async_op=True)
             for one, other in zip(ours, there, strict=True)]
    for work in works:
        assert work.wait(datetime.timedelta(seconds=60))
        assert work.is_completed()
        assert work.is_success()
        assert work.get_future().wait() == []
        assert work.receipt.path == "tcp-staged"
    for one, other in zip(ours, there, strict=True):
        assert torch.equal(one, other)


def test_asyncio(ends):
    east, west = ends
    ours, there = torch.arange(1000), torch.zeros(1000, dtype=torch.int64)
    remote, local = remote_of(west.register_memory(there)), east.register_memory(ours)

    async def run():
        await east.write_async(local.to_view(), remote, timeout=60)
        ours.zero_()
        await asyncio.gather(*(east.read_async(local.to_mutable_view(8 * at, 8), remote) for at in range(3)))
        await wait_all([east.read(local.to_mutable_view(), remote, async_op=True)])
        await east.close_async()

    asyncio.run(run())
    assert torch.equal(ours, torch.arange(1000))
    with pytest.raises(RuntimeError, match="closed"):
        east.register_memory(ours)


def test_one_registration_for_an_allocation_that_ends_with_the_last(pair, ends):
    east, _ = ends
    before = ids(pair.east)
    ours = torch.arange(1000)
    one, other = east.register_memory(ours[:10]), east.register_memory(ours[500:])
    assert len(ids(pair.east) - before) == 1
    assert east.register_memory(ours[:10]) is one
    east.unregister_memory(one)
    east.unregister_memory(one)
    assert len(ids(pair.east) - before) == 1
    with pytest.raises(onecopy.InvalidArgument, match="unregistered"):
        one.to_view()
    east.unregister_memory(other)
    assert ids(pair.east) == before
    with pytest.raises(TypeError):
        east.unregister_memory("something")


def test_what_is_registered_is_kept(pair, ends):
    east, west = ends
    before = ids(pair.west)
    remote = remote_of(west.register_memory(torch.full((1000,), 7.0)))
    gc.collect()
    back = torch.zeros(1000)
    east.read(east.register_memory(back).to_mutable_view(), remote)
    assert (back == 7).all()
    west.close()
    assert ids(pair.west) == before
    with pytest.raises(onecopy.Error):
        east.read(east.register_memory(back).to_mutable_view(), remote)


def test_memory_that_the_daemon_reads_in_place(pair, ends):
    east, west = ends
    shared = torch.from_dlpack(onecopy.connect(pair.east.run_dir).empty(1000, "float32"))
    there = torch.zeros(1000)
    shared.fill_(3)
    east.write(east.register_memory(shared).to_view(), remote_of(west.register_memory(there)))
    assert (there == 3).all()
    assert [each.by for each in east.receipts()[0].steps] == ["cpu", "wire", "cpu", "client"]


def test_a_timeout_leaves_the_transfer_and_cancel_ends_it(pair, ends):
    east, west = ends
    ours, there = torch.ones(1 << 20), torch.zeros(1 << 20)
    view, remote = east.register_memory(ours).to_view(), remote_of(west.register_memory(there))
    pair.west.signal(signal.SIGSTOP)
    try:
        with pytest.raises(TimeoutError):
            east.write(view, remote, timeout=0.05)
        work = east.write(view, remote, async_op=True)
        with pytest.raises(TimeoutError):
            work.wait(datetime.timedelta(milliseconds=50))
        with pytest.raises(onecopy.InvalidArgument, match="under way"):
            east.unregister_memory(view._memory)
        with pytest.raises(TimeoutError):
            east.close(timeout=0.05)
        work.cancel()
    finally:
        pair.west.signal(signal.SIGCONT)
    with pytest.raises(onecopy.Cancelled):
        work.wait(datetime.timedelta(seconds=60))
    assert isinstance(work.exception(), onecopy.Cancelled)
    east.close()
    assert (there == 1).all()  # by the first


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), True, "5", 1e300])
def test_a_timeout_that_is_not_one(pair, ends, timeout):
    east, west = ends
    memory = east.register_memory(torch.ones(8))
    remote = remote_of(west.register_memory(torch.zeros(8)))
    for call in (lambda: type(east)(run_dir=pair.east.run_dir, timeout=timeout),
                 lambda: east.bind(timeout=timeout), lambda: east.connect(b"", timeout=timeout),
                 lambda: east.register_memory(torch.ones(8), timeout=timeout),
                 lambda: east.unregister_memory(memory, timeout=timeout), lambda: memory.to_remote_buffer(timeout=timeout),
                 lambda: east.write(memory.to_view(), remote, timeout=timeout),
                 lambda: east.read(memory.to_mutable_view(), remote, timeout=timeout), lambda: east.close(timeout=timeout)):
        with pytest.raises(onecopy.InvalidArgument, match="a timeout of"):
            call()
    work = east.write(memory.to_view(), remote, async_op=True)
    with pytest.raises(onecopy.InvalidArgument, match="a timeout of"):
        work.wait(datetime.timedelta(seconds=-1))
    assert work.wait()


def test_tensors_that_cannot_be(ends):
    east, _ = ends
    with pytest.raises(onecopy.InvalidArgument, match="one after the other"):
        east.register_memory(torch.zeros(4, 4)[:, ::2])
    with pytest.raises(onecopy.InvalidArgument, match="one after the other"):
        east.register_memory(torch.zeros(4, dtype=torch.complex64).conj())
    with pytest.raises(onecopy.InvalidArgument, match="without elements"):
        east.register_memory(torch.zeros(0, 4))
    with pytest.raises(TypeError):
        east.register_memory([1, 2, 3])
    ours = torch.zeros(10)
    memory = east.register_memory(ours)
    ours.resize_(1 << 20)
    with pytest.raises(onecopy.InvalidArgument, match="resized"):
        memory.to_view()


def test_peers_that_cannot_be(pair, ends):
    east, west = ends
    with pytest.raises(onecopy.InvalidArgument, match="already has a peer"):
        east.connect(west.bind())
    with new_transport("onecopy", "cpu", run_dir=pair.east.run_dir) as alone:
        assert not alone.connected()
        memory = alone.register_memory(torch.zeros(4))
        with pytest.raises(onecopy.InvalidArgument, match="no peer yet"):
            alone.write(memory.to_view(), remote_of(west.register_memory(torch.zeros(4))))
        with pytest.raises(TypeError, match="has registered"):
            east.write(memory.to_view(), remote_of(west.register_memory(torch.zeros(4))))
        with pytest.raises(onecopy.InvalidArgument, match="belongs to another peer"):
            east.write(east.register_memory(torch.zeros(4)).to_view(), remote_of(memory))
        for url in (b"", b"{}", b"[]", "\u00e9".encode("latin-1"), west.bind()[:-1], None):
            with pytest.raises(onecopy.InvalidArgument):
                alone.connect(url)
        unknown = dict(json.loads(west.bind()), node="nowhere")
        with pytest.raises(onecopy.InvalidArgument, match="--peer nowhere"):
            alone.connect(json.dumps(unknown).encode())
        with pytest.raises(ValueError, match="expected a tensor on cpu"):
            alone.register_memory(torch.zeros(4, device="meta"))
    good = json.loads(west.register_memory(torch.zeros(4)).to_remote_buffer().serialize())
    for name, value in (("offset", -1), ("length", 1.5), ("buffer", None), ("version", 2), ("backend", "nixl"), ("more", 1)):
        with pytest.raises(onecopy.InvalidArgument):
            type(west.register_memory(torch.zeros(4)).to_remote_buffer()).deserialize(
                json.dumps({**good, name: value}).encode())


def test_without_a_daemon_it_says_what_to_do(folder):
    with pytest.raises(RuntimeError) as failure:
        new_transport("onecopy", run_dir=folder)
    assert isinstance(failure.value.__cause__, onecopy.Unavailable)
    assert "onecopyd --name" in str(failure.value.__cause__)


_RANK = """
import os, sys, torch, torch.distributed as dist
from torch.distributed._transport import new_transport_rank
rank, port = int(sys.argv[1]), int(sys.argv[2])
store = dist.TCPStore("127.0.0.1", port, is_master=False)
with new_transport_rank("onecopy", "cpu", store=store, peer_rank=1 - rank, rank=rank) as transport:
    mine = torch.full((100_000,), float(rank))
    memory = transport.register_memory(mine)
    store.set(f"descriptor{rank}", memory.to_remote_buffer().serialize())
    remote = type(memory.to_remote_buffer()).deserialize(store.get(f"descriptor{1 - rank}"))
    got = torch.zeros(100_000)
    transport.read(transport.register_memory(got).to_mutable_view(), remote)
    assert (got == 1 - rank).all()
    store.add("done", 1)
    while store.add("done", 0) < 2:
        pass
print("done")
"""


def test_two_processes_that_meet_at_a_store(pair):
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    processes = [
        subprocess.Popen([sys.executable, "-c", _RANK, str(rank), str(store.port)], text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, env=dict(os.environ, ONECOPY_RUN_DIR=str(each.run_dir)))
        for rank, each in enumerate((pair.east, pair.west))]
    for process in processes:
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        assert out == "done\n"


@pytest.mark.skipif(not (present("torch") and torch.cuda.is_available()), reason="no GPU")
def test_on_a_gpu(ends):
    east, west = ends
    ours, there = torch.arange(1 << 20, device="cuda"), torch.zeros(1 << 20, dtype=torch.int64, device="cuda")
    torch.cuda.synchronize()
    target = remote_of(west.register_memory(there))
    memory = east.register_memory(ours)
    east.write(memory.to_view(), target)
    assert torch.equal(there, ours)
    ours.zero_()
    east.read_stream(memory.to_mutable_view(), target)
    assert torch.equal(there, ours)
