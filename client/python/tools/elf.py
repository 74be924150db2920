"""The parts of ELF libraries that the wheel's tools look at: the table of dynamic symbols, and their names.

Of 64-bit little-endian files, as those of x86_64 are.
"""

import struct
from typing import NamedTuple

_ELF64_LITTLE = b"\x7fELF\x02\x01"
_DYNAMIC_SYMBOLS, _VERSIONS = 11, 0x6FFFFFFF  # types of sections
_SYMBOL_BYTES = 24
_UNVERSIONED = 1  # the greatest number of a symbol's version that names none
WEAK, GNU_UNIQUE = 2, 10  # how a symbol binds


class NotElf(ValueError):
    """The file is not a 64-bit little-endian ELF file."""


class _Section(NamedTuple):
    kind: int
    begin: int
    size: int
    link: int


class Symbol(NamedTuple):
    """`name_at` and `bind_at`: where in the file its name begins, and the byte that says how it binds."""

    name_at: int
    bind_at: int
    bind: int
    defined: bool
    versioned: bool


def _sections(image):
    if image[:6] != _ELF64_LITTLE or len(image) < 64:
        raise NotElf("no 64-bit little-endian ELF file")
    begin, = struct.unpack_from("<Q", image, 0x28)
    size, count = struct.unpack_from("<HH", image, 0x3A)
    for at in range(begin, begin + count * size, size):
        kind, = struct.unpack_from("<I", image, at + 4)
        yield _Section(kind, *struct.unpack_from("<QQI", image, at + 24))


def symbols(image):
    """The dynamic symbols of a file's bytes. A file without sections has none."""
    sections = list(_sections(image))
    versions = next((each for each in sections if each.kind == _VERSIONS), None)
    for table in sections:
        if table.kind != _DYNAMIC_SYMBOLS:
            continue
        for number in range(table.size // _SYMBOL_BYTES):
            at = table.begin + number * _SYMBOL_BYTES
            name, info, _, section = struct.unpack_from("<IBBH", image, at)
            version = 0 if versions is None else struct.unpack_from("<H", image, versions.begin + 2 * number)[0] & 0x7FFF
            yield Symbol(sections[table.link].begin + name, at + 4, info >> 4, section != 0, version > _UNVERSIONED)


def name_of(image, symbol):
    return bytes(image[symbol.name_at:image.index(b"\0", symbol.name_at)])
