"""Operators whose rows are in pieces: each holds its rows of a matrix and asks for the rest."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from mustlink.linear.multigrid.cycle import Cycle
from mustlink.linear.multigrid.hierarchy import Hierarchy
from mustlink.space import NullSpace
from split_space import Pieces, scatter


class SplitMatrix:
    """A (n, n): piece p has the rows `parts[p]`, and fetches the rows of X that they need."""

    def __init__(self, space, matrix):
        self.space = space
        whole = sp.csr_matrix(matrix)
        self.rows, self.needs = [], []
        for part in space.parts:
            rows = whole[part]
            need = np.unique(rows.indices)
            self.rows.append(rows[:, need].tocsr())
            self.needs.append(self._owners(need))

    def _owners(self, nodes):
        """For every other piece: which of the nodes it has, and where."""
        asked = []
        for part in self.space.parts:
            at = np.minimum(np.searchsorted(part, nodes), len(part) - 1)
            here = part[at] == nodes
            asked.append((np.flatnonzero(here), at[here]))
        return asked

    def halo(self, X, p):
        """The rows of X that piece p needs, one message from every piece that has some."""
        need = self.needs[p]
        found = np.empty((sum(len(to) for to, _ in need), X.shape[1]), X.dtype)
        for piece, (to, at) in zip(X.pieces, need, strict=True):
            found[to] = piece[at]
        return found

    def apply(self, X):
        return Pieces((rows @ self.halo(X, p)).astype(X.dtype) for p, rows in enumerate(self.rows))


class SplitLaplacian:
    """L̄ = I − S in pieces, from one at home."""

    dtype, norm = np.dtype(np.float64), 2.0

    def __init__(self, space, home):
        self.space, self.size = space, home.size
        self.S = SplitMatrix(space, home.edges)
        self.root_degree = scatter(space, home.root_degree)
        self.diagonal = scatter(space, home.diagonal)
        self.volume = home.volume
        null = home.null
        component, weight = scatter(space, null.component), scatter(space, null.weight)
        self.null = NullSpace(component, weight, null.n_components, space)

    def _mixed(self, X, a, b):
        SX = self.S.apply(X)
        return Pieces(a * s + b * x for s, x in zip(SX.pieces, X.pieces, strict=True))

    def apply(self, X):
        return self._mixed(X, -1.0, 1.0)

    def smooth(self, X, times):
        Y = self.space.copy(X, np.float32)
        for _ in range(times):
            Y = self.space.copy(self._mixed(Y, 0.5, 0.5), np.float32)
        return self.space.copy(Y, self.dtype)

    def three_terms(self, V, old, weights, out):
        a, b, c = weights
        SV = self.S.apply(V)
        for o, s, v, w in zip(out.pieces, SV.pieces, V.pieces, old.pieces, strict=True):
            o[:] = a * s + b * v + c * w
        pairs = zip(out.pieces, V.pieces, strict=True)
        inner, square = self.space.reduce([[np.vdot(o, v), np.vdot(o, o)] for o, v in pairs])
        return float(inner), float(square)

    def recurrence(self, X, steps):
        old = new = X
        for weights in steps:
            out = self.space.zeros(X.shape[1], X.dtype)
            self.three_terms(new, old, weights, out)
            old, new = new, out
        return new


class SplitGrids:
    """Grids of a split L̄: the finest in pieces, coarse ones small and the same for everyone."""

    def __init__(self, split, home):
        self.space, self.home, self.sizes = split.space, home, home.sizes
        self.levels = (SplitGrid(split, home), *home.levels[1:])
        self.finest, self.split = self.levels[0], split

    def knowing(self, rows, penalty):
        return SplitGrids(self.split, self.home.knowing(rows, penalty))

    def cycle(self, start=0):
        there = self.home.cycle(start)
        if start:
            return there
        return Cycle(self.levels, there.degree, there.visits)

    def up(self, level, X):
        if level > 1:
            return self.home.up(level, X)
        return Pieces(P @ X for P in self.finest.P)

    def coarse_operator(self, level):
        return self.home.coarse_operator(level)

    def nulls(self, fine):
        """Those of the grids at home; the finest is the one in pieces."""
        coarse = self.finest.coarse_null(fine, self.home)
        return [fine, *coarse]


class SplitGrid:
    """The finest grid in pieces; PᵀR is a sum over nodes, PC is local to every piece."""

    def __init__(self, split, home):
        level = home.levels[0]
        self.space, self.split = split.space, split
        self.interval, self.way, self.dtype = level.interval, self, level.dtype
        self.inverse = scatter(split.space, level.inverse_diagonal)
        P = level.way.exact
        self.P = [P[part] for part in split.space.parts]

    def first(self, B, new):
        found = self.space.scaled(B, self.inverse)
        self.space.blend(found, new)
        return found

    def residual(self, B, X):
        found = self.space.copy(B)
        self.space.blend(found, 1.0, (self.split.apply(X), -1.0))
        return found

    def relax(self, B, X, step, old, new):
        step = self.space.zeros(B.shape[1], B.dtype) if step is None else step
        self.space.blend(step, old, (self.space.scaled(self.residual(B, X), self.inverse), new))
        found = self.space.copy(X)
        self.space.blend(found, 1.0, (step, 1.0))
        return found

    def down(self, R):
        pairs = zip(self.P, R.pieces, strict=True)
        return self.space.reduce([[P.T @ r] for P, r in pairs])[0].astype(np.float64)

    def lift(self, X, C):
        self.space.blend(X, 1.0, (Pieces((P @ C).astype(np.float32) for P in self.P), 1.0))

    def solve(self, B):
        return None

    def coarse_null(self, fine, home):
        """Weights Σ_i P_ia z_i and components of the aggregates, put together by a sum."""
        told = []
        for P, part, weight in zip(self.P, fine.component.pieces, fine.weight.pieces, strict=True):
            component = np.zeros(P.shape[1], int)  # 0 where the piece knows nothing
            component[P.indices] = part[np.diff(P.indptr) > 0] + 1
            told.append((P.T @ weight, component))
        weight, component = (np.array(each) for each in zip(*told, strict=True))
        kept, number = np.unique(component.max(axis=0), return_inverse=True)
        first = NullSpace(number.ravel().astype(np.int32), weight.sum(axis=0), kept.size)
        return Hierarchy(home.levels[1:]).nulls(first)
