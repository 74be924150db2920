"""NIXL's stock wheel with backend ONECOPY: two processes, two nodes, CPU memory. Every failure is a status."""

import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import numpy
import pytest

import onecopy
from conftest import Pair
from users import present

pytestmark = pytest.mark.skipif(not present("nixl"), reason="NIXL's wheel is not installed")

BYTES = 1 << 20


@pytest.fixture(scope="session", autouse=True)
def plugin_dir():
    """The folder that the program prints; NIXL reads its name from the environment of this process and others."""
    with tempfile.TemporaryDirectory(prefix="onecopy-nixl.") as cache:
        printed = subprocess.run([onecopy.program(), "nixl-plugin-dir", "--cache", cache], capture_output=True, text=True,
                                 check=True).stdout.strip()
        os.environ["NIXL_PLUGIN_DIR"] = printed
        yield pathlib.Path(printed)
        del os.environ["NIXL_PLUGIN_DIR"]


class Other:
    """An agent in another process; its methods are those of nixl_peer.Peer."""

    def __init__(self, name, run_dir, size=BYTES, *rest):
        self.process = subprocess.Popen(
            [sys.executable, pathlib.Path(__file__).with_name("nixl_peer.py"), name, str(run_dir), str(size), *rest],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.place = self._answer()

    def __getattr__(self, word):
        def tell(*arguments):
            self.process.stdin.write(json.dumps([word, *arguments]) + "\n")
            self.process.stdin.flush()
            return self._answer()
        return tell

    def _answer(self):
        line = self.process.stdout.readline()
        while line and line[0] not in "[{\"0123456789ntf":  # NIXL's own log goes there, too
            line = self.process.stdout.readline()
        while line:
            try:
                return json.loads(line)
            except json.JSONDecodeError:
                line = self.process.stdout.readline()
        raise RuntimeError(f"the agent ended with status {self.process.wait(timeout=30)}")

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=30)

    def close(self):
        if self.process.poll() is None:
            self.end()
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


class Mine:
    """This process's agent, with as much memory."""

    def __init__(self, name, run_dir, size=BYTES, **settings):
        from nixl_cu13._api import nixl_agent, nixl_agent_config
        self.agent = nixl_agent(name, nixl_agent_config(backends=[]))
        self.agent.create_backend("ONECOPY", {"run_dir": str(run_dir), **settings})
        self.memory = numpy.zeros(size, dtype=numpy.uint8)
        self.held = self.agent.register_memory([(self.memory.ctypes.data, size, 0, "")], "DRAM")

    def fill(self, seed):
        self.memory[:] = (numpy.arange(len(self.memory)) * 7 + seed) % 251

    def meet(self, other):
        return self.agent.add_remote_agent(bytes.fromhex(other.place["metadata"])).decode()

    def prepare(self, operation, other, pieces=None, note=b""):
        """A transfer of (offset here, offset there, bytes), all of the memory by default."""
        pieces = pieces or [(0, 0, len(self.memory))]
        base, there = self.memory.ctypes.data, other.place["address"]
        local = self.agent.get_xfer_descs([(base + mine, size, 0) for mine, _, size in pieces], "DRAM")
        remote = self.agent.get_xfer_descs([(there + theirs, size, 0) for _, theirs, size in pieces], "DRAM")
        name = self.meet(other)
        return self.agent.initialize_xfer(operation, local, remote, name, note)

    def finish(self, handle, state=None):
        """Posts it, unless `state` says that this was done, and returns its last state."""
        state = state or self.agent.transfer(handle)
        deadline = time.monotonic() + 120
        while state == "PROC":
            assert time.monotonic() < deadline, "the transfer does not end"
            state = self.agent.check_xfer_state(handle)
        return state

    def run(self, *arguments, **named):
        handle = self.prepare(*arguments, **named)
        state = self.finish(handle)
        self.agent.release_xfer_handle(handle)
        return state

    def close(self):
        self.agent.deregister_memory(self.held)


def digest(memory):
    return hashlib.sha256(memory.tobytes()).hexdigest()


@pytest.fixture
def mine(pair):
    made = Mine("mine", pair.east.run_dir)
    yield made
    made.close()


@pytest.fixture
def other(pair):
    made = Other("other", pair.west.run_dir)
    yield made
    made.close()


def test_the_folder_has_nixls_own_plugins_too(mine, plugin_dir):
    assert {"ONECOPY", "UCX"} <= set(mine.agent.get_plugin_list())
    assert mine.agent.get_plugin_mem_types("ONECOPY") == ["DRAM", "VRAM"] or set(
        mine.agent.get_plugin_mem_types("ONECOPY")) == {"DRAM_SEG", "VRAM_SEG"}
    assert set(mine.agent.get_plugin_params("ONECOPY")) == {"run_dir", "at_most", "path", "checksum", "grant_to"}
    assert (plugin_dir / "libplugin_ONECOPY.so").exists()


