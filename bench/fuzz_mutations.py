"""What `fuzz.py` does to a file: to its bytes, to its text, or to what it says."""

from __future__ import annotations

import re
import shutil

import numpy as np

import fuzz_checksums
import fuzz_rewrites

_NUMBERS = (0, 1, 2, 3, 4, 7, 8, 16, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31,
            2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)  # fmt: skip
_MARKS = (b"\x89HDF", b"TREE", b"HEAP", b"SNOD", b"OHDR", b"OCHK", b"FRHP", b"FHDB", b"BTHD",
          b"BTLF", b"FAHD", b"FADB", b"EAHD", b"EAIB", b"GCOL", b"shape", b"PK\x01\x02",
          b"PK\x03\x04", b"descr", b"\x93NUMPY", b"%%")  # fmt: skip
_WORDS = ("nan", "inf", "-inf", "1e999", "-1", "-2", "1e-999", "99999999999999999999", "1e15",
          "abc", "", "0x10", "1_0", "∞", "\x00", "\x1b[31m", '"', "'", "#", "%", ",", ";", "\t",
          "1 2", "i", "label", "2147483648", "1.5", "\ud800", "\u202e", "9" * 400)  # fmt: skip


def mutate(rng, source, target, corpus) -> str:
    """Write a mutation of `source` to `target`; returns what was done in words."""
    hdf5 = ".h5" in source.name
    text = source.suffix in (".csv", ".edges", ".mtx")
    if hdf5 and rng.random() < 0.4:
        shutil.copy(source, target)
        done = fuzz_rewrites.rewrite(rng, target)
        if rng.random() < 0.8:
            return done
        source, before = target, f"{done}; "
    else:
        before = ""
    whole = bytearray(source.read_bytes())
    done = []
    for _ in range(rng.choice([1, 1, 2, 4])):
        if text and rng.random() < 0.7:
            words, whole = _in_text(rng, whole)
        else:
            words, whole = _in_bytes(rng, whole, corpus)
        done.append(words)
    if hdf5 and rng.random() < 0.7 and fuzz_checksums.repair(whole):
        done.append("checksums made right")
    target.write_bytes(whole)
    return before + "; ".join(done)


# ---------------------------------------------------------------- bytes


def _place(rng, whole):
    """A place in the file: often near a structure, seldom in the zeros."""
    if rng.random() < 0.6:
        found = [m.start() for mark in _MARKS for m in re.finditer(re.escape(mark), bytes(whole))]
        if found:
            return min(len(whole) - 1, int(rng.choice(found)) + int(rng.geometric(0.03)))
    used = np.flatnonzero(np.frombuffer(bytes(whole), dtype=np.uint8))
    if used.size and rng.random() < 0.7:
        return int(rng.choice(used))
    return int(rng.integers(len(whole)))


def _in_bytes(rng, whole, corpus):
    if not whole:
        return "nothing left", whole
    at, size = _place(rng, whole), int(rng.choice([1, 4, 8, 32, 200, 1000]))
    kind = rng.choice(
        ["flip", "set", "number", "copy", "zero", "swap", "truncate", "splice", "insert", "delete"],
        p=[0.2, 0.15, 0.25, 0.07, 0.08, 0.05, 0.06, 0.06, 0.04, 0.04],
    )
    other = int(rng.integers(len(whole)))
    if kind == "flip":
        whole[at] ^= 1 << int(rng.integers(8))
    elif kind == "set":
        whole[at] = int(rng.choice([0, 1, 127, 128, 255, rng.integers(256)]))
    elif kind == "number":
        width = int(rng.choice([1, 2, 4, 8]))
        value = _NUMBERS[rng.integers(len(_NUMBERS))] % 256**width
        whole[at : at + width] = value.to_bytes(width, "little")[: len(whole) - at]
    elif kind == "copy":
        whole[at : at + size] = whole[other : other + size]
    elif kind == "zero":
        size = min(size, len(whole) - at)
        whole[at : at + size] = bytes(size)
    elif kind == "swap":
        a, b = sorted((at, other))
        size = min(size, b - a, len(whole) - b)
        whole[a : a + size], whole[b : b + size] = whole[b : b + size], whole[a : a + size]
    elif kind == "truncate":
        del whole[at:]
    elif kind == "splice":
        stranger = corpus[rng.integers(len(corpus))].read_bytes()
        whole[at:] = stranger[at:]
    elif kind == "insert":
        whole[at:at] = rng.bytes(size)
    else:
        del whole[at : at + size]
    return f"{kind} at {at}", whole


def _in_text(rng, whole):
    """Another word, or lines in another order."""
    lines = whole.decode("utf-8", "replace").split("\n")
    at = int(rng.integers(len(lines)))
    if rng.random() < 0.3:
        at = int(rng.integers(min(3, len(lines))))  # headers matter more
    kind = rng.choice(["word", "word", "word", "double", "drop", "join", "swap"])
    if kind == "word":
        pieces = re.split(r"([,;\s]+)", lines[at])
        word = _WORDS[rng.integers(len(_WORDS))]
        pieces[rng.integers(len(pieces))] = word
        lines[at] = "".join(pieces)
        kind = f"word {word[:20]!r}"
    elif kind == "double":
        lines.insert(at, lines[at])
    elif kind == "drop":
        del lines[at]
    elif kind == "join" and at + 1 < len(lines):
        lines[at : at + 2] = [lines[at] + lines[at + 1]]
    else:
        other = int(rng.integers(len(lines)))
        lines[at], lines[other] = lines[other], lines[at]
    return f"{kind} in line {at}", bytearray("\n".join(lines).encode("utf-8", "surrogatepass"))
