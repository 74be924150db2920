"""Sums of a tensor's bytes that tell any single wrong byte, and most others, computed where the bytes are.

The bytes, with zeros up to a multiple of 8, are words of 64 bits; the sum is of each word times an odd number of its
own, modulo 2 to the 64th.
"""

import numpy

_WORDS_AT_ONCE = 1 << 20


def of_bytes(data):
    """Of anything with NumPy's or Python's buffers."""
    flat = numpy.frombuffer(data, dtype=numpy.uint8)
    whole = flat.size // 8
    total = numpy.uint64(0)
    words = numpy.frombuffer(flat[:whole * 8].data, dtype=numpy.uint64) if whole else numpy.empty(0, numpy.uint64)
    with numpy.errstate(over="ignore"):
        for begin in range(0, whole, _WORDS_AT_ONCE):
            part = words[begin:begin + _WORDS_AT_ONCE]
            factors = numpy.arange(begin, begin + part.size, dtype=numpy.uint64) * numpy.uint64(2) + numpy.uint64(1)
            total += (part * factors).sum(dtype=numpy.uint64)
        if rest := flat[whole * 8:].tobytes():
            total += numpy.uint64(int.from_bytes(rest.ljust(8, b"\0"), "little")) * numpy.uint64(2 * whole + 1)
    return int(total)


def of_tensor(tensor):
    """Of a tensor of torch without gaps, on its device."""
    import torch

    flat = tensor.detach().reshape(-1).view(torch.uint8)
    if flat.device.type == "cpu":
        return of_bytes(flat.numpy())
    whole = flat.numel() // 8
    words = flat[:whole * 8]
    if words.data_ptr() % 8 != 0 or words.storage_offset() % 8 != 0:
        words = words.clone()
    words = words.view(torch.int64)
    total = 0
    for begin in range(0, whole, 64 * _WORDS_AT_ONCE):
        part = words[begin:begin + 64 * _WORDS_AT_ONCE]
        factors = torch.arange(begin, begin + part.numel(), dtype=torch.int64, device=flat.device) * 2 + 1
        total += int((part * factors).sum().item())
    if rest := bytes(flat[whole * 8:].cpu().tolist()):
        total += int.from_bytes(rest.ljust(8, b"\0"), "little") * (2 * whole + 1)
    return total % (1 << 64)
