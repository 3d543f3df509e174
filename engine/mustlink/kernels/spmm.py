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
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from mustlink.kernels.row_hash import SHORT, place_row, sort_row
from mustlink.kernels.threads import loop


@loop(fastmath=True)
def _spmm(lo: int, hi: int, indptr: Any, indices: Any, data: Any, X: Any, Y: Any) -> None:
    for i in range(lo, hi):
        row_sums(indices, data, indptr[i], indptr[i + 1], X, Y, i)


@loop(fastmath=True)
def _affine(
    lo: int, hi: int, indptr: Any, indices: Any, data: Any, X: Any, V: Any, B: Any, scale: Any,
    weights: Any, Y: Any,
) -> None:  # fmt: skip
    of_sums, of_own, of_other, kept = weights[0], weights[1], weights[2], weights[3]
    each = scale.size > 1
    for i in range(lo, hi):
        s = scale[i] if each else scale[0]
        by = s * of_sums, s * of_own + kept, s * of_other
        affine_row(indices, data, indptr[i], indptr[i + 1], X, V, B, by, Y, i)


@loop()  # with fastmath its last bits were others when compiled now than when read from the cache
def _chebyshev(
    lo: int, hi: int,
    indptr: Any, indices: Any, data: Any, X: Any, B: Any, inverse: Any, weights: Any, step: Any,
    Y: Any,
) -> None:  # fmt: skip
    shift, factor, old, new = weights[0], weights[1], weights[2], weights[3]
    width = nb.uint64(X.shape[1])
    for i in range(lo, hi):
        row_sums(indices, data, indptr[i], indptr[i + 1], X, Y, i)
        scale = new * inverse[i]
        for c in range(width):
            residual = B[i, c] - shift * X[i, c] - factor * Y[i, c]
            move = old * step[i, c] + scale * residual
            step[i, c] = move
            Y[i, c] = X[i, c] + move


@loop(fastmath=True)
def _scaled(lo: int, hi: int, X: Any, by: Any, Y: Any) -> None:
    width = nb.uint64(X.shape[1])
    for i in range(lo, hi):
        for c in range(width):
            Y[i, c] = by[i] * X[i, c]


@loop(fastmath=True)
def _add(lo: int, hi: int, indptr: Any, indices: Any, data: Any, X: Any, Y: Any) -> None:
    width = nb.uint64(X.shape[1])
    for i in range(lo, hi):
        for q in range(nb.uint64(indptr[i]), nb.uint64(indptr[i + 1])):
            j = nb.uint64(indices[q])
            for c in range(width):
                Y[i, c] += data[q] * X[j, c]


