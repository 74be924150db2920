"""Makes the unique symbols of ELF libraries weak.

A symbol that a compiler marks STB_GNU_UNIQUE (a static of an inline function, of a template) is one for the whole
process: the loader binds it across libraries, whatever their names are and however they were loaded. Two copies of gRPC
in a process then share half of their state, and crash. Weak symbols bind as others do: within what was loaded together.
"""

import pathlib
import sys

import elf


def _unique(image):
    """The places of the bytes that say how unique symbols bind."""
    return [symbol.bind_at for symbol in elf.symbols(image) if symbol.bind == elf.GNU_UNIQUE]


def count_unique(path):
    """How many unique symbols a library has."""
    return len(_unique(path.read_bytes()))


def weaken(path):
    """Makes them weak, in place, and returns how many they were."""
    image = bytearray(path.read_bytes())
    places = _unique(image)
    for place in places:
        image[place] = elf.WEAK << 4 | image[place] & 15
    if places:
        path.write_bytes(image)
    return len(places)


def main(paths):
    for path in map(pathlib.Path, paths):
        print(f"{path.name}: {weaken(path)}")


if __name__ == "__main__":
    main(sys.argv[1:])
