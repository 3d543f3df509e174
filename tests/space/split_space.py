"""A space whose rows are in P pieces that nothing sees together: the proof of the seam.

`SplitSpace` implements the verbs on lists of pieces; sums over nodes are the only place where
numbers of two pieces meet, and `reductions` counts them. A block here is no array, cannot become
one, and has no arithmetic: an iteration that does more than use verbs fails on it.

How a solver is tested on it: build its operators from pieces of matrices that fetch the rows they
need (split_operators.py), hand blocks in by `scatter`, look at results by `gather`, and compare
with the same call on a `LocalSpace` (test_pieces.py).
"""

from __future__ import annotations

import numpy as np

from mustlink.kernels.blocks import normals
from mustlink.space import Dots, Gram, GroupSums, Space


class Pieces:
    """Rows of a block, or of a vector, in pieces."""

    def __init__(self, pieces):
        self.pieces = list(pieces)

    @property
    def shape(self):
        return (sum(len(p) for p in self.pieces), *self.pieces[0].shape[1:])

    @property
    def dtype(self):
        return self.pieces[0].dtype

    def __array__(self, *_, **__):
        raise TypeError("a block in pieces is no array")

    def __len__(self):
        raise TypeError("a block in pieces has no length to loop over")


class Series(list):
    """Blocks one after the other; slices are series, too."""

    def __getitem__(self, at):
        found = super().__getitem__(at)
        return Series(found) if isinstance(at, slice) else found


class SplitSpace(Space):
    """Nodes `parts[p]` (global numbers, ascending) are held by piece p."""

    def __init__(self, parts, weights=None):
        self.parts = parts
        self.size = sum(len(part) for part in parts)
        self.weights = weights
        self.reductions = 0

    def reduce(self, per_piece):
        """Σ over pieces of lists of small arrays: the only meeting."""
        self.reductions += 1
        return [np.sum(each, axis=0) for each in zip(*per_piece, strict=True)]

    def sums(self, *wanted):
        return self.reduce([[_part(one, p) for one in wanted] for p in range(len(self.parts))])

    def peaks(self, X):
        self.reductions += 1
        best = []
        for nodes, piece in zip(self.parts, X.pieces, strict=True):
            for node, row in zip(nodes, piece.astype(float), strict=True):
                best.append((np.abs(row), -node, row))
        found = np.zeros(X.shape[1])
        for c in range(X.shape[1]):
            found[c] = max((size[c], node, row[c]) for size, node, row in best)[2]
        return found

    def largest(self, v, count):
        self.reductions += 1
        pairs = zip(self.parts, v.pieces, strict=True)
        best = [
            (-x[0], node) for nodes, piece in pairs for node, x in zip(nodes, piece, strict=True)
        ]
        return np.array([node for _, node in sorted(best)[:count]])

    def combine(self, V, C):
        V = _listed(V)
        return Pieces(_joined(V, p) @ C.astype(V[0].dtype) for p in range(len(self.parts)))

    def recombine(self, V, C, C2):
        first, second = self.combine(V, C), self.combine(V, C2)
        if V[0].shape[1] == C.shape[1]:
            for old, new in zip(V[0].pieces, first.pieces, strict=True):
                old[:] = new
            first = V[0]
        return first, second

    def subtract(self, X, V, C):
        for x, v in zip(X.pieces, V.pieces, strict=True):
            x[:] -= (v @ C).astype(x.dtype)

    def blend(self, out, keep, *terms, columns=None):
        at = np.arange(out.shape[1]) if columns is None else columns
        for p, x in enumerate(out.pieces):
            x[:, at] = x[:, at] * keep + sum(V.pieces[p] * a for V, a in terms)

    def lessen(self, R, V, a):
        self.blend(R, 1.0, (V, -np.asarray(a)))
        return self.dots(R, R)

    def lessened(self, X, V, a):
        found = self.copy(X)
        return found, self.lessen(found, V, a)

    def without(self, X, v, a):
        pieces = zip(X.pieces, v.pieces, strict=True)
        return Pieces(x - (p[:, None] * a).astype(x.dtype) for x, p in pieces)

    def mix(self, out, terms, which, C):
        for q, block in enumerate(out):
            for t, k in enumerate(which):
                self.blend(block, 1.0, (terms[k], C[t, q]))

    def zeros(self, width, dtype=np.float64):
        return Pieces(np.zeros((len(part), width), dtype) for part in self.parts)

    def series(self, count, width):
        return Series(self.zeros(width) for _ in range(count))

    def copy(self, X, dtype=None):
        return Pieces(np.array(x, dtype=dtype) for x in X.pieces)

    def normals(self, width, seed):
        return Pieces(normals(np.asarray(part), width, seed) for part in self.parts)

    def columns(self, X, which):
        return Pieces(x[:, which].copy() for x in X.pieces)

    def stack(self, blocks):
        return Pieces(_joined(blocks, p) for p in range(len(self.parts)))

    def column(self, v):
        return Pieces(x[:, None] for x in v.pieces)

    def rowwise(self, function, *data):
        return Pieces(function(*(d.pieces[p] for d in data)) for p in range(len(self.parts)))

    def spread(self, C, groups, scale=None, dtype=np.float64):
        if scale is None:
            return Pieces(C[g].astype(dtype) for g in groups.pieces)
        pairs = zip(groups.pieces, scale.pieces, strict=True)
        return Pieces((C[g] * v[:, None]).astype(dtype) for g, v in pairs)

    def take(self, X, nodes):
        rows = []
        for part, piece in zip(self.parts, X.pieces, strict=True):
            own = np.zeros((len(nodes), *piece.shape[1:]), piece.dtype)
            here, at = _held(part, nodes)
            own[here] = piece[at]
            rows.append([own])
        return self.reduce(rows)[0]

    def place(self, X):
        return Pieces(np.array(X[part]) for part in self.parts)

    def add_rows(self, X, nodes, rows):
        for part, piece in zip(self.parts, X.pieces, strict=True):
            here, at = _held(part, nodes)
            piece[at] += rows[here]


