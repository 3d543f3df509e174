"""Nodes on disk: blocks are rows in temporary files, verbs are passes over ranges of them.

A range is worked on as `LocalSpace` works on all: the kernels are the same. Its length depends on
nothing but the width of the rows, so that sums come out the same on every machine.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.core.resources import size_text
from mustlink.errors import InputError
from mustlink.kernels.blocks import hand_out, normals
from mustlink.space.verbs import Ints, LocalSpace, Scalars, Small, Space, Sum, drawn, listed

# Windows, and older macOS, have one place in an open file, which threads share.
_MOVING = threading.Lock()
_PIECE = 1 << 24  # bytes that are moved at once there


class ScratchFile:
    """A file of `size` bytes, zero at first, that goes when it is closed, let go of or killed.

    `folder` is where it is, None: where temporary files are. Bytes are read and written: pages of
    a memory map would count as memory of the process. Raises InputError where it does not fit.
    """

    def __init__(self, folder: Any, size: int) -> None:
        where = folder if folder is not None else tempfile.gettempdir()
        try:
            self._take(tempfile.TemporaryFile(dir=where, buffering=0))  # noqa: SIM115
        except OSError as error:
            raise InputError(
                f"scratch: no temporary file in {where} ({error.strerror}); name another folder"
            ) from None
        self._reserve(size, where)

    def _take(self, file: Any) -> None:
        self._file, self._fd = file, file.fileno()
        weakref.finalize(self, file.close)  # let go of: no warning of a file left open

    def _reserve(self, size: int, where: Any) -> None:
        try:
            if size and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._fd, 0, size)
            elif size > shutil.disk_usage(where).free:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            else:
                self._file.truncate(size)
        except OSError as error:
            self._file.close()
            raise InputError(
                f"scratch: {size_text(size, up=True)} do not fit in {where} ({error.strerror}); "
                "make room or name another folder"
            ) from None

    def fileno(self) -> int:
        """Its descriptor."""
        return self._fd

    def close(self) -> None:
        """Give the room back."""
        self._file.close()

    def write(self, at: int, values: NDArray[Any]) -> None:
        """Write a contiguous array from byte `at` on."""
        left = values.reshape(-1).view(np.uint8).data
        while left:
            done = _write_at(self._fd, left, at)
            left, at = left[done:], at + done

    def read(self, at: int, out: NDArray[Any]) -> None:
        """Fill a contiguous array from byte `at` on."""
        if not read_into(self._fd, at, out):
            raise InputError("scratch: the temporary file ended early; run again")


class NamedFile(ScratchFile):
    """A file that other processes open by its path: of `size` bytes it is made, else read.

    Raises InputError where it does not fit.
    """

    def __init__(self, path: Path, size: int | None = None) -> None:
        self._path = path
        self._take(open(path, "rb" if size is None else "x+b", buffering=0))  # noqa: SIM115
        if size is not None:
            self._reserve(size, path.parent)

    def settle(self) -> None:
        """Let other machines see what was written, as they do once it is closed; now it is read."""
        self._file.close()
        self._take(open(self._path, "rb", buffering=0))  # noqa: SIM115


def read_into(fd: int, at: int, out: NDArray[Any]) -> bool:
    """Fill a contiguous array with bytes of an open file from `at` on; whether it has as many."""
    left = out.reshape(-1).view(np.uint8).data
    while left:
        done = _read_at(fd, left, at)
        if done == 0:
            return False
        left, at = left[done:], at + done
    return True


def _read_at(fd: int, block: memoryview, at: int) -> int:
    if hasattr(os, "preadv"):
        return os.preadv(fd, [block], at)
    with _MOVING:
        os.lseek(fd, at, os.SEEK_SET)
        found = os.read(fd, min(len(block), _PIECE))
    block[: len(found)] = found
    return len(found)


def _write_at(fd: int, block: memoryview, at: int) -> int:
    if hasattr(os, "pwrite"):
        return os.pwrite(fd, block, at)
    with _MOVING:
        os.lseek(fd, at, os.SEEK_SET)
        return os.write(fd, block[:_PIECE])


# --- Nodes of a graph whose blocks are in a file


Array = NDArray[Any]

PASS_BYTES = 1 << 25  # in memory of all that a pass reads and writes
_LEAST_ROWS = 1 << 10
_GAP_BYTES = 1 << 14  # unwanted bytes that are cheaper to read than to skip


class DiskBlock:
    """A block (n, b), or a vector (n,), of zeros at first; `block[a:b]` are rows in memory.

    What is read is the caller's own: to change rows, write them. It is in a temporary file in
    `folder`, or in the `file` given.
    """

    def __init__(
        self, folder: Any, shape: tuple[int, ...], dtype: Any, file: ScratchFile | None = None
    ) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self._row = self.dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        self._file = file or ScratchFile(folder, shape[0] * self._row)

    @property
    def ndim(self) -> int:
        """1 for a vector, else 2."""
        return len(self.shape)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self._row

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """Rows a:b, one after the other."""
        first, stop, _ = rows.indices(self.shape[0])
        out = np.empty((max(stop - first, 0), *self.shape[1:]), dtype=self.dtype)
        self.read(first, out)
        return out

    def __setitem__(self, rows: slice, values: NDArray[Any]) -> None:
        """Write rows a:b."""
        first, stop, _ = rows.indices(self.shape[0])
        assert values.shape == (stop - first, *self.shape[1:])
        self._file.write(first * self._row, np.ascontiguousarray(values, dtype=self.dtype))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All rows in memory."""
        return self[:].astype(dtype or self.dtype, copy=False)

    def read(self, first: int, out: NDArray[Any]) -> None:
        """Fill contiguous `out`, of the block's type, with rows from `first` on."""
        self._file.read(first * self._row, out)

    def as_column(self) -> DiskBlock:
        """A vector as a block (n, 1): the same numbers."""
        found = copy(self)
        found.shape = (self.shape[0], 1)
        return found

    def picked(self, nodes: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Some rows, in any order; near ones are read in one go."""
        wanted, back = np.unique(np.asarray(nodes, dtype=np.int64), return_inverse=True)
        out = np.empty((wanted.size, *self.shape[1:]), dtype=self.dtype)
        gap = max(1, _GAP_BYTES // max(self._row, 1))
        cuts = np.flatnonzero(np.diff(wanted) > gap) + 1
        for at in np.split(np.arange(wanted.size), cuts):
            for some in np.array_split(at, max(1, at.size // gap)):
                if some.size:
                    first, last = int(wanted[some[0]]), int(wanted[some[-1]])
                    out[some] = self[first : last + 1][wanted[some] - first]
        return out[back.ravel()]


class DiskSpace(Space):
    """The space of `size` nodes with blocks in temporary files in `folder`, None for the usual one.

    Blocks and vectors are `DiskBlock`s; arrays (n,) and (n, b) are taken for them, too. `weights`
    (size,) or None are multiplicities. Memory: 32 MB, and what rows of one pass take above that
    where they are very wide. Every verb reads and writes each of its blocks once.
    """

    def __init__(self, size: int, folder: Any = None, weights: Any = None) -> None:
        self.size = size
        self.folder = folder
        self.weights = weights

    # --- passes

    def ranges(self, row_bytes: int) -> list[slice]:
        """All rows in ranges that fit into memory where a row takes so many bytes."""
        rows = max(_LEAST_ROWS, PASS_BYTES // max(row_bytes, 1))
        return [slice(a, min(a + rows, self.size)) for a in range(0, self.size, rows)]

    def new(self, shape: tuple[int, ...], dtype: Any) -> DiskBlock:
        """Zeros (n, …) of their own."""
        return DiskBlock(self.folder, (self.size, *shape), dtype)

    def _pass(self, *data: Any, beside: int = 0) -> Iterator[tuple[slice, list[Array]]]:
        """Rows of all data, range by range; `beside` bytes of a row are made of them."""
        for rows in self.ranges(sum(_row_bytes(X) for X in data) + beside):
            yield rows, [X[rows] for X in data]

    # --- sums over nodes

    def sums(self, *wanted: Sum) -> list[Small]:
        """Every block is read once, however many sums it is in."""
        blocks: dict[int, Any] = {}
        for one in wanted:
            one.of(lambda V: blocks.update((id(X), X) for X in listed(V)))
        found: list[Small] = []
        for _, arrays in self._pass(*blocks.values()):
            held = dict(zip(blocks, arrays, strict=True))

            def rows_of(V: Any, held: dict[int, Array] = held) -> Any:
                return [held[id(X)] for X in V] if isinstance(V, list) else held[id(V)]

            here = LocalSpace(len(arrays[0])).sums(*(one.of(rows_of) for one in wanted))
            found = [a + b for a, b in zip(found, here, strict=True)] if found else here
        return found

    def peaks(self, X: Any) -> Small:
        found = np.zeros(X.shape[1])
        for _, (rows,) in self._pass(X):
            here = LocalSpace(len(rows)).peaks(rows)
            found = np.where(np.abs(here) > np.abs(found), here, found)
        return found

    def largest(self, v: Any, count: int) -> Ints:
        values, nodes = np.empty(0), np.empty(0, dtype=np.int64)
        for part, (rows,) in self._pass(v):
            best = LocalSpace(len(rows)).largest(rows, min(count, len(rows)))
            values = np.concatenate([values, rows[best, 0]])
            nodes = np.concatenate([nodes, best + part.start])
            kept = np.lexsort((nodes, -values))[:count]
            values, nodes = values[kept], nodes[kept]
        return nodes

    # --- linear combinations

    def combine(self, V: Any, C: Small) -> DiskBlock:
        return self._made(lambda *parts: LocalSpace(0).combine(list(parts), C), *listed(V))

    def recombine(self, V: list[Any], C: Small, C2: Small) -> tuple[Any, Any]:
        dtype = V[0].dtype
        first = V[0] if C.shape[1] == V[0].shape[1] else self.new((C.shape[1],), dtype)
        second = self.new((C2.shape[1],), dtype)
        for rows, parts in self._pass(*V, beside=first.row_bytes + second.row_bytes):
            first[rows], second[rows] = LocalSpace(0).recombine(parts, C, C2)
        return first, second

    def subtract(self, X: Any, V: Any, C: Small) -> None:
        for rows, (x, v) in self._pass(X, V):
            LocalSpace(0).subtract(x, v, C)
            X[rows] = x

    def blend(
        self, out: Any, keep: Scalars, *terms: tuple[Any, Scalars], columns: Ints | None = None
    ) -> None:
        for rows, (x, *parts) in self._pass(out, *(V for V, _ in terms)):
            pairs = [(part, a) for part, (_, a) in zip(parts, terms, strict=True)]
            LocalSpace(0).blend(x, keep, *pairs, columns=columns)
            out[rows] = x

    def lessen(self, R: Any, V: Any, a: Small) -> Small:
        squares = np.zeros(R.shape[1])
        for rows, (r, v) in self._pass(R, V):
            squares += LocalSpace(0).lessen(r, v, a)
            R[rows] = r
        return squares

    def lessened(self, X: Any, V: Any, a: Small) -> tuple[DiskBlock, Small]:
        out, squares = self.new(X.shape[1:], X.dtype), np.zeros(X.shape[1])
        for rows, (x, v) in self._pass(X, V, beside=out.row_bytes):
            out[rows], here = LocalSpace(0).lessened(x, v, a)
            squares += here
        return out, squares

    def without(self, X: Any, v: Any, a: Small) -> DiskBlock:
        return self._made(lambda x, w: LocalSpace(0).without(x, w, a), X, v, dtype=X.dtype)

    def mix(self, out: Any, terms: Any, which: Ints, C: Small) -> None:
        """Series are lists of blocks."""
        chosen = [terms[k] for k in which]
        for rows, parts in self._pass(*out, *chosen):
            made, used = parts[: len(out)], parts[len(out) :]
            stacked = np.stack(made)
            LocalSpace(0).mix(stacked, np.stack(used), np.arange(len(used)), C)
            for block, values in zip(out, stacked, strict=True):
                block[rows] = values

    # --- making, choosing, joining

    def zeros(self, width: int, dtype: Any = np.float64) -> DiskBlock:
        return self.new((width,), dtype)

    def series(self, count: int, width: int) -> list[DiskBlock]:
        return [self.zeros(width) for _ in range(count)]

    def copy(self, X: Any, dtype: Any = None) -> DiskBlock:
        return self._made(lambda x: x, X, dtype=X.dtype if dtype is None else dtype)

    def normals(self, width: int, seed: int) -> DiskBlock:
        out = self.zeros(width)
        for rows in self.ranges(2 * out.row_bytes):
            out[rows] = normals(np.arange(rows.start, rows.stop), width, seed)
        return out

    def columns(self, X: Any, which: Any) -> DiskBlock:
        at = np.arange(X.shape[1])[which]
        return self._made(lambda x: np.take(x, at, axis=1), X, dtype=X.dtype)

    def stack(self, blocks: Sequence[Any]) -> DiskBlock:
        dtype = np.result_type(*(X.dtype for X in blocks))
        return self._made(lambda *parts: np.hstack(parts), *blocks, dtype=dtype)

    def column(self, v: Any) -> Any:
        """A view of the same numbers."""
        return v[:, None] if isinstance(v, np.ndarray) else v.as_column()

    # --- rows

    def sample(self, most: int, seed: int) -> Ints:
        """Nodes without an edge have rows here, and weigh 0; the others are counted by ranges."""
        w = self.weights
        if w is None:
            return super().sample(most, seed)
        ranges = list(self.ranges(16))
        ends = np.cumsum([0, *(np.count_nonzero(w[r]) for r in ranges)])
        chosen, found = drawn(int(ends[-1]), most, seed), []
        for r, first, end in zip(ranges, ends[:-1], ends[1:], strict=True):
            own = chosen[np.searchsorted(chosen, first) : np.searchsorted(chosen, end)] - first
            found.append(np.flatnonzero(w[r])[own] + r.start)
        return np.concatenate(found)

    def rowwise(self, function: Callable[..., Any], *data: Any) -> Any:
        return self._made(function, *data)

    def _made(self, function: Callable[..., Any], *data: Any, dtype: Any = None) -> DiskBlock:
        """What a function makes of rows, as a block of its own; `dtype` if not the function's."""
        out: DiskBlock | None = None
        for rows, parts in self._pass(*data, beside=sum(_row_bytes(X) for X in data)):
            found = function(*parts)
            if out is None:
                out = self.new(found.shape[1:], found.dtype if dtype is None else dtype)
            out[rows] = found
        assert out is not None
        return out

    def spread(
        self, C: Small, groups: Any, scale: Any = None, dtype: Any = np.float64
    ) -> DiskBlock:
        out = self.zeros(C.shape[1], dtype)
        data = (groups,) if scale is None else (groups, scale)
        for rows, (g, *s) in self._pass(*data, beside=2 * out.row_bytes):
            out[rows] = hand_out(C, g, s[0] if s else np.ones(g.size), dtype)
        return out

    def take(self, X: Any, nodes: Ints) -> Any:
        return np.take(X, nodes, axis=0) if isinstance(X, np.ndarray) else X.picked(nodes)

    def place(self, X: Any) -> DiskBlock:
        return self._made(lambda x: x, np.asarray(X))

    def add_rows(self, X: Any, nodes: Ints, rows: Any) -> None:
        order = np.argsort(nodes, kind="stable")
        nodes, rows = np.asarray(nodes)[order], np.asarray(rows)[order]
        for part in self.ranges(X.row_bytes):
            a, b = np.searchsorted(nodes, [part.start, part.stop])
            if a < b:
                held = X[part]
                held[nodes[a:b] - part.start] += rows[a:b]
                X[part] = held


def _row_bytes(X: Any) -> int:
    if isinstance(X, np.ndarray):
        return int(X.itemsize * np.prod(X.shape[1:], dtype=np.int64))
    return int(X.row_bytes)
