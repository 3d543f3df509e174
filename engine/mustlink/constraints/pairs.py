"""Must-link and cannot-link pairs: checked, merged, as a sparse matrix (WD14 §4.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core.check import as_csr, positive, symmetric
from mustlink.errors import InputError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def check_n_nodes(n_nodes: Any) -> int:
    """Return the number of nodes as an int >= 1; raises InputError."""
    if isinstance(n_nodes, bool) or not isinstance(n_nodes, int | np.integer) or n_nodes < 1:
        raise InputError(
            f"constraints: n_nodes is {n_nodes!r}; give the graph's number of nodes, 1 or more"
        )
    return int(n_nodes)


def check_nodes(nodes: Any, n_nodes: int) -> tuple[Ints, Ints]:
    """Return nodes (m,), given as numbers or a mask (n,), and the place (n,) of each, -1 elsewhere.

    Raises InputError for a number out of range or given twice.
    """
    array = np.asarray(nodes)
    if array.dtype == bool and array.shape == (n_nodes,):
        array = np.flatnonzero(array)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise InputError(
            f"constraints: nodes of shape {array.shape} and type {array.dtype}; give the numbers "
            f"of some nodes, or a mask of {n_nodes}"
        )
    if array.min() < 0 or array.max() >= n_nodes:
        raise InputError(
            f"constraints: node {array.max() if array.min() >= 0 else array.min()} asked for, but "
            f"the graph has {n_nodes} nodes, numbered from 0"
        )
    place = np.full(n_nodes, -1, dtype=np.int64)
    place[array] = np.arange(array.size)
    if np.count_nonzero(place >= 0) < array.size:
        raise InputError("constraints: a node is asked for twice; give each once")
    return array.astype(np.int64), place


def check_pairs(pairs: Any, belief: Any, n_nodes: int) -> tuple[Ints, Floats]:
    """Return copies of pairs (m, 2) int64 and belief (m,) float64, every row usable.

    Raises InputError for a wrong shape, node numbers that are not integers or out of range, a
    node paired with itself, a belief that is zero or not finite. Cost O(m).
    """
    array = _node_numbers(pairs)
    outside = (array < 0) | (array >= n_nodes)
    if outside.any():
        row = int(np.flatnonzero(outside.any(axis=1))[0])
        raise InputError(
            f"constraints: {_named(array, row)} but the graph has {n_nodes} nodes, numbered from 0"
        )
    own = np.flatnonzero(array[:, 0] == array[:, 1])
    if own.size:
        raise InputError(
            f"constraints: {_named(array, int(own[0]))}, a node with itself; remove it"
        )
    return array, _beliefs(belief, array)


def merge_pairs(pairs: Ints, belief: Floats, n_nodes: int) -> tuple[Ints, Floats, Ints]:
    """Return the distinct unordered pairs (k, 2), i < j, sorted, with their mean belief.

    The third array, (m,), tells which distinct pair each given row belongs to. Opposite beliefs
    cancel: a pair with mean zero is undecided. Cost O(m log m).
    """
    low, high = pairs.min(axis=1, initial=n_nodes), pairs.max(axis=1, initial=-1)
    keys, row_of = np.unique(low * np.int64(n_nodes) + high, return_inverse=True)
    row_of = np.asarray(row_of, dtype=np.int64).ravel()
    count = np.bincount(row_of, minlength=keys.size)
    mean = np.bincount(row_of, weights=belief, minlength=keys.size) / np.maximum(count, 1)
    distinct = np.column_stack([keys // n_nodes, keys % n_nodes]).astype(np.int64)
    return distinct, mean.astype(np.float64), row_of


def pairs_matrix(pairs: Ints, belief: Floats, n_nodes: int) -> sp.csr_matrix:
    """Q_ij = Q_ji = belief for distinct pairs, (n, n) CSR float64, sorted (WD14 §4.1)."""
    known = belief != 0
    i, j, values = pairs[known, 0], pairs[known, 1], belief[known]
    matrix = sp.coo_matrix(
        (np.concatenate([values, values]), (np.concatenate([i, j]), np.concatenate([j, i]))),
        shape=(n_nodes, n_nodes),
    ).tocsr()
    matrix.sort_indices()
    return matrix


def split_pairs(
    pairs: Ints, belief: Floats, n_nodes: int, fraction: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Mask (m,) of the rows held out: whole pairs, with all their repetitions.

    Must-links and cannot-links are drawn separately, so that both are present in both parts
    where there are enough; of two pairs or more at least one is held out and one kept.
    """
    _, mean, row_of = merge_pairs(pairs, belief, n_nodes)
    out = np.zeros(mean.size, dtype=bool)
    for members in (np.flatnonzero(mean > 0), np.flatnonzero(mean <= 0)):
        out[rng.permutation(members)[: round(fraction * members.size)]] = True
    if mean.size > 1 and (out.all() or not out.any()):
        one = rng.integers(mean.size)
        out[one] = not out[one]
    return out[row_of]


def _node_numbers(pairs: Any) -> Ints:
    array = np.asarray(pairs)
    if array.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 2:
        raise InputError(
            f"constraints: pairs have shape {array.shape}; give rows of two node numbers"
        )
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            array = array.astype(str)
    if array.dtype.kind not in "iuf":
        raise InputError(
            f"constraints: pairs have type {array.dtype}; give node numbers as integers from 0"
        )
    if array.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            broken = np.flatnonzero((np.mod(array, 1) != 0).any(axis=1))
        if broken.size:
            raise InputError(
                f"constraints: {_named(array, int(broken[0]))}; nodes are integers from 0"
            )
    return np.array(array, dtype=np.int64, order="C")