def test_write_read_and_post_again(mine, other):
    mine.fill(1)
    handle = mine.prepare("WRITE", other)
    assert mine.finish(handle) == "DONE"
    assert other.digest() == digest(mine.memory)
    mine.fill(2)
    assert mine.finish(handle) == "DONE"
    assert other.digest() == digest(mine.memory)
    assert mine.agent.query_xfer_backend(handle) == "ONECOPY"
    mine.agent.release_xfer_handle(handle)
    other.fill(3)
    assert mine.run("READ", other) == "DONE"
    assert digest(mine.memory) == other.digest()


def test_within_a_node(mine, pair):
    near = Other("near", pair.east.run_dir)
    mine.fill(4)
    assert mine.run("WRITE", near) == "DONE"
    assert near.digest() == digest(mine.memory)
    near.close()


def test_many_descriptors(mine, other):
    mine.fill(5)
    count, size = 8192, 64  # backwards there, so that no two are neighbours at both ends
    pieces = [(2 * i * size, 2 * (count - 1 - i) * size, size) for i in range(count)]
    assert mine.run("WRITE", other, pieces) == "DONE"
    expected = numpy.zeros_like(mine.memory)
    for here, there, size in pieces:
        expected[there:there + size] = mine.memory[here:here + size]
    assert other.digest() == digest(expected)


def test_a_notification_comes_after_the_bytes(mine, other):
    for value in (17, 18):
        mine.memory[:] = value
        assert mine.run("WRITE", other, note=b"written") == "DONE"
        assert other.first_byte_at_notification() == value


def test_notifications_alone_in_order_and_long(mine, other):
    name = mine.meet(other)
    texts = [f"number {i}" for i in range(100)] + ["x" * 100_000]
    for text in texts:
        mine.agent.send_notif(name, text.encode())
    assert other.notifications(len(texts)) == [["mine", text] for text in texts]
    other.load(mine.agent.get_agent_metadata().hex())
    other.notify("mine", "back")
    deadline = time.monotonic() + 60
    found = {}
    while not found and time.monotonic() < deadline:
        found = mine.agent.get_new_notifs()
    assert found == {"other": [b"back"]}


def test_an_agent_whose_process_died(mine, pair):
    gone = Other("gone", pair.west.run_dir)
    handle = mine.prepare("WRITE", gone)
    assert mine.finish(handle) == "DONE"
    gone.kill()
    # By which its users evict it, as they do with UCX.
    assert "REMOTE_DISCONNECT" in _failure(lambda: mine.finish(handle))
    assert "REMOTE_DISCONNECT" in _failure(lambda: mine.agent.send_notif("gone", b"hello") or "DONE")
    mine.agent.release_xfer_handle(handle)


def test_equal_descriptors(mine, other):
    """The core gives the handle of one of them back twice, and that of another never."""
    memory = numpy.zeros(BYTES, dtype=numpy.uint8)
    one = (memory.ctypes.data, BYTES, 0, "")
    both = mine.agent.register_memory([one, one], "DRAM")
    again = mine.agent.register_memory([one], "DRAM")
    mine.agent.deregister_memory(both)
    mine.agent.deregister_memory(again)
    mine.fill(11)
    assert mine.run("WRITE", other) == "DONE"
    assert other.digest() == digest(mine.memory)


def test_descriptors_without_bytes(mine, other):
    held = mine.agent.register_memory([(mine.memory.ctypes.data, 0, 0, "")], "DRAM")
    assert len(mine.agent.get_agent_metadata()) > 0
    assert mine.run("WRITE", other, [(0, 0, 0), (8, 16, 0)], note=b"nothing") == "DONE"
    assert other.notifications(1) == [["mine", "nothing"]]
    mine.fill(12)
    assert mine.run("WRITE", other, [(0, 0, 0), (8, 16, 32), (0, 0, 0)]) == "DONE"
    mine.agent.deregister_memory(held)


def test_memory_that_is_deregistered_is_left_alone(mine, other, pair):
    near = Other("near", pair.east.run_dir)
    near.load(mine.agent.get_agent_metadata().hex())
    assert near.write("mine", mine.memory.ctypes.data, 7) == "DONE"
    assert mine.memory[0] == 7
    mine.agent.deregister_memory(mine.held)
    assert near.write("mine", mine.memory.ctypes.data, 8) != "DONE"
    assert mine.memory[0] == 7
    mine.held = mine.agent.register_memory([(mine.memory.ctypes.data, BYTES, 0, "")], "DRAM")
    near.close()


def test_checksums_are_compared_where_that_is_set(pair, other):
    mine = Mine("summing", pair.east.run_dir, checksum="true")
    mine.fill(13)
    assert mine.run("WRITE", other) == "DONE"
    assert other.digest() == digest(mine.memory)
    assert onecopy.connect(pair.east.run_dir).transfers()[0].receipt.checksum.verified
    mine.close()


