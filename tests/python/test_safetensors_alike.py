"""The command line and Python read the head of a safetensors file by the same rules."""

import json
import os
import pathlib
import random
import subprocess

import pytest
import safetensors.numpy
from array_files import entry, model, mutated, raw
from conftest import BIN
from test_reference_safetensors import DTYPES, EMPTY, HEADS, ONE

import onecopy
from onecopy import _native
from onecopy.formats import _opened, _safetensors

ROOM = 1 << 20  # bytes of the buffer that the command line copies into


def by_command_line(pair, path):
    """Each tensor as name, type, shape, place in the payload and bytes; or the reason of the failure."""
    done = subprocess.run([BIN / "onecopy", "--run-dir", pair.east.run_dir, "--json", "cp", path, "alike", "--tensors"],
                          capture_output=True, stdin=subprocess.DEVNULL, check=False)
    document = json.loads(done.stdout or done.stderr)
    if done.returncode != 0:
        return document["error"]["reason"]
    found = []
    for each in document["tensors"]:
        begin, bytes = each["endpoint"].rpartition("@")[2].split("+")
        assert int(bytes) == each["bytes"]
        found.append((each["name"], each["dtype"], tuple(each["shape"]), int(begin), each["bytes"]))
    return found


def by_python(path):
    try:
        with _opened.OpenFile(path) as file:
            start = 8 + int.from_bytes(file.read(0, 8), "little")
            header = _safetensors.read(file)
    except onecopy.Error as failure:
        return failure.reason
    found = []
    for each in header.tensors:
        shape = each.shape
        if each.dtype is not None and each.dtype.lanes == 2:  # an array has pairs as its elements
            shape = (*shape[:-1], shape[-1] * 2)
        found.append((each.name, each.code, shape, each.offset - start, each.bytes))
    return found


@pytest.fixture
def compare(pair, east, tmp_path):
    east.create("alike", ROOM)
    counts = {"read": 0, "refused": 0}

    def one(whole, path=tmp_path / "some.safetensors"):
        path.write_bytes(whole)
        theirs, ours = by_command_line(pair, path), by_python(path)
        assert theirs == ours, whole[:300]
        counts["refused" if isinstance(ours, str) else "read"] += 1

    one.counts = counts
    yield one
    east.delete("alike", force=True)


def test_heads_by_hand(compare):
    for head in HEADS:
        compare(raw(head, b"1"))
    for head in EMPTY:
        compare(raw(head[:-1] + b',"x":' + ONE + b"}", b"1"))
    for dtype in DTYPES:
        for shape, bytes in (([2], 1), ([8], 8), ([8], 16), ([4, 2], 32), ([4, 2], 64)):
            compare(raw({"a": entry(dtype, shape, 0, bytes)}, b"x" * bytes))
    assert compare.counts["read"] > 60 and compare.counts["refused"] > 100


@pytest.mark.parametrize("pad", [b"", b" ", b" " * 4096, b"\n\t\r ", b"\0", b"\0" * 64, b" \0", b"\0 ", b"\x0b", b"\xa0", b"x"])
def test_what_fills_up_a_head(compare, pad):
    """Blanks of JSON do. The format's own library refuses NULs, and so do both of us."""
    whole = raw(b'{"a":%s}' % ONE + pad, b"1")
    compare(whole)
    assert compare.counts["read"] == (not pad.strip(b" \n\t\r"))
    if compare.counts["read"]:
        assert [name for name, _ in safetensors.deserialize(whole)] == ["a"]
    else:
        with pytest.raises(safetensors.SafetensorError):
            safetensors.deserialize(whole)


def test_changed_heads(compare):
    chance = random.Random(34)
    whole = safetensors.numpy.save({name: each for name, each in model().items() if name != "large"}, {"a": "b"})
    length = int.from_bytes(whole[:8], "little")
    text, payload = whole[8:8 + length], whole[8 + length:]
    compare(whole)
    for number in range(150):
        changed = mutated(text, chance) if number % 3 else text
        said = len(changed) if number % 4 else chance.choice([0, 1, len(changed) + 1, 1 << 40, (1 << 64) - 1, len(changed) - 1])
        compare(said.to_bytes(8, "little") + changed + payload)
    for end in (0, 1, 7, 8, 9, 8 + length, len(whole) - 1):
        compare(whole[:end])
    compare(whole + b"x")
    assert compare.counts["read"] > 5 and compare.counts["refused"] > 50


@pytest.mark.parametrize("name", [b"plain", b"with blank", "zürich".encode(), b"not \xff UTF-8", b"new\nline"])
def test_names_of_files(compare, tmp_path, name):
    compare(raw({"a": entry("U8", [1], 0, 1)}, b"1"), pathlib.Path(os.fsdecode(bytes(tmp_path) + b"/" + name)))
    compare(raw({"a": entry("U8", [1], 0, 1)}, b""), pathlib.Path(os.fsdecode(bytes(tmp_path) + b"/" + name)))
    assert compare.counts == {"read": 1, "refused": 1}


def test_what_is_not_a_file(pair, east, tmp_path):
    east.create("alike", ROOM)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    for path, reason in ((tmp_path / "pipe", "BAD_ARGUMENT"), (tmp_path / "folder", "BAD_ARGUMENT"), ("/dev/null", "BAD_ARGUMENT"),
                         (tmp_path / "nothing", "FILE_NOT_FOUND"), (tmp_path / "dangling", "FILE_NOT_FOUND"),
                         (tmp_path / "pipe" / "below", "FILE_NOT_FOUND")):
        assert (by_command_line(pair, path), by_python(path)) == (reason, reason), path
    east.delete("alike", force=True)


def test_types():
    """Each type of the format is one of arrays, with as many bits, or has elements of less than a byte."""
    bits = _native.safetensors_types()
    known = {code: kind.itemsize * 8 for code, kind in _safetensors._TYPES.items()}
    assert known == {code: count for code, count in bits.items() if count % 8 == 0}
    assert {code for code, count in bits.items() if count % 8} == {"F4", "F6_E2M3", "F6_E3M2"}
    assert set(_safetensors._CODES.values()) == {*known, "F4"}
