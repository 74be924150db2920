"""What is no safetensors file, or a wrong one, is refused before anything moves."""

import os
import random
import struct

import pytest
import safetensors
import safetensors.numpy
from array_files import entry, model, mutated, pieces, raw, same

import onecopy


def test_what_is_no_file(east, tmp_path):
    fifo = tmp_path / "fifo.safetensors"
    os.mkfifo(fifo)
    link = tmp_path / "link.safetensors"
    link.symlink_to(link)
    for name, failure in [
        (tmp_path / "gone.safetensors", onecopy.NotFound), (fifo, onecopy.InvalidArgument), (link, onecopy.InvalidArgument),
        ("/dev/null", onecopy.InvalidArgument), ("a\0.npy", onecopy.InvalidArgument), ("", onecopy.InvalidArgument),
        (tmp_path, onecopy.InvalidArgument), (tmp_path / "fifo.safetensors" / "x", onecopy.NotFound),
    ]:
        with pytest.raises(failure):
            east.load(name, format="safetensors")
    for name, hint in [("x.parquet", "onecopy.parquet"), ("x.arrow", "onecopy.arrow"), ("x", "format="), ("x.orc", r"onecopy\.orc")]:
        with pytest.raises(onecopy.InvalidArgument, match=hint):
            east.load(name)
    with pytest.raises(onecopy.InvalidArgument):
        east.load("x.npy", format="zip")


