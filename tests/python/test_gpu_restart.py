"""GPU memory of the daemon that is there again after the daemon was killed, although no process had it mapped meanwhile."""

import time

import pytest

import onecopy
from keeping import holder_of, kept_daemon, restart

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU that torch can use", allow_module_level=True)

GIB = 1 << 30
LAST = torch.cuda.device_count() - 1


@pytest.fixture
def kept(folder):
    (folder / "kept").mkdir()
    with kept_daemon(folder / "kept", "kept") as daemon:
        yield daemon


def free(gpu):
    torch.cuda.synchronize(gpu)
    return torch.cuda.mem_get_info(gpu)[0]


def test_a_descriptor_alone_keeps_gpu_memory(kept, folder):
    torch.zeros(1, device=f"cuda:{LAST}")
    source = torch.randint(0, 255, (GIB,), dtype=torch.uint8, device=f"cuda:{LAST}")
    node = onecopy.connect(kept.run_dir)
    empty = free(LAST)
    node.create("weights", GIB, f"cuda:{LAST}")
    node.create("small", 4096, f"cuda:{LAST}")
    node.transfer(source, "weights")
    node.transfer(source[:4096], "small")
    del node
    used = free(LAST)
    kept.kill()
    # The holder has no driver at all: the memory is there without a context.
    with open(f"/proc/{holder_of(kept)}/maps") as maps:
        assert "libcuda" not in maps.read()
    deadline = time.monotonic() + 10
    while free(LAST) == used:  # until the driver has removed the dead process's context
        assert time.monotonic() < deadline
        time.sleep(0.01)
    meanwhile = free(LAST)
    assert empty - meanwhile >= GIB * 0.9, f"of {empty} bytes {meanwhile} are free while no daemon runs"
    begun = time.perf_counter()
    kept.start_again()
    seconds = time.perf_counter() - begun
    node = onecopy.connect(kept.run_dir)
    target = torch.zeros(GIB, dtype=torch.uint8, device=f"cuda:{LAST}")
    node.transfer("weights", target)
    assert torch.equal(source, target)
    print(f"1 GiB of GPU memory held without a daemon; the next one served after {seconds:.3f} s")
    # It is the daemon's own memory as before: written, mapped by a client, and given back.
    source.random_(0, 255)
    torch.cuda.synchronize(LAST)
    begun = time.perf_counter()
    receipt = node.transfer(source, "weights").receipt
    print(f"then 1 GiB by {receipt.path} in {time.perf_counter() - begun:.4f} s")
    with node.map("weights", dtype="uint8") as array:
        assert torch.equal(torch.from_dlpack(array), source)
    restart(kept)
    node.transfer("weights", target)
    assert torch.equal(source, target)
    node.transfer("small", target[:4096])
    before = free(LAST)
    node.delete("weights")
    deadline = time.monotonic() + 10
    while free(LAST) - before < GIB * 0.9:  # the memory goes on a thread of its GPU's
        assert time.monotonic() < deadline, f"{free(LAST)} bytes are free after the removal, {before} before it"
        time.sleep(0.01)
    node.create("another", GIB, f"cuda:{LAST}")  # at once: what was removed is free
    node.delete("another")


def test_another_daemon_reads_it_where_it_lies(kept, folder):
    from conftest import Daemon

    (folder / "peer").mkdir()
    peer = Daemon("peer", folder / "peer", ["--peer", f"kept={kept.address}"])
    try:
        peer.wait_for_peer("kept")
        source = torch.randint(0, 255, (GIB // 4,), dtype=torch.uint8, device="cuda:0")
        onecopy.connect(kept.run_dir).create("weights", GIB // 4, "cuda:0")
        onecopy.connect(kept.run_dir).transfer(source, "weights")
        restart(kept)
        for one, name in ((kept, "peer"), (peer, "kept")):
            one.wait_for_peer(name)
        target = torch.zeros(GIB // 4, dtype=torch.uint8, device=f"cuda:{LAST}")
        moved = onecopy.connect(peer.run_dir).transfer("kept:weights", target)
        assert torch.equal(source.to(target.device), target)
        print("from another daemon by", moved.receipt.path)
        assert moved.receipt.path in ("peer-direct", "local")
    finally:
        peer.end()
