"""Files into arrays and buffers, and back."""

import asyncio
import gc
import os
import subprocess

import fake_gpus
import numpy
import pytest

import onecopy
from onecopy import _native
from onecopy.core.requests import _pieces

SIZE = 3_000_001


def pattern(count, seed=1):
    return ((numpy.arange(count) * 7 + seed) % 251).astype("uint8")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(pattern(SIZE).tobytes())
    return path


def arrays(node, size):
    """Memory of every kind of this machine."""
    pool = node.pool(slab="4MiB")
    return {"shared": node.empty(size, "uint8"), "of a pool": pool.empty(size, "uint8"), "NumPy's": numpy.zeros(size, "uint8")}


def test_a_file_fills_an_array_and_comes_back(east, file, tmp_path):
    for kind, array in arrays(east, SIZE).items():
        read = east.copy_from_file(file, array, checksum=True)
        assert (numpy.asarray(array) == pattern(SIZE)).all(), kind
        assert (read.state, read.bytes, read.receipt.checksum.verified) == ("SUCCEEDED", SIZE, True)
        assert read.receipt.path == "storage-bounce"
        assert read.source == f"east:{file}@0+{SIZE}"
        written = east.copy_to_file(array, tmp_path / "out", checksum=True, sync=True)
        assert (tmp_path / "out").read_bytes() == pattern(SIZE).tobytes(), kind
        assert (written.bytes, written.receipt.path) == (SIZE, "storage-bounce")


def test_parts_of_files(east, file):
    array = numpy.zeros((10, 10), "float32")
    east.copy_from_file(file, array, offset=17)
    assert array.tobytes() == pattern(SIZE)[17:417].tobytes()
    array[:] = 3
    east.copy_to_file(array[2:4], str(file), offset=5)
    now = file.read_bytes()
    assert (now[:5], now[5:85], now[85:]) == (pattern(5).tobytes(), array[2:4].tobytes(), pattern(SIZE).tobytes()[85:])


def test_buffers_have_what_there_is(east, file):
    made = east.create("files-made", SIZE + 100)
    assert east.copy_from_file(file, made).bytes == SIZE
    assert east.copy_from_file(file, "files-made@7", offset=SIZE - 10).bytes == 10
    assert east.copy_from_file(file, made[:4], offset=1, bytes=3).bytes == 3
    east.delete(made)


