"""Frames of zstd: what they hold, and ones that no compressor makes.

Reading takes the library that the tools were built with; making takes nothing.
"""

import ctypes
import struct

MAGIC = b"\x28\xb5\x2f\xfd"
# One segment, and the size of what it decompresses to in 8 bytes.
SIZED = b"\xe0"
# No size; a window of 2 MiB.
UNSIZED = b"\x00\x58"
MOST_OF_A_BLOCK = 128 << 10


def is_frame(section):
    return section[: len(MAGIC)] == MAGIC


def decompressed(section):
    """What a sound frame holds; zeros may follow it."""
    library = ctypes.CDLL("libzstd.so.1")
    size, end = ctypes.c_ulonglong, ctypes.c_size_t
    library.ZSTD_getFrameContentSize.restype = size
    library.ZSTD_findFrameCompressedSize.restype = end
    library.ZSTD_decompress.restype = end
    room = library.ZSTD_getFrameContentSize(section, end(len(section)))
    frame = library.ZSTD_findFrameCompressedSize(section, end(len(section)))
    out = ctypes.create_string_buffer(room)
    got = library.ZSTD_decompress(out, end(room), section, end(frame))
    if got != room:
        raise ValueError(f"a frame holds {got} bytes, expected {room}")
    return out.raw


def block(kind, size, data, is_last):
    """One block; kind 0 holds its bytes, 1 repeats a byte."""
    return struct.pack("<I", size << 3 | kind << 1 | is_last)[:3] + data


def frame(blocks, says=None):
    """A frame of (kind, size, data) that says what it decompresses to."""
    head = UNSIZED if says is None else SIZED + struct.pack("<Q", says)
    last = len(blocks) - 1
    body = [block(*one, number == last) for number, one in enumerate(blocks)]
    return MAGIC + head + b"".join(body)


def repeated(byte, size, says=None):
    """A frame of `size` times one byte, 4 bytes for each 128 KiB of them."""
    sizes = [MOST_OF_A_BLOCK] * (size // MOST_OF_A_BLOCK)
    sizes += [size % MOST_OF_A_BLOCK] if size % MOST_OF_A_BLOCK else []
    return frame([(1, n, byte) for n in sizes], size if says is None else says)
