"""A file that is mapped, and cut short while its bytes are a transfer's: that fails, and the program goes on."""

import mmap
import os
import subprocess
import sys

import numpy
import pytest

import onecopy

PAGE = mmap.PAGESIZE
BYTES = 64 * PAGE


class Cut(numpy.memmap):
    """Which pytest can print."""

    __repr__ = __str__ = lambda self: "cut short"


@pytest.fixture
def cut(folder):
    """An array of a file that ends in its middle."""
    file = folder / "cut"
    file.write_bytes(b"x" * BYTES)
    array = Cut(file, dtype="uint8", mode="r+", shape=(BYTES,))
    os.truncate(file, BYTES // 2)
    return array


def failed(call):
    with pytest.raises(onecopy.Aborted) as failure:
        call()
    assert failure.value.reason == "MEMORY_FAULT"
    assert "its file was truncated" in str(failure.value)


@pytest.mark.parametrize("node", ["west", "east"])
def test_a_source_and_a_destination(pair, east, west, cut, node):
    there = (west if node == "west" else east).empty(BYTES, "uint8", name=f"pages-{node}")
    numpy.asarray(there)[:] = 5
    end = there.buffer
    failed(lambda: east.transfer(cut, end))
    failed(lambda: east.transfer(end, cut))
    whole = numpy.full(BYTES, 7, "uint8")
    assert east.transfer(whole, end).state == "SUCCEEDED"
    assert (numpy.asarray(there) == 7).all()
    assert cut[0] in (ord("x"), 5)  # what fails may have begun, but nothing was put in the file's place


def test_columns_checksums_and_lists(east, cut):
    there = east.empty(BYTES // 8, "uint8")
    failed(lambda: east.transfer(cut.reshape(-1, 8)[:, 3], there))
    whole = east.empty(BYTES, "uint8")
    failed(lambda: east.transfer(cut, whole, checksum=True))
    failed(lambda: east.transfer([cut[:PAGE], cut[-PAGE:]], [whole.endpoint(0, PAGE), whole.endpoint(PAGE, PAGE)]))
    failed(lambda: east.start(cut, whole).wait())
    assert east.transfer(numpy.ones(BYTES, "uint8"), whole).state == "SUCCEEDED"


def test_a_file_that_is_written_from_it(east, cut, folder):
    failed(lambda: east.copy_to_file(cut, folder / "out"))
    failed(lambda: east.save(folder / "out.npy", cut))
    assert not (folder / "out").exists() and not (folder / "out.npy").exists()
    (folder / "in").write_bytes(b"y" * BYTES)
    failed(lambda: east.copy_from_file(folder / "in", cut))


def test_a_mapping_of_anothers_memory(east):
    """Which its owner may cut short under whoever maps it."""
    fd = os.memfd_create("another", os.MFD_CLOEXEC)
    os.ftruncate(fd, BYTES)
    os.pwrite(fd, b"x" * BYTES, 0)
    east._native.register_memfd("another", fd, 0, BYTES)
    mapped = east.map("another")
    view = mapped.numpy()
    assert view[-1] == ord("x") and mapped.valid
    os.ftruncate(fd, PAGE)
    assert view[-1] == 0
    assert not mapped.valid
    with pytest.raises(onecopy.Aborted, match="MEMORY_FAULT"):
        mapped.check()
    os.close(fd)
    east.delete("another", force=True)


HANDLERS = """
import faulthandler, mmap, os, signal, sys, numpy, onecopy
def transfer():
    try:
        node.transfer(array, there)
    except onecopy.Aborted as failure:
        assert failure.reason == "MEMORY_FAULT", failure
    else:
        raise AssertionError("no failure")
file, order = sys.argv[1:]
bytes = 64 * mmap.PAGESIZE
with open(file, "wb") as made:
    made.write(b"x" * bytes)
array = numpy.memmap(file, dtype="uint8", mode="r+", shape=(bytes,))
os.truncate(file, bytes // 2)
if order in ("before", "both"):
    faulthandler.enable()
node = onecopy.connect()
there = node.empty(bytes, "uint8")
if order != "after":
    transfer()
if order in ("after", "both"):
    faulthandler.disable()
    faulthandler.enable()
for _ in range(3):
    transfer()
print("going on", flush=True)
array[-1]  # is the program's own
"""


@pytest.mark.parametrize("order", ["none", "before", "after", "both"])
def test_beside_pythons_own_handler(pair, folder, order):
    """Which still tells of what the program itself does, and of nothing else."""
    done = subprocess.run([sys.executable, "-c", HANDLERS, folder / "cut", order], capture_output=True, text=True,
                          env={"ONECOPY_RUN_DIR": str(pair.west.run_dir)}, check=False, timeout=60)
    assert done.stdout == "going on\n", done.stderr
    assert done.returncode == -7
    assert done.stderr.count("Fatal Python error: Bus error") == (0 if order == "none" else 1)


def refusals(node, source, destination):
    done = node.transfer(source, destination, checksum=True)
    return done.receipt.path, {each.reason for each in done.refresh().receipt.refused}


def test_memory_of_ours_has_its_pages(east, west):
    """Nothing has written to it, and it is read where it lies, as what was written to is."""
    kept = west.empty(BYTES, "uint8")
    there = kept.buffer
    written = east.empty(BYTES, "uint8")
    numpy.asarray(written)[:] = 1
    path, why = refusals(east, written, there)
    assert path == "tcp-direct"
    for never in (east.empty(BYTES, "uint8"), east.pool(slab="1MiB").empty(BYTES, "uint8"),
                  numpy.asarray(east.empty(BYTES, "uint8"))):
        assert refusals(east, never, there) == (path, why)
        assert "HAS_HOLES" not in why


def test_more_memory_than_there_is(east):
    """Is refused before any of it is taken."""
    with open("/proc/meminfo") as facts:
        available = next(int(line.split()[1]) << 10 for line in facts if line.startswith("MemAvailable:"))
    for make in (lambda: east.empty(2 * available, "uint8"), lambda: east.pool().empty(2 * available, "uint8")):
        with pytest.raises(onecopy.ResourceExhausted) as failure:
            make()
        assert failure.value.reason == "NO_MEMORY"
        assert "available" in str(failure.value)
    with open("/proc/meminfo") as facts:
        now = next(int(line.split()[1]) << 10 for line in facts if line.startswith("MemAvailable:"))
    assert now > available / 2


def test_a_batch_that_is_placed_out_of_a_mapped_file(east, cut):
    pyarrow = pytest.importorskip("pyarrow")
    import onecopy.arrow
    column = pyarrow.Array.from_buffers(pyarrow.uint8(), BYTES, [None, pyarrow.py_buffer(cut)])
    failed(lambda: onecopy.arrow.place(east, pyarrow.record_batch({"x": column})))
    whole = pyarrow.record_batch({"x": numpy.full(BYTES, 5, "uint8")})
    assert onecopy.arrow.place(east, whole).batch.equals(whole)
