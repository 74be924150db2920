"""A program ends as it asks to, whatever its threads and its memory are at."""

import subprocess
import sys

import pytest

# Each runs on daemon threads, inside a call of ours most of the time, while the main thread ends.
CALLS = {
    "ping": "node.ping()",
    "transfer": "node.transfer(one, other)",
    "heap": "node.transfer(heap, other)",
    "progress": "node.transfer(one, other, progress=lambda update: [sum(range(100)) for _ in range(10)])",
    "failure": "node.buffer('nothing')",
    "list": "node.buffers()",
    "empty": "node.empty(4096)",
    "connect": "onecopy.connect()",
    "sum": "node.sum(one.buffer)",
    "pool": "node.pool(slab='1MiB').empty(100)",
    "array": "node.transfer(Array(), other)",
}
PROGRAM = """
import sys, threading, time, numpy, onecopy
node = onecopy.connect()
one, other = node.empty(1 << 16, "uint8"), node.empty(1 << 16, "uint8")
heap = numpy.ones(1 << 16, "uint8")

class Array:  # whose code runs inside a call of ours
    def __dlpack__(self, **_):
        for _ in range(1000):
            pass
        return heap.__dlpack__()
    def __dlpack_device__(self):
        return 1, 0

def call():
    {call}

def run():
    while True:
        try:
            call()
        except onecopy.Error:
            pass
        begun.release()

begun = threading.Semaphore(0)
for _ in range(3):
    threading.Thread(target=run, daemon=True).start()
for _ in range(10):
    begun.acquire()
sys.exit(7)
"""


def program(text, daemon):
    return subprocess.Popen([sys.executable, "-c", text], env={"ONECOPY_RUN_DIR": str(daemon.run_dir)}, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_daemon_threads_inside_a_call_do_not_end_the_program_their_way(pair):
    programs = {(name, number): program(PROGRAM.format(call=call), pair.west)
                for name, call in CALLS.items() for number in range(2)}
    for case, each in programs.items():
        said = each.communicate(timeout=120)
        assert (each.returncode, said) == (7, ("", "")), case


@pytest.mark.parametrize("kept", [
    "view = numpy.asarray(node.empty(100))",
    "view = numpy.from_dlpack(node.empty(100))",
    "view = numpy.from_dlpack(node.pool(slab='1MiB').empty(100))",
    "view = pyarrow.py_buffer(node.empty(100).memory)",
    "threading.Thread(target=lambda: (node, time.sleep(1000)), daemon=True).start()",
    "started = node.start(numpy.ones(100), node.empty(100, 'float64'))",
])
def test_what_is_kept_to_the_end_is_not_called_a_leak(pair, kept):
    ended = program("import threading, time, numpy, onecopy\n"
                    + ("import pyarrow\n" if "pyarrow" in kept else "") + f"node = onecopy.connect()\n{kept}", pair.west)
    assert ended.communicate(timeout=60) == ("", "")
    assert ended.returncode == 0


@pytest.mark.leaks
def test_a_reference_that_is_lost_is_told_of(pair):
    """Or no test would find one."""
    ended = program("import ctypes, onecopy\nnode = onecopy.connect()\n"
                    "ctypes.pythonapi.Py_IncRef(ctypes.py_object(node._native))", pair.west)
    assert "nanobind: leaked 1 instances" in ended.communicate(timeout=60)[1]


def test_what_a_loop_leaves_waiting_does_not_keep_the_program_from_its_end(daemon):
    text = """
import asyncio, onecopy
node = onecopy.connect()
node.create("frame", 4096)
loop = asyncio.new_event_loop()

async def main():
    watch = await node.aio.watch("frame")
    waits = loop.create_task(watch.wait())
    await asyncio.sleep(0)
    return waits

left = loop.run_until_complete(main())
print("over", flush=True)
"""
    with program(text, daemon) as child:
        out, err = child.communicate(timeout=60)
        assert out == "over\n", err
        assert child.returncode == 0
