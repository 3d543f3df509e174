"""Directed graphs: clusters of nodes that send alike and receive alike, DI-SIM (Rohe et al. 2016).

A_ij is the weight of the edge from i to j, D_out and D_in are the row and column sums of A.

    1  τ = mean out-degree, L = (D_out + τI)^-½ A (D_in + τI)^-½        `DISIM._view_of`
    2  U, V (n, K): left and right singular vectors of L's K largest σ  `DISIM._vectors`
    3  rows of U, of V, of [U V] scaled to length 1                     `NodeSides`
    4  k-means on each: who sends alike, who receives alike, both       `NodeSides`

Steps 1 and 2 are those of the bipartite graph in which every node is twice, as who sends and as who
receives: its L̄_τ has the eigenvalues 1 − σ with (u, v)/√2.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.clusterers.clusterer import AUTO, GraphClusterer, Ints
from mustlink.clusterers.csp import CSP
from mustlink.clusterers.ncut import with_null
from mustlink.clusterers.result_warnings import warn_if_broken, warn_of_sizes
from mustlink.constraints import Constraints
from mustlink.constraints.constraints import among
from mustlink.context.workspace import Workspace
from mustlink.core.check import as_integer, check_choice, check_tolerance
from mustlink.core.observe import Observer, Recorder, Unheard, recorded
from mustlink.core.state import before, fits, fits_again
from mustlink.discretize.assign import kmeans, seeded_kmeans, transform
from mustlink.discretize.satisfaction import satisfaction
from mustlink.eigen.memory_work import MemoryWork
from mustlink.eigen.plain_solve import PLAIN_SOLVERS, tell_unconverged
from mustlink.eigen.solver import laplacian_of, smallest_pairs
from mustlink.errors import InputError
from mustlink.estimators.side_information import side_information
from mustlink.graph import Graph
from mustlink.graph.forms import arcs_of, bipartite_graph
from mustlink.graph.structure import as_sample_weight
from mustlink.selection.regularization import check_regularization
from mustlink.space import LocalSpace


@dataclass(eq=False, repr=False)
class DISIM(GraphClusterer):
    """K clusters of a directed graph by whom nodes send to and from whom they receive (DI-SIM).

    L = (D_out + τI)^-½ A (D_in + τI)^-½ = UΣVᵀ; k-means on the rows of [U V], scaled to length 1.
    Blocks that send to the next one in a circle are found, of which (A + Aᵀ)/2 knows nothing.

    `regularization` t: τ is t times the mean out-degree; "auto" is the source's 1. `solver` and
    `tol` as of `NCut`. After `fit`: `labels_` (n,), `sending_labels_` and `receiving_labels_` (n,)
    from U and from V alone (step 4 of the source; numbered apart, -1 without such an edge),
    `embedding_` [U V] (n, 2K), `singular_values_` σ (K,) falling, `eigenvalues_` 1 − σ, `graph_`,
    the undirected A + Aᵀ.

    With labels or constraints two other ways are tried: k-means started from the labels, and that
    on CSP's embedding of the graph in which every node is twice, τ in the degrees: of senders where
    what is known was said of them, of receivers where it was said of these, (n, 2(K − 1)) together.
    Nothing is said between a sender and a receiver, as a class need not send to itself. What keeps
    most of what was held out in three trials is taken, and the report says which. Cost: a few tens
    of products with A and Aᵀ of a block of K + 3 columns; with labels eight fits of CSP more.
    Source: Rohe, Qin & Yu 2016.
    """

    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 200
    regularization: float | str = "auto"
    _: KW_ONLY
    affinity: str = "precomputed"

    _trusts_edges: ClassVar[bool] = False  # a cluster may send to another one only

    @fits
    def fit(
        self,
        X: Any,
        y: Any = None,
        constraints: Constraints | None = None,
        observer: Observer | Recorder | None = None,
        sample_weight: Any = None,
    ) -> Self:
        """Cluster the nodes of a directed graph: A (n, n), sparse or dense, or a network object.

        `y` (n,) are labels of some nodes, -1 for unknown, `constraints` on pairs of them;
        `sample_weight` (n,) >= 0 tells how often every node counts. Raises InputError.
        """
        self._check()
        recorder = recorded(observer)
        with self._running(recorder):
            self._used_seed, A = self._seed(), arcs_of(X)
            n = A.shape[0]
            counts = None if sample_weight is None else as_sample_weight(sample_weight, n)
            self._run(A, counts, y, constraints, recorder)
        return self

    @fits_again
    def refit(
        self,
        y: Any = None,
        constraints: Constraints | None = None,
        observer: Observer | Recorder | None = None,
    ) -> Self:
        """Cluster the same nodes again with other labels `y` (n,) or constraints, all anew.

        They are all that is then known. `labels_` keep their numbers and names as far as they can,
        see `CSP.refit`; those of senders and receivers do not.
        """
        self._check()
        if isinstance(y, Constraints):
            y, constraints = constraints, y
        recorder, labels = recorded(observer), before(self).labels_
        with self._running(recorder):
            self._run(*self._arcs, y, constraints, recorder)
        return self._numbered_as(labels, recorder)

    def _run(
        self,
        A: sp.csr_matrix,
        counts: Floats | None,
        y: Any,
        constraints: Constraints | None,
        recorder: Recorder,
    ) -> None:
        """Cluster the nodes of A (n, n), which count `counts` (n,), and set the results."""
        self._arcs, seed = (A, counts), self._used_seed
        self.graph_ = Graph.from_affinity(A + A.T, {"kind": "directed"})
        known = side_information(self.graph_, y, constraints, recorder, needed=False)
        if self.n_clusters == AUTO and known.classes.size < 2:
            raise InputError(
                'n_clusters: "auto" counts in undirected graphs; give a number, or labels of '
                "every class"
            )
        work = MemoryWork(Workspace(self.graph_, recorder))
        k = self._clusters(work, known.classes.size, seed)
        view = self._view_of(A, recorder, seed, counts)
        rows, reason = self._rows(view, known, k, seed)
        with recorder.stage("clusters"):
            self.sending_labels_ = rows.clusters(k, seed, "sending")
            self.receiving_labels_ = rows.clusters(k, seed, "receiving")
            self.labels_ = self._placed(rows.clusters(k, seed), k, recorder)
        self.embedding_ = rows.both
        kept = warn_if_broken(self.labels_, known, recorder)
        choices = {
            "regularization": [self._share, "of the mean out-degree"],
            **reason,
            "solver": self._convergence.solver,
        }
        self._report(work, k, choices, self._convergence, kept, "DI-SIM")

    def _check(self) -> None:
        check_choice(self.solver, PLAIN_SOLVERS, "solver")
        check_tolerance(self.tol)
        as_integer(self.max_iter, "max_iter", 1)
        check_regularization(self.regularization)
        if self.affinity != "precomputed":
            raise InputError(
                f"affinity: {self.affinity!r} makes edges without directions; DISIM takes a "
                "directed graph, for points use NCut"
            )

    @property
    def _share(self) -> float:
        return 1.0 if self.regularization == "auto" else float(self.regularization)

    def _view_of(
        self, A: sp.csr_matrix, recorder: Recorder, seed: int, counts: Floats | None
    ) -> Workspace:
        """Every node twice, and τ; the engine's mean leaves out copies without an edge."""
        twice = None if counts is None else np.tile(counts, 2)
        work = self._work(bipartite_graph(A), recorder, seed, twice)
        linked = float(laplacian_of(work).copies.sum())
        return work.regularized(self._share * linked / work.graph.count)

    def _rows(
        self, view: Workspace, known: Constraints, k: int, seed: int
    ) -> tuple[NodeSides, dict[str, str]]:
        """Singular vectors, or what CSP makes of what is known, and why."""
        plain = self._vectors(view, k, seed)
        if known.is_empty or k == 1:
            return plain, {}
        # τ is in the degrees of the view, which CSP shall not choose again
        csp = CSP(k, affinity="precomputed", regularization=0, tol=self.tol, memory=self.memory)
        return DirectedTrials(view, plain, csp, k, seed).best(known)

    def _vectors(self, view: Workspace, k: int, seed: int) -> NodeSides:
        """U and V of step 2."""
        laplacian = laplacian_of(view)
        wanted = max(0, k - laplacian.null.n_components)
        found = smallest_pairs(
            view, wanted, solver=self.solver, tol=self.tol, max_iter=self.max_iter, seed=seed
        )
        tell_unconverged(view.recorder, found.convergence, single=view.single)
        Z, values = with_null(laplacian.space, laplacian, found, k)
        self.eigenvalues_, self.singular_values_ = values, 1.0 - values
        self._convergence = found.convergence
        return self._halves(np.sqrt(2.0) * laplacian.from_working_order(Z), view)

    def _halves(self, rows: Floats, view: Workspace) -> NodeSides:
        n = len(rows) // 2
        linked = view.graph.degrees > 0
        counts = None if view.row_weights is None else view.row_weights[:n]
        return NodeSides(rows[:n], rows[n:], linked[:n], linked[n:], counts)

    def _placed(self, found: Ints, k: int, recorder: Recorder) -> Ints:
        """Labels, with those of nodes without an edge as `isolated` says."""
        warn_of_sizes(np.bincount(found[found >= 0]), k, recorder)
        alone = found < 0
        if alone.any() and self.isolated == "assign":
            found = np.where(alone, np.bincount(found[~alone]).argmax(), found)
        done = "put in the largest cluster" if self.isolated == "assign" else "labelled -1"
        silent = (
            (self.sending_labels_ < 0, "sending to none, sending label -1"),
            (self.receiving_labels_ < 0, "receiving from none, receiving label -1"),
            (alone, f"doing neither, {done}"),
        )
        told = [f"{np.count_nonzero(who)} {words}" for who, words in silent if who.any()]
        if told:
            recorder.note(f"nodes without edges of a kind: {'; '.join(told)}")
        return found


