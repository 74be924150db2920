"""What tests of files of arrays have in common."""

import gc
import json
import struct

import numpy

DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64",
          "complex64"]


def values(count, dtype, seed=1):
    numbers = (numpy.arange(count) * 7 + seed) % 251
    return (numbers % 2 == 1) if dtype == "bool" else numbers.astype(dtype)


def model(seed=1):
    """Arrays of every type, of few bytes and of many, without elements and without dimensions."""
    made = {f"layer.{dtype}": values(60, dtype, seed).reshape(3, 4, 5) for dtype in DTYPES}
    made["large"] = values(1_000_003, "float32", seed)
    made["none"] = numpy.zeros((0, 3), "float32")
    made["one"] = numpy.array(seed, "float64")
    return made


def same(loaded, expected):
    assert set(loaded) == set(expected)
    for name, array in expected.items():
        found = numpy.asarray(loaded[name])
        assert (found.dtype, found.shape) == (array.dtype, array.shape), name
        assert found.tobytes() == array.tobytes(), name
        assert found.ctypes.data % found.dtype.itemsize == 0, name


def mutated(text, chance):
    text = bytearray(text)
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(text))
        action = chance.randrange(5)
        if action == 0:
            text[at] = chance.randrange(256)
        elif action == 1:
            del text[at:at + chance.randrange(1, 9)]
        elif action == 2:
            text[at:at] = chance.choice([b"0", b"-", b"9" * 19, b'"', b"{", b"]", b",", b"null", b"1e3", b"\xc3", b"NaN"])
        elif action == 3:
            text[at] = chance.choice(b"0123456789")
        else:
            end = at + chance.randrange(1, 40)
            text[at:at] = text[at:end]
    return bytes(text)


def raw(header, payload=b"", pad=0):
    """A safetensors file of this head, right or not."""
    text = (header if isinstance(header, bytes) else json.dumps(header).encode()) + b" " * pad
    return struct.pack("<Q", len(text)) + text + payload


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def pieces(pool):
    gc.collect()
    return pool.statistics.blocks_in_use