def test_no_folder_that_others_can_make_is_trusted(tmp_path):
    """A service without HOME, and a cache in which somebody else may write."""
    command = [onecopy.program(), "nixl-plugin-dir"]
    alone = subprocess.run(command, env={}, capture_output=True, text=True, check=False)
    assert alone.returncode == 7 and "--cache" in alone.stderr and not alone.stdout
    assert not pathlib.Path("/tmp/.cache/onecopy/nixl").exists()
    tmp_path.chmod(0o777)
    shared = subprocess.run([*command, "--cache", tmp_path / "cache"], capture_output=True, text=True, check=False)
    assert shared.returncode == 4 and "ACCESS_DENIED" in shared.stderr and not shared.stdout
    assert not (tmp_path / "cache").exists()


def _failure(call):
    """What went wrong: the state ERR, or an exception of NIXL's; nothing where it worked."""
    try:
        state = call()
    except Exception as failure:  # NIXL has a class for each number, in its extension module
        assert "nixl" in type(failure).__module__.lower() or "NIXL" in str(failure), failure
        return str(failure)
    return state if state != "DONE" else ""


def test_without_a_daemon_there_is_no_backend(folder, capfd):
    from nixl_cu13._api import nixl_agent, nixl_agent_config
    agent = nixl_agent("alone", nixl_agent_config(backends=[]))
    assert _failure(lambda: agent.create_backend("ONECOPY", {"run_dir": str(folder)}) or "DONE")
    assert "DAEMON_UNREACHABLE" in capfd.readouterr().err
    assert _failure(lambda: agent.create_backend("ONECOPY", {"at_most": "many"}) or "DONE")
    assert "at_most" in capfd.readouterr().err


def test_the_daemons_start_anew(folder):
    pair = Pair(folder)
    mine, other = Mine("mine", pair.east.run_dir), Other("other", pair.west.run_dir)
    mine.fill(6)
    handle = mine.prepare("WRITE", other)
    assert mine.finish(handle) == "DONE"
    for daemon in (pair.west, pair.east):
        daemon.kill()
        assert _failure(lambda: mine.finish(handle))
        daemon.start_again()
    for one, name in ((pair.east, "west"), (pair.west, "east")):
        one.wait_for_peer(name)
    mine.fill(7)
    deadline = time.monotonic() + 60
    while _failure(lambda: mine.finish(handle)):  # until the other agent has registered again
        assert time.monotonic() < deadline
        mine.agent.release_xfer_handle(handle)
        handle = mine.prepare("WRITE", other)
    assert other.digest() == digest(mine.memory)
    mine.agent.release_xfer_handle(handle)
    other.close()
    mine.close()
    pair.end()


def test_a_transfer_that_is_released_while_it_runs(folder):
    pair = Pair(folder)
    mine, other = Mine("mine", pair.east.run_dir, 64 << 20), Other("other", pair.west.run_dir, 64 << 20)
    handle = mine.prepare("WRITE", other)
    os.kill(other.process.pid, signal.SIGSTOP)  # its library does not copy, so nothing can end
    state = mine.agent.transfer(handle)
    assert state == "PROC"
    mine.agent.release_xfer_handle(handle)
    os.kill(other.process.pid, signal.SIGCONT)
    mine.fill(8)
    assert mine.run("WRITE", other) == "DONE"
    assert other.digest() == digest(mine.memory)
    other.close()
    mine.close()
    pair.end()


def test_transfers_that_cannot_go_on_stop_no_others(folder):
    pair = Pair(folder)
    mine = Mine("mine", pair.east.run_dir, 1 << 20)
    stopped, other = Other("stopped", pair.west.run_dir, 1 << 20), Other("other", pair.west.run_dir)
    mine.fill(9)
    handles = [mine.prepare("WRITE", stopped) for _ in range(24)]
    assert mine.run("WRITE", other) == "DONE"
    os.kill(stopped.process.pid, signal.SIGSTOP)  # its library does not copy
    try:
        states = [mine.agent.transfer(handle) for handle in handles]
        assert states == ["PROC"] * len(handles)
        mine.fill(10)
        assert mine.run("WRITE", other, note=b"past them") == "DONE"
        assert other.digest() == digest(mine.memory)
        assert other.notifications(1) == [["mine", "past them"]]
        assert {mine.agent.check_xfer_state(handle) for handle in handles} == {"PROC"}
    finally:
        os.kill(stopped.process.pid, signal.SIGCONT)
    assert {mine.finish(handle, "PROC") for handle in handles} == {"DONE"}
    assert stopped.digest() == digest(mine.memory)
    for handle in handles:
        mine.agent.release_xfer_handle(handle)
    for each in (stopped, other, mine):
        each.close()
    pair.end()
