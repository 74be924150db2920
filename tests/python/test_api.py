"""Connecting, buffers, transfers, plans and what they print."""

import dataclasses
import html
import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy
import pytest

import onecopy


def filled(node, count, seed=1, dtype="uint8", name=""):
    array = node.empty(count, dtype, name)
    numpy.asarray(array)[...] = (numpy.arange(count) * 7 + seed) % 251
    return array


def test_connect_finds_the_daemon(pair, monkeypatch):
    node = onecopy.connect(pair.east.run_dir)
    assert node.name == "east"
    assert node.run_dir == str(pair.east.run_dir)
    node.ping()
    monkeypatch.setenv("ONECOPY_RUN_DIR", str(pair.west.run_dir))
    assert onecopy.connect().name == "west"
    assert {each["name"] for each in node.nodes()} == {"east", "west"}
    assert node.info("west")["name"] == "west"


def test_without_a_daemon_it_says_how_to_get_one(folder):
    with pytest.raises(onecopy.Unavailable) as failure:
        onecopy.connect(folder)
    assert failure.value.reason == "DAEMON_UNREACHABLE"
    assert "onecopyd --name" in failure.value.remedy
    assert "run_dir" in failure.value.remedy
    assert isinstance(failure.value, ConnectionError)


def test_buffers(east):
    made = east.create("api-made", "64KiB")
    assert (made.bytes, made.memory, made.node) == (65536, "host", "east")
    assert east.buffer("api-made").id == made.id
    assert made in [dataclasses.replace(each, transfers=0) for each in east.buffers()]
    assert str(made[16:32]) == f"east:{made.id}@16+16"
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.name = "other"
    with pytest.raises(onecopy.AlreadyExists) as failure:
        east.create("api-made", 10)
    assert failure.value.reason == "NAME_TAKEN"
    east.delete(made)
    with pytest.raises(onecopy.NotFound):
        east.buffer("api-made")


def test_a_buffer_of_another_node_is_named_as_on_the_command_line(east, west):
    made = east.create("api-far", "64KiB", node="west")
    assert east.buffer("west:api-far").id == made.id == east.buffer("api-far", "west").id
    assert west.buffer(":api-far").id == made.id
    for wrong in ("west:api-far@4", "west:/data/api-far", "west:api-far@0", "west:", "a:b:c"):
        with pytest.raises(onecopy.InvalidArgument) as failure:
            east.delete(wrong)
        assert failure.value.reason == "BAD_ENDPOINT"
    east.delete("west:api-far")
    with pytest.raises(onecopy.NotFound):
        west.buffer("api-far")
    with pytest.raises(onecopy.NotFound):
        east.delete("west:api-far")


def test_code_that_protoc_makes_is_found_beside_the_package(folder):
    """As docs/grpc.md has it made: onecopy/v1/… in a folder of the caller's."""
    made = folder / "onecopy" / "v1"
    made.mkdir(parents=True)
    (made / "thing_pb2.py").write_text("ANSWER = 42\n")
    (made / "user_pb2.py").write_text("from onecopy.v1 import thing_pb2\n")
    program = "import onecopy, onecopy.v1.user_pb2 as user; print(user.thing_pb2.ANSWER, onecopy.connect.__name__)"
    places = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run([sys.executable, "-c", program], env=dict(os.environ, PYTHONPATH=os.pathsep.join(places)),
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "42 connect\n"), done.stderr


def test_transfer_moves_the_bytes_and_says_how(east, west):
    source, target = filled(east, 100_003), west.empty(100_003, "uint8", "api-there")
    done = east.transfer(source, "west:api-there", checksum=True)
    assert (numpy.asarray(target) == numpy.asarray(source)).all()
    assert (done.state, done.ended, done.bytes) == ("SUCCEEDED", True, 100_003)
    receipt = done.receipt
    assert (receipt.path, receipt.copies) == ("tcp-direct", 3)
    assert [step.by for step in receipt.steps] == ["cpu", "wire", "cpu"]
    assert receipt.checksum.verified
    assert receipt.checksum.algorithm == "xxh3-128-tree"
    assert receipt.checksum.value == west.sum("api-there").tree
    assert "rdma-direct" in {each.path for each in receipt.refused}
    with pytest.raises(dataclasses.FrozenInstanceError):
        receipt.path = "rdma-direct"