def _held(part, nodes):
    """Which of the nodes a part holds, and where."""
    at = np.searchsorted(part, nodes)
    here = at < len(part)
    here[here] = np.asarray(part)[at[here]] == np.asarray(nodes)[here]
    return here, at[here]


def _part(wanted, p):
    if isinstance(wanted, Gram):
        left, right = (_joined(_listed(V), p).astype(float) for V in (wanted.left, wanted.right))
        return left.T @ right
    if isinstance(wanted, Dots):
        x, y = (V.pieces[p].astype(float) for V in (wanted.left, wanted.right))
        return (x * y).sum(axis=0)
    assert isinstance(wanted, GroupSums)
    x = wanted.X.pieces[p]
    x = x if wanted.scale is None else x * wanted.scale.pieces[p][:, None]
    own = np.zeros((wanted.count, x.shape[1]))
    np.add.at(own, wanted.groups.pieces[p], x.astype(float))
    return own


def _listed(V):
    return V if isinstance(V, list) else [V]


def _joined(V, p):
    return np.hstack([v.pieces[p] for v in V])


def division(n, count, seed=0):
    """Nodes dealt out at random to `count` pieces, some larger than others; none is empty."""
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, count, n) ** 2 // count
    owner[rng.permutation(n)[:count]] = np.arange(count)
    return [np.flatnonzero(owner == p) for p in range(count)]


def scatter(space, X):
    """An array (n, …) to pieces."""
    return Pieces(np.array(X[part]) for part in space.parts)


def gather(space, block):
    """Pieces to an array, for the test's eyes only."""
    found = np.zeros(block.shape, block.dtype)
    for part, piece in zip(space.parts, block.pieces, strict=True):
        found[part] = piece
    return found
