"""Sparse matrix times dense block, in parallel over rows, alone or fused with what follows it.

A row's sums are made in vector registers (`row_sums`), where what follows them is made, too: loops
over a dozen columns took as long as the sums.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from mustlink.kernels.row_hash import sort_rows
from mustlink.kernels.threads import FEW, loop

_PIECE = 1 << 16  # rows of a matrix that are converted at a time


@loop(fastmath=True)
def _products(
    lo: int, hi: int,
    indptr: Any, indices: Any, data: Any, X: Any, V: Any, B: Any, scale: Any, weights: Any,
    step: Any, Y: Any,
) -> None:  # fmt: skip
    of_sums, of_own, of_other = weights[0], weights[1], weights[2]
    kept, old = weights[3], weights[4]
    each = scale.size > 1
    for i in range(lo, hi):
        s = scale[i] if each else scale[0]
        p, q, r = s * of_sums, s * of_own + kept, s * of_other
        affine_row(indices, data, indptr[i], indptr[i + 1], X, Y, i, V, B, step, p, q, r, old)


def spmm(matrix: Any, X: NDArray[Any]) -> NDArray[Any]:
    """Return matrix @ X for a CSR matrix (m, n) and a block X (n, b), in the block's precision.

    Cost: 2*nnz*b operations, one pass over the matrix.
    """
    X = np.ascontiguousarray(X)
    Y = np.empty((matrix.shape[0], X.shape[1]), X.dtype)
    if matrix.data.dtype == X.dtype:
        return _affinely(matrix, X, (X[:0], X[:0]), None, (1.0, 0.0, 0.0, 0.0), Y)
    for first in range(0, len(Y), _PIECE):  # no kernel for two precisions, nor a copy of all
        some = slice(first, first + _PIECE)
        Y[some] = spmm(matrix[some].astype(X.dtype), X)
    return Y


def spmm_axpby(
    matrix: Any,
    X: NDArray[Any],
    B: NDArray[Any],
    a: float,
    b: float,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return a * (matrix @ X) + b * B in one pass; B (m, b) has the shape of the result.

    `out`, neither X nor B, is where it is written: new memory takes a third of a product's time.
    """
    return _affinely(matrix, X, (B, B), None, (a, b, 0.0, 0.0), out)


