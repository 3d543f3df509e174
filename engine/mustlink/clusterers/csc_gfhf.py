"""CSC+GFHF (WD12 Algorithm 4 and §V): constraints made of propagated labels, then clusters.

    1-3    y_u ← (I − P_uu)⁻¹P_ul y_l, P = D⁻¹A: harmonic values of the labels
    4-8    Q_ij ← exp(−‖y_i − y_j‖²/2σ²)
    9-10   Q̄ ← D_Q^-½QD_Q^-½, D_Q the row sums of Q
    11     L̄ ← I − D^-½AD^-½
    12-14  all f of L̄f = λQ̄f with λ ≠ 0
    15-16  that of the largest fᵀQ̄f; for K classes the K − 1 largest (§V)

`CSCGFHF._run` takes these steps in this order, with their numbers beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigs, splu

from mustlink.clusterers.clusterer import GraphClusterer, Ints
from mustlink.clusterers.ncut import NCut
from mustlink.constraints import Constraints
from mustlink.context.method_cost import Cost, clamped_propagation
from mustlink.context.stage_cache import Workspace
from mustlink.core import dense_algebra
from mustlink.core.check import (
    as_integer,
    as_labels,
    check_choice,
    check_positive,
    check_tolerance,
    encoded,
    n_classes_in,
    text_of,
)
from mustlink.core.observe import Observer, Recorder, recorded
from mustlink.core.result import TIME_LIMIT, Convergence
from mustlink.core.state import before, fits, fits_again
from mustlink.discretize.assign import assign
from mustlink.discretize.cuts import warn_of_sizes
from mustlink.discretize.merge_tree import as_classes
from mustlink.discretize.satisfaction import warn_if_broken
from mustlink.eigen.low_rank_pencil import LowRankSolution, low_rank_pencil, solve_low_rank
from mustlink.eigen.memory_work import MemoryWork, grids_of, is_small, laplacian_of
from mustlink.eigen.plain_solve import default_tolerance
from mustlink.errors import InputError
from mustlink.estimators.fit_input import (
    bytes_of,
    graphs_of_views,
    refuse_blind_scoring,
    side_information,
)
from mustlink.graph.forms import on_both_sides
from mustlink.linear.cg import done
from mustlink.linear.laplacian_solve import Inverse, dense_inverse, rough_inverse
from mustlink.linear.multigrid.hierarchy import build_hierarchy
from mustlink.operators.constraint_operator import gaussian_factor, normalized_factor
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.propagation.gfhf import GFHF
from mustlink.propagation.prior import check_prior

ASSIGN = ("auto", "sign", "kmeans", "sphere")
SOLVERS = ("auto", "dense", "cg")
FARTHEST = float(np.sqrt(2.0))  # between two nodes that certainly belong to different classes
_ROUGH = 10.0  # propagated values so much less sharp than the vectors give the same clusters
LARGE = 20_000  # nodes above which solves and kernel are as sharp as labels need, no sharper
_FEW, _MANY = 5, 25  # steps of conjugate gradients in a round
_MISSING = 0.1  # share of the kernel that may be missing without a warning
_DROPPED = 100.0  # eigenvalues of Q̄ below this many kernel tolerances are left out


@dataclass(eq=False, repr=False)
class CSCGFHF(GraphClusterer):
    """Clusters from labels: spread them, make a kernel of the result, cut the graph with it (WD12).

    Harmonic values y_i of the labels (GFHF) give Q_ij = exp(−‖y_i − y_j‖²/2σ²) (eq. 15) and, with
    D_Q its row sums, Q̄ = D_Q^-½QD_Q^-½. Of the pairs L̄f = λQ̄f, λ ≠ 0 (eq. 12), the K − 1 unit
    vectors with the largest fᵀQ̄f are clustered: by sign for K = 2, by k-means on rows otherwise.
    Q is never formed: Q ≈ ΦΦᵀ by pivoted Cholesky, r columns, and r solves with L̄ are all there is.

    * `sigma`: width σ of the kernel, in units of one-hot rows. The paper states none. "auto" is √2,
      the distance of two certain nodes of different classes. Wider ones give the same: what is left
      of the kernel is yᵀy, which has no scale. Narrower ones, σ < 0.7, were worse wherever few
      labels make values that hardly differ: labelled nodes become clusters of their own. In the
      paper's coding of two classes by ±1 distances are √2 times as long, and "auto" is σ = 2.
    * `class_mass`: scales the values so that classes have the labels' shares.
    * `assign`: how vectors become clusters: "sign" (K = 2), "kmeans" (rows as they are, as
      printed), "sphere" (rows of length 1), "auto": sign for K = 2, else sphere (MNIST, 1 label per
      class: ARI 0.78, kmeans 0.72).
    * `kernel_tol`: share of the kernel's trace, beyond what one column leaves, that may be missing;
      `max_rank`: the most columns of the factor Φ.
    * `solver`: of the linear systems: "dense" (LAPACK), "cg", "auto"; `tol`: the residual
      ‖L̄f − λQ̄f‖ of unit f to reach, and the relative one of GFHF; `max_iter`: the most steps of
      conjugate gradients. None: kernel and residuals 1e-8, from 20,000 nodes on 1e-3 and 1e-4,
      residuals 1e-3 from 200,000.

    Made for few labels and affinities that blur, where GFHF alone fails. On MNIST with 1, 5 and 20
    labels per class its ARI is 0.78, 0.86, 0.85, that of GFHF with class mass 0.76, 0.86, 0.88.
    Where classes are unions of natural clusters (even digits), GFHF is better.

    Labels only, -1 for unknown. Components of the graph without a label are labelled -1. If the
    rest falls into several components they are tied to each other, see `eigen.low_rank_pencil`.
    After `fit`: `classes_` (C,), `labels_` (n,), cluster c being the one of `classes_[c]` as far as
    the labelled nodes tell; `embedding_` (n, K−1) unit columns in order of fᵀQ̄f, `eigenvalues_`
    (K−1,), `propagated_` (n, C), `graph_`, `report_`. Cost: GFHF, then about K to 2K rough solves.
    """

    sigma: float | str = "auto"
    class_mass: Any = True
    assign: str = "auto"
    kernel_tol: float | None = None
    max_rank: int = 200
    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 1000

    def cost(self, n_classes: int | None = None) -> Cost:
        """Labels spread as by `GFHF`; the solves with the kernel's columns take less."""
        return clamped_propagation(self._k_or(n_classes))

    def _tried_on_graphs(self) -> type[GraphClusterer]:
        return NCut

    @fits
    def fit(
        self,
        X: Any,
        y: Any = None,
        observer: Observer | Recorder | None = None,
        sample_weight: Any = None,
        graphs: Any = None,
        prior: Any = None,
        belief: Any = None,
        views: Any = None,
    ) -> Self:
        """Cluster points (n, d), an affinity (n, n) or a Graph; `y` (n,) labels, -1 for unknown.

        `sample_weight` (n,) >= 0 tells how often every row counts, with its label, as if it were
        repeated; rows of weight 0 are in no cluster. `graphs` are other graphs of the same nodes,
        weighed by `graph_weights`, `views` other columns of the same rows (`CSP.fit`); X may then
        be None. `prior` (n, K) and `belief` act while labels
        are spread, see `GFHF`.
        """
        self._check()
        check_prior("CSCGFHF", True, prior, belief)
        if isinstance(y, Constraints):
            raise InputError("y: Constraints given; CSCGFHF takes labels only, use CSP for pairs")
        recorder = recorded(observer)
        refuse_blind_scoring(y)
        y, names = (None, None) if y is None else encoded(y, "y")
        with self._running(recorder):
            X = self._prepared(X, recorder)
            graphs = graphs_of_views(self, X, graphs, views, recorder, sample_weight)
            work = self._home_of(
                X,
                recorder,
                lambda graph: side_information(graph, y, None),
                {"graphs": graphs, "sample_weight": sample_weight},
                n_classes_in(y),
                bytes_of(prior, belief),
            )
            self._run(work, y, names, prior, belief)
        return self._scored(recorder)

    @fits_again
    def refit(
        self,
        y: Any = None,
        observer: Observer | Recorder | None = None,
        prior: Any = None,
        belief: Any = None,
    ) -> Self:
        """Cluster the same graph again with other labels `y` (n,) and `prior`: all that is known.

        Clusters have the numbers of their classes, as by `fit`, where there are as many, and keep
        the others; the report's `changed` is the share of nodes that moved.
        """
        self._check()
        check_prior("CSCGFHF", True, prior, belief)
        recorder, had = recorded(observer), before(self)
        if isinstance(y, Constraints):
            y = y.labels
        y, names = (None, None) if y is None else encoded(y, "y")
        with self._running(recorder):
            self._run(self._home_again(recorder), y, names, prior, belief)
        if np.array_equal(had.classes_, self.classes_):
            self._numbered_as(had.labels_, recorder)
        else:
            recorder.note("refit: labels are of other classes, by which clusters are numbered anew")
            self._names, self._first_new = None, 0
        return self._scored(recorder)

    def _run(self, work: MemoryWork, y: Any, names: Any, prior: Any, belief: Any) -> None:
        """Cluster a graph by labels that are numbers, whose `names` may be others."""
        view, graph, recorder, seed = work.view, work.graph, work.recorder, self._used_seed
        tol, n = self.tol, graph.n_nodes
        if tol is None and n > LARGE:  # no sharper than the vectors need them
            tol = _ROUGH * default_tolerance(n)
        how: Any = {"solver": self.solver, "max_iter": self.max_iter, "n_jobs": self.n_jobs}
        how |= {"class_mass": self.class_mass, "refine": False, "random_state": seed}
        harmonic = GFHF(tol=tol, **how)
        spread = harmonic.fit_on(view, y, seed, prior, belief)  # 1-3
        given = as_labels(on_both_sides(y, graph), graph.n_rows)
        self._given = Constraints.from_labels(given)
        classes, self.propagated_ = spread.classes_, spread.label_distributions_
        self.classes_ = classes if names is None else names[classes]
        self._class_names = None if names is None else tuple(map(text_of, names.tolist()))
        P = self.propagated_[graph.first_rows]
        k = self._clusters(work, classes.size, seed)
        if k != classes.size:
            recorder.note(f"{classes.size} classes among the labels, but {k} clusters asked")
        if k == 1:
            self._in_one(work, self._given)
            return
        way = self.assign
        if way == "auto":
            way = "sign" if k == 2 else "sphere"
        elif way == "sign" and k != 2:
            raise InputError(f'assign: "sign" makes 2 clusters, not {k}; use "sphere"')
        depends = type(self).__name__, self._depends(), seed, y, prior, belief
        part = answered(work.laplacian, P)  # 11
        found = work.cached(
            "stationary labelings",
            depends,
            lambda: self._stationary(view, part, part.to_working_order(P), k),  # 4-16
            (Stationary, LowRankSolution, Convergence),
        )

        rows = found.solution.vectors
        if part.weights is not None:  # v = C^-½u on every copy of a node
            rows = rows / np.sqrt(part.weights)[:, None]

        def clustered() -> Ints:
            with recorder.stage("clusters"):
                return assign(rows, k, way, seed, space=part.space).labels

        clusters = work.cached("clusters", depends, clustered)
        with recorder.stage("labels"):
            codes = np.where(np.isin(given, classes), np.searchsorted(classes, given), -1)
            whole = np.full(graph.n_nodes, -1, dtype=np.int64)
            whole[part.nodes] = clusters
            self.labels_ = as_classes(graph.spread(whole), codes, k, classes.size)
            if self.isolated == "assign":
                left = np.flatnonzero(self.labels_ < 0)
                self.labels_[left] = np.bincount(self.labels_[self.labels_ >= 0]).argmax()
                if left.size:
                    recorder.note(f"{left.size} of them put in the largest cluster")
            self.embedding_ = graph.spread(part.from_working_order(rows))
        self.graph_, self.eigenvalues_ = graph, found.solution.values
        note_of_kernel(found, int(self.max_rank), recorder)
        warn_of_sizes(np.bincount(self.labels_[self.labels_ >= 0]), k, recorder)
        kept = warn_if_broken(self.labels_, self._given, recorder)
        choices = {
            "sigma": self._width,
            "class_mass": self.class_mass,
            "assign": way,
            "rank": found.rank,
            "solver": found.solver,
        }
        self._report(
            work,
            k,
            choices,
            found.solution.convergence,
            kept,
            solves=found.solution.pairs,
            kernel_error=found.error,
            kernel_spread=found.spread,
            satisfied=found.solution.satisfaction,
            tie=found.solution.tie,
        )

    def _fitted_again(self, given: Constraints, recorder: Recorder) -> Self:
        twin = self._twin().set_params(random_state=self._used_seed)
        return twin.fit(self.graph_, given.labels, observer=recorder)

    @property
    def _width(self) -> float:
        return FARTHEST if self.sigma == "auto" else float(self.sigma)

    def _check(self) -> None:
        check_choice(self.assign, ASSIGN, "assign")
        check_choice(self.solver, SOLVERS, "solver")
        check_tolerance(self.tol)
        if self.kernel_tol is not None:
            check_positive(self.kernel_tol, "kernel_tol")
        if self.sigma != "auto":
            check_positive(self.sigma, "sigma")
        as_integer(self.max_iter, "max_iter", 1)
        as_integer(self.max_rank, "max_rank", 2)
        if not self._follows_labels:
            as_integer(self.n_clusters, "n_clusters", 1)

    def _stationary(
        self, work: Workspace, part: NormalizedLaplacian, points: Block, k: int
    ) -> Stationary:
        """Lines 4 to 16 on a part of the graph: the k − 1 unit vectors with the largest fᵀQ̄f.

        `points` (m, C) are the propagated values there.
        """
        m, sharp, recorder = part.size, self.kernel_tol, work.recorder
        sharp = sharp if sharp is not None else 1e-8 if m <= LARGE else 1e-3
        with recorder.stage("kernel of the labels"):
            Q = gaussian_factor(  # 4-8: Q ≈ ΦΦᵀ
                points,
                self._width,
                tol=sharp,
                least=k + 1,
                max_rank=int(self.max_rank),
                copies=part.weights,
            )
            pencil = low_rank_pencil(  # 12
                part,
                normalized_factor(Q.factor, part.weights),  # 9-10: Q̄ ≈ Φ̄Φ̄ᵀ
                least=k - 1,
                tol=min(0.1, _DROPPED * sharp),
            )
        about = int(Q.pivots.size), Q.error, Q.spread
        del Q  # n·r numbers
        tol = default_tolerance(m, single=work.single) if self.tol is None else self.tol
        most = int(self.max_iter)
        steps = min(_FEW if tol >= 1e-5 else _MANY, most)
        inverse, solver = self._inverse(work, part, steps)
        with recorder.stage("stationary labelings") as advance:
            solution = solve_low_rank(  # 12-16
                pencil,
                k - 1,
                inverse,
                tol=tol,
                max_rounds=max(1, most // steps),
                on_round=lambda worst: advance(done(worst, tol)),
                deadline=recorder.deadline,
            )
        if solution.convergence.reason == TIME_LIMIT:
            recorder.skip_for_time(solution.convergence.status)
        return Stationary(solution, solver, *about)

    def _inverse(
        self, work: Workspace, part: NormalizedLaplacian, steps: int
    ) -> tuple[Inverse, str]:
        """L̄⁺ on the part, and by what."""
        if self.solver == "dense" or (self.solver == "auto" and is_small(part)):
            return dense_inverse(part), "LAPACK"
        if part is laplacian_of(work):
            grids = grids_of(work)
        else:
            with work.recorder.stage("multigrid set-up"):
                grids = build_hierarchy(part)
        return rough_inverse(part, grids, steps, work.recorder.deadline), "block CG"


@dataclass(frozen=True)
class Stationary:
    """Vectors to cluster and how the kernel was resolved: rank, and shares as `FactoredKernel`."""

    solution: LowRankSolution
    solver: str
    rank: int
    error: float
    spread: float


def answered(whole: NormalizedLaplacian, P: Block) -> NormalizedLaplacian:
    """The part of the graph that labels reach: its components with a row of P (n, C) not zero."""
    part = whole.reached_from(np.asarray(whole.to_working_order(P).any(axis=1)))
    if np.count_nonzero(part.to_working_order(P).any(axis=0)) < 2:
        raise InputError(
            "y: nodes with an edge carry labels of less than two classes; label others, too"
        )
    return part


def note_of_kernel(cut: Stationary, max_rank: int, recorder: Recorder) -> None:
    """Say what is missing of the kernel or its vectors, and what was done about components."""
    convergence = cut.solution.convergence
    if not convergence.converged.all() and convergence.reason != TIME_LIMIT:
        recorder.warn(convergence.status)
    if cut.rank >= max_rank and cut.error > _MISSING * cut.spread:
        recorder.warn(
            f"{cut.rank} columns leave {cut.error / cut.spread:.0%} of the kernel out; raise "
            "sigma or max_rank"
        )
    if cut.solution.tie:
        recorder.note(
            "the graph falls into components: they are tied to their common mean as stiffly "
            "as they hold together inside, else each would be cut by itself"
        )


# --- Stationary label propagation (WD12 §IV): labelings that a further propagation does not change


Floats = NDArray[np.float64]
_DENSE = 2000  # nodes up to which LAPACK finds all pairs
_SYMMETRY = 1e-10
_SHIFT = 1e-3  # σ, in units of ‖I − P_GG‖/‖P_GH‖
_ZERO = 1e-9  # |λ|, in the same units, that counts as 0
_NULL = 1e-12  # 1/|λ|, in their inverse, that counts as 0


def stationary_labelings(
    P_GG: Any, P_GH: Any, n_vectors: int | None = None
) -> tuple[Floats, Floats]:
    """Labelings f = λ(I − P_GG)⁻¹P_GH f with λ ≠ 0 (WD12 Definition 1, eq. 11): λ (k,), F (n, k).

    A label-bearing graph H, node by node the same as G, sends its labels to G by P_GH (n, n), G
    passes them on by P_GG (n, n), dense or sparse; f comes back as it was, up to λ. With
    P_GG = D^-½WD^-½ and P_GH = Q̄ these are the vectors of CSC at β = 0 (Claim 1), with P_GG = αĀ
    and P_GH = I those of LLGC (Claim 2). The `n_vectors` of least λ, columns of length 1; None: all
    with finite λ, for at most 2,000 nodes. Symmetric positive semidefinite I − P_GG and P_GH have
    real λ > 0 only; of other matrices the real pairs are given, by |λ|, and there may be fewer.
    Directions that both sides send to 0 are no labelings.

    Raises InputError. Cost: O(n³) up to 2,000 nodes, else a sparse factorisation of
    I − P_GG + σP_GH and some tens of solves with it.
    """
    A, B = _pair(P_GG, P_GH)
    n = A.shape[0]
    wanted = n if n_vectors is None else as_integer(n_vectors, "n_vectors", 1)
    if n_vectors is None and n > _DENSE:
        raise InputError(f"n_vectors: None asks for all of {n}; say how many you want")
    # Bf = ν(A + σB)f with ν = 1/(λ + σ): one finite spectrum, λ = 0 and λ = ∞ included.
    sigma = _SHIFT * _norm(A) / _norm(B)
    if n <= _DENSE:
        lam, F = _labelings(*_dense(_array(A), _array(B), sigma), A, B, sigma)
    else:
        for nu, V in _shift_invert(A, B, sigma, wanted):
            lam, F = _labelings(nu, V, A, B, sigma)
            if lam.size >= wanted:
                break
    return lam[:wanted], F[:, :wanted]


def stationary_residual(f: Any, lam: Any, P_GG: Any, P_GH: Any) -> Floats:
    """‖f − P_GG f − λP_GH f‖/‖f‖ for every column of f (n,) or (n, k), λ a number or (k,).

    0 for a stationary labeling (WD12 eq. 11, free of the inverse). Independent of the solver.
    """
    A, B = _pair(P_GG, P_GH)
    F = np.asarray(f, dtype=np.float64)
    F = F[:, None] if F.ndim == 1 else F
    if F.ndim != 2 or F.shape[0] != A.shape[0]:
        raise InputError(f"f: shape {F.shape}; give labelings of {A.shape[0]} nodes as columns")
    values = np.broadcast_to(np.asarray(lam, dtype=np.float64), (F.shape[1],))
    R = A @ F - (B @ F) * values
    return np.linalg.norm(R, axis=0) / np.maximum(np.linalg.norm(F, axis=0), 1e-300)


def _pair(P_GG: Any, P_GH: Any) -> tuple[Any, Any]:
    """I − P_GG and P_GH, checked; sparse if they came so."""
    found = []
    for P, where in ((P_GG, "P_GG"), (P_GH, "P_GH")):
        M: Any = sp.csr_matrix(P, dtype=np.float64) if _is_sparse(P) else None
        if M is None:
            try:
                M = np.asarray(P, dtype=np.float64)
            except (TypeError, ValueError):
                raise InputError(f"{where}: not a matrix of numbers; give (n, n)") from None
        if M.ndim != 2 or M.shape[0] != M.shape[1] or M.shape[0] == 0:
            raise InputError(f"{where}: shape {M.shape}; give a square matrix (n, n)")
        if not np.isfinite(M.data if _is_sparse(M) else M).all():
            raise InputError(f"{where}: NaN or Inf among the entries; remove them")
        found.append(M)
    A, B = found
    if A.shape != B.shape:
        raise InputError(f"P_GH: shape {B.shape}, but P_GG is {A.shape}; G and H share their nodes")
    if _norm(B) == 0:
        raise InputError("P_GH: all zero, no label ever reaches G; give transitions from H to G")
    eye = sp.identity(A.shape[0], format="csr") if _is_sparse(A) else np.eye(A.shape[0])
    return eye - A, B


def _is_sparse(M: Any) -> bool:
    return bool(sp.issparse(M))


def _array(M: Any) -> Floats:
    dense: Any = M.toarray() if _is_sparse(M) else M
    return np.asarray(dense, dtype=np.float64)


def _norm(M: Any) -> float:
    """Largest sum of |entries| of a row."""
    return float(abs(M).sum(axis=1).max())


def _is_symmetric(M: Any) -> bool:
    gap = abs(M - M.T)
    return bool(gap.max() <= _SYMMETRY * _norm(M))


def _dense(A: Floats, B: Floats, sigma: float) -> tuple[Floats, Floats]:
    """All pairs by LAPACK."""
    if _is_symmetric(A) and _is_symmetric(B):
        c, U = dense_algebra.eigh((A + A.T + sigma * (B + B.T)) / 2)
        if c[0] > -_NULL * c[-1]:  # else A + σB, of indefinite matrices, is no inner product
            kept = c > _NULL * c[-1]
            T = U[:, kept] / np.sqrt(c[kept])
            nu, V = dense_algebra.eigh(T.T @ B @ T)
            return nu, T @ V
    lam, V = dense_algebra.general_pairs(A, B)
    real = np.isfinite(lam) & (np.abs(lam.imag) <= _ZERO * (np.abs(lam) + sigma))
    lam, V = lam[real].real, V[:, real]
    largest = V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])]
    F = np.real(V * (np.abs(largest) / largest))  # real but for a factor
    distinct = lam != -sigma
    return 1.0 / (lam[distinct] + sigma), F[:, distinct]