# --- What nodes of a directed graph have as who sends and as who receives, and clusters of it


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NodeSides:
    """What nodes have as who sends (n, r) and as who receives (n, r), and how often they count.

    `sends`, `receives` (n,) tell who has such an edge. `classes` (n,) are labels to start from, -1
    unknown, or None.
    """

    sending: Floats
    receiving: Floats
    sends: NDArray[np.bool_]
    receives: NDArray[np.bool_]
    counts: Floats | None
    classes: Ints | None = None

    @property
    def both(self) -> Floats:
        """Side by side, (n, 2r)."""
        return np.hstack([self.sending, self.receiving])

    def clusters(self, k: int, seed: int, side: str = "both") -> Ints:
        """Clusters (n,) of nodes that send alike, receive alike or do both; -1 without such edges.

        Steps 3 and 4 of DI-SIM.
        """
        rows, there = {
            "sending": (self.sending, self.sends),
            "receiving": (self.receiving, self.receives),
            "both": (self.both, self.sends | self.receives),
        }[side]
        found = np.full(len(rows), -1, dtype=np.int64)
        seen = transform(rows[there], "sphere")
        counts = None if self.counts is None else self.counts[there]
        k, given = min(k, len(seen)), None if self.classes is None else self.classes[there]
        if given is not None and 2 <= np.unique(given[given >= 0]).size <= k:
            found[there] = seeded_kmeans(seen, given, k, seed, counts)
        else:
            found[there] = kmeans(seen, k, seed, space=LocalSpace(len(seen), counts)).labels
        return found


