"""Gives the symbols of the wheel's grafted libraries names that no other library has.

The loader looks for a symbol first in what is loaded for everybody: the program, what it is linked to, and what somebody
loaded with RTLD_GLOBAL. So a gRPC loaded that way would come before ours, for half of what our libraries need.

The new name is as long as the old one and has the same hash: the loader's (DT_GNU_HASH) is h = 33 h + c for each
character c, so that two neighbours a, b may become a + 1, b - 33, or a - 1, b + 33. No table has to be built again, and
nothing moves: `_ZN4grpc…` becomes "`9N4grpc…". What has a version (OpenSSL's symbols) keeps its name, as does what the C
and C++ libraries define: only what a grafted library defines itself is renamed, there and wherever it is used.
"""

import pathlib
import sys

import elf

_PRINTABLE = range(0x21, 0x7F)


class Impossible(ValueError):
    """A symbol that has no such name, or whose name other symbols share in a way that this cannot undo."""


def renamed(name):
    """The new name of a symbol, of the same length and hash."""
    if name.startswith(b"_") and not name.startswith(b"_Z"):
        return b"_" + renamed(name[1:])  # linkers keep `upb_x` as the end of `_upb_x`
    for at in range(len(name) - 1):
        for up, down in ((1, -33), (-1, 33)):
            pair = name[at] + up, name[at + 1] + down
            if pair[0] in _PRINTABLE and pair[1] in _PRINTABLE and ord("@") not in pair:
                return name[:at] + bytes(pair) + name[at + 2:]
    raise Impossible(f"symbol {name!r} has no other name of the same hash")


def gnu_hash(name):
    """As the loader has it."""
    value = 5381
    for character in name:
        value = (33 * value + character) & 0xFFFFFFFF
    return value


def owned(libraries):
    """The names of all symbols that these define, and that have no version anywhere among them."""
    defined, versioned = set(), set()
    for image in libraries:
        for symbol in elf.symbols(image):
            if symbol.defined or symbol.versioned:
                (versioned if symbol.versioned else defined).add(elf.name_of(image, symbol))
    return defined - versioned - {b""}


def rename(image, names):
    """Renames these symbols in a file's bytes, wherever it defines or uses them. How many they were."""
    wanted = {}
    for symbol in elf.symbols(image):
        name = elf.name_of(image, symbol)
        wanted[symbol.name_at] = renamed(name) if name in names and not symbol.versioned else name
    done = 0
    for at, name in wanted.items():
        if image[at:at + len(name)] == name:
            continue
        was = bytes(image[at:at + len(name)])
        if was in names:
            image[at:at + len(name)] = name
            done += 1
    for at, name in wanted.items():  # names may be the ends of others
        if image[at:at + len(name) + 1] != name + b"\0":
            raise Impossible(f"symbol {name!r} is the end of another one, and cannot be renamed with it")
    return done


def rename_all(grafted, users):
    """In place: what the libraries of `grafted` define, in these and in the files that use them."""
    images = {path: bytearray(path.read_bytes()) for path in [*grafted, *users]}
    names = owned([images[path] for path in grafted])
    total = 0
    for path, image in images.items():
        total += rename(image, names)
        path.write_bytes(image)
    return total


def main(folder):
    """A tree of the wheel, unpacked."""
    grafted, users = files(pathlib.Path(folder))
    print(rename_all(grafted, users))


def files(tree):
    """The grafted libraries of an unpacked wheel, and what uses them."""
    grafted = sorted(tree.glob("onecopy.libs/*.so*"))
    return grafted, sorted({*tree.rglob("onecopy/**/*.so*"), *tree.glob("onecopy/bin/*")})


if __name__ == "__main__":
    main(*sys.argv[1:])
