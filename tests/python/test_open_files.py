"""A process that may open no more files is told so, whatever it asks for, and goes on once it may."""

import json
import subprocess
import sys

import numpy
import pytest

import onecopy

# Leaves `left` descriptors free, makes the call on a node of its own, and again once there are enough.
PROGRAM = """
import json, os, resource, sys
import numpy, onecopy
run_dir, call, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
heap, file = numpy.ones(1 << 16, "uint8"), os.path.join(sys.argv[4], "file")
with open(file, "wb") as made:
    made.write(bytes(1 << 16))
if call != "connect":
    node = onecopy.connect(run_dir)
    if call != "first":
        node.ping()
    if call not in ("first", "heap"):
        there = node.empty(1 << 16, "uint8", name="open-files" + str(os.getpid()))
        end = there.buffer
small = [None, None]
if call == "small":
    small = [node.empty(64, "uint8") for _ in range(2)]
mapped = []
calls = {
    "connect": lambda: onecopy.connect(run_dir).ping(),
    "first": lambda: node.ping(),
    "heap": lambda: node.register(heap),
    "transfer": lambda: node.transfer(heap, end),
    "empty": lambda: node.empty(100),
    "pool": lambda: node.pool(slab="1MiB").empty(100),
    "map": lambda: mapped.append(node.map(end)),
    "small": lambda: [node.transfer(*small) for _ in range(4)],
    "copy_from_file": lambda: node.copy_from_file(file, end),
    "copy_to_file": lambda: node.copy_to_file(end, file),
    "save": lambda: node.save(file + ".npy", heap),
    "load": lambda: node.load(file + ".npy") if os.path.exists(file + ".npy") else None,
}
if call == "load":
    node.save(file + ".npy", heap)
taken = []
try:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
for _ in range(left):
    os.close(taken.pop())
try:
    calls[call]()
    first = "ok"
except onecopy.Error as failure:
    first = f"{type(failure).__name__} {failure.reason}"
    text = str(failure)
for each in taken:
    os.close(each)
try:
    import time
    limit = time.monotonic() + 20
    while True:  # gRPC may still be waiting after its own failure
        try:
            calls[call]()
            break
        except onecopy.ResourceExhausted:
            if call not in ("first", "connect") or time.monotonic() > limit:
                raise
    again = "ok"
    if call == "small":  # by shared memory after all, whose receipts lack what gRPC tells
        done = [node.transfer(*small) for _ in range(4)][-1]
        again = "ok" if done.receipt.refused == () and done.receipt.attempts == () else "by gRPC"
except onecopy.Error as failure:
    again = str(failure)
print(json.dumps([first, again]))
"""
CALLS = ["connect", "first", "heap", "transfer", "empty", "pool", "map", "small", "copy_from_file", "copy_to_file", "save",
         "load"]


@pytest.mark.parametrize("call", CALLS)
def test_each_call_says_so_and_works_afterwards(pair, folder, call):
    programs = {left: subprocess.Popen([sys.executable, "-c", PROGRAM, pair.west.run_dir, call, str(left), folder],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for left in range(5)}
    said = {}
    for left, each in programs.items():
        out, errors = each.communicate(timeout=120)
        assert out and each.returncode == 0, errors
        said[left] = tuple(json.loads(out))
    assert {again for _, again in said.values()} == {"ok"}, said
    assert {first for first, _ in said.values()} <= {"ok", "ResourceExhausted OPEN_FILES"}, said
    assert call == "small" or said[0][0] != "ok", said  # or nothing was tried


def test_the_daemon_says_that_it_is_the_one(folder, daemon):
    """Its own limit, as it takes a descriptor of a client's."""
    import os
    import resource

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
