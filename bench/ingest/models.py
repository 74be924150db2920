"""Files as models have them: safetensors of many tensors, most of bf16, one file or several with an index."""

import contextlib
import json
import math
import os
from typing import NamedTuple

import checksums
import numpy

ITEM_BYTES = {"BF16": 2, "F32": 4, "I64": 8, "U8": 1}
TORCH_NAMES = {"BF16": "bfloat16", "F32": "float32", "I64": "int64", "U8": "uint8"}
_COMPARED_BYTES = 64 << 20  # at once
_INDEX = "model.safetensors.index.json"


class Tensor(NamedTuple):
    name: str
    dtype: str  # as safetensors writes it
    shape: tuple

    @property
    def bytes(self):
        return ITEM_BYTES[self.dtype] * math.prod(self.shape)


class Model:
    """Files on the disk, and what is in them."""

    def __init__(self, folder, index, files, tensors):
        self.folder = folder
        self.index = index  # the path of the index; "" for one file
        self.files = files  # paths
        self.tensors = tensors  # by name: [dtype, shape, checksum, number of the file, offset in it]
        self.bytes = sum(ITEM_BYTES[dtype] * math.prod(shape) for dtype, shape, *_ in tensors.values())

    @property
    def entry(self):
        """What a loader that takes an index is given."""
        return self.index or self.files[0]

    def write_facts(self):
        """Leaves a file for other processes, and returns its path."""
        path = os.path.join(self.folder, "facts.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"index": self.index, "files": self.files, "tensors": self.tensors}, file)
        return path

    @classmethod
    def read_facts(cls, path):
        """What `write_facts` has left in that file."""
        with open(path, encoding="utf-8") as file:
            facts = json.load(file)
        return cls(os.path.dirname(path), facts["index"], facts["files"], facts["tensors"])


def wrong(model, tensors, byte_by_byte):
    """What of these tensors of torch is not as it is in the files, or None. By the checksums of when the files were
    made, and on request also by the files' bytes, which are in the page cache afterwards."""
    if missing := model.tensors.keys() - tensors.keys():
        return f"{len(missing)} tensors are missing, {min(missing)} among them"
    if surplus := tensors.keys() - model.tensors.keys():
        return f"{len(surplus)} tensors are too many, {min(surplus)} among them"
    with contextlib.ExitStack() as opened:
        files = [opened.enter_context(open(path, "rb", buffering=0)) for path in model.files]
        for name, (dtype, shape, checksum, number, offset) in model.tensors.items():
            tensor = tensors[name]
            if list(tensor.shape) != shape or str(tensor.dtype) != f"torch.{TORCH_NAMES[dtype]}":
                return f"{name} is {tuple(tensor.shape)} of {tensor.dtype}, and {tuple(shape)} of {dtype} in the file"
            if checksums.of_tensor(tensor) != checksum:
                return f"{name} has other bytes than the file"
            if byte_by_byte and (at := _first_other(tensor, files[number], offset)) is not None:
                return f"byte {at} of {name} is another one than in the file"
    return None


def _first_other(tensor, file, offset):
    import torch

    flat = tensor.detach().reshape(-1).view(torch.uint8)
    for begin in range(0, flat.numel(), _COMPARED_BYTES):
        here = flat[begin:begin + _COMPARED_BYTES].cpu().numpy()
        there = numpy.frombuffer(os.pread(file.fileno(), here.size, offset + begin), dtype=numpy.uint8)
        if there.size != here.size:
            return begin + there.size
        if not numpy.array_equal(here, there):
            return begin + int(numpy.flatnonzero(here != there)[0])
    return None


def tensors_of(size):
    """Those of a decoder of about that many bytes, at most: layers of projections and norms, then an embedding that
    takes the rest."""
    hidden = 64
    while hidden < 4096 and _layer_bytes(hidden * 2) * 16 <= size:
        hidden *= 2
    layers = max(1, (size - size // 16) // _layer_bytes(hidden))
    made = [each for number in range(layers) for each in _layer(number, hidden)]
    made.append(Tensor("model.position_ids", "I64", (1, hidden)))
    made.append(Tensor("model.flags", "U8", (13,)))  # so that not all begins at a multiple of 8
    made.append(Tensor("model.norm.weight", "BF16", (hidden,)))
    rows = (size - sum(each.bytes for each in made)) // (2 * hidden)
    if rows < 1:
        raise ValueError(f"a model of {size} bytes is too small")
    made.append(Tensor("model.embed_tokens.weight", "BF16", (rows, hidden)))
    return made


def _layer(number, hidden):
    at = f"model.layers.{number}."
    wide, narrow = hidden * 7 // 2, hidden // 4
    shapes = {
        "self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (narrow, hidden),
        "self_attn.v_proj": (narrow, hidden), "self_attn.o_proj": (hidden, hidden), "mlp.gate_proj": (wide, hidden),
        "mlp.up_proj": (wide, hidden), "mlp.down_proj": (hidden, wide), "input_layernorm": (hidden,),
        "post_attention_layernorm": (hidden,)}
    return [*(Tensor(f"{at}{name}.weight", "BF16", shape) for name, shape in shapes.items()),
            Tensor(f"{at}mlp.router.weight", "F32", (8, hidden)),
            Tensor(f"{at}rotary.inv_freq", "F32", (hidden // 16,))]


def _layer_bytes(hidden):
    return sum(each.bytes for each in _layer(0, hidden))


def write(folder, size, shards, seed=1):
    """A model of that many bytes in so many files (1: without an index), on the disk when this returns."""
    os.makedirs(folder)
    parts = _split(tensors_of(size), shards)
    facts, weights, files = {}, {}, []
    for number, part in enumerate(parts):
        name = "model.safetensors" if shards == 1 else f"model-{number + 1:05}-of-{len(parts):05}.safetensors"
        files.append(os.path.join(folder, name))
        facts.update(_write_file(files[-1], part, number, numpy.random.Generator(numpy.random.SFC64([seed, number]))))
        weights.update((each.name, name) for each in part)
    index = ""
    if shards > 1:
        index = os.path.join(folder, _INDEX)
        total = sum(each.bytes for part in parts for each in part)
        with open(index, "w", encoding="utf-8") as file:
            json.dump({"metadata": {"total_size": total}, "weight_map": weights}, file)
    return Model(folder, index, files, facts)


def _split(tensors, shards):
    """In their order, of about equal bytes."""
    total = sum(each.bytes for each in tensors)
    parts, done = [[] for _ in range(shards)], 0
    for each in tensors:
        parts[min(shards - 1, done * shards // total)].append(each)
        done += each.bytes
    return [part for part in parts if part]


def _write_file(path, tensors, number, random):
    # The order of safetensors' own writer: what has larger elements first.
    ordered = sorted(tensors, key=lambda each: (-ITEM_BYTES[each.dtype], each.name))
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for each in ordered:
        header[each.name] = {"dtype": each.dtype, "shape": each.shape, "data_offsets": [at, at + each.bytes]}
        at += each.bytes
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    facts = {}
    with open(path, "wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for each in ordered:
            data = random.bytes(each.bytes)
            facts[each.name] = [each.dtype, list(each.shape), checksums.of_bytes(data), number, file.tell()]
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return facts
