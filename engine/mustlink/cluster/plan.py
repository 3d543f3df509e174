"""How a CSP fit is carried out: what the caller left open is decided, then embedded and cut."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mustlink.cluster.assign import assign, kmeans, transform
from mustlink.cluster.choose import (
    BETAS,
    WAYS,
    Candidates,
    Choice,
    choose_smooth,
    folds_of,
    held_out_score,
    sampled_rows,
    starting_centers,
    subspace_sizes,
)
from mustlink.cluster.embed import Embedded, exact_embedding, smooth_embedding
from mustlink.cluster.scores import criterion_e
from mustlink.constraints import Constraints
from mustlink.eigen.smooth import ReducedPencil, SmoothBasis, smooth_basis
from mustlink.eigen.solver import default_tolerance, laplacian_of, smallest_pairs, smoothest
from mustlink.errors import InfeasibleError
from mustlink.graph import Graph
from mustlink.observe import Recorder
from mustlink.operators.constraint import ConstraintOperator, constraint_operator
from mustlink.operators.laplacian import Block
from mustlink.result import Convergence

SHARP_BELOW = 20_000  # nodes up to which a given subspace is computed to 1e-8
_TRUSTED = 0.95  # held-out score from which the smooth subspace is not questioned
_RIVAL_BETA = 0.01
_RIVAL_FOLDS = 2
_ROUGH = 1e-2  # residual of a trial
_EXACT_BETAS = (0.5, 0.1, 0.01)


@dataclass(frozen=True, eq=False)
class Request:
    """What was asked for: graph, K, constraints, and the estimator's parameters."""

    graph: Graph
    k: int
    known: Constraints
    Q: ConstraintOperator
    beta: float | str
    subspace: int | str
    assign: str
    solver: str
    tol: float | None
    max_iter: int
    seed: int

    @property
    def solves_exactly(self) -> bool:
        """Whether the paper's full problem is solved, because the caller wants it."""
        return self.subspace == "exact"

    @property
    def betas(self) -> tuple[float, ...]:
        """The fractions β to choose from; one if the caller gave it."""
        if self.beta == "auto":
            return _EXACT_BETAS if self.solves_exactly else BETAS
        if self.beta == "paper":
            # WD14 eq. 19, with Q's entries counted: both (i, j) and (j, i).
            share = 2.0 * self.known.n_constraints / float(self.known.n_nodes) ** 2
            return (0.5 + 0.4 * min(share, 1.0),)
        return (float(self.beta),)

    def basis(self, p: int, recorder: Recorder) -> SmoothBasis:
        """At least p smooth directions; sharp ones where p was asked for on a small graph."""
        tol = self.tol
        if tol is None and isinstance(self.subspace, int) and self.Q.size <= SHARP_BELOW:
            tol = default_tolerance(self.Q.size)
        return smoothest(self.graph, p, recorder, solver=self.solver, tol=tol, seed=self.seed)

    @property
    def ways(self) -> tuple[str, ...]:
        """The discretisations to choose from."""
        if self.assign != "auto":
            return (self.assign,)
        return ("sign", "kmeans") if self.k == 2 else WAYS


def resolve(request: Request, recorder: Recorder) -> Choice:
    """Decide subspace, β and discretisation where the caller left them open."""
    if request.known.is_empty or request.Q.support.size == 0:
        recorder.note("no constraints act: the smoothest vectors of the graph alone are clustered")
        way = "kmeans" if request.assign == "auto" and request.k > 2 else request.ways[0]
        return Choice(None, 0.0, way, "no constraints")
    if request.solves_exactly:
        return _resolve_exact(request, recorder)
    laplacian = laplacian_of(request.graph, recorder)
    if isinstance(request.subspace, str):
        labelled = request.known.counts()["labelled"]
        sizes = subspace_sizes(request.k, laplacian.size - 1, labelled)
    else:
        sizes = (min(int(request.subspace), laplacian.size - 1),)
    candidates = Candidates(sizes, request.betas, request.ways)
    # The eigenvectors are their own stage; choosing among them is timed by itself.
    request.basis(max((p for p in sizes if p <= 4 * request.k), default=sizes[0]), recorder)

    def basis_of(p: int) -> SmoothBasis:
        return request.basis(p, recorder)

    choice = choose_smooth(request.known, request.k, candidates, basis_of, request.seed, recorder)
    if request.subspace == "auto" and choice.score is not None and choice.score < _TRUSTED:
        choice = _rival(request, choice, recorder)
    where = "exact pencil" if choice.p is None else f"subspace of {choice.p} smooth vectors"
    recorder.note(f"{where}, beta {choice.beta:g}, {choice.way}: {choice.reason}")
    return choice


