"""A process that may open no more files is told so, whatever it asks for, and goes on once it may."""

import json
import os
import resource
import subprocess
import sys

import numpy
import pytest

import onecopy

# For each call: makes what it needs, leaves so many descriptors free, makes the call, and once more with enough of them.
PROGRAM = """
import json, os, resource, sys, time
import numpy, onecopy
run_dir, left, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
heap, file = numpy.ones(1 << 16, "uint8"), os.path.join(folder, "file")
with open(file, "wb") as made:
    made.write(bytes(1 << 16))

def connect():
    node = onecopy.connect(run_dir)
    node.ping()
    return node

def into(call):
    node = connect()
    there = node.empty(1 << 16, "uint8")
    return lambda: call(node, there.buffer)

def small():
    node = connect()
    ends = [node.empty(64, "uint8") for _ in range(2)]

    def call():
        done = [node.transfer(*ends) for _ in range(4)][-1]
        return "by gRPC" if done.receipt.refused or done.receipt.attempts else "by shared memory"

    return call

def load():
    node = connect()
    node.save(file + ".npy", heap)
    return lambda: node.load(file + ".npy")

def on(call):
    node = connect()
    return lambda: call(node)

def first():
    node = onecopy.connect(run_dir)  # whose other socket is not open yet
    return node.ping

calls = {
    "connect": lambda: connect,
    "first": first,
    "heap": lambda: on(lambda node: node.register(heap)),
    "transfer": lambda: into(lambda node, there: node.transfer(heap, there)),
    "empty": lambda: on(lambda node: node.empty(100)),
    "pool": lambda: on(lambda node: node.pool(slab="1MiB").empty(100)),
    "map": lambda: into(lambda node, there: node.map(there)),
    "small": small,
    "copy_from_file": lambda: into(lambda node, there: node.copy_from_file(file, there)),
    "copy_to_file": lambda: into(lambda node, there: node.copy_to_file(there, file)),
    "save": lambda: on(lambda node: node.save(file + ".npy", heap)),
    "load": load,
}

kept = []  # all nodes: what one closes in its own time would be a free descriptor for the next call

def outcome(call):
    try:
        done = call()
        kept.append(done)
    except onecopy.Error as failure:
        return f"{type(failure).__name__} {failure.reason}"
    return done if isinstance(done, str) else "ok"

said = {}
for name, prepare in calls.items():
    call, taken = prepare(), []
    kept.append(call)
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    for _ in range(left):
        os.close(taken.pop())
    said[name] = [outcome(call)]
    for each in taken:
        os.close(each)
    limit = time.monotonic() + 20
    again = outcome(call)
    while name == "first" and again != "ok" and time.monotonic() < limit:  # gRPC waits for a moment after its own failure
        again = outcome(call)
    said[name].append(again)
print(json.dumps(said))
"""
SHORT = "ResourceExhausted OPEN_FILES"


def test_each_call_says_so_and_works_afterwards(daemon, folder):
    programs = {}
    for left in range(4):
        (folder / str(left)).mkdir()
        programs[left] = subprocess.Popen([sys.executable, "-c", PROGRAM, daemon.run_dir, str(left), folder / str(left)],
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = {}
    for left, each in programs.items():
        out, errors = each.communicate(timeout=120)
        assert out and each.returncode == 0, errors
        said[left] = json.loads(out)
    for left, calls in said.items():
        assert calls.pop("small") in (["by gRPC", "by shared memory"], ["by shared memory"] * 2), said
        assert {again for _, again in calls.values()} == {"ok"}, said
        assert {first for first, _ in calls.values()} <= {"ok", SHORT}, said
        assert left > 0 or {first for first, _ in calls.values()} == {SHORT}, said


def test_the_daemon_says_that_it_is_the_one(daemon):
    """Its own limit, as it takes a descriptor of a client's."""
    node = onecopy.connect(daemon.run_dir)
    assert node.register(numpy.ones(10)).bytes == 80
    open_now = len(os.listdir(f"/proc/{daemon.process.pid}/fd"))
    usual = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (open_now, usual[1]))
    with pytest.raises(onecopy.ResourceExhausted) as failure:
        for _ in range(10):
            node.empty(100)
    assert failure.value.reason == "OPEN_FILES"
    assert "onecopyd" in str(failure.value)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, usual)
    assert node.empty(100).nbytes == 400