def test_what_is_printed_is_what_the_command_line_prints(pair, east, west):
    source = filled(east, 5000, name="api-print-a")
    west.create("api-print-b", 5000)
    done = east.transfer(source, "west:api-print-b")
    shown = subprocess.run([onecopy.program(), "--run-dir", pair.east.run_dir, "transfer", "show", done.id],
                           capture_output=True, text=True, check=True).stdout
    assert set(str(done.refresh().receipt).splitlines()) <= set(shown.splitlines())
    plan = east.explain("api-print-a", "west:api-print-b")
    explained = subprocess.run(
        [onecopy.program(), "--run-dir", pair.east.run_dir, "explain", "api-print-a", "west:api-print-b"],
        capture_output=True, text=True, check=True).stdout
    assert str(plan).splitlines()[0] == explained.splitlines()[0]
    assert plan.path == "tcp-direct"
    assert html.escape(plan.source) in plan._repr_html_()
    page = done.receipt._repr_html_()
    assert "<table>" in page
    assert "tcp-direct" in page


def test_html_is_escaped():
    refusal = onecopy.Refusal("rdma-direct", "NO_RDMA_DEVICE", "<script>", "")
    plan = onecopy.Plan("<a>", "b", "local", 1, "", (), 0, False, None, 0, "", "", (refusal,))
    assert "<script>" not in plan._repr_html_()
    assert "&lt;script&gt;" in plan._repr_html_()
    assert "<a>" not in plan._repr_html_()


def test_a_policy_that_no_path_meets_is_refused_with_every_reason(east, west):
    west.create("api-strict", 4096)
    source = filled(east, 4096)
    with pytest.raises(onecopy.FailedPrecondition) as failure:
        east.transfer(source, "west:api-strict", at_most=1)
    assert failure.value.reason == "POLICY_UNMET"
    assert "tcp-direct" in {each.path for each in failure.value.refused}
    assert "not tcp-direct" in str(failure.value)
    copied = pickle.loads(pickle.dumps(failure.value))
    assert (type(copied), copied.reason, copied.refused) == (type(failure.value), "POLICY_UNMET", failure.value.refused)
    with pytest.raises(onecopy.FailedPrecondition):
        east.explain(source, "west:api-strict", path="rdma-*")


def test_documents_may_grow():
    sum_of = onecopy.core.values._refusal.known(onecopy.Sum, {"algorithm": "a", "value": "b", "bytes": 1, "new": 2})
    assert sum_of == onecopy.Sum("a", "b", 1)


def test_every_code_has_a_class_of_its_own():
    for code, kind in onecopy.core.values._errors.CLASSES.items():
        assert kind.code == code
        assert issubclass(kind, onecopy.Error)
    assert issubclass(onecopy.DeadlineExceeded, TimeoutError)
    assert issubclass(onecopy.PermissionDenied, PermissionError)


def test_small_transfers_again_and_again(east):
    one, other = filled(east, 4096, seed=3), east.empty(4096, "uint8")
    for seed in range(20):
        numpy.asarray(one)[...] = seed
        done = east.transfer(one, other)
        assert (numpy.asarray(other) == seed).all()
    assert done.receipt.copies == 1
    assert done.receipt.refused == ()  # it went by shared memory, which tells no more
    assert done.refresh().receipt.refused != ()


def test_start_and_wait(east, west):
    source = filled(east, 1 << 20)
    west.create("api-started", 1 << 20)
    going = east.start(source, "west:api-started")
    done = going.wait()
    assert done.id == going.id
    assert done.receipt.path == "tcp-direct"
    assert done.id in [each.id for each in east.transfers()]
    assert east.transfer_of(done.id).state == "SUCCEEDED"
    assert going.cancel().state == "SUCCEEDED"


