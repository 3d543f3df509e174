"""What an HDF5 dataset declares, held against what is stored and what the machine has.

The HDF5 library believes a file: it fills what was never stored with zeros, inflates a chunk of
2 MB into 2 GB, and copies a whole chunk out of the 100 bytes that a lying one inflated to. So every
compressed chunk is inflated here first, by zlib with a limit on its output.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
from h5py import h5t, h5z

from mustlink.core.resources import most_memory
from mustlink.errors import InputError

LZF = 32000
_COMPRESSORS = {h5z.FILTER_DEFLATE: "gzip", LZF: "lzf"}
_PLAIN = {h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32}
_CHECKSUM = 4  # bytes that fletcher32 adds to a chunk
_LITTLE = 2**20  # bytes that every process has: to look for limits takes longer
_PIECE = 2**24  # bytes inflated at once
_REPACK = "rewrite it with: h5repack -f GZIP=4 OLD NEW"


def check_fits(n_bytes: int, where: str) -> None:
    """Raise InputError when values that are declared can never be in this process's memory."""
    if n_bytes <= _LITTLE:
        return
    most = most_memory()
    if n_bytes > most:
        raise InputError(
            f"{where}: {n_bytes / 1e9:.3g} GB of values are declared, but there are "
            f"{most / 1e9:.3g} GB of memory; take fewer of them"
        )