WRONG = {
    "empty": b"",
    "short": b"1234567",
    "no head": struct.pack("<Q", 0),
    "a head longer than the file": struct.pack("<Q", 100) + b"{}",
    "a head of 2^63": struct.pack("<Q", 1 << 63) + b"{}",
    "a head of all bits": b"\xff" * 8 + b"{}",
    "a head longer than any": struct.pack("<Q", 100_000_001) + b"{}",
    "no JSON": raw(b"{"),
    "a list": raw(b"[]"),
    "a mark of byte order": raw(b"\xef\xbb\xbf{}"),
    "a NUL behind it": raw(b"{}\0"),
    "a lone surrogate": raw(b'{"\\ud800": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}', b"1"),
    "minus zero": raw(b'{"a": {"dtype": "U8", "shape": [1], "data_offsets": [-0, 1]}}', b"1"),
    "metadata twice": raw(b'{"__metadata__": {}, "__metadata__": {}}'),
    "two objects": raw(b"{}{}"),
    "not UTF-8": raw(b'{"\xff": 1}'),
    "deep": raw(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "deep lists": raw(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "NaN": raw(b'{"a": {"dtype": "U8", "shape": [NaN], "data_offsets": [0, 1]}}', b"1"),
    "huge number": raw(b'{"a": {"dtype": "U8", "shape": [' + b"9" * 5000 + b'], "data_offsets": [0, 1]}}', b"1"),
    "another thing of that name first": raw(b'{"a": 1, "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}', b"1"),
    "a key twice": raw(b'{"a": {"dtype": "U8", "dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}', b"1"),
    "no object": raw({"a": 1}),
    "no dtype": raw({"a": {"shape": [1], "data_offsets": [0, 1]}}, b"1"),
    "an unknown dtype": raw({"a": entry("F7", [1], 0, 1)}, b"1"),
    "a dtype of another kind": raw({"a": entry(["U8"], [1], 0, 1)}, b"1"),
    "a negative length": raw({"a": entry("U8", [-1], 0, 1)}, b"1"),
    "a length that is none": raw({"a": entry("U8", [1.0], 0, 1)}, b"1"),
    "a true length": raw({"a": entry("U8", [True], 0, 1)}, b"1"),
    "no shape": raw({"a": entry("U8", None, 0, 1)}, b"1"),
    "negative offsets": raw({"a": entry("U8", [1], -1, 0)}, b"1"),
    "offsets the wrong way": raw({"a": entry("U8", [1], 1, 0)}, b"1"),
    "three offsets": raw({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1, 2]}}, b"1"),
    "past the end": raw({"a": entry("U8", [2], 0, 2)}, b"1"),
    "far past the end": raw({"a": entry("U8", [(1 << 62)], 0, 1 << 62)}, b"1"),
    "a product past all bits on the way to 0": raw({"a": entry("U8", [1 << 62, 4, 0], 0, 0)}),
    "more dimensions than any array": raw({"a": entry("U8", [1] * 5000, 0, 1)}, b"1"),
    "a length of 2^63": raw({"a": entry("U8", [0, 1 << 63], 0, 0)}),
    "a product past all bits": raw({"a": entry("F64", [1 << 40, 1 << 40], 0, 8)}, b"12345678"),
    "a shape of another size": raw({"a": entry("F32", [2], 0, 4)}, b"1234"),
    "overlapping": raw({"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 1, 3)}, b"123"),
    "the same bytes": raw({"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 0, 2)}, b"12"),
    "a hole": raw({"a": entry("U8", [1], 0, 1), "b": entry("U8", [1], 2, 3)}, b"123"),
    "a hole first": raw({"a": entry("U8", [1], 1, 2)}, b"12"),
    "bytes behind": raw({"a": entry("U8", [1], 0, 1)}, b"12"),
    "metadata that is no text": raw({"__metadata__": {"a": 1}}),
    "metadata that is no object": raw({"__metadata__": "a"}),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_corrupt_head_is_refused_before_anything_moves(east, tmp_path, what):
    path = tmp_path / "wrong.safetensors"
    path.write_bytes(WRONG[what])
    pool = east.pool(slab="1MiB")
    before = len(east.buffers())
    with pytest.raises(onecopy.InvalidArgument) as failure:
        east.load(path, pool=pool)
    assert failure.value.reason == "BAD_FORMAT"
    assert str(path) in failure.value.message
    assert len(failure.value.message) < 2000
    assert failure.value.remedy
    assert (len(east.buffers()), pool.statistics.allocations) == (before, 0)


def test_a_file_without_arrays(east, tmp_path):
    for text in ({}, {"__metadata__": {"a": "b"}}):
        (tmp_path / "none.safetensors").write_bytes(raw(text))
        loaded = east.load(tmp_path / "none.safetensors")
        assert (dict(loaded), loaded.receipts) == ({}, ())
    east.save(tmp_path / "nothing.safetensors", {})
    assert safetensors.numpy.load_file(tmp_path / "nothing.safetensors") == {}


def test_pairs_of_four_bits(east, tmp_path):
    """As torch has them: two are one element, and the last dimension has half as many."""
    path = tmp_path / "packed.safetensors"
    path.write_bytes(raw({"a": entry("F4", [3, 4], 0, 6), "b": entry("U8", [1], 6, 7)}, b"1234567"))
    loaded = east.load(path)
    assert (loaded["a"].dtype, loaded["a"].shape, loaded["a"].nbytes) == ("float4_e2m1fn_x2", (3, 2), 6)
    assert bytes(loaded["a"].memory) == b"123456"
    assert loaded["a"].__dlpack__(max_version=(1, 0)) is not None
    east.save(tmp_path / "again.safetensors", loaded)
    again = dict(safetensors.deserialize((tmp_path / "again.safetensors").read_bytes()))
    assert {name: (each["dtype"], each["shape"], bytes(each["data"])) for name, each in again.items()} == {
        "a": ("F4", [3, 4], b"123456"), "b": ("U8", [1], b"7")}
    with pytest.raises(onecopy.InvalidArgument, match="single pair"):
        east.save(tmp_path / "one.safetensors", {"a": east.empty((), "float4_e2m1fn_x2")})


def test_elements_of_less_than_a_byte(east, tmp_path):
    path = tmp_path / "packed.safetensors"
    path.write_bytes(raw({"a": entry("F4", [8, 3], 0, 12), "b": entry("F6_E2M3", [4], 12, 15), "c": entry("U8", [2], 15, 17)},
                         b"12345678901234567"))
    for only in (None, "a", ["b"]):
        with pytest.raises(onecopy.Unimplemented, match="less than a byte"):
            east.load(path, only=only)
    assert bytes(east.load(path, only="c")["c"].memory) == b"67"
    path.write_bytes(raw({"a": entry("F4", [3], 0, 1)}, b"1"))
    with pytest.raises(onecopy.InvalidArgument):
        east.load(path)


def test_any_head_is_read_as_safetensors_reads_it_or_refused(east, tmp_path):
    chance = random.Random(14)
    whole = safetensors.numpy.save({name: each for name, each in model().items() if name != "large"}, {"a": "b"})
    length = int.from_bytes(whole[:8], "little")
    text, payload = whole[8:8 + length], whole[8 + length:]
    path = tmp_path / "any.safetensors"
    pool = east.pool(slab="1MiB")
    read = 0
    for number in range(1500):
        changed = mutated(text, chance)
        said = len(changed) if number % 4 else chance.choice([0, 1, len(changed) + 1, 1 << 40, (1 << 64) - 1, len(changed) - 1])
        path.write_bytes(struct.pack("<Q", said) + changed + (payload if number % 3 else payload[:-chance.randrange(40) or None]))
        try:
            loaded = east.load(path, pool=pool)
        except onecopy.Error as failure:
            assert failure.reason == "BAD_FORMAT", failure  # noqa: PT017
            with pytest.raises(safetensors.SafetensorError):
                safetensors.deserialize(path.read_bytes())
            continue
        read += 1
        same(loaded, safetensors.numpy.load_file(path))
    assert read > 0
    del loaded
    assert pieces(pool) == 0
