"""The blocks that footers of ORC files are compressed in."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from ..core.values._errors import Unimplemented
from . import _protobuf

# Budgets: of a footer, and of all footers of a file together, by what they have in the file. Real ones become 15 times as
# large.
MOST_BYTES = 64 << 20
_MOST_AT_FIRST = 4 << 20
_MOST_TIMES = 64
_LZ4_FRAME = b"\x04\x22\x4d\x18\x60\x70\x73"  # head of a frame of blocks of up to 4 MiB, without checksums


class Blocks:
    """Of one file. `block`: the most that a block has once it is decompressed. Raises ValueError for what is not as it
    should be, and for what is over a budget."""

    def __init__(self, name: str, codec: str, block: int) -> None:
        self._name = name
        self._codec = codec
        self._block = block
        self._left = _MOST_AT_FIRST

    def decompressed(self, text: bytes) -> bytes:
        """What blocks have, each with a head of 3 bytes: its length, and whether it is as it was."""
        if self._codec == "NONE":
            return text
        self._left += _MOST_TIMES * len(text)
        parts, total, at = [], 0, 0
        while at < len(text):
            head = int.from_bytes(text[at:at + 3], "little")
            at += 3
            if at > len(text) or head >> 1 > len(text) - at:
                raise ValueError(f"a block of {head >> 1} bytes does not lie in it")
            part = text[at:at + (head >> 1)]
            at += head >> 1
            parts.append(part if head & 1 else _decoder(self._name, self._codec)(part, self._block))
            total += len(parts[-1])
            self._left -= len(parts[-1])
            if total > MOST_BYTES or self._left < 0:
                raise ValueError("it becomes too large when it is decompressed")
        return b"".join(parts)


def _decoder(name: str, codec: str) -> Callable[[bytes, int], bytes]:
    found = {"ZLIB": _inflate, "SNAPPY": _snappy, "LZ4": _lz4, "ZSTD": _zstd}.get(codec)
    if found is None:
        raise Unimplemented(f"the footers of {name} are compressed with {codec}", "BAD_FORMAT",
                            "write it with ZLIB, SNAPPY, LZ4 or ZSTD, or uncompressed")
    return found


def _inflate(part: bytes, most: int) -> bytes:
    inflating = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        made = inflating.decompress(part, most + 1)
    except zlib.error as failure:
        raise ValueError(failure) from None
    if len(made) > most or not inflating.eof:
        raise ValueError(f"a block does not end, or has more than {most} bytes")
    return made


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as failure:
        raise ImportError("onecopy.orc needs pyarrow for footers that are not compressed with ZLIB: pip install pyarrow") from failure
    return pyarrow


def _snappy(part: bytes, most: int) -> bytes:
    size, _ = _protobuf.varint(part, 0)
    if size > most:
        raise ValueError(f"a block has {size} bytes, more than {most}")
    pyarrow = _pyarrow()
    try:
        made: bytes = pyarrow.Codec("snappy").decompress(part, decompressed_size=size, asbytes=True)
    except (pyarrow.ArrowException, OSError) as failure:
        raise ValueError(failure) from None
    return made


def _zstd(part: bytes, most: int) -> bytes:
    return _stream("zstd", part, most)


def _lz4(part: bytes, most: int) -> bytes:
    """In a frame, which ends where the block does."""
    if most > 4 << 20:
        raise Unimplemented(f"blocks of LZ4 have up to {most} bytes", "BAD_FORMAT", "write them with at most 4 MiB")
    return _stream("lz4", _LZ4_FRAME + len(part).to_bytes(4, "little") + part + bytes(4), most)


def _stream(codec: str, part: bytes, most: int) -> bytes:
    pyarrow = _pyarrow()
    try:
        with pyarrow.CompressedInputStream(pyarrow.BufferReader(part), codec) as opened:
            made: bytes = opened.read(most + 1)
    except (pyarrow.ArrowException, OSError) as failure:
        raise ValueError(failure) from None
    if len(made) > most:
        raise ValueError(f"a block has more than {most} bytes")
    return made
