"""Points by blocks of rows: prepared for comparison as they are read, never all in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.graph.shares import each_part

BLOCK_BYTES = 1 << 23  # points read at once
_HELD, _READ = 1 << 20, 1 << 15  # rows hashed at once, of points in memory and read
_GAP_BYTES = 1 << 18  # unwanted rows that are read along rather than skipped
_LARGE, _SMALL = 1e18, 1e-18  # sizes whose squares still fit single precision
_SAFE = 1e9  # sizes beyond which, or below its inverse, squares and their sums lose digits
_OFF = 1e-3  # by which lengths of rows that are said to be 1 may differ
EARTH = 6371.0088  # km: mean radius
# Every row is changed for itself, and Euclidean distance is then what is meant: chords of rows of
# length 1, of the row less its mean for "correlation", and roots of shares for "hellinger".
ROWWISE = ("cosine", "correlation", "hellinger", "dot")
_FITTING = {  # sizes that have all digits of their precision, and room for sums
    np.dtype(np.float32): (1e-30, np.inf),
    np.dtype(np.float64): (1e-290, 1e290),
}


def is_rows(points: Any) -> bool:
    """Whether these points are to be read by blocks: no array, but a shape and rows a:b.

    HDF5 and zarr datasets count although numpy could load them whole.
    """
    if isinstance(points, np.ndarray) or sp.issparse(points):
        return False
    readable = hasattr(points, "shape") and hasattr(points, "__getitem__")
    return readable and (hasattr(points, "chunks") or not hasattr(points, "__array__"))


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """Some rows (m,) of points, ascending, as points of their own: read when needed."""

    source: Any
    rows: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of coordinates."""
        return int(self.rows.size), int(self.source.shape[1])

    def __getitem__(self, part: slice) -> NDArray[np.floating]:
        """Rows a:b of them; near ones are read in one go."""
        wanted = self.rows[part]
        if isinstance(self.source, np.ndarray):
            return self.source[wanted]
        pieces = [
            _read(self.source, slice(first, int(rows[-1]) + 1))[rows - first]
            for _, rows, first in runs(wanted, self.shape[1])
        ]
        return np.concatenate(pieces) if pieces else np.empty((0, self.shape[1]), np.float32)


