"""NIXL's stock wheel with backend ONECOPY and memory of GPUs: two processes, held against NIXL's own backend UCX."""

import statistics
import time

import pytest

from nixl_peer import memory_on
from test_nixl import Other, plugin_dir
from users import present

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU that torch can use", allow_module_level=True)
pytestmark = pytest.mark.skipif(not present("nixl"), reason="NIXL's wheel is not installed")
assert plugin_dir  # a fixture, for all of these

MIB = 1 << 20


class Mine:
    """This process's agent, and another one's."""

    def __init__(self, pair, size, backend="ONECOPY", device="cuda:0", theirs="cuda:0", there=None):
        from nixl_cu13._api import nixl_agent, nixl_agent_config
        self.agent = nixl_agent(f"mine-{backend}", nixl_agent_config(backends=[]))
        settings = {"run_dir": str(pair.east.run_dir)} if backend == "ONECOPY" else {}
        self.agent.create_backend(backend, settings)
        self.memory = memory_on(device, size)
        self.size = size
        self.held = self.agent.register_memory([(self.memory.address, size, self.memory.number, "")], self.memory.kind)
        self.other = Other(f"other-{backend}", (there or pair.east).run_dir, size, theirs, backend)
        self.their_kind = "DRAM" if theirs == "cpu" else "VRAM"
        self.name = self.agent.add_remote_agent(bytes.fromhex(self.other.place["metadata"])).decode()

    def prepare(self, operation, pieces):
        base, there = self.memory.address, self.other.place["address"]
        local = self.agent.get_xfer_descs([(base + at, size, 0) for at, size in pieces], self.memory.kind)
        remote = self.agent.get_xfer_descs([(there + at, size, 0) for at, size in pieces], self.their_kind)
        return self.agent.initialize_xfer(operation, local, remote, self.name, b"")

    def finish(self, handle):
        state = self.agent.transfer(handle)
        deadline = time.monotonic() + 120
        while state == "PROC":
            assert time.monotonic() < deadline, "the transfer does not end"
            state = self.agent.check_xfer_state(handle)
        assert state == "DONE"

    def run(self, operation, pieces=None):
        handle = self.prepare(operation, pieces or [(0, self.size)])
        self.finish(handle)
        self.agent.release_xfer_handle(handle)

    def close(self):
        self.other.close()
        self.agent.deregister_memory(self.held)


@pytest.mark.parametrize("theirs", ["cuda:0", "cpu"])
@pytest.mark.parametrize("node", ["east", "west"])
def test_a_gpu_writes_and_reads_another_process(pair, theirs, node):
    mine = Mine(pair, 8 * MIB + 5, theirs=theirs, there=getattr(pair, node))
    mine.memory.fill(3)
    mine.run("WRITE")
    assert mine.other.digest() == mine.memory.digest()
    mine.other.fill(9)
    mine.run("READ")
    assert mine.other.digest() == mine.memory.digest()
    mine.close()


def test_a_list_of_pieces(pair):
    mine = Mine(pair, 16 * MIB)
    mine.memory.fill(4)
    mine.other.fill(200)
    mine.run("WRITE", [(at, 4096) for at in range(0, 16 * MIB, 8192)])
    mine.run("WRITE", [(at, 4096) for at in range(4096, 16 * MIB, 8192)])
    assert mine.other.digest() == mine.memory.digest()
    mine.close()


def ratio(pair, size, pieces, rounds):
    """Of the time that UCX takes to the one that ONECOPY takes, one beside the other."""
    ours, theirs = Mine(pair, size), Mine(pair, size, "UCX")
    handles = [(each, each.prepare("WRITE", pieces)) for each in (theirs, ours)]
    for each, handle in handles:
        each.finish(handle)
    found = []
    for _ in range(rounds):
        seconds = []
        for each, handle in handles:
            begun = time.perf_counter()
            each.finish(handle)
            seconds.append(time.perf_counter() - begun)
        found.append(seconds[0] / seconds[1])
    for each, handle in handles:
        each.agent.release_xfer_handle(handle)
        each.close()
    return statistics.median(found)


def test_pieces_are_faster_than_by_ucx_and_a_large_one_is_slower_by_its_beginning(pair):
    """Both copy inside the GPU here, where 256 MiB take a seventh of a millisecond: the beginning of a transfer, which is
    an order to the daemon, takes longer. Of many pieces there is one for all."""
    large = ratio(pair, 256 * MIB, [(0, 256 * MIB)], 20)
    many = ratio(pair, 64 * MIB, [(at, 4096) for at in range(0, 64 * MIB, 16384)], 10)
    small = ratio(pair, MIB, [(0, 4096)], 50)
    print(f"256 MiB {large:.2f}, 4096 pieces of 4 KiB {many:.2f}, 4 KiB {small:.2f} of UCX's rate")
    assert large >= 0.1 and many >= 2 and small >= 0.5
