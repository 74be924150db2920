"""What of a file is in the page cache: emptied, filled, and looked at, as its owner may without being root."""

import ctypes
import mmap
import os

import numpy

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
_FAILED = ctypes.c_void_p(-1).value
_TRIES = 20  # pages that are under way to the disk stay the first time, and others are taken back meanwhile
_READ_BYTES = 8 << 20


class NotAsWanted(Exception):
    """The page cache cannot be brought there, or cannot be seen."""


def share(path):
    """Of the file's pages, those that are resident: 0 to 1."""
    size = os.path.getsize(path)
    if size == 0:
        return 0.0
    with open(path, "rb") as file:
        address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    if address == _FAILED:
        raise NotAsWanted(f"mapping {path}: {os.strerror(ctypes.get_errno())}")
    try:
        pages = -(-size // mmap.PAGESIZE)
        resident = ctypes.create_string_buffer(pages)
        if _libc.mincore(address, size, resident) != 0:
            raise NotAsWanted(f"mincore on {path}: {os.strerror(ctypes.get_errno())}")
        return int((numpy.frombuffer(resident, dtype=numpy.uint8)[:pages] & 1).sum()) / pages
    finally:
        _libc.munmap(address, size)


def empty(paths):
    """Nothing of these files is in the page cache afterwards: looked at, not believed."""
    for path in paths:
        left = 1.0
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            for _ in range(_TRIES):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                left = share(path)
                if left == 0:
                    break
        if left != 0:
            raise NotAsWanted(f"{left:.1%} of {path} stays in the page cache, as on tmpfs, or where another process "
                              "has mapped it")


def fill(paths):
    """All of these files is in the page cache afterwards."""
    for _ in range(_TRIES):
        missing = {path: 1 - share(path) for path in paths}
        if not any(missing.values()):
            return
        for path in paths:
            _read(path)
    path = max(missing, key=missing.get)
    raise NotAsWanted(f"{missing[path]:.1%} of {path} does not stay in the page cache: ask for less with --sizes")


def _read(path):
    buffer = memoryview(bytearray(_READ_BYTES))
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
