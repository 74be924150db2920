"""Makes the unique symbols of ELF libraries weak.

A symbol that a compiler marks STB_GNU_UNIQUE (a static of an inline function, of a template) is one for the whole
process: the loader binds it across libraries, whatever their names are and however they were loaded. Two copies of gRPC
in a process then share half of their state, and crash. Weak symbols bind as others do: within what was loaded together.
"""

import pathlib
import struct
import sys

_ELF64_LITTLE = b"\x7fELF\x02\x01"
_SECTION_DYNSYM = 11
_SYMBOL_BYTES = 24
_BIND_WEAK, _BIND_GNU_UNIQUE = 2, 10


class NotElf(ValueError):
    """The file is no 64-bit little-endian ELF file."""


def _unique(image):
    """The places of the bytes that say how unique symbols bind."""
    if image[:6] != _ELF64_LITTLE or len(image) < 64:
        raise NotElf("no 64-bit little-endian ELF file")
    sections_at, = struct.unpack_from("<Q", image, 0x28)
    section_bytes, sections = struct.unpack_from("<HH", image, 0x3A)
    for number in range(sections):
        section = sections_at + number * section_bytes
        kind, = struct.unpack_from("<I", image, section + 4)
        if kind != _SECTION_DYNSYM:
            continue
        begin, size = struct.unpack_from("<QQ", image, section + 24)
        for symbol in range(begin, begin + size, _SYMBOL_BYTES):
            if image[symbol + 4] >> 4 == _BIND_GNU_UNIQUE:
                yield symbol + 4


def count_unique(path):
    """How many unique symbols a library has."""
    return sum(1 for _ in _unique(path.read_bytes()))


def weaken(path):
    """Makes them weak, in place, and returns how many they were."""
    image = bytearray(path.read_bytes())
    places = list(_unique(image))
    for place in places:
        image[place] = _BIND_WEAK << 4 | image[place] & 15
    if places:
        path.write_bytes(image)
    return len(places)


def main(paths):
    for path in map(pathlib.Path, paths):
        print(f"{path.name}: {weaken(path)}")


if __name__ == "__main__":
    main(sys.argv[1:])
