"""Heads of files that are made to cost much: how long each takes at one size and at four times that, and what memory.

    python hostile_heads.py        prints a line of JSON for each
"""

import json
import resource
import sys
import time
import zlib

import pyarrow
from array_files import raw
from reference import Bytes, in_memory, ours

from onecopy.formats import _arrow_file, _npy, _orc_footer, _parquet_footer, _safetensors

ONE = '{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
STRIPE = b"\x08\x03\x10\x00\x18\x00\x20\x00\x28\x00"  # at 3, of no bytes and no rows


def safetensors(text):
    with in_memory(raw(text.encode(), b"1")) as file:
        return _safetensors.read(file)


def index(text):
    return _safetensors.parse_index("f", text.encode())


def npy(text):
    head = b"\x93NUMPY\x02\0" + len(text).to_bytes(4, "little") + text.encode()
    return _npy.parse("f", head, len(head) + 99) if _npy.header_bytes("f", head[:12], len(head) + 99) else None


def parquet(text):
    footer = _parquet_footer.parse("f", text)
    return _parquet_footer.places("f", footer, range(min(9, footer.row_groups)), range(len(footer.columns)), 1 << 20)


def varint(number):
    made = b""
    while number > 127:
        made += bytes([number & 127 | 128])
        number >>= 7
    return made + bytes([number])


def field(number, text):
    return varint(number << 3 | 2) + varint(len(text)) + text


def orc(footer, codec=0):
    script = b"\x08" + varint(len(footer)) + b"\x10" + varint(codec) + b"\x18" + varint(1 << 20) + b"\x82\xf4\x03\x03ORC"
    file = Bytes(b"ORC" + footer + script + bytes([len(script)]))
    return [_orc_footer.streams(file, found, number) for found in [_orc_footer.open_footer(file)]
            for number in range(len(found.stripes))]


def block(text):
    packed = zlib.compressobj(9, wbits=-15)
    made = packed.compress(text) + packed.flush()
    return (len(made) << 1).to_bytes(3, "little") + made


def arrow(blocks, padding):
    """A batch, which the footer names many times."""
    sink = pyarrow.BufferOutputStream()
    schema = pyarrow.schema([("a", pyarrow.int64())], {"x": "y" * padding})
    with pyarrow.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pyarrow.record_batch({"a": [1]}, schema=schema))
    file = Bytes(sink.getvalue().to_pybytes())
    footer = _arrow_file.open_footer(file)
    footer.batches *= blocks
    return [_arrow_file.read_batch(file, footer, each) for each in footer.batches]


SCHEMA = b"\x15\x02\x19\x2c" + b"\x48\x01r\x15\x02\x00" + b"\x15\x02\x38\x01a\x00" + b"\x16\x00"  # one column, no rows
STRUCT = field(4, b"\x08\x0c")
HOSTILE = {
    "safetensors: one name": lambda n: safetensors("{" + ",".join([f'"a":{ONE}'] * (n // 60)) + "}"),
    "safetensors: names, the last twice": lambda n: safetensors(
        "{" + ",".join(f'"{each}":{ONE}' for each in range(n // 60)) + f',"0":{ONE}' + "}"),
    "safetensors: numbers": lambda n: safetensors('{"a":{"dtype":"F32","shape":[' + ",".join(["4294967296"] * (n // 11)) + "]}}"),
    "safetensors: products": lambda n: safetensors("{" + ",".join(
        f'"{each}":{{"dtype":"F32","shape":[{",".join(["4294967296"] * 40)}],"data_offsets":[0,4]}}' for each in range(n // 480)) + "}"),
    "safetensors: metadata": lambda n: safetensors('{"__metadata__":{' + ",".join(f'"{each}":""' for each in range(n // 9)) + "}}"),
    "safetensors: fields": lambda n: safetensors('{"a":{' + ",".join(f'"{each}":{each}' for each in range(n // 14)) + "}}"),
    "safetensors: lists": lambda n: safetensors('{"a":{"x":[' + ",".join(["[]"] * (n // 3)) + "]}}"),
    "safetensors: escapes": lambda n: safetensors('{"' + "\\u0061" * (n // 6) + '":1}'),
    "safetensors: depth": lambda n: safetensors('{"a":{"x":' + "[" * n),
    "index: names": lambda n: index('{"weight_map":{' + ",".join(f'"{each}":"f"' for each in range(n // 12)) + "}}"),
    "index: other things": lambda n: index('{"metadata":[' + ",".join(["[]"] * (n // 3)) + '],"weight_map":{"a":"b"}}'),
    "index: depth": lambda n: index('{"metadata":' + "[" * (n // 2) + "]" * (n // 2) + ',"weight_map":{"a":"b"}}'),
    "npy: dimensions": lambda n: npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9," * (n // 2) + ")}"),
    "npy: depth": lambda n: npy("(" * n),
    "Parquet: row groups": lambda n: parquet(SCHEMA + b"\x19\xfc" + varint(n // 4) + b"\x19\x1c\x00\x00" * (n // 4) + b"\0"),
    "Parquet: columns": lambda n: parquet(b"\x29\xfc" + varint(n // 6 + 1) + b"\x48\x01r\x15" + varint(n // 6 * 2) + b"\x00"
                                          + b"\x15\x02\x38\x01a\x00" * (n // 6) + b"\x16\x00\x19\x0c\0"),
    "Parquet: paths": lambda n: parquet(b"\x29\xfc" + varint(n // 6 + 101) + b"\x48\x01r\x15\x02\x00" + (
        b"\x48\xe8\x07" + b"x" * 1000 + b"\x15\x02\x00") * 99 + b"\x48\x01g\x15" + varint(n // 6 * 2) + b"\0"
        + b"\x15\x02\x38\x01a\x00" * (n // 6) + b"\x16\x00\x19\x0c\0"),
    "Parquet: structures that nobody wants": lambda n: parquet(SCHEMA + b"\x19\x0c\x19\xfc" + varint(n) + bytes(n) + b"\0"),
    "Parquet: numbers that nobody wants": lambda n: parquet(SCHEMA + b"\x19\x0c\x19\xf6" + varint(n) + bytes(n) + b"\0"),
    "Parquet: depth": lambda n: parquet(b"\x1c" * n),
    "Parquet: encodings": lambda n: parquet(SCHEMA + b"\x19\x1c\x19\x1c\x3c\x29\xf5" + varint(n) + bytes(n) + b"\0\0\0\0"),
    "ORC: types": lambda n: orc(STRUCT * (n // 4)),
    "ORC: types below one": lambda n: orc(field(4, b"\x08\x0c" + field(2, b"\x01" * n))),
    "ORC: stripes": lambda n: orc(STRUCT + field(3, STRIPE) * (n // 12)),
    "ORC: fields that nobody wants": lambda n: orc(STRUCT + b"\x80\x01\x00" * (n // 3)),
    "ORC: a footer that becomes large": lambda n: orc(block(STRUCT + b"\x78\x00" * (1 << 18)) * (n // 3000), codec=1),
    "Arrow: a batch that is named often": lambda n: arrow(n // 24, n),
}


def measure(call, size):
    """Seconds of the processor, at best: others may have it meanwhile."""
    found = []
    for _ in range(3):
        begin = time.process_time()
        ours(lambda: call(size))
        found.append(time.process_time() - begin)
        if found[-1] > 0.5:
            break
    return min(found)


def main():
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    size = 100_000
    for name, call in HOSTILE.items():
        small = measure(call, size)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        large = measure(call, 4 * size)
        print(json.dumps({"name": name, "small": small, "large": large, "bytes": 4 * size,
                          "memory": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