def _affinely(
    matrix: Any,
    X: NDArray[Any],
    others: tuple[NDArray[Any], NDArray[Any]],
    scale: NDArray[Any] | None,
    weights: tuple[float, ...],
    out: NDArray[Any] | None = None,
    step: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return diag(scale)(p·matrix·X + q·V + r·B) + kept·V, `weights` (p, q, r, kept).

    V and B may have no rows: then it is matrix·X. With a `step`, of which `old` is a fifth weight,
    the step becomes old·step + all that, and V + step is returned.
    """
    X = np.ascontiguousarray(X)
    V, B = (np.ascontiguousarray(block, dtype=X.dtype) for block in others)
    Y = np.empty((matrix.shape[0], X.shape[1]), X.dtype) if out is None else out
    scale = np.ones(1, dtype=X.dtype) if scale is None else scale.astype(X.dtype, copy=False)
    by = np.zeros(5, dtype=X.dtype)
    by[: len(weights)] = weights
    arrays = matrix.indptr, matrix.indices, matrix.data, X, V, B, scale, by
    _products(len(Y), matrix.nnz * X.shape[1], *arrays, X[:0] if step is None else step, Y)
    return Y


def chebyshev_step(
    matrix: Any,
    X: NDArray[Any],
    B: NDArray[Any],
    inverse: NDArray[Any],
    step: NDArray[Any],
    weights: tuple[float, float, float, float],
) -> NDArray[Any]:
    """Return X + step after step = old·step + new·D⁻¹(B − (shift·I + factor·matrix)X), in one pass.

    `weights` are (shift, factor, old, new), `inverse` (m,) is D⁻¹. `step` (m, b) is changed.
    """
    shift, factor, old, new = weights
    by = -new * factor, -new * shift, new, 0.0, old
    return _affinely(matrix, X, (X, B), inverse, by, step=step)


def jacobi_step(
    matrix: Any,
    X: NDArray[Any],
    B: NDArray[Any],
    inverse: NDArray[Any],
    weights: tuple[float, float, float],
) -> NDArray[Any]:
    """Return X + new·D⁻¹(B − (shift·I + factor·matrix)X), `weights` (shift, factor, new)."""
    shift, factor, new = weights
    return _affinely(matrix, X, (X, B), inverse, (-new * factor, -new * shift, new, 1.0))


def residual(
    matrix: Any, X: NDArray[Any], B: NDArray[Any], shift: float, factor: float
) -> NDArray[Any]:
    """Return B − (shift·I + factor·matrix)X in one pass."""
    return _affinely(matrix, X, (X, B), None, (-factor, -shift, 1.0, 0.0))


def scaled_rows(X: NDArray[Any], by: NDArray[Any]) -> NDArray[Any]:
    """Return diag(by)X."""
    empty = sp.csr_matrix((len(X), 0), dtype=X.dtype)
    return _affinely(empty, X, (X, X), by, (0.0, 1.0, 0.0, 0.0))


def add_product(matrix: Any, X: NDArray[Any], Y: NDArray[Any]) -> None:
    """In place Y += matrix @ X, for a matrix of a few entries a row: prolongation from a grid."""
    _affinely(matrix, X.astype(Y.dtype, copy=False), (Y, Y), None, (1.0, 1.0, 0.0, 0.0), Y)


# --- One row of a sparse matrix times a dense block, in vector registers: inside of all products
#
# A compiler that sees Y[i, c] += w·X[j, c] writes the sums to memory and reads them again at every
# entry, as Y might be part of X, and does the last columns of thirteen one by one. Here two vectors
# of L columns stay in registers for a whole row. The second ends where the block ends, so that any
# width from L to 2L is two vectors; columns that are in both are the same sums twice. Calls, one a
# row, took a fifth of the time: the sums are put into the loops of their callers, as instructions,
# since a function that is put there is compiled twice.


_WORD, _LANE = ir.IntType(64), ir.IntType(32)


def _typed(
    typing: Any, indices: Any, data: Any, first: Any, last: Any, X: Any, Y: Any, i: Any
) -> Any:
    word = types.int64
    fit = X.layout == Y.layout == "C" and X.dtype == Y.dtype
    return (types.void(indices, data, word, word, X, Y, word), _emit) if fit else None


def _typed_affine(
    typing: Any, indices: Any, data: Any, first: Any, last: Any, X: Any, Y: Any, i: Any, V: Any,
    B: Any, step: Any, of_sums: Any, of_own: Any, of_other: Any, old: Any,
) -> Any:  # fmt: skip
    plain, number = _typed(typing, indices, data, first, last, X, Y, i), X.dtype
    if plain is None or {(block.layout, block.dtype) for block in (V, B, step)} != {("C", number)}:
        return None
    return types.void(*plain[0].args, V, B, step, number, number, number, number), _emit


def _emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kinds = signature.args
    held = [
        context.make_array(kind)(context, builder, one) if isinstance(kind, types.Array) else one
        for kind, one in zip(kinds, arguments, strict=True)
    ]
    width = builder.extract_value(held[4].shape, 1)

    def up_to(lanes: int, start: Any) -> None:
        """The columns from `start` on, up to twice the lanes of a vector."""
        left = builder.sub(width, start)
        least = ir.Constant(_WORD, lanes if lanes > 1 else 0)
        with builder.if_else(builder.icmp_signed(">", left, least)) as (these, fewer):
            with these:
                last = builder.sub(width, ir.Constant(_WORD, lanes))
                _two_vectors(context, builder, kinds, held, lanes, (start, last))
            with fewer:
                if lanes > 1:
                    up_to(lanes // 2, start)

    sixteen = ir.Constant(_WORD, 16)
    count = builder.udiv(width, sixteen)
    with cgutils.for_range(builder, count) as part:
        start = builder.mul(part.index, sixteen)
        columns = start, builder.add(start, ir.Constant(_WORD, 8))
        _two_vectors(context, builder, kinds, held, 8, columns)
    up_to(8, builder.mul(count, sixteen))
    return context.get_dummy_value()


def _two_vectors(
    context: Any, builder: Any, kinds: Any, held: Any, lanes: int, columns: tuple[Any, Any]
) -> None:
    """The result in columns a, …, a + lanes − 1 and b, …, b + lanes − 1."""
    number = kinds[4].dtype
    indices, data, first, last, X, Y, i = held[:7]
    vector = ir.VectorType(context.get_data_type(number), lanes)
    zero = ir.Constant(vector, [0.0] * lanes)
    nowhere, left = ir.Constant(vector, ir.Undefined), ir.Constant(_LANE, 0)
    everywhere = ir.Constant(ir.VectorType(_LANE, lanes), [0] * lanes)

    def at(block: Any, row: Any, column: Any) -> Any:
        width = builder.extract_value(block.shape, 1)
        place = builder.add(builder.mul(row, width), column)
        return builder.bitcast(builder.gep(block.data, [place]), vector.as_pointer())

    def spread(one: Any) -> Any:
        one = builder.insert_element(nowhere, one, left)
        return builder.shuffle_vector(one, nowhere, everywhere)

    start = builder.block
    body, done = (builder.append_basic_block(name) for name in ("entries", "written"))
    builder.cbranch(builder.icmp_signed("<", first, last), body, done)

    builder.position_at_end(body)
    q, *sums = builder.phi(_WORD), builder.phi(vector), builder.phi(vector)
    j = builder.load(builder.gep(indices.data, [q]))
    j = j if j.type == _WORD else builder.sext(j, _WORD)
    w = context.cast(builder, builder.load(builder.gep(data.data, [q])), kinds[1].dtype, number)
    w = spread(w)
    bytes_each = number.bitwidth // 8  # rows of 13 numbers begin anywhere
    found = []
    for total, column in zip(sums, columns, strict=True):
        x = builder.load(at(X, j, column), align=bytes_each)
        term = builder.fmul(w, x, flags=["contract"])
        found.append(builder.fadd(total, term, flags=["contract"]))
    following = builder.add(q, ir.Constant(_WORD, 1))
    builder.cbranch(builder.icmp_signed("<", following, last), body, done)
    for node, before, after in zip(
        (q, *sums), (first, zero, zero), (following, *found), strict=True
    ):
        node.add_incoming(before, start)
        node.add_incoming(after, body)

    builder.position_at_end(done)
    written = [builder.phi(vector) for _ in sums]
    for node, after in zip(written, found, strict=True):
        node.add_incoming(zero, start)
        node.add_incoming(after, body)

    def load(block: Any, row: Any) -> list[Any]:
        return [builder.load(at(block, row, column), align=bytes_each) for column in columns]

    def store(values: list[Any], block: Any) -> None:
        for value, column in zip(values, columns, strict=True):
            builder.store(value, at(block, i, column), align=bytes_each)

    def add(values: list[Any], by: Any, more: list[Any]) -> list[Any]:
        terms = [builder.fmul(by, one) for one in more]
        return [
            builder.fadd(value, term, flags=["contract"])
            for value, term in zip(values, terms, strict=True)
        ]

    if len(held) == 7:
        store(written, Y)
        return
    V, B, step = held[7:10]
    none = ir.Constant(_WORD, 0)
    with builder.if_else(builder.icmp_signed("==", V.nitems, none)) as (plain, affine):
        with plain:
            store(written, Y)
        with affine:
            p, q, r, old = (spread(one) for one in held[10:])
            own = load(V, i)
            made = add([builder.fmul(p, one) for one in written], q, own)
            made = add(made, r, load(B, i))
            with builder.if_else(builder.icmp_signed("==", step.nitems, none)) as (still, moving):
                with still:
                    store(made, Y)
                with moving:
                    made = add(made, old, load(step, i))
                    store(made, step)
                    store([builder.fadd(x, y) for x, y in zip(own, made, strict=True)], Y)


# row_sums(indices, data, first, last, X, Y, i) writes Y[i] = Σ_q data[q]·X[indices[q]] over
# first <= q < last, X and Y in C order. Every column is summed in the order of q, whatever the
# width. affine_row(…, V, B, step, p, q, r, old) writes Y[i] = p·(these sums) + q·V[i] + r·B[i], or
# the sums alone where V has no rows. Where `step` has rows, the step[i] becomes old·step[i] + all
# that, and Y[i] = V[i] + step[i]. Y is not X, but may be V.
row_sums: Any = intrinsic(_typed)
affine_row: Any = intrinsic(_typed_affine)


# --- A matrix renumbered and scaled in one go, without the copies that fancy indexing makes


@loop()
def _count(
    lo: int, hi: int, indptr: Any, indices: Any, nodes: Any, positions: Any, counts: Any
) -> None:
    for i in range(lo, hi):
        old, held = nodes[i], 0
        for q in range(indptr[old], indptr[old + 1]):
            held += positions[indices[q]] >= 0
        counts[i + 1] = held


@loop()
def _fill(
    lo: int, hi: int, indptr: Any, indices: Any, data: Any, nodes: Any, positions: Any, root: Any,
    rows: Any, columns: Any, values: Any,
) -> None:  # fmt: skip
    for i in range(lo, hi):
        old, at = nodes[i], rows[i]
        for q in range(indptr[old], indptr[old + 1]):
            j = positions[indices[q]]
            if j >= 0:
                columns[at] = j
                values[at] = data[q] / (root[i] * root[j])
                at += 1


@loop()
def _scale(lo: int, hi: int, indptr: Any, indices: Any, data: Any, by: Any, values: Any) -> None:
    for i in range(lo, hi):
        for q in range(indptr[i], indptr[i + 1]):
            values[q] = data[q] * (by[indices[q]] * by[i])  # the same for (i, j) and (j, i)


def scaled(matrix: sp.csr_matrix, by: NDArray[np.float64]) -> NDArray[Any]:
    """Stored values of diag(by)·M·diag(by), in M's precision; `by` (m,). Cost: one pass."""
    values = np.empty_like(matrix.data)
    arrays = matrix.indptr, matrix.indices, matrix.data
    _scale(matrix.shape[0], matrix.nnz, *arrays, by, values)  # columns may be more
    return values


def scaled_permutation(
    W: sp.csr_matrix, nodes: NDArray[np.int64], root: NDArray[np.float64], dtype: np.dtype[Any]
) -> sp.csr_matrix:
    """S (m, m) with S_ij = W_{nodes[i], nodes[j]} / (root_i root_j), columns of rows rising.

    `nodes` (m,) are distinct, `root` (m,) is positive. The quotient is taken in double precision
    and stored as `dtype`. Cost O(nnz log degree); beside S nothing larger than (n,).
    """
    m = nodes.size
    if W.nnz < FEW:
        part = W[nodes][:, nodes].tocoo()
        part.data = (part.data / (root[part.row] * root[part.col])).astype(dtype)
        few = part.tocsr()
        few.sort_indices()
        return few
    positions = np.full(W.shape[0], -1, dtype=W.indices.dtype)
    positions[nodes] = np.arange(m, dtype=positions.dtype)
    rows = np.zeros(m + 1, dtype=np.int64)
    if m == W.shape[0]:
        rows[1:] = np.diff(W.indptr)[nodes]
    else:
        _count(m, W.nnz, W.indptr, W.indices, nodes, positions, rows)
    np.cumsum(rows, out=rows)
    columns = np.empty(rows[-1], dtype=W.indices.dtype)
    values = np.empty(rows[-1], dtype=dtype)
    arrays = W.indptr, W.indices, W.data, nodes, positions, root
    _fill(m, W.nnz, *arrays, rows, columns, values)
    sort_rows(rows, columns, values)
    found = sp.csr_matrix((m, m), dtype=dtype)
    found.indptr, found.indices = rows.astype(W.indptr.dtype, copy=False), columns
    found.data, found.has_sorted_indices = values, True
    return found


# --- Entries of a product on a sparse pattern: the rest of the product is never computed


@loop(makes_arrays=True, fastmath=True)
def _sampled(
    lo: int, hi: int, indptr: Any, indices: Any, left: Any, weights: Any, right: Any, out: Any
) -> None:
    width = nb.uint64(left.shape[1])
    for i in range(lo, hi):
        row = left[i] * weights
        for q in range(nb.uint64(indptr[i]), nb.uint64(indptr[i + 1])):
            j = nb.uint64(indices[q])
            total = 0.0
            for c in range(width):
                total += row[c] * right[j, c]
            out[q] += total


def sampled_product(
    pattern: Any,
    left: NDArray[np.float64],
    right: NDArray[np.float64],
    weights: NDArray[np.float64] | None = None,
    out: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Σ_c weights_c·left_ic·right_jc for every stored (i, j) of a CSR pattern, (nnz,).

    In the pattern's order. `left` (m, k), `right` (m', k), `weights` (k,), 1 when left out. With
    `out` (nnz,) the result is added to it. Cost 2·nnz·k.
    """
    if weights is None:
        weights = np.ones(left.shape[1])
    if out is None:
        out = np.zeros(pattern.nnz)
    work = pattern.nnz * left.shape[1]
    blocks = np.ascontiguousarray(left), weights, np.ascontiguousarray(right)
    _sampled(pattern.shape[0], work, pattern.indptr, pattern.indices, *blocks, out)
    return out