def _rival(request: Request, choice: Choice, recorder: Recorder) -> Choice:
    """The exact pencil where the smooth subspace predicts badly, if it predicts better.

    That is so for local graphs (pixels) with few labels, whose clusters no smooth vector shows.
    Only for labels, whose pencil has few feasible vectors and is solved in seconds.
    """
    known, k, seed = request.known, request.k, request.seed
    if known.labels is None or known.pairs.size or known.soft is not None:
        return choice
    laplacian = laplacian_of(request.graph, recorder)
    beta = _RIVAL_BETA if isinstance(request.beta, str) else float(request.beta)
    scores = []
    for kept, held in folds_of(known, seed)[:_RIVAL_FOLDS]:
        Q = constraint_operator(kept, laplacian)
        try:
            embedded = exact_embedding(
                request.graph, Q, k, beta, recorder, tol=_ROUGH, max_iter=60, seed=seed, free=True
            )
        except InfeasibleError:
            return choice
        nodes, rows = sampled_rows(laplacian, kept.nodes, held.nodes, seed)
        U = embedded.vectors[rows] / laplacian.root_degree[rows, None]
        U = transform(U, request.ways[0], embedded.cost)
        scores.append(held_out_score(U, nodes, kept, held, k, request.ways[0], seed))
    score = float(np.mean(scores))
    table = (*choice.scores, (0, beta, request.ways[0], score))
    if choice.score is not None and score <= choice.score:
        return replace(choice, scores=table)
    reason = (
        f"keeps {score:.1%} of held-out constraints, the best smooth subspace {choice.score:.1%}"
    )
    return Choice(None, beta, request.ways[0], reason, score, table)


def _resolve_exact(request: Request, recorder: Recorder) -> Choice:
    """β for the exact pencil by WHC11's criterion E; one candidate needs no trial."""
    way = request.ways[0]
    if len(request.betas) == 1:
        return Choice(None, request.betas[0], way, "given")
    rows: list[tuple[int, float, str, float]] = []
    laplacian = laplacian_of(request.graph, recorder)
    for beta in request.betas:
        trial = Choice(None, beta, way, "")
        try:
            embedded = embed(request, trial, recorder)
        except InfeasibleError:
            continue
        U = embedded.vectors / laplacian.root_degree[:, None]
        found = np.full(laplacian.n_nodes, -1, dtype=np.int64)
        found[laplacian.nodes] = labels_from(request, trial, U, embedded.cost)
        score = criterion_e(request.graph.affinity, found, request.known)
        rows.append((0, beta, way, score))
    if not rows:
        return Choice(None, -0.1, way, "no fraction in [0, 1) leaves a feasible vector")
    best = max(rows, key=lambda row: row[3])
    reason = f"criterion E is {best[3]:.3f}, the best of {len(rows)} values of beta"
    recorder.note(f"exact pencil, beta {best[1]:g}: {reason}")
    return Choice(None, best[1], way, reason, scores=tuple(rows))


def embed(request: Request, choice: Choice, recorder: Recorder) -> Embedded:
    """The K − 1 vectors for one choice."""
    if request.known.is_empty or request.Q.support.size == 0:
        return _unconstrained(request, recorder)
    free = isinstance(request.beta, str)
    if choice.p is None:
        return exact_embedding(
            request.graph,
            request.Q,
            request.k,
            choice.beta,
            recorder,
            solver=request.solver,
            tol=request.tol,
            max_iter=request.max_iter,
            seed=request.seed,
            free=free,
        )
    basis = request.basis(choice.p, recorder)
    with recorder.stage("constrained vectors"):
        reduced = ReducedPencil(basis, request.Q)
        return smooth_embedding(reduced, request.k, choice.p, choice.beta, free=free)


def labels_from(
    request: Request, choice: Choice, rows: Block, cost: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Clusters (m,) from the rows of D^-½V; the constraints choose where k-means starts."""
    k, way, known = request.k, choice.way, request.known
    if way == "sign":
        return assign(rows, k, way, request.seed).labels
    laplacian = laplacian_of(request.graph, Recorder())
    seen = transform(rows, way, cost)
    centers = None
    if not known.is_empty:
        nodes, sample = sampled_rows(laplacian, known.nodes, known.nodes, request.seed)
        if nodes.size:
            centers = starting_centers(seen[sample], nodes, known, k, request.seed)
    return kmeans(seen, k, request.seed, centers=centers).labels


def _unconstrained(request: Request, recorder: Recorder) -> Embedded:
    """Q = 0: the pencil is L̄v = −λβv with β < 0, that is the K − 1 smoothest vectors beside z.

    Components come first, as vectors of cost 0.
    """
    laplacian = laplacian_of(request.graph, recorder)
    found = smallest_pairs(
        request.graph,
        request.k - 1,
        recorder,
        solver=request.solver,
        tol=request.tol,
        seed=request.seed,
    )
    had = found.convergence
    basis = smooth_basis(laplacian, found.values, found.vectors, had.residuals)
    parts = basis.p - found.values.size
    values = np.concatenate([np.zeros(parts), found.values])[: request.k - 1]
    V = basis.vectors[:, 1 : 1 + values.size] * np.sqrt(laplacian.volume)
    residuals = basis.residuals[: values.size]
    convergence = Convergence(had.solver, had.reason, had.iterations, residuals, had.tolerance)
    return Embedded(V, values, values * laplacian.volume, 0.0, 0.0, None, convergence)