def check_stored(data: h5py.Dataset, where: str) -> None:
    """Raise InputError unless all declared values are stored, in a form that can be verified.

    Looks at sizes and places, not at values.
    """
    if data.shape is None:
        raise InputError(f"{where}: an empty (null) dataset")
    if data.dtype.kind in "fiub" and not _is_standard(data):
        raise InputError(
            f"{where}: numbers in a format of their own; rewrite them as float32 or float64"
        )
    size = file_size(data)
    stored = data.id.get_storage_size()
    if stored > size:
        raise InputError(f"{where}: declares more stored bytes than the file has")
    wanted = math.prod(data.shape) * data.dtype.itemsize
    if data.chunks is None:
        if stored < wanted:
            raise InputError(f"{where}: shape {data.shape} was declared but never written")
        offset = data.id.get_offset()
        if offset is not None and offset + stored > size:
            raise InputError(f"{where}: reaches beyond the end of the file")
        return
    n_chunks = math.prod(-(-s // c) for s, c in zip(data.shape, data.chunks, strict=True))
    written = data.id.get_num_chunks()
    if written < n_chunks:
        raise InputError(
            f"{where}: {written} of {n_chunks} chunks were written; the file is incomplete"
        )
    pipeline(data, where)
    check_fits(_chunk_bytes(data), f"{where} (one chunk)")


def _is_standard(data: h5py.Dataset) -> bool:
    """Whether numbers are stored just as numpy has them, in either byte order."""
    stored = data.id.get_type()
    return any(stored.equal(h5t.py_create(data.dtype, logical=kind)) for kind in (False, True))


def file_size(data: h5py.Dataset) -> int:
    """Bytes of the file that holds a dataset."""
    return Path(data.file.filename).stat().st_size


def _chunk_bytes(data: h5py.Dataset) -> int:
    return math.prod(data.chunks) * data.dtype.itemsize


def pipeline(data: h5py.Dataset, where: str) -> list[int]:
    """Filters a chunk went through, in order; raises InputError for those not verified here."""
    properties = data.id.get_create_plist()
    filters = [properties.get_filter(i) for i in range(properties.get_nfilters())]
    found = [one[0] for one in filters]
    unknown = [one for one in filters if one[0] not in _PLAIN | set(_COMPRESSORS)]
    if unknown:
        name = unknown[0][3].decode("utf-8", "replace") or "without a name"
        raise InputError(
            f"{where}: stored through filter {unknown[0][0]} ({name[:40]}); read are gzip, lzf, "
            f"shuffle and fletcher32; {_REPACK}"
        )
    at = [i for i, one in enumerate(found) if one in _COMPRESSORS]
    after = found[at[0] + 1 :] if at else []
    if len(set(found)) < len(found) or len(at) > 1 or h5z.FILTER_SHUFFLE in after:
        raise InputError(f"{where}: filters {found} in an unusual order; {_REPACK}")
    return found


def check_chunks(data: h5py.Dataset, where: str) -> None:
    """Raise InputError unless every chunk is where it should be and holds as much as declared.

    Compressed chunks are inflated and forgotten. Reads the whole dataset if it is compressed,
    else its chunk index; needs one chunk.
    """
    filters = pipeline(data, where)
    expected = _chunk_bytes(data)
    missing = math.prod(-(-s // c) for s, c in zip(data.shape, data.chunks, strict=True))
    size, seen = file_size(data), set()
    for chunk in _chunks(data):
        inside = all(
            0 <= at < most for at, most in zip(chunk.chunk_offset, data.shape, strict=True)
        )
        whole = all(at % c == 0 for at, c in zip(chunk.chunk_offset, data.chunks, strict=True))
        if not inside or not whole or chunk.chunk_offset in seen:
            continue  # left over from a larger shape
        seen.add(chunk.chunk_offset)
        words = f"{where}: chunk at {tuple(int(at) for at in chunk.chunk_offset)}"
        if chunk.byte_offset is None or chunk.byte_offset + chunk.size > size:
            raise InputError(f"{words} reaches beyond the end of the file")
        used = [one for i, one in enumerate(filters) if not chunk.filter_mask >> i & 1]
        held = _held(data, chunk, used, expected)
        if held != expected:
            raise InputError(
                f"{words} is damaged: it does not hold the {expected} bytes of a chunk"
            )
    if len(seen) < missing:
        raise InputError(f"{where}: {missing - len(seen)} chunks are missing; damaged")


def _chunks(data: h5py.Dataset) -> list[Any]:
    found: list[Any] = []
    if hasattr(data.id, "chunk_iter"):  # from HDF5 1.12.3 on
        data.id.chunk_iter(found.append)
    else:
        found = [data.id.get_chunk_info(i) for i in range(data.id.get_num_chunks())]
    return found


def _held(data: h5py.Dataset, chunk: Any, used: Sequence[int], most: int) -> int:
    """Bytes of values in a chunk, -1 if damaged, counted no further than just beyond `most`."""
    compressed = [i for i, one in enumerate(used) if one in _COMPRESSORS]
    sums = [i for i, one in enumerate(used) if one == h5z.FILTER_FLETCHER32]
    if not compressed:
        return int(chunk.size) - _CHECKSUM * len(sums)
    at = compressed[0]
    inner = _CHECKSUM * sum(i < at for i in sums)  # checksums that are compressed with the values
    outer = _CHECKSUM * sum(i > at for i in sums)
    raw = data.id.read_direct_chunk(chunk.chunk_offset)[1]
    count = inflated if used[at] == h5z.FILTER_DEFLATE else expanded
    return count(raw[: len(raw) - outer], most + inner) - inner


def inflated(raw: bytes, most: int) -> int:
    """Bytes that a zlib stream holds; -1 if damaged or cut short, most + 1 if more than `most`."""
    stream, total = zlib.decompressobj(), 0
    try:
        while not stream.eof:
            piece = stream.decompress(raw, min(_PIECE, most + 1 - total))
            total, raw = total + len(piece), stream.unconsumed_tail
            if total > most:
                return most + 1
            if not piece and not raw:
                return -1
    except zlib.error:
        return -1
    return total


def expanded(raw: bytes, most: int) -> int:
    """Bytes that an LZF stream (h5py's `lzf`) holds; -1 if damaged, most + 1 if more than `most`.

    Walks over the tokens without expanding them: a byte below 32 announces as many literals and
    one; of any other the upper three bits, with one more byte if all are set, are the length of a
    repetition less 2, and its lower five bits with the next byte a distance less 1.
    """
    at, total, size = 0, 0, len(raw)
    try:
        while at < size:
            token = raw[at]
            if token < 32:
                at, total = at + token + 2, total + token + 1
                continue
            length = token >> 5
            if length == 7:
                at += 1
                length += raw[at]
            distance = ((token & 31) << 8) + raw[at + 1] + 1
            if distance > total:
                return -1
            at, total = at + 2, total + length + 2
            if total > most:
                break
    except IndexError:
        return -1
    if total > most:
        return most + 1
    return total if at == size else -1