# --- Which rows, by labels and constraints held out


_TRIALS, _HELD = 3, 1 / 3  # of what is known, held out to see which rows tell it
_STAGE = "choosing by held-out constraints"
_WAYS = ("singular vectors", "singular vectors from the labels", "constrained vectors")


@dataclass(frozen=True, eq=False)
class DirectedTrials:
    """Singular vectors as they are, with k-means from the labels, and constrained vectors.

    `view` is of the graph in which every node is twice, τ included, `csp` cuts that: with what is
    known said of senders, and again with it said of receivers.
    """

    view: Workspace
    plain: NodeSides
    csp: CSP
    k: int
    seed: int

    def best(self, known: Constraints) -> tuple[NodeSides, dict[str, str]]:
        """The rows that keep most of what is held out, and why; those before win a tie."""
        recorder, right = self.view.recorder, []
        without = self.plain.clusters(self.k, self.seed)  # whatever is held out
        with recorder.stage(_STAGE) as advance:
            for number in range(_TRIALS):
                # a trial takes about as long as each that is left, and as the fit to all
                share = recorder.deadline.share(1 / (_TRIALS - number + 1))
                quiet = Recorder(Unheard(), share)
                quiet.budget = recorder.budget
                kept, held = known.split(_HELD, self.seed + number)
                rows = replace(self.plain, classes=kept.labels), self._constrained(kept, quiet)
                clusters = [without, *(way.clusters(self.k, self.seed) for way in rows)]
                right.append([satisfaction(c, held, given=kept)["balanced"] for c in clusters])
                advance((number + 1) / _TRIALS)
                if quiet.left_out or recorder.deadline.is_over:
                    break
        done = len(right)
        if done < _TRIALS:
            recorder.skip_for_time(
                f"{_TRIALS - done} of {_TRIALS} trials of held-out constraints were not made"
            )
        mean = np.mean(right, axis=0)
        best = int(np.argmax(mean))
        told = ", ".join(f"{name} {share:.0%}" for name, share in zip(_WAYS, mean, strict=True))
        why = f"held-out constraints kept: {told}"
        recorder.note(f"{_WAYS[best]}: {why}")
        return self._fitted(best, known), {"rows": _WAYS[best], "why": why}

    def _fitted(self, best: int, known: Constraints) -> NodeSides:
        if best < 2:
            return replace(self.plain, classes=known.labels) if best else self.plain
        recorder = self.view.recorder
        quiet = Recorder(Unheard(), recorder.deadline)
        quiet.budget = recorder.budget
        with recorder.stage("constrained vectors"):
            found = self._constrained(known, quiet)
        for what in quiet.left_out:
            recorder.skip_for_time(what)
        return found

    def _constrained(self, known: Constraints, quiet: Recorder) -> NodeSides:
        """What CSP makes of what is known of those that send, and of those that receive.

        Its doubts are about clusters of a graph that nobody sees, and heard by nobody.
        """
        n, work = known.n_nodes, replace(self.view, recorder=quiet)
        halves = []
        for first, there in ((0, self.plain.sends), (n, self.plain.receives)):
            nodes: Ints = np.flatnonzero(there)
            self.csp.fit_on(work, among(known[nodes], first + nodes, 2 * n), self.seed)
            halves.append(self.csp.embedding_[first : first + n])
        return replace(self.plain, sending=halves[0], receiving=halves[1], classes=known.labels)