def test_progress_comes_on_this_thread_and_may_end_it(east, west):
    source = filled(east, 8 << 20)
    west.create("api-progress", 8 << 20)
    seen = []
    east.transfer(source, "west:api-progress", progress=lambda now: seen.append((now.bytes_done, threading.get_ident())))
    assert seen
    assert {thread for _, thread in seen} == {threading.get_ident()}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)

    def refuse(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        east.transfer(source, "west:api-progress", progress=refuse)


def test_a_range_that_is_not_there(east):
    east.create("api-small", 100)
    east.create("api-small-b", 100)
    with pytest.raises(onecopy.OutOfRange) as failure:
        east.transfer("api-small@50+100", "api-small-b")
    assert failure.value.reason == "RANGE_OUT_OF_BUFFER"
    with pytest.raises(onecopy.InvalidArgument) as failure:
        east.transfer("/tmp/file", "api-small-b")
    assert failure.value.reason == "BAD_ENDPOINT"
    with pytest.raises(onecopy.InvalidArgument):
        east.transfer("api-small", "api-small-b", deadline=0)


def test_ranges_of_two_buffers(east):
    one, other = filled(east, 64), east.empty(64, "uint8")
    done = east.transfer(one, other, ranges=[((0, 4, 8, 8), (0, 32)), ((4, 2), (40, 2))])
    assert done.receipt.ranges == 2
    got, sent = numpy.asarray(other), numpy.asarray(one)
    assert (got[:32].reshape(8, 4) == sent.reshape(8, 8)[:, :4]).all()
    assert (got[40:42] == sent[4:6]).all()


def test_grants(east):
    east.create("api-granted", 100)
    given = east.grant("api-granted@0+10", "4242", read=True, seconds=60)
    assert (given.bytes, given.read, given.write, given.to) == (10, True, False, "4242@east")
    assert given.id in [each.id for each in east.grants("api-granted")]
    east.revoke(given)
    assert east.grants("api-granted") == []


def test_sum(east):
    array = filled(east, 1000)
    assert east.sum(array.buffer) == east.sum(array.endpoint(0, 1000))
    assert len(east.sum(array.endpoint(0, 10)).value) == 32
    assert len(east.sum(array.buffer).tree) == 32


def test_doctor(east):
    found = east.doctor()
    assert not found.works
    assert "NO_RDMA_DEVICE" in {each.code for each in found.findings}
    assert "does not work" in str(found)
    assert "NO_RDMA_DEVICE" in onecopy.doctor()._repr_html_()


def test_the_gil_is_free_while_a_call_waits(daemon):
    """A daemon that stands still keeps one thread waiting, and no other. With the GIL held, this thread would go on only
    when the call has given up, and its thread has ended."""
    node = onecopy.connect(daemon.run_dir, timeout=20)
    begun, ended = threading.Event(), []

    def call():
        begun.set()
        node.ping()
        ended.append("answered")

    daemon.signal(signal.SIGSTOP)
    waiting = threading.Thread(target=call)
    waiting.start()
    begun.wait()
    turns = sum(1 for _ in range(1_000_000))  # some milliseconds: the other thread is in the call
    assert (turns, waiting.is_alive(), ended) == (1_000_000, True, [])
    daemon.signal(signal.SIGCONT)
    waiting.join()
    assert ended == ["answered"]


STOP = """
import os, signal
def stop(process):
    os.kill(process, signal.SIGSTOP)
    threads = f"/proc/{process}/task"
    while any(open(f"{threads}/{each}/stat").read().rpartition(")")[2].split()[0] != "T" for each in os.listdir(threads)):
        pass  # which takes a moment
"""
INTERRUPTED = STOP + """
import os, signal, sys, threading
import onecopy
node = onecopy.connect(sys.argv[1])
one, other = node.empty(1 << 20, "uint8"), node.empty(1 << 20, "uint8")
def interrupt():
    def inside(frame):
        return frame is not None and (frame.f_code.co_name == "transfer" or inside(frame.f_back))
    while not inside(sys._current_frames()[threading.main_thread().ident]):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(int(sys.argv[2]), signal.SIGCONT)
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background begins without
stop(int(sys.argv[2]))
interrupter = threading.Thread(target=interrupt)
interrupter.start()
try:
    node.transfer(one, other)
except KeyboardInterrupt:
    interrupter.join()
    print("interrupted")
    node.ping()
"""


def test_ctrl_c_ends_a_transfer(daemon):
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, daemon.run_dir, str(daemon.process.pid)],
                          capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "interrupted\n", done.stderr
    assert done.returncode == 0


INTERRUPTED_SMALL = STOP + """
import os, signal, sys, threading
import onecopy
node = onecopy.connect(sys.argv[1])
one, other = node.empty(4096, "uint8"), node.empty(4096, "uint8")
for _ in range(4):
    node.transfer(one, other)
def handle(*_):
    os.kill(int(sys.argv[2]), signal.SIGCONT)
    raise KeyboardInterrupt
def interrupt():
    def inside(frame):
        return frame is not None and (frame.f_code.co_name == "transfer" or inside(frame.f_back))
    while not inside(sys._current_frames()[threading.main_thread().ident]):
        pass
    os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, handle)
stop(int(sys.argv[2]))
interrupter = threading.Thread(target=interrupt)
interrupter.start()
try:
    node.transfer(one, other)
except KeyboardInterrupt:
    interrupter.join()
    print("interrupted")
    node.ping()
"""


def test_a_signal_is_handled_while_a_small_transfer_waits(daemon):
    """Nothing but the handler lets the daemon go on."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_SMALL, daemon.run_dir, str(daemon.process.pid)],
                          capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "interrupted\n", done.stderr
    assert done.returncode == 0


def test_the_command_line_comes_with_the_wheel(pair):
    done = subprocess.run([f"{sys.prefix}/bin/onecopy", "--run-dir", pair.east.run_dir, "node", "ls"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "west" in done.stdout