def test_another_nodes_buffer_is_the_daemons_work_too(east, west, file, tmp_path):
    theirs = west.empty(SIZE, "uint8")
    seen = []
    read = east.copy_from_file(file, theirs.buffer, progress=seen.append)
    assert (numpy.asarray(theirs) == pattern(SIZE)).all()
    assert read.receipt.path.startswith("storage-bounce+")
    assert all(step.by != "client" for step in read.receipt.steps)
    assert seen
    assert seen[-1].bytes_done <= SIZE
    east.copy_to_file(theirs.buffer, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == pattern(SIZE).tobytes()
    # By a path of buffers, through this process.
    through = east.copy_from_file(file, theirs.buffer, path="tcp-*")
    assert through.receipt.steps[0].by == "client"


def test_a_gpus_memory(gpu_node, gpu_pool, file, tmp_path):
    array = gpu_pool.empty(SIZE // 4, "float32")
    read = gpu_node.copy_from_file(file, array)
    assert fake_gpus.read(array.pointer, array.nbytes) == pattern(SIZE)[:array.nbytes].tobytes()
    assert read.receipt.path == "storage-bounce"
    assert read.receipt.copies in (2, 3)
    gpu_node.copy_to_file(array, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == pattern(SIZE)[:array.nbytes].tobytes()


def test_memory_that_only_the_cuda_array_interface_tells_of(gpu_node, gpu_pool, file):
    array = gpu_pool.empty(1000, "uint8")
    gpu_node.copy_from_file(file, fake_gpus.Foreign(array.pointer, (1000,), keeps=array))
    assert fake_gpus.read(array.pointer, 1000) == pattern(1000).tobytes()


def test_pieces_of_buffers_of_two_nodes_go_together_for_each_buffer(east, west, file, tmp_path):
    """Of a file of which the descriptor counts."""
    theirs, ours = west.empty(SIZE, "uint8"), east.empty(1000, "uint8")
    request = _pieces.request(_pieces.Ends([("", str(file), None, None)], [("", str(file), None, None)], []))
    pieces = [(theirs.buffer.endpoint(5, 100)._tuple(), 7), (ours.buffer.endpoint(0, 50)._tuple(), 1000),
              (theirs.buffer.endpoint(500, 300_000)._tuple(), 2_000_000), (ours.buffer.endpoint(60, 40)._tuple(), 3)]
    with file.open("rb") as opened:
        file.rename(tmp_path / "moved")
        done = east._native.copy_pieces(request, opened.fileno(), True, [], pieces, False, None, _native.Stop())
    expected = numpy.zeros(SIZE, "uint8")
    expected[5:105], expected[500:300_500] = pattern(SIZE)[7:107], pattern(SIZE)[2_000_000:2_300_000]
    assert (numpy.asarray(theirs) == expected).all()
    assert (numpy.asarray(ours)[:50] == pattern(SIZE)[1000:1050]).all()
    assert (numpy.asarray(ours)[60:100] == pattern(SIZE)[3:43]).all()
    assert [each.bytes for each in done] == [300_100, 90]
    written = [(end, at - 1 if at else 2) for end, at in pieces]
    request = _pieces.request(_pieces.Ends([("", str(tmp_path / "out"), None, None)], [("", "", None, None)], []), checksum=True)
    texts = [(0, b"a"), (1, b"b"), (SIZE + 4, b"end")]
    east._native.copy_pieces(request, -1, False, texts, written, True, None, _native.Stop())
    now = (tmp_path / "out").read_bytes()
    assert (now[6:106], now[999:1049], now[1_999_999:2_299_999]) == (
        pattern(SIZE)[7:107].tobytes(), pattern(SIZE)[1000:1050].tobytes(), pattern(SIZE)[2_000_000:2_300_000].tobytes())
    assert now[:2] == b"ab"
    assert now[2_299_999:] == bytes(SIZE + 4 - 2_299_999) + b"end"
    assert now[2:6] == pattern(SIZE)[3:7].tobytes()
    before = (tmp_path / "out").read_bytes(), sorted(os.listdir(tmp_path))
    for wrong in ([(theirs.buffer.endpoint(0, 0)._tuple(), 0)], [(theirs.buffer.endpoint(0, None)._tuple(), 0)],
                  [(theirs.buffer.endpoint(0, 10)._tuple(), 0), (theirs.buffer.endpoint(SIZE, 10)._tuple(), 100)],
                  [(ours.buffer.endpoint(0, 10)._tuple(), (1 << 64) - 5)], [("", "no-such-buffer", 0, 10)]):
        given = [(wrong[0], 0)] if len(wrong[0]) == 4 else wrong
        with pytest.raises(onecopy.Error):
            east._native.copy_pieces(request, -1, False, texts, given, False, None, _native.Stop())
        assert ((tmp_path / "out").read_bytes(), sorted(os.listdir(tmp_path))) == before


def test_a_file_goes_to_each_of_many(east, west, file):
    for kind, array in arrays(east, SIZE).items():
        others = [numpy.zeros(SIZE, "uint8"), west.empty(SIZE, "uint8"), east.empty(SIZE, "uint8")]
        seen = []
        done = east.copy_file_to_each(file, [others[0], others[1].buffer, array, others[2]], checksum=True,
                                      progress=seen.append)
        for each in (array, *others):
            assert (numpy.asarray(each) == pattern(SIZE)).all(), kind
        assert [(each.state, each.bytes, each.receipt.checksum.verified) for each in done] == [("SUCCEEDED", SIZE, True)] * 4
        assert [each.receipt.path.startswith("storage") for each in done] == [True, False, False, False]  # read once
        assert all("copied_from" in each.receipt.evidence for each in done[1:])
        assert done[1].destination.startswith("west:")
        assert all(each.source == f"east:{file}@0+{SIZE}" for each in done)
        assert seen
        assert seen[-1].bytes_done == SIZE


def test_a_part_of_a_file_to_each(east, file):
    made = [east.create(f"each-{number}", 1000) for number in range(2)]
    done = east.copy_file_to_each(file, [made[0], "each-1@100"], offset=SIZE - 50)
    assert [each.bytes for each in done] == [50, 50]  # what there is
    both = [numpy.zeros(40, "uint8"), numpy.zeros(10, "float32")]
    east.copy_file_to_each(str(file), both, offset=7)  # as many as the arrays have
    assert all(each.tobytes() == pattern(SIZE)[7:47].tobytes() for each in both)
    unlike = [numpy.zeros(40, "uint8"), numpy.zeros(60, "uint8")]
    east.copy_file_to_each(file, unlike, bytes=30)
    assert all(each[:30].tobytes() == pattern(30).tobytes() and not each[30:].any() for each in unlike)
    for each in made:
        east.delete(each)


def test_a_file_to_each_of_a_gpus_arrays(gpu_node, gpu_pool, file):
    there = [gpu_pool.empty(SIZE, "uint8") for _ in range(2)]
    gpu_node.copy_file_to_each(file, there)
    assert all(fake_gpus.read(each.pointer, SIZE) == pattern(SIZE).tobytes() for each in there)


def test_what_is_wrong_with_a_copy_to_each_is_said(east, file):
    one, other = numpy.full(100, 9, "uint8"), numpy.full(100, 9, "uint8")
    read_only = numpy.zeros(100, "uint8")
    read_only.flags.writeable = False
    for destinations, options, failure, reason in [
        ([], {}, onecopy.InvalidArgument, "BAD_ARGUMENT"),
        (one, {}, onecopy.InvalidArgument, "BAD_ARGUMENT"),
        ([one, one], {}, onecopy.InvalidArgument, "BAD_ARGUMENT"),
        ([one, other[:50]], {}, onecopy.InvalidArgument, "SIZE_MISMATCH"),
        ([one, other], {"bytes": 101}, onecopy.InvalidArgument, "SIZE_MISMATCH"),
        ([one, other[::2]], {"bytes": 10}, onecopy.InvalidArgument, "BAD_ARGUMENT"),
        ([one, numpy.zeros((0, 3))], {"bytes": 10}, onecopy.InvalidArgument, "BAD_SIZE"),
        ([one, read_only], {}, onecopy.InvalidArgument, "BAD_ARGUMENT"),
        ([one, "nothing-of-that-name"], {}, onecopy.NotFound, "BUFFER_NOT_FOUND"),
        ([one, other], {"offset": -1}, onecopy.InvalidArgument, "BAD_ARGUMENT"),
        ([one, other], {"offset": SIZE - 99}, onecopy.OutOfRange, None),
        ([one, other], {"deadline": 0}, onecopy.InvalidArgument, "BAD_ARGUMENT"),
        ([one, other], {"at_most": 1}, onecopy.FailedPrecondition, "POLICY_UNMET"),
    ]:
        with pytest.raises(failure) as refused:
            east.copy_file_to_each(file, destinations, **options)
        assert reason in (None, refused.value.reason), refused.value
        assert (one == 9).all(), refused.value
        assert (other == 9).all(), refused.value
    for name in ("/dev/zero", file.parent, file.parent / "gone"):
        with pytest.raises(onecopy.Error):
            east.copy_file_to_each(name, [one, other])


def test_a_restart_of_the_daemon_between_copies_to_each(daemon, file):
    node = onecopy.connect(daemon.run_dir)
    both = [numpy.zeros(SIZE, "uint8"), node.empty(SIZE, "uint8")]
    node.copy_file_to_each(file, both)
    daemon.kill()
    daemon.start_again()
    for each in both:
        numpy.asarray(each)[:] = 0
    node.copy_file_to_each(file, both)  # registered anew
    assert all((numpy.asarray(each) == pattern(SIZE)).all() for each in both)


@pytest.fixture
def device(tmp_path):
    """A block device, of a file of its own."""
    backing = tmp_path / "disk"
    backing.write_bytes(bytes(4 << 20))
    try:
        made = subprocess.run(["losetup", "--find", "--show", backing], capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as failure:
        pytest.skip(f"no loop device can be made: {failure}")
    name = made.stdout.strip()
    yield name
    subprocess.run(["losetup", "--detach", name], check=True)


def test_a_block_device_is_written_where_that_is_asked_for(east, device):
    array = pattern(1 << 20)
    for options in ({}, {"offset": 4096}):
        with pytest.raises(onecopy.InvalidArgument, match="block device") as refused:
            east.copy_to_file(array, device, **options)
        assert refused.value.reason == "BAD_ARGUMENT"
    back = numpy.ones(1 << 20, "uint8")
    east.copy_from_file(device, back)
    assert not back.any()
    written = east.copy_to_file(array, device, offset=8192, write_device=True, sync=True)
    assert written.bytes == array.nbytes
    east.copy_from_file(device, back, offset=8192)
    assert (back == array).all()
    asyncio.run(east.aio.copy_to_file(array[::-1].copy(), device, write_device=True))
    east.copy_from_file(device, back)
    assert (back == array[::-1]).all()
    with pytest.raises(onecopy.OutOfRange):
        east.copy_to_file(array, device, offset=(4 << 20) - 5, write_device=True)


def test_what_is_wrong_is_said_and_leaves_all_as_it_was(east, file, tmp_path):
    array = numpy.full(100, 9, "uint8")
    read_only = numpy.zeros(100, "uint8")
    read_only.flags.writeable = False
    for call, failure, reason in [
        (lambda: east.copy_from_file(tmp_path / "gone", array), onecopy.NotFound, "FILE_NOT_FOUND"),
        (lambda: east.copy_from_file(tmp_path, array), onecopy.InvalidArgument, None),
        (lambda: east.copy_from_file(file, array, offset=SIZE - 99), onecopy.Error, None),
        (lambda: east.copy_from_file(file, array, offset=-1), onecopy.InvalidArgument, "BAD_ARGUMENT"),
        (lambda: east.copy_from_file(file, array, bytes=101), onecopy.Error, None),
        (lambda: east.copy_from_file(file, object()), onecopy.InvalidArgument, "BAD_ARGUMENT"),
        (lambda: east.copy_from_file(file, [array]), onecopy.InvalidArgument, "BAD_ARGUMENT"),
        (lambda: east.copy_to_file([array], tmp_path / "gone"), onecopy.InvalidArgument, "BAD_ARGUMENT"),
        (lambda: east.copy_from_file(file, array[::2]), onecopy.InvalidArgument, "BAD_ARGUMENT"),
        (lambda: east.copy_from_file(file, read_only), onecopy.InvalidArgument, "BAD_ARGUMENT"),
        (lambda: east.copy_from_file("a\0b", array), onecopy.InvalidArgument, "BAD_ARGUMENT"),
        (lambda: east.copy_from_file("", array), onecopy.InvalidArgument, "BAD_ARGUMENT"),
        (lambda: east.copy_from_file(os.fsdecode(b"\xff"), array), onecopy.NotFound, "FILE_NOT_FOUND"),
        (lambda: east.copy_from_file("\ud800", array), onecopy.InvalidArgument, "BAD_NAME"),
        (lambda: east.copy_from_file(file, array, path="rdma-*"), onecopy.FailedPrecondition, "POLICY_UNMET"),
        (lambda: east.copy_to_file(array, tmp_path / "gone" / "file"), onecopy.NotFound, "FILE_NOT_FOUND"),
        (lambda: east.copy_to_file(array, tmp_path), onecopy.InvalidArgument, "BAD_ARGUMENT"),
        (lambda: east.copy_to_file(array, "/dev/null", sync=True), onecopy.InvalidArgument, "BAD_ARGUMENT"),
        (lambda: east.copy_to_file(array, tmp_path / "gone", offset=3), onecopy.NotFound, "FILE_NOT_FOUND"),
        (lambda: east.copy_to_file("nothing-of-that-name", tmp_path / "gone"), onecopy.NotFound, "BUFFER_NOT_FOUND"),
    ]:
        with pytest.raises(failure) as refused:
            call()
        assert reason in (None, refused.value.reason), refused.value
        assert (array == 9).all(), refused.value
    assert os.listdir(tmp_path) == ["file"]
    assert file.read_bytes() == pattern(SIZE).tobytes()


def test_without_waiting(east, file, tmp_path):
    array = numpy.zeros(SIZE, "uint8")

    async def both():
        read = await east.aio.copy_from_file(file, array)
        written = await east.aio.copy_to_file(array, tmp_path / "out", sync=True)
        return read, written, await east.aio.copy_file_to_each(file, each)

    each = [numpy.zeros(SIZE, "uint8"), numpy.zeros(SIZE, "uint8")]
    read, written, copied = asyncio.run(both())
    assert read.bytes == written.bytes == copied[0].bytes == copied[1].bytes == SIZE
    assert (each[0] == pattern(SIZE)).all()
    assert (each[1] == pattern(SIZE)).all()
    assert (tmp_path / "out").read_bytes() == pattern(SIZE).tobytes()


def test_nothing_stays_open(east, file, tmp_path):
    array = numpy.zeros(SIZE, "uint8")
    east.copy_from_file(file, array)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        east.copy_from_file(file, array)
        east.copy_to_file(array, tmp_path / "out")
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before