def spmm(matrix: Any, X: NDArray[Any]) -> NDArray[Any]:
    """Return matrix @ X for a CSR matrix (m, n) and a block X (n, b), in the block's precision.

    Cost: 2*nnz*b operations, one pass over the matrix.
    """
    X = np.ascontiguousarray(X)
    Y = np.empty((matrix.shape[0], X.shape[1]), X.dtype)
    arrays = matrix.indptr, matrix.indices, matrix.data
    _spmm(len(Y), matrix.nnz * X.shape[1], *arrays, X, Y)
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
    weights: tuple[float, float, float, float],
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return diag(scale)(p·matrix·X + q·V + r·B) + kept·V, `weights` (p, q, r, kept)."""
    X = np.ascontiguousarray(X)
    V, B = (np.ascontiguousarray(block, dtype=X.dtype) for block in others)
    Y = np.empty((matrix.shape[0], X.shape[1]), X.dtype) if out is None else out
    scale = np.ones(1, dtype=X.dtype) if scale is None else scale.astype(X.dtype, copy=False)
    arrays = matrix.indptr, matrix.indices, matrix.data, X, V, B, scale
    _affine(len(Y), matrix.nnz * X.shape[1], *arrays, np.array(weights, dtype=X.dtype), Y)
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
    X = np.ascontiguousarray(X)
    Y = np.empty((matrix.shape[0], X.shape[1]), X.dtype)
    arrays = matrix.indptr, matrix.indices, matrix.data, X, B, inverse
    work, by = matrix.nnz * X.shape[1], np.array(weights, dtype=X.dtype)
    _chebyshev(len(Y), work, *arrays, by, step, Y)
    return Y


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
    Y = np.empty(X.shape, X.dtype)
    _scaled(len(X), X.size, np.ascontiguousarray(X), by, Y)
    return Y


def add_product(matrix: Any, X: NDArray[Any], Y: NDArray[Any]) -> None:
    """In place Y += matrix @ X, for a matrix of a few entries a row: prolongation from a grid."""
    arrays = matrix.indptr, matrix.indices, matrix.data, X, Y
    _add(len(Y), (matrix.nnz + Y.shape[0]) * X.shape[1], *arrays)


# --- One row of a sparse matrix times a dense block, in vector registers: the inside of all pro
#
# A compiler that sees Y[i, c] += w·X[j, c] writes the sums to memory and reads them again at every
# entry, as Y might be part of X, and does the last columns of thirteen one by one. Here two vectors
# of L columns stay in registers for a whole row. The second ends where the block ends, so that any
# width from L to 2L is two vectors; columns that are in both are the same sums twice. Calls, one a
# row, took a fifth of the time: the sums are put into the loops of their callers.


_WORD, _LANE = ir.IntType(64), ir.IntType(32)


def _typed(
    typing: Any, lanes: Any, indices: Any, data: Any, first: Any, last: Any, X: Any, a: Any, b: Any,
    Y: Any, i: Any,
) -> Any:  # fmt: skip
    """The sums of columns a, …, a + lanes − 1 and b, …, b + lanes − 1; `lanes` is a literal."""
    blocks_fit = X.layout == Y.layout == "C" and X.dtype == Y.dtype
    if not isinstance(lanes, types.IntegerLiteral) or not blocks_fit:
        return None
    word = types.int64
    signature = types.void(lanes, indices, data, word, word, X, word, word, Y, word)
    return signature, _emit


def _typed_affine(
    typing: Any, lanes: Any, indices: Any, data: Any, first: Any, last: Any, X: Any, a: Any, b: Any,
    Y: Any, i: Any, V: Any, B: Any, of_sums: Any, of_own: Any, of_other: Any,
) -> Any:  # fmt: skip
    """The same, then of_sums·sums + of_own·V[i] + of_other·B[i]."""
    plain, number = _typed(typing, lanes, indices, data, first, last, X, a, b, Y, i), X.dtype
    if plain is None or {(block.layout, block.dtype) for block in (V, B)} != {("C", number)}:
        return None
    return types.void(*plain[0].args, V, B, number, number, number), _emit


def _emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kinds = signature.args
    lanes, number = kinds[0].literal_value, kinds[5].dtype
    indices, data, X, Y = (
        context.make_array(kinds[k])(context, builder, arguments[k]) for k in (1, 2, 5, 8)
    )
    first, last, a, b, i = (arguments[k] for k in (3, 4, 6, 7, 9))
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
    w = context.cast(builder, builder.load(builder.gep(data.data, [q])), kinds[2].dtype, number)
    w = spread(w)
    bytes_each = number.bitwidth // 8  # rows of 13 numbers begin anywhere
    found = []
    for held, column in zip(sums, (a, b), strict=True):
        x = builder.load(at(X, j, column), align=bytes_each)
        term = builder.fmul(w, x, flags=["contract"])
        found.append(builder.fadd(held, term, flags=["contract"]))
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
    made: list[Any] = written
    if len(arguments) > 10:
        V, B = (context.make_array(kinds[k])(context, builder, arguments[k]) for k in (10, 11))
        p, q, r = (spread(one) for one in arguments[12:])
        made = []
        for node, column in zip(written, (a, b), strict=True):
            total = builder.fmul(p, node)
            for by, block in ((q, V), (r, B)):
                term = builder.fmul(by, builder.load(at(block, i, column), align=bytes_each))
                total = builder.fadd(total, term, flags=["contract"])
            made.append(total)
    for value, column in zip(made, (a, b), strict=True):
        builder.store(value, at(Y, i, column), align=bytes_each)
    return context.get_dummy_value()


_two_vectors: Any = intrinsic(_typed)
_affine_vectors: Any = intrinsic(_typed_affine)


@nb.njit(cache=True, nogil=True, forceinline=True)
def row_sums(indices: Any, data: Any, first: Any, last: Any, X: Any, Y: Any, i: Any) -> None:
    """Write Y[i] = Σ_q data[q]·X[indices[q]] over first <= q < last, X and Y in C order.

    Every column is summed in the order of q, whatever the width.
    """
    width = X.shape[1]
    if width > 16:
        for end in range(16, width + 16, 16):
            at = min(end, width) - 16
            _two_vectors(8, indices, data, first, last, X, at, at + 8, Y, i)
    elif width > 8:
        _two_vectors(8, indices, data, first, last, X, 0, width - 8, Y, i)
    elif width > 4:
        _two_vectors(4, indices, data, first, last, X, 0, width - 4, Y, i)
    elif width > 2:
        _two_vectors(2, indices, data, first, last, X, 0, width - 2, Y, i)
    elif width > 0:
        _two_vectors(1, indices, data, first, last, X, 0, width - 1, Y, i)


@nb.njit(cache=True, nogil=True, forceinline=True)
def affine_row(
    indices: Any,
    data: Any,
    first: Any,
    last: Any,
    X: Any,
    V: Any,
    B: Any,
    by: Any,
    Y: Any,
    i: Any,
) -> None:
    """Write Y[i] = p·(its sums, see `row_sums`) + q·V[i] + r·B[i], `by` (p, q, r); Y is not X."""
    width, (p, q, r) = X.shape[1], by
    if width > 16:
        for end in range(16, width + 16, 16):
            at = min(end, width) - 16
            _affine_vectors(8, indices, data, first, last, X, at, at + 8, Y, i, V, B, p, q, r)
    elif width > 8:
        _affine_vectors(8, indices, data, first, last, X, 0, width - 8, Y, i, V, B, p, q, r)
    elif width > 4:
        _affine_vectors(4, indices, data, first, last, X, 0, width - 4, Y, i, V, B, p, q, r)
    elif width > 2:
        _affine_vectors(2, indices, data, first, last, X, 0, width - 2, Y, i, V, B, p, q, r)
    elif width > 0:
        _affine_vectors(1, indices, data, first, last, X, 0, width - 1, Y, i, V, B, p, q, r)


# --- A matrix renumbered and scaled in one go, without the copies that fancy indexing makes


_ROWS = 1 << 10  # at a time


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
    rows: Any, columns: Any, values: Any, some_columns: Any, some_values: Any,
) -> None:  # fmt: skip
    for part in range(lo, hi):
        found, held = some_columns[part], some_values[part]
        for i in range(part * _ROWS, min((part + 1) * _ROWS, nodes.size)):
            old, first, last = nodes[i], rows[i], rows[i + 1]
            short = last - first <= SHORT
            at = 0 if short else first
            to, into = (found, held) if short else (columns, values)
            for q in range(indptr[old], indptr[old + 1]):
                j = positions[indices[q]]
                if j >= 0:
                    to[at] = j
                    into[at] = data[q] / (root[i] * root[j])
                    at += 1
            if not short:
                sort_row(columns, values, first, last)
                continue
            place_row(found, held, at, columns, values, first)


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
    W: sp.csr_matrix,
    nodes: NDArray[np.int64],
    root: NDArray[np.float64],
    dtype: np.dtype[Any],
) -> sp.csr_matrix:
    """S (m, m) with S_ij = W_{nodes[i], nodes[j]} / (root_i root_j), columns of rows rising.

    `nodes` (m,) are distinct, `root` (m,) is positive. The quotient is taken in double precision
    and stored as `dtype`. Cost O(nnz log degree); beside S nothing larger than (n,).
    """
    m = nodes.size
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
    room = -(-m // _ROWS), SHORT  # made here: arrays made in a kernel are slow to compile
    short = np.empty(room, dtype=columns.dtype), np.empty(room, dtype=dtype)
    _fill(room[0], W.nnz, *arrays, rows, columns, values, *short)
    found = sp.csr_matrix((m, m), dtype=dtype)
    found.indptr, found.indices = rows.astype(W.indptr.dtype, copy=False), columns
    found.data, found.has_sorted_indices = values, True
    return found


# --- Entries of a product on a sparse pattern: the rest of the product is never computed


@loop(fastmath=True)
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
