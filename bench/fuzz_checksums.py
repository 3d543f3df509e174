"""Checksums of HDF5 structures made right again, so that a mutation gets past them.

Files of `libver="latest"` guard their superblock and object headers by Jenkins' lookup3; a damaged
header would otherwise never be parsed, while a hostile one is written with its checksum.
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF


def _rotate(x: int, k: int) -> int:
    return ((x << k) | (x >> (32 - k))) & _MASK


def lookup3(key: bytes) -> int:
    """Bob Jenkins' hashlittle(key, 0), as HDF5 uses it (H5checksum.c)."""
    a = b = c = (0xDEADBEEF + len(key)) & _MASK
    at = 0
    while len(key) - at > 12:
        a, b, c = (
            (x + int.from_bytes(key[at + i : at + i + 4], "little")) & _MASK
            for x, i in ((a, 0), (b, 4), (c, 8))
        )
        for k, shift in enumerate((4, 6, 8, 16, 19, 4)):
            a, b, c = [
                lambda a, b, c, s: (((a - c) & _MASK) ^ _rotate(c, s), b, (c + b) & _MASK),
                lambda a, b, c, s: ((a + c) & _MASK, ((b - a) & _MASK) ^ _rotate(a, s), c),
                lambda a, b, c, s: (a, (b + a) & _MASK, ((c - b) & _MASK) ^ _rotate(b, s)),
            ][k % 3](a, b, c, shift)
        at += 12
    rest = key[at:].ljust(12, b"\0")
    if at == len(key):
        return c
    a, b, c = (
        (x + int.from_bytes(rest[i : i + 4], "little")) & _MASK for x, i in ((a, 0), (b, 4), (c, 8))
    )
    c = ((c ^ b) - _rotate(b, 14)) & _MASK
    a = ((a ^ c) - _rotate(c, 11)) & _MASK
    b = ((b ^ a) - _rotate(a, 25)) & _MASK
    c = ((c ^ b) - _rotate(b, 16)) & _MASK
    a = ((a ^ c) - _rotate(c, 4)) & _MASK
    b = ((b ^ a) - _rotate(a, 14)) & _MASK
    return ((c ^ b) - _rotate(b, 24)) & _MASK


def repair(whole: bytearray) -> int:
    """Make the checksums of superblock and object headers right, in place; returns how many."""
    count = 0
    if whole[:4] == b"\x89HDF" and len(whole) > 48 and whole[8] in (2, 3):
        count += _put(whole, 0, 44)
    at = whole.find(b"OHDR")
    while at >= 0:
        end = _header_end(whole, at)
        if end is not None:
            count += _put(whole, at, end)
        at = whole.find(b"OHDR", at + 4)
    return count


def _header_end(whole: bytearray, at: int) -> int | None:
    """Where the checksum of an object header is (version 2, first chunk)."""
    if at + 32 > len(whole) or whole[at + 4] != 2:
        return None
    flags = whole[at + 5]
    begin = at + 6 + 16 * bool(flags & 0x20) + 4 * bool(flags & 0x10)
    width = 1 << (flags & 3)
    end = begin + width + int.from_bytes(whole[begin : begin + width], "little")
    return end if end + 4 <= len(whole) else None


def _put(whole: bytearray, begin: int, end: int) -> int:
    right = lookup3(bytes(whole[begin:end])).to_bytes(4, "little")
    changed = whole[end : end + 4] != right
    whole[end : end + 4] = right
    return int(changed)
