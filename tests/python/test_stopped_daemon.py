"""A daemon that is stopped, as by a debugger: calls end by their deadlines, what is made goes, and programs end."""

import gc
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest

import onecopy

ROOM = 5.0  # beyond what a call may take: on two busy cores, with a second for the daemon's own word
TEARDOWN = 5.0
SILENCE = 8.0  # of a node whose timeout is that short or shorter


@pytest.fixture
def stopped(daemon):
    """Stops the daemon; it goes on as the test ends."""
    yield lambda: daemon.signal(signal.SIGSTOP)
    daemon.signal(signal.SIGCONT)


def failed(call, *kinds):
    """How long it took to fail that way."""
    begun = time.monotonic()
    with pytest.raises(kinds):
        call()
    return time.monotonic() - begun


def test_calls_end_by_their_deadlines(daemon, stopped):
    node = onecopy.connect(daemon.run_dir, timeout=2)
    one, other, heap = node.empty(4096, "uint8"), node.empty(4096, "uint8"), numpy.ones(4096, "uint8")
    for _ in range(4):
        node.transfer(one, other)  # by shared memory in the end
    node.transfer(heap, other)
    limits = {
        "deadline": (lambda: node.transfer(one, other, deadline=1), 1.0),
        "heap": (lambda: node.transfer(heap, other, deadline=1), 1.0),
        "progress": (lambda: node.transfer(one, other, deadline=1, progress=lambda _: None), 1.0),
        "start": (lambda: node.start(one, other, deadline=1).wait(), 1.0),
        "ping": (node.ping, 2.0),
        "buffers": (node.buffers, 2.0),
        "delete": (lambda: node.delete("nothing"), 2.0),
        "quick": (lambda: node.transfer(one, other), SILENCE),
        "started": (lambda: node.start(one, other).wait(), SILENCE),
        "sum": (lambda: node.sum(one.buffer), SILENCE),
        "explain": (lambda: node.explain(one, other), SILENCE),
    }
    seconds = {}
    stopped()

    def run(name):
        seconds[name] = failed(limits[name][0], onecopy.DeadlineExceeded, onecopy.Unavailable)

    threads = {name: threading.Thread(target=run, args=(name,), daemon=True) for name in limits}
    for thread in threads.values():
        thread.start()
    begun = time.monotonic()
    for name, thread in threads.items():
        thread.join(max(0.0, begun + limits[name][1] + ROOM - time.monotonic()))
        assert name in seconds, name
    assert failed(lambda: node.transfer(one, other, deadline=1), onecopy.DeadlineExceeded) < 1 + ROOM  # on this thread
    daemon.signal(signal.SIGCONT)
    node.ping()
    assert node.transfer(heap, other).state == "SUCCEEDED"


def test_what_is_made_goes(daemon, stopped):
    node = onecopy.connect(daemon.run_dir)
    one, other, heap = node.empty(4096, "uint8"), node.empty(4096, "uint8"), numpy.ones(4096, "uint8")
    heaps = [numpy.ones(4096, "uint8") for _ in range(20)]
    for each in (heap, *heaps):
        node.transfer(each, one)
    node.register(heap, "named")
    pool = node.pool(slab="1MiB")
    piece = pool.empty(100)
    kept = {"heap": heap, "heaps": heaps, "other": other, "pool": (piece, pool), "node": (node, one)}
    del heap, heaps, other, piece, pool, node, one, each
    stopped()
    for name in list(kept):
        begun = time.monotonic()
        del kept[name]
        gc.collect()
        assert time.monotonic() - begun < TEARDOWN + ROOM, name


PROGRAM = """
import os, signal, sys, threading, time, numpy, onecopy
node = onecopy.connect()
one, other = node.empty(1 << 16, "uint8"), node.empty(1 << 16, "uint8")
heap = numpy.ones(1 << 16, "uint8")
for _ in range(4):
    node.transfer(one, other)
node.transfer(heap, other)
calls = [node.ping, lambda: node.transfer(one, other), lambda: node.transfer(heap, other),
         lambda: node.transfer(one, other, progress=lambda update: None), node.buffers, lambda: node.empty(4096),
         lambda: onecopy.connect(), lambda: node.transfer(one, other, deadline=20)]
print(flush=True)
sys.stdin.readline()

threads = [threading.Thread(target=call, daemon=True) for call in calls]
for thread in threads:
    thread.start()


def is_inside(thread):  # a function of the package, or one that it calls
    frame = sys._current_frames().get(thread.ident)
    while frame is not None and not frame.f_globals["__name__"].startswith("onecopy"):
        frame = frame.f_back
    return frame is not None


while not all(is_inside(thread) for thread in threads):
    time.sleep(0)
sys.exit(7)
"""


def test_programs_end_as_they_ask_with_threads_inside_calls(daemon, stopped):
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], env={"ONECOPY_RUN_DIR": str(daemon.run_dir)}, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    program.stdout.readline()
    stopped()
    begun = time.monotonic()
    said = program.communicate("\n", timeout=60)
    assert (program.returncode, said) == (7, ("", ""))
    assert time.monotonic() - begun < 2 * TEARDOWN + ROOM