def _beliefs(belief: Any, pairs: Ints) -> Floats:
    wanted = "give a finite number, positive for must-link and negative for cannot-link"
    try:
        values = np.array(belief, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"constraints: belief is not numeric; {wanted}") from None
    count = pairs.shape[0]
    if values.ndim == 0:
        values = np.full(count, float(values))
        if not np.isfinite(belief) or belief == 0:
            raise InputError(f"constraints: belief is {belief}; {wanted}")
    if values.shape != (count,):
        raise InputError(
            f"constraints: belief has shape {values.shape} for {count} pairs; give one number, "
            "or one per pair"
        )
    bad = np.flatnonzero(~np.isfinite(values) | (values == 0))
    if bad.size:
        row = int(bad[0])
        raise InputError(f"constraints: {_named(pairs, row)} with belief {values[row]:g}; {wanted}")
    return values


def _named(pairs: NDArray[Any], row: int) -> str:
    """`pair 17 is (3, 5)`, a row of the input."""
    return f"pair {row} is ({pairs[row, 0]}, {pairs[row, 1]})"


# --- Soft constraints from a second graph or from any symmetric matrix (WD14 §4.1 and §6.3)


def as_symmetric(matrix: Any, *, signed: bool) -> sp.csr_matrix:
    """Return a dense or sparse matrix as a fresh (n, n) CSR float64, no stored zeros.

    Asymmetry within rounding (1e-6 of the largest entry) is averaged away. Raises InputError for
    a matrix that is not square, not finite, not symmetric, or negative unless `signed`.
    """
    where = "constraints: matrix" if signed else "constraints: graph"
    W = as_csr(getattr(matrix, "affinity", matrix), where).astype(np.float64)
    if W.shape[0] != W.shape[1] or W.shape[0] == 0:
        raise InputError(f"{where} has shape {W.shape}; give one row and one column per node")
    return symmetric(positive(W, where, signed=signed), where, "make it symmetric")


def upper_entries(
    matrix: sp.csr_matrix,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Rows, columns and values of the stored entries above the diagonal."""
    coo = matrix.tocoo()
    above = coo.row < coo.col
    return coo.row[above].astype(np.int64), coo.col[above].astype(np.int64), coo.data[above]


def split_entries(
    matrix: sp.csr_matrix, fraction: float, rng: np.random.Generator
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Kept and held-out parts: a random share of the symmetric entries; the diagonal is kept."""
    i, j, values = upper_entries(matrix)
    out = np.zeros(values.size, dtype=bool)
    out[rng.permutation(values.size)[: round(fraction * values.size)]] = True
    upper = sp.coo_matrix((values[out], (i[out], j[out])), shape=matrix.shape)
    held = (upper + upper.T).tocsr()
    held.sort_indices()
    upper = sp.coo_matrix((values[~out], (i[~out], j[~out])), shape=matrix.shape)
    kept = (upper + upper.T + sp.diags(matrix.diagonal(), format="csr")).tocsr()
    kept.eliminate_zeros()
    kept.sort_indices()
    return kept, held


# --- Pairs, and cliques of labelled nodes, as one matrix


@dataclass(frozen=True, eq=False)
class NodeMatrix:
    """Symmetric M = matrix + factor·core·factorᵀ on n nodes.

    `matrix` (n, n) CSR, `factor` (n, r) CSR and `core` (r, r), or None.
    """

    matrix: sp.csr_matrix
    factor: sp.csr_matrix | None = None
    core: Any = None

    def dot(self, block: Floats) -> Floats:
        """M times (n,) or (n, b)."""
        product = self.matrix @ block
        if self.factor is not None:
            product = product + self.factor @ (self.core @ (self.factor.T @ block))
        return product

    def sums(self) -> Floats:
        """Row sums M1, (n,)."""
        return np.asarray(self.dot(np.ones(self.matrix.shape[0])), dtype=np.float64)

    def times(self, number: float) -> NodeMatrix:
        """The multiple number·M."""
        core = None if self.core is None else self.core * number
        return NodeMatrix(sp.csr_matrix(self.matrix * number), self.factor, core)

    def between(self, scale: Floats) -> NodeMatrix:
        """diag(s) M diag(s) for s (n,)."""
        S = sp.diags(scale, format="csr")
        factor = None if self.factor is None else sp.csr_matrix(S @ self.factor)
        return NodeMatrix(sp.csr_matrix(S @ self.matrix @ S), factor, self.core)

    def __add__(self, other: NodeMatrix) -> NodeMatrix:
        """M + N."""
        matrix = sp.csr_matrix(self.matrix + other.matrix)
        if self.factor is None or other.factor is None:
            kept = self if other.factor is None else other
            return NodeMatrix(matrix, kept.factor, kept.core)
        factor = sp.hstack([self.factor, other.factor], format="csr")
        core = sp.block_diag([self.core, other.core], format="csr")
        return NodeMatrix(matrix, sp.csr_matrix(factor), sp.csr_matrix(core))

    def on_pattern(self, pattern: sp.csr_matrix) -> sp.csr_matrix:
        """Entries of M where `pattern` (n, n) stores one; cost O(nnz of the pattern, and r)."""
        coo = pattern.tocoo()
        if coo.nnz == 0:
            return sp.csr_matrix(pattern.shape)
        values = np.asarray(self.matrix[coo.row, coo.col], dtype=np.float64).ravel()
        if self.factor is not None:
            left = sp.csr_matrix(self.factor @ sp.csr_matrix(self.core))[coo.row]
            values = values + np.asarray(left.multiply(self.factor[coo.col]).sum(axis=1)).ravel()
        return sp.csr_matrix((values, (coo.row, coo.col)), shape=pattern.shape)