def _shift_invert(A: Any, B: Any, sigma: float, wanted: int) -> Iterator[tuple[Floats, Floats]]:
    """More and more real pairs of largest |ν| by ARPACK with factors of A + σB."""
    n, C = A.shape[0], A + sigma * B
    solve: Any
    if _is_sparse(C):
        solve = splu(sp.csc_matrix(C)).solve
    else:
        solve = partial(sla.lu_solve, sla.lu_factor(np.asarray(C)))
    T: Any = LinearOperator((n, n), matvec=lambda x: solve(B @ x), dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(n)
    k = min(wanted + 2, n - 2)
    while True:
        nu, V = eigs(T, k=k, which="LM", v0=start)
        real = np.abs(nu.imag) <= _ZERO * np.abs(nu)
        yield nu[real].real, np.real(V[:, real])
        if k == n - 2:
            return
        k = min(2 * k, n - 2)


def _labelings(nu: Floats, F: Floats, A: Any, B: Any, sigma: float) -> tuple[Floats, Floats]:
    """λ = 1/ν − σ where it is neither 0 nor infinite, and its vectors; by |λ|, length 1."""
    scale = _norm(A) / _norm(B)
    finite = np.abs(nu) > _NULL / scale
    lam, F = 1.0 / nu[finite] - sigma, F[:, finite]
    F = F / np.linalg.norm(F, axis=0)
    size = np.linalg.norm(A @ F, axis=0) + scale * np.linalg.norm(B @ F, axis=0)
    kept = (np.abs(lam) > _ZERO * scale) & (size > _ZERO * _norm(A))
    order = np.argsort(np.abs(lam[kept]), kind="stable")
    return lam[kept][order], F[:, kept][:, order]
