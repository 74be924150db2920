"""Buffers used in place: what one process writes, the other sees."""

import asyncio
import gc
import select
import signal
import subprocess
import sys
import textwrap

import numpy
import pytest

import onecopy

# Maps a buffer in a process of its own, and answers lines: `get INDEX`, `put INDEX VALUE`, `check`, `await`.
MAPPER = textwrap.dedent("""
    import select, sys
    import numpy, onecopy
    array = onecopy.connect(sys.argv[1]).map(sys.argv[2], dtype="uint8")
    view = numpy.asarray(array)
    def state():
        try:
            array.check()
            return "valid"
        except onecopy.Error as failure:
            return failure.reason
    print("ready", flush=True)
    for line in sys.stdin:
        word, *values = line.split()
        if word == "get":
            print(view[int(values[0])], flush=True)
        if word == "put":
            view[int(values[0])] = int(values[1])
            print("done", flush=True)
        if word == "await":
            select.select([array.revocation_fd], [], [])
        if word in ("check", "await"):
            print(state(), flush=True)
""")


class Mapper:
    def __init__(self, daemon, buffer):
        self.process = subprocess.Popen([sys.executable, "-c", MAPPER, str(daemon.run_dir), buffer],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def lone(daemon):
    return onecopy.connect(daemon.run_dir)


def removed(node, name):
    """Whether it can be removed without force, once its mappings have been let go of."""
    for _ in range(10_000):
        try:
            node.delete(name)
        except onecopy.FailedPrecondition as failure:
            assert failure.reason == "BUFFER_IN_USE"
        else:
            return True
    return False


def test_two_processes_see_one_memory(daemon, lone):
    lone.create("a", 4096)
    here = numpy.asarray(lone.map("a", dtype="uint8"))
    with Mapper(daemon, "a") as there:
        here[7] = 70
        assert there.ask("get 7") == "70"
        assert there.ask("put 4095 5") == "done"
        assert here[4095] == 5
        assert there.ask("check") == "valid"


def test_memory_of_this_process_in_another(daemon, lone):
    array = lone.empty(4096, "uint8", name="mine")
    numpy.asarray(array)[...] = 9
    with Mapper(daemon, "mine") as there:
        assert there.ask("get 100") == "9"
        array.close()
        assert there.ask("await") == "BUFFER_NOT_FOUND"
        assert there.ask("get 100") == "9"  # it does not fault


def test_as_an_array(lone):
    buffer = lone.create("a", 96)
    with lone.map(buffer, (2, 3), "float64") as array:
        assert (array.shape, array.dtype, array.nbytes, len(array)) == ((2, 3), "float64", 48, 2)
        assert array.device is None and array.buffer.name == "a"
        view = array.numpy()
        view[1, 2] = 2.5
        assert numpy.from_dlpack(array)[1, 2] == 2.5
        assert memoryview(array.memory).cast("d")[5] == 2.5
        assert numpy.asarray(array, dtype="float32")[1, 2] == 2.5
        assert not hasattr(array, "__cuda_array_interface__")
        copied = numpy.array(array, copy=True)
        copied[1, 2] = 0
        assert view[1, 2] == 2.5
    assert lone.map("a", dtype="int16").shape == (48,)
    assert lone.map("a", (), "int32").numpy().shape == ()
    assert lone.map("lone:a").shape == (96,)


def test_sizes_that_do_not_fit(lone):
    lone.create("a", 97)
    for shape, dtype in ((None, "float64"), ((98,), "uint8"), ((5, 5), "float32")):
        with pytest.raises(onecopy.InvalidArgument) as failure:
            lone.map("a", shape, dtype)
        assert failure.value.reason == "SIZE_MISMATCH"
    with pytest.raises(onecopy.InvalidArgument):
        lone.map("a", (-1,))
    with pytest.raises(onecopy.InvalidArgument):
        lone.map("a", device="rocm:0")
    with pytest.raises(onecopy.InvalidArgument) as failure:
        lone.map("a", device="cuda:0")
    assert "host memory" in str(failure.value)
    assert removed(lone, "a")  # nothing of these is left


def test_views_keep_the_memory_and_are_counted(lone):
    lone.create("a", 4096)
    array = lone.map("a")
    first, second = numpy.asarray(array), numpy.from_dlpack(array)
    array.close()
    array.close()
    assert not array.valid
    for use in (array.check, array.numpy, lambda: array.memory, lambda: numpy.from_dlpack(array)):
        with pytest.raises(onecopy.Cancelled):
            use()
    first[3] = 4  # mapped as ever
    assert second[3] == 4
    with pytest.raises(onecopy.FailedPrecondition) as failure:
        lone.delete("a")
    assert failure.value.reason == "BUFFER_IN_USE"
    del first, second
    gc.collect()
    assert removed(lone, "a")


def test_it_is_taken_back_with_the_buffer(lone):
    lone.create("a", 4096)
    array = lone.map("a")
    assert array.valid
    array.check()
    assert select.select([array.revocation_fd], [], [], 0)[0] == []
    lone.delete("a", force=True)
    assert not array.valid
    assert select.select([array.revocation_fd], [], [], 0)[0] == [array.revocation_fd]
    with pytest.raises(onecopy.NotFound) as failure:
        array.check()
    assert failure.value.reason == "BUFFER_NOT_FOUND"
    array.numpy()[0] = 1  # it does not fault


def test_the_daemons_end(daemon, lone):
    lone.create("a", 4096)
    array = lone.map("a")
    daemon.kill()
    select.select([array.revocation_fd], [], [])
    with pytest.raises(onecopy.Unavailable) as failure:
        array.check()
    assert failure.value.reason == "DAEMON_UNREACHABLE"
    array.numpy()[0] = 1
    array.close()


def test_the_owners_end(daemon, lone):
    program = textwrap.dedent("""
        import sys, onecopy
        array = onecopy.connect(sys.argv[1]).empty(4096, "uint8", name="theirs")
        array.numpy()[...] = 6
        print("ready", flush=True)
        sys.stdin.read()
    """)
    owner = subprocess.Popen([sys.executable, "-c", program, str(daemon.run_dir)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    assert owner.stdout.readline() == "ready\n"
    array = lone.map("theirs")
    assert (array.numpy() == 6).all()
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    select.select([array.revocation_fd], [], [])
    with pytest.raises(onecopy.Aborted) as failure:
        array.check()
    assert failure.value.reason == "OWNER_DIED"
    owner.stdin.close()
    owner.stdout.close()


def test_what_cannot_be_mapped(pair, east):
    with pytest.raises(onecopy.NotFound):
        east.map("map-nothing")
    with pytest.raises(onecopy.FailedPrecondition) as failure:
        east.map("west:map-anything")
    assert failure.value.reason == "OTHER_NODE"
    assert "transfer it" in failure.value.remedy
    ordinary = numpy.zeros(4096, "uint8")
    buffer = east.register(ordinary)
    with pytest.raises(onecopy.FailedPrecondition) as failure:
        east.map(buffer)
    assert failure.value.reason == "NOT_SHAREABLE"
    east.unregister(ordinary)


def test_transfers_take_it_as_its_buffer(east, west):
    east.create("map-source", 4096)
    target = west.create("map-target", 4096)
    array = east.map("map-source")
    array.numpy()[...] = 44
    east.transfer(array, f"west:{target.name}")
    assert (west.map("map-target").numpy() == 44).all()
    east.delete("map-source", force=True)
    west.delete("map-target", force=True)


def test_it_is_awaited(daemon):
    async def run():
        node = await onecopy.aio.connect(daemon.run_dir)
        await node.create("a", 4096)
        array = await node.map("a", (1024,), "int32")
        told = asyncio.Event()
        asyncio.get_running_loop().add_reader(array.revocation_fd, told.set)
        await node.delete("a", force=True)
        await told.wait()
        asyncio.get_running_loop().remove_reader(array.revocation_fd)
        assert not array.valid

    asyncio.run(run())
