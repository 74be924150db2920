"""Files of another node, below folders that its configuration exports: read and written by daemons."""

import asyncio
import os

import numpy as np
import pytest
from conftest import Daemon

import onecopy

BYTES = 1 << 20


@pytest.fixture
def exporting(folder):
    """A node that has files for others, and one that uses them; and the folder."""
    data = folder / "data"
    data.mkdir()
    me = f"{os.getuid()}@near"
    (folder / "far.toml").write_text(
        f'version = 1\n[exports.data]\npath = "{data}"\nread = "{me}"\nwrite = "{me}"\n')
    for name in ("far", "near"):
        (folder / name).mkdir()
    far = Daemon("far", folder / "far", ["--config", folder / "far.toml"])
    try:
        near = Daemon("near", folder / "near", ["--peer", f"far={far.address}"])
        try:
            near.wait_for_peer("far")
            far.wait_for_peer("near")
            yield onecopy.connect(near.run_dir), data
        finally:
            near.end()
    finally:
        far.end()


def some(bytes=BYTES):
    return np.random.default_rng(7).integers(0, 256, bytes, dtype=np.uint8)


def test_an_array_goes_into_a_file_of_another_node_and_back(exporting):
    node, data = exporting
    array = some(BYTES + 5)
    written = node.transfer(array, f"far:{data}/new", checksum=True, sync=True)
    assert written.receipt.path.startswith("storage-bounce+tcp-")
    assert written.receipt.checksum.verified
    assert written.destination == f"far:{data}/new@0+{BYTES + 5}"
    assert (data / "new").read_bytes() == array.tobytes()
    back = np.zeros_like(array)
    read = node.transfer(f"far:{data}/new", back)
    assert read.receipt.path.startswith("storage-bounce+tcp-")
    assert (back == array).all()
    assert [each.name for each in data.iterdir()] == ["new"]


def test_the_folders_of_a_node_are_listed(exporting):
    node, data = exporting
    wanted = [onecopy.Export("far", "data", str(data), read=True, write=True)]
    assert node.exports("far") == wanted
    assert node.exports() == []
    assert asyncio.run(node.aio.exports("far")) == wanted
    with pytest.raises(onecopy.NotFound):
        node.exports("nowhere")


def test_no_name_is_repaired_into_another(exporting):
    """What Python writes with surrogates is no UTF-8, and `bad?` is another file."""
    node, data = exporting
    (data / "bad?").write_bytes(b"kept")
    array = some(16)
    for name in (os.fsdecode(b"bad\xff"), "bad\ud800"):
        path = f"far:{data}/{name}"
        calls = [lambda: node.transfer(array, path), lambda: node.transfer(path, array), lambda: node.explain(array, path),
                 lambda: node.transfer(array, array.copy(), path=name), lambda: node.buffer(name), lambda: node.create(name, 1)]
        for number, call in enumerate(calls):
            with pytest.raises(onecopy.Error) as failure:
                call()
            assert failure.value.reason == "BAD_NAME", number
    assert (data / "bad?").read_bytes() == b"kept"


def test_a_file_here_whose_name_is_not_utf8_is_that_one(exporting, tmp_path):
    node, _ = exporting
    path = os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff")
    array = some(1000)
    node.copy_to_file(array, path)
    assert os.listdir(os.fsencode(tmp_path)) == [b"bad\xff"]
    back = np.zeros_like(array)
    node.copy_from_file(path, back)
    assert (back == array).all()


def test_ranges_of_a_file_of_another_node_are_written_in_place(exporting):
    node, data = exporting
    array = some(4096)
    (data / "parts").write_bytes(bytes(10000))
    node.transfer(array, f"far:{data}/parts@1001")
    node.transfer(array[:7], onecopy.Endpoint(f"{data}/parts", "far", 9000, 7))
    expected = bytearray(10000)
    expected[1001:5097] = array.tobytes()
    expected[9000:9007] = array[:7].tobytes()
    assert (data / "parts").read_bytes() == expected
    few = np.zeros(16, dtype=np.uint8)
    node.transfer(f"far:{data}/parts@1001+16", few)
    assert (few == array[:16]).all()


def test_what_is_not_exported_is_neither_read_nor_written(exporting, folder):
    node, data = exporting
    array = some(64)
    for end in (f"far:{folder}/elsewhere", "far:/etc/passwd"):
        for ends in ((array, end), (end, array)):
            with pytest.raises(onecopy.PermissionDenied) as refused:
                node.transfer(*ends)
            assert refused.value.reason == "ACCESS_DENIED"
    with pytest.raises(onecopy.NotFound) as refused:
        node.transfer(f"far:{data}/none", array)
    assert refused.value.reason == "FILE_NOT_FOUND"
    with pytest.raises(onecopy.InvalidArgument) as refused:
        node.transfer(array, f"far:{data}/../up")
    assert refused.value.reason == "BAD_ENDPOINT"
    with pytest.raises(onecopy.InvalidArgument):
        node.transfer(array, array.copy(), sync=True)
    assert list(data.iterdir()) == []


def test_many_small_files_are_each_the_last_that_was_written(exporting):
    node, data = exporting
    array = some(64)
    for number in range(20):
        array[0] = number
        node.transfer(array, f"far:{data}/same")
        assert (data / "same").read_bytes() == array.tobytes()


def test_files_of_other_nodes_for_asyncio(exporting):
    node, data = exporting
    array = some(4097)

    async def put():
        there = await onecopy.aio.connect(node.run_dir)
        return await there.transfer(array, f"far:{data}/new", sync=True)

    assert asyncio.run(put()).state == "SUCCEEDED"
    assert (data / "new").read_bytes() == array.tobytes()


@pytest.mark.parametrize(("text", "parts"), [
    ("far:/data/a", ("/data/a", "far", None, None)),
    ("far:/data/a@4KiB", ("/data/a", "far", 4096, None)),
    ("far:/data/a@0+1MiB", ("/data/a", "far", 0, 1 << 20)),
    ("far:/d@ta/a:b", ("/d@ta/a:b", "far", None, None)),
])
def test_ends_that_are_files_are_parsed_as_they_are_typed(text, parts):
    assert onecopy.Endpoint.parse(text) == onecopy.Endpoint(*parts)


@pytest.mark.parametrize("text", ["/data/a", ":/data/a", "far:data/a", "./a"])
def test_what_is_no_file_of_another_node_is_refused(text):
    with pytest.raises(onecopy.InvalidArgument):
        onecopy.Endpoint.parse(text)