@dataclass(frozen=True)
class Prepared:
    """Points (n, d) in single precision, centred or of unit length, computed as they are read.

    Euclidean: x - `shift` (kept from double precision only); else see `ROWWISE`. `size` is the
    largest |coordinate| of them all before everything is multiplied by `unit`, a power of two.
    """

    source: Any
    metric: str
    shift: NDArray[np.float64] | None
    size: float
    unit: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """Number of points and of coordinates."""
        n, d = self.source.shape
        return int(n), int(d)

    @property
    def held(self) -> int:
        """Bytes of the points where they are in memory, 0 where they are read."""
        source = self.source.source if isinstance(self.source, DistinctRows) else self.source
        return int(source.nbytes) if isinstance(source, np.ndarray) else 0

    def __getitem__(self, rows: slice) -> NDArray[np.float32]:
        """Rows a:b, (b - a, d) float32; may share memory with the source: not to be written to."""
        return self._prepare(_read(self.source, rows))

    def gather(self, ids: NDArray[np.integer]) -> NDArray[np.float32]:
        """Rows by number, in any order, (m, d); near ones are read in one go."""
        if isinstance(self.source, np.ndarray):
            return self._prepare(self.source[ids])
        if isinstance(self.source, DistinctRows) and self.held:
            return self._prepare(self.source.source[self.source.rows[ids]])
        wanted, back = np.unique(ids, return_inverse=True)
        found = np.empty((wanted.size, self.shape[1]), dtype=np.float32)
        for at, rows, first in runs(wanted, self.shape[1]):
            block = self[slice(first, int(rows[-1]) + 1)]
            found[at : at + rows.size] = block[rows - first]
        rising = wanted.size == ids.size and bool(np.all(ids[1:] > ids[:-1]))
        return found if rising else found[back.ravel()]

    def blocks(self, nbytes: int = BLOCK_BYTES) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield (first row, rows) from the first to the last."""
        return _blocks(self, nbytes)

    def bounds(self, nbytes: int = BLOCK_BYTES) -> list[slice]:
        """Rows of each of these blocks."""
        return _bounds(self, nbytes)

    def _prepare(self, X: NDArray[np.floating]) -> NDArray[np.float32]:
        if self.metric in ROWWISE:
            return _changed_rows(X, self.metric)
        if self.shift is not None:
            X = X - self.shift
        if self.unit != 1:
            X = np.ldexp(X, round(np.log2(self.unit)))
        return np.ascontiguousarray(X, dtype=np.float32)


def prepare(points: Any, metric: str, advance: Any = None) -> Prepared:
    """Check every value in one pass and find what the preparation needs; raises InputError."""
    if metric == "haversine":
        points, metric = _on_sphere(points), "euclidean"
    if len(points.shape) != 2:
        raise InputError(f"points: shape {tuple(points.shape)}; give (n points, d features)")
    n, d = (int(size) for size in points.shape)
    if n < 2:
        raise InputError(f"points: n_samples = {n} given; a graph needs at least 2")
    if d == 0:
        raise InputError(f"points: shape ({n}, 0) is empty; give at least one column")
    total, low, high = np.zeros(d), np.full(d, np.inf), np.full(d, -np.inf)
    zero, first, double = 0, -1, False
    nbytes = points.nbytes if isinstance(points, np.ndarray) else BLOCK_BYTES
    for part, one in each_part(points, partial(_looked_at, metric), _bounds(points, nbytes)):
        double |= one.total is not None
        low, high = np.minimum(low, one.low), np.maximum(high, one.high)
        first = part.start + int(one.empty[0]) if one.empty.size and first < 0 else first
        zero += one.empty.size
        if one.total is not None:
            total += one.total
        if advance is not None:
            advance(part.stop / n)
    if metric in ROWWISE:
        if zero:
            what = "constant" if metric == "correlation" else "all zeros"
            raise InputError(
                f"points: row {first} is {what} ({zero} such rows), it has no direction; "
                "remove it or use metric='euclidean'"
            )
        return Prepared(points, metric, None, 1.0)
    shift = total / n if double else None
    middle = 0.0 if shift is None else shift
    size = float(np.maximum(np.abs(low - middle), np.abs(high - middle)).max())
    precision = np.dtype(np.float64 if double else np.float32)
    return Prepared(points, metric, shift, size, _unit(size, precision))


@dataclass(frozen=True, eq=False)
class _Seen:
    """Of some rows: least and largest of every column, rows without direction, sums of doubles."""

    low: NDArray[Any]
    high: NDArray[Any]
    empty: NDArray[np.int64]
    total: NDArray[np.float64] | None


def _looked_at(metric: str, points: Any, part: slice) -> _Seen:
    """Check every value of some rows; raises InputError."""
    X, empty, total = _read(points, part), np.empty(0, dtype=np.int64), None
    high, low = X.max(axis=0), X.min(axis=0)
    if not (np.isfinite(high).all() and np.isfinite(low).all()):
        bad = part.start + np.flatnonzero(~np.isfinite(X).all(axis=1))
        raise InputError(f"points: NaN or Inf in row {bad[0]}; remove or impute")
    if metric in ROWWISE:
        empty = np.flatnonzero(_without_direction(X, metric, part.start))
    elif X.dtype == np.float64:
        with np.errstate(over="ignore", invalid="ignore"):  # looked at by the caller
            total = X.sum(axis=0, dtype=np.float64)
    return _Seen(low, high, empty, total)


def near_one(rows: Prepared) -> tuple[Prepared, float]:
    """Rows whose squares keep their digits, and the power of two they are multiplied by for it."""
    size, unit = rows.size * rows.unit, 1.0
    if not 1 / _SAFE <= size <= _SAFE and size > 0:
        unit = float(2.0 ** -np.round(np.log2(size)))
    return replace(rows, unit=rows.unit * unit), unit


def scaled_points(points: Any, metric: str) -> tuple[NDArray[np.float32], float]:
    """Points in single precision without losing digits, and the power of two they are times.

    Centred where they came in double precision (Euclidean), or of unit length (cosine). The power
    is 1 unless squares of their size would not fit. Raises InputError.
    """
    rows = prepare(points, metric)
    return rows[0 : rows.shape[0]], rows.unit


def gather(points: Any, ids: NDArray[np.integer]) -> NDArray[np.floating]:
    """Rows by number of an array or of prepared rows."""
    return points.gather(ids) if isinstance(points, Prepared) else points[ids]


def runs(wanted: NDArray[np.integer], width: int) -> Iterator[tuple[int, NDArray[np.integer], int]]:
    """Split ascending row numbers where reading on costs more than starting anew.

    Yields (place of the first in `wanted`, rows, first row); a run spans at most half a block.
    """
    gap = max(1, _GAP_BYTES // (4 * width))
    most = max(1, BLOCK_BYTES // (8 * width))
    cuts = np.flatnonzero(np.diff(wanted) > gap) + 1
    for a, b in zip([0, *cuts.tolist()], [*cuts.tolist(), wanted.size], strict=True):
        at = a
        while at < b:
            stop = at + int(np.searchsorted(wanted[at:b], wanted[at] + most))
            yield at, wanted[at:stop], int(wanted[at])
            at = stop


def _blocks(points: Any, nbytes: int) -> Iterator[tuple[int, NDArray[Any]]]:
    for rows in _bounds(points, nbytes):
        yield rows.start, _read(points, rows)


def _bounds(points: Any, nbytes: int) -> list[slice]:
    n, d = points.shape
    rows = max(1, nbytes // max(4 * d, 1))
    chunk = (getattr(getattr(points, "source", points), "chunks", None) or (1,))[0]
    if isinstance(chunk, int) and 1 < chunk <= rows:
        rows -= rows % chunk  # whole storage chunks: none is unpacked twice
    return [slice(start, min(start + rows, n)) for start in range(0, n, rows)]


def _read(source: Any, rows: slice) -> NDArray[np.floating]:
    """Rows a:b as float32 or float64."""
    X = np.asarray(source[rows])
    if X.dtype.kind not in "biuf":
        raise InputError(f"points: type {X.dtype} given; convert to real numbers")
    if X.dtype in (np.float32, np.float64):
        return X
    exact = X.dtype == np.float16 or (X.dtype.kind in "biu" and X.dtype.itemsize <= 2)
    return X.astype(np.float32 if exact else np.float64)


def _changed_rows(X: NDArray[np.floating], metric: str) -> NDArray[np.float32]:
    """Rows whose Euclidean distance is that of a metric of `ROWWISE`; by blocks, in double."""
    found = np.empty(X.shape, dtype=np.float32)
    step = max(1, BLOCK_BYTES // (8 * X.shape[1]))
    for a in range(0, len(X), step):
        unit = X[a : a + step].astype(np.float64)
        if metric == "correlation":
            unit -= unit.mean(axis=1, keepdims=True)
        unit /= np.abs(unit).max(axis=1, keepdims=True)
        if metric == "hellinger":
            unit /= 2 * unit.sum(axis=1, keepdims=True)
            np.sqrt(unit, out=unit)
        else:
            unit /= np.linalg.norm(unit, axis=1, keepdims=True)
        found[a : a + step] = unit
    return found


def _without_direction(X: NDArray[np.floating], metric: str, start: int) -> NDArray[np.bool_]:
    """Rows (m,) of which a metric knows nothing; InputError for what it does not take."""
    bad: Any = np.zeros(len(X), dtype=bool)
    what = ""
    if metric == "hellinger":
        bad = (X < 0).any(axis=1)
        column = int(np.argmax(X[int(np.argmax(bad))] < 0))
        what = f"has a negative value in column {column}, which is no share; take another"
    elif metric == "dot":
        length = np.linalg.norm(X.astype(np.float64), axis=1)
        bad, what = np.abs(length - 1) > _OFF, "is not of length 1; metric='cosine' makes it so"
    if bad.any():
        raise InputError(f"points: row {start + int(np.argmax(bad))} {what} (metric={metric!r})")
    same = np.ptp(X, axis=1) == 0 if metric == "correlation" else ~X.any(axis=1)
    return np.asarray(same)


# --- Places on the earth


def _on_sphere(points: Any) -> NDArray[np.float64]:
    """Places (n, 2), degrees of latitude and longitude, in space (n, 3), in km; InputError."""
    found = np.asarray(points[0 : points.shape[0]], dtype=np.float64)
    if found.ndim != 2 or found.shape[1] != 2:
        raise InputError(
            f"points: shape {found.shape}; metric='haversine' takes latitude and longitude, (n, 2)"
        )
    bad = ~((np.abs(found[:, 0]) <= 90) & (np.abs(found[:, 1]) <= 360))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"points: row {row} is {found[row, 0]:g}, {found[row, 1]:g}, which is no place; give "
            "latitude (-90 to 90) and longitude in degrees"
        )
    up, around = np.deg2rad(found).T
    flat = np.cos(up)
    places = np.column_stack([flat * np.cos(around), flat * np.sin(around), np.sin(up)])
    return EARTH * places


def along_the_ground(chords: NDArray[Any]) -> NDArray[Any]:
    """Lengths of great circles of chords, both in km."""
    arcs = 2 * EARTH * np.arcsin(np.minimum(chords / (2 * EARTH), 1.0))
    return np.where(np.isfinite(chords), arcs, np.inf).astype(chords.dtype)


def _unit(size: float, precision: np.dtype[Any]) -> float:
    """The power of two that brings values of this size near 1 where they are far from it."""
    if size == 0 or _SMALL <= size <= _LARGE:
        return 1.0
    least, most = _FITTING[precision]
    if not least <= size <= most:
        raise InputError(
            f"points: values of size {size:g} have lost digits in {precision.name}, or their sums "
            "do not fit it; multiply them by a number that brings them near 1"
        )
    return float(2.0 ** -np.round(np.log2(size)))


# --- Equal rows: found by hashing blocks of rows, before any neighbour is searched


@dataclass(frozen=True, eq=False)
class EqualRows:
    """`nodes` (n,): number of every row's kind, by first appearance; `first` (m,): its first row.

    `counts` (m,) are the rows of every kind.
    """

    nodes: NDArray[np.integer[Any]]
    first: NDArray[np.int64]
    counts: NDArray[np.int64]

    def of(self, points: Any) -> Any:
        """The first row of every kind, (m, d), read when needed where the points are."""
        if isinstance(points, np.ndarray):
            return points[self.first]
        return DistinctRows(points, self.first)


def group_equal_rows(points: NDArray[np.float32] | Prepared, advance: Any = None) -> EqualRows:
    """Which rows of points (n, d) are equal in single precision, as they are compared.

    Points in memory, or prepared as they are read: one pass over them. -0.0 equals 0.0. A table
    without equal rows keeps its order. By 128-bit hashes, see `kernels.row_hash`. Cost O(n d), and
    at most 40 bytes a row beside the points.
    """
    d = points.shape[1]
    table = _hashed(points, BLOCK_BYTES if isinstance(points, Prepared) else 4 * d * _HELD, advance)
    return EqualRows(table.nodes, table.first, np.bincount(table.nodes, minlength=table.count))


def count_distinct(points: Any) -> int:
    """How many rows of points (n, d) differ in single precision: what a plan wants to know.

    `points` has a shape and blocks of rows [a:b]. Cost O(n d), 40 bytes a row and a block.
    """
    return int(_hashed(points, 4 * int(points.shape[1]) * _READ).count)


def _hashed(points: Any, nbytes: int, advance: Any = None) -> Any:
    from mustlink.kernels.row_hash import RowTable  # a plain graph needs no compiler

    n = int(points.shape[0])
    table = RowTable(n)
    for rows in _bounds(points, nbytes):
        table.add(np.asarray(points[rows], dtype=np.float32))
        if advance is not None:
            advance(rows.stop / n)
    return table
