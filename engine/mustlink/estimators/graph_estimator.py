"""What all estimators share: their graph parameters, input to graph, threads, progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context import compilation  # noqa: F401  tells how far compiling is
from mustlink.context.fit_plan import represented
from mustlink.context.method_cost import (
    COUNTED,
    Cost,
    DiskCost,
    FitInput,
    Size,
    eigenvectors,
    home_for,
)
from mustlink.context.stage_cache import CheckpointStore, StageCache, Workspace
from mustlink.core import io_entry_points
from mustlink.core.check import as_points, as_random_state, check_choice, check_graph_weights
from mustlink.core.observe import Recorder
from mustlink.core.resources import AUTO, Allowed, allowed_memory, named_memory, size_text
from mustlink.core.state import BaseEstimator, check_columns, check_is_fitted
from mustlink.eigen.disk_work import DiskWork
from mustlink.eigen.memory_work import extend_vectors
from mustlink.eigen.work import DISK, MEMORY
from mustlink.errors import AtHomeOnlyError, InputError
from mustlink.estimators.fit_input import check_points, graph_of_points, input_of
from mustlink.estimators.graph_choice import automatic_representatives
from mustlink.graph import Graph
from mustlink.graph.disk_graph import DiskGraph
from mustlink.graph.forms import sides_of, unwrapped
from mustlink.graph.graph import as_sample_weight, joined_nodes, range_notes
from mustlink.graph.several import Views, one_of
from mustlink.kernels.threads import threads
from mustlink.neighbors.affinities import AFFINITIES, PRECOMPUTED, cached_graph, n_rows
from mustlink.neighbors.distances import (
    POINTS,
    as_rows,
    bytes_of_rows,
    resolved_metric,
    search_bytes,
)
from mustlink.neighbors.new_points import NewPoints, joined_points
from mustlink.neighbors.points_by_rows import count_distinct, is_rows
from mustlink.neighbors.representatives import NewShares, check_representatives, joined_rows
from mustlink.neighbors.streamed_points import as_stream
from mustlink.neighbors.tasks import leave_workers
from mustlink.preprocessing.mixed import prepared_points

if TYPE_CHECKING:
    from sklearn.utils import Tags

Floats = NDArray[np.float64]
_COLUMNS = 10  # of a method that names no other
_GRAPH_PARAMETERS = ("affinity", "n_neighbors", "metric", "weights", "representatives")


@dataclass(eq=False, repr=False)
class GraphEstimator(BaseEstimator):
    """Base of the estimators: a subclass is a dataclass too, its fields are its parameters.

    scikit-learn reads them from the constructor, and nothing else happens there. `affinity`: "knn",
    the rows of X, dense or sparse, are points (`n_neighbors`, `metric`, `weights`, see
    `knn_graph`), "auto" the same, but a square sparse X is refused, as it may be a graph; "rbf"
    (dense), "precomputed": X is an affinity (n, n) or scikit-learn's `kneighbors_graph` of ones,
    "precomputed_nearest_neighbors": X holds distances to the neighbours, as its
    `KNeighborsTransformer` makes. Rows of points that are equal in single precision are one node of
    the graph, which counts them; answers have a line for every row, `graph_` the nodes. `memory` is
    the most that the process may take, in bytes or as "4GB": neighbours are then searched by parts,
    vectors held in single precision where doubles do not fit, and InputError names the least that
    works. "auto" does so only where a fit could need more than there is: MUSTLINK_MEMORY, else the
    least that is left by cgroups, Slurm, LSF and limits of the process, and four fifths of what the
    machine has available; a note says which. None sets no limit.

    `graph_weights` (V,) >= 0 are those of X and of the other `graphs` of `fit`, each divided by its
    volume first (`graph.several`); "equal"; or "auto", which weighs a graph by how well it ranks
    must-links above cannot-links, without constraints the edges of the others above random pairs
    (`graph.several`). The report tells which and why.

    `representatives` p: so many points stand for all n, which are mixtures of the nearest five
    (`neighbors.representatives`, after U-SPEC and anchor graphs). The graph has p nodes, W = ZᵀZ of
    the shares Z (n, p) of the rows; what is known of rows is carried down, Q_p = ZᵀQZ, answers are
    carried up. Cost O(n p d); nothing but labels grows with n where points stay in a file. None:
    every point is a node; "auto": 1,000, or 20 a cluster, where all points do not fit memory or
    time, or evidence is for them (`estimators.graph_choice`); a note tells.

    `preprocessing`: "auto" makes points of a data frame that has words, dates or empty cells
    (`preprocessing.mixed`; notes of the report say how), numbers alone stay as they are; None
    refuses such tables; a transformer of scikit-learn, such as a ColumnTransformer, makes the
    points instead. `predict` and `add` prepare new rows the same way.

    `time_limit`: wall-clock seconds, or "20s", "5min", "1h", from the call of `fit`. Then the best
    answer so far is returned: iterations end as they are, candidates that are left and part of
    the neighbour search are left out, and a warning says so. It is not kept to the second, and the
    first answer is always finished by the shortest way. A result that was cut short depends on the
    clock; with time to spare it is the same as without a limit.
    """

    _: KW_ONLY
    affinity: str = "auto"
    n_neighbors: int = 15
    metric: Any = "auto"
    weights: str = "local"
    random_state: Any = None
    n_jobs: int | None = None
    memory: int | str | None = AUTO
    time_limit: float | str | None = None
    graph_weights: Any = "auto"
    representatives: int | str | None = None
    preprocessing: Any = AUTO

    homes: ClassVar[frozenset[str]] = frozenset({MEMORY})  # where it runs
    _halved: ClassVar[str] = "graph and vectors are held"  # in single precision, where need be

    _allowed = None  # type: Allowed | None  # what memory="auto" is in a fit; no parameter
    _represented = None  # type: tuple[Any, int | None, str] | None  # what "auto" took for X
    _preparation = None  # type: Any  # how points were made of what was given
    _kept_in = None  # type: CheckpointStore | None  # who keeps results of finished stages
    _searches = None  # type: Executor | None  # whose workers search neighbours

    def _check(self) -> None:
        """Raise InputError for parameters that make no sense."""

    def save(self, path: Any, *, data: bool = True) -> None:
        """Write the fitted estimator into an HDF5 file, from which `mustlink.load` makes it again.

        It is what `mustlink cluster -o` writes: labels, embedding and report, and the model, by
        which the estimator that is loaded answers, is refitted and extended as this one, bit by
        bit: parameters, labels and constraints, graph, smooth vectors and points. The last three
        are most of the file: 10⁶ nodes with 15 neighbours are 250 MB, each smooth vector is 4 to 8
        MB. Without `data` the file has digests of points and graph, which `load` is then to be
        given. Raises InputError for parameters that hold code, such as a classifier.
        """
        io_entry_points.save(self, path, data=data)

    def prepared_by(self, preparation: Any) -> Self:
        """Say how the fitted points were prepared: new ones are given as those were before that.

        `preparation` is a `mustlink.preprocessing.fitted.Fitted`, or `FittedTable` of `mixed`;
        None: not at all. It is no parameter either, and the next `fit` forgets it.
        """
        self._preparation = preparation
        return self

    def _prepared(self, X: Any, recorder: Recorder) -> Any:
        """A network as a Graph, else points where `preprocessing` makes such; raises InputError."""
        self._preparation, how = None, self.preprocessing
        if X is not None and not isinstance(X, Graph | DiskGraph):
            X = unwrapped(X)
        if X is None or isinstance(X, Graph | DiskGraph) or self.affinity in PRECOMPUTED:
            if how is not None and not (isinstance(how, str) and how == AUTO):
                raise InputError("preprocessing: X is a graph, which has no columns; leave it out")
            return X
        points, self._preparation = prepared_points(X := as_stream(X), recorder, how)
        if self._preparation is not None:
            check_columns(self, X)
        return points

    def _as_fitted(self, X: Any) -> Any:
        """New points prepared as the fitted ones were, as files are read; raises InputError."""
        if self._preparation is None:
            points = as_rows(X)
            check_columns(self, X, reset=False)
            return points
        return self._preparation.transform(X).astype("float32")

    def keep_in(self, keeper: CheckpointStore | None) -> Self:
        """Keep results of finished stages with a keeper, so that a later run can go on from them.

        Not a parameter: clones know nothing of it. None ends it.
        """
        self._kept_in = keeper
        return self

    def search_on(self, executor: Executor | None) -> Self:
        """Let workers of an executor search neighbours, see `knn_graph`, or go through the rows.

        The latter with `representatives`, of points in an HDF5 file. Not a parameter either.
        """
        self._searches = executor
        return self

    @contextmanager
    def _running(self, recorder: Recorder) -> Iterator[None]:
        """With as many threads and within as much time as allowed."""
        recorder.estimator = type(self).__name__
        try:
            with threads(self.n_jobs), recorder.limited(self.time_limit):
                yield
        finally:
            if self._searches is not None:
                leave_workers(getattr(self, "graph_", None))

    @property
    def _allowance(self) -> Allowed:
        """The most that the process may take; of "auto" as the fit decided, else no limit."""
        return named_memory(self.memory) or self._allowed or Allowed()

    @property
    def _budget(self) -> int | None:
        """The most that the process may take, in bytes."""
        return self._allowance.limit

    def allow(self, allowed: Allowed | None) -> Self:
        """Say what memory="auto" is for all fits, as a plan decided; no parameter. None ends it."""
        self._allowed = allowed
        return self

    def _allow(
        self,
        X: Any,
        cost: Cost,
        on_disk: Callable[[int, int], DiskCost] | None = None,
        *,
        others: Any = None,
        beside: int = 0,
        classes: int | None = None,
    ) -> None:
        """Decide once a fit what memory="auto" is; InputError where a fit runs in no home.

        `on_disk` is the cost there, which raises InputError where a fit does not run; `others` are
        graphs beside X, `beside` bytes, `classes` those of labels.
        """
        if self._allowed is not None or named_memory(self.memory) is not None:
            return
        found = input_of(X, others, self.affinity, self.n_neighbors, self.metric)
        if found is None:
            return
        data, held, copies = found
        if (p := self._n_representatives(X)) is not None:
            data, copies = represented(data, p), 0
        data, held = replace(data, beside=data.beside + beside), held + beside
        cost = cost if data.d else cost.of_given()

        def least(limit: int) -> int:
            stored = None
            if on_disk is not None:
                with suppress(InputError):  # which the fit raises where it must run there
                    stored = on_disk(data.n, data.nnz or data.n * data.k)
            home = home_for(limit, cost, data, stored)
            few = data.d and not data.searched and COUNTED * data.n <= limit
            if home.name is None and few:
                home = home_for(limit, cost, replace(data, n=count_distinct(X)), stored)
            return home.least

        costs = (cost, *self._rivals(classes))
        self._allowed = allowed_memory(
            AUTO, lambda at_most: copies + data.unlimited(*costs, at_most=at_most), least, held
        )

    def _rivals(self, classes: int | None) -> tuple[Cost, ...]:
        """What else a fit may try where memory allows it, with labels of `classes`."""
        return ()

    def _depends(self) -> dict[str, Any]:
        """The parameters that a result depends on beside the graph, the seed and the memory."""
        others = {"random_state", "n_jobs", "memory", "time_limit", "graph_weights"}
        others |= {"preprocessing"}
        others |= set(_GRAPH_PARAMETERS)
        return {name: value for name, value in self.get_params().items() if name not in others}

    def __sklearn_tags__(self) -> Tags:
        """What scikit-learn should know: rows and columns of a graph are split together."""
        tags = super().__sklearn_tags__()
        is_graph = self.affinity in PRECOMPUTED
        tags.input_tags.pairwise = is_graph
        sparse = self.affinity in POINTS and not getattr(self, "_needs_points", False)
        tags.input_tags.sparse = is_graph or sparse
        return tags

    @property
    def n_iter_(self) -> int:
        """Steps of the iteration that the result came from, 1 where it was solved directly."""
        check_is_fitted(self)
        convergence, extra = self.report_.convergence, self.report_.extra
        steps = extra.get("iterations", 1) if convergence is None else convergence.iterations
        return max(1, int(steps))

    @property
    def row_labels_(self) -> NDArray[Any]:
        """`labels_` of the rows (n,) of a matrix that was fitted as `bipartite_graph`."""
        labels: NDArray[Any] = self.labels_[: self._n_matrix_rows]
        return labels

    @property
    def column_labels_(self) -> NDArray[Any]:
        """`labels_` of the columns (m,) of a matrix that was fitted as `bipartite_graph`."""
        labels: NDArray[Any] = self.labels_[self._n_matrix_rows :]
        return labels

    @property
    def _n_matrix_rows(self) -> int:
        """Rows of the matrix; AttributeError where nodes are of one kind."""
        sides = sides_of(self.graph_) if hasattr(self, "graph_") else None
        if sides is None:
            raise AttributeError("rows and columns have labels where a bipartite_graph was fitted")
        return sides[0]

    def _remember(self, X: Any) -> None:
        """Keep a reference to the points for new ones to be compared with, and their columns."""
        is_graph = isinstance(X, Graph) or self.affinity in PRECOMPUTED
        self._points = None if is_graph else X
        if not isinstance(X, Graph) and self._preparation is None:  # else those of the table
            check_columns(self, X)

    def _new_points(self, X: Any, columns: int = 0) -> NewPoints | NewShares:
        """Points of the same columns beside those that were fitted; raises InputError.

        `columns` are those of what is wanted of them, which must fit into `memory`.
        """
        check_is_fitted(self)
        if isinstance(self.graph_, DiskGraph):
            raise InputError("new points: the graph of those that were fitted stays on disk")
        if self._points is None:
            raise InputError(
                "new points: a graph or views were fitted, where they have no place; fit points X"
            )
        new = as_rows(self._as_fitted(X))
        needed, budget = 8 * new.shape[0] * columns, self._budget
        if budget is not None and needed > budget:
            raise InputError(
                f"memory: {size_text(budget)} given, but {new.shape[0]} points by {columns} "
                f"columns take {size_text(needed)}; give fewer points at a time, or raise memory"
            )
        if self.graph_.shares is not None:
            return NewShares(new, self.graph_.shares)
        points = as_rows(self._points)
        near = self.n_neighbors, resolved_metric(self.metric, points)
        return NewPoints.beside(points, self.graph_, new, *near)

    def _seed(self) -> int:
        """One integer for everything random in this fit."""
        return int(as_random_state(self.random_state).integers(2**31))

    def _work(
        self,
        X: Any,
        recorder: Recorder,
        seed: int,
        sample_weight: Any = None,
        cost: Cost | None = None,
        beside: int = 0,
    ) -> Workspace:
        """Points, a matrix, a Graph or Views as a graph with what is derived from it; InputError.

        `sample_weight` (n,): how often every row counts; `cost` of this fit, where labels tell
        more of it than the parameters; `beside`: bytes that are held for it beside the points.
        """
        check_choice(self.affinity, AFFINITIES, "affinity")
        views = X
        if isinstance(X, Views) and self.representatives is not None:
            raise InputError("representatives: several graphs have none; leave one of both out")
        X = X.first if isinstance(X, Views) else X
        X = self._in_memory(X, cost) if isinstance(X, DiskGraph) else X
        self._remember(X)
        weights = None if sample_weight is None else as_sample_weight(sample_weight, n_rows(X))
        is_graph, held = isinstance(X, Graph), beside
        if not is_graph and (isinstance(X, np.ndarray) or self.affinity in POINTS):
            held += bytes_of_rows(X)
        self._allow(views if isinstance(views, Views) else X, cost or self.cost(), beside=beside)
        recorder.keep_to(self._allowance, held)
        graph = X
        if not is_graph:
            check_points(self, X, held, cost or self.cost())
            made_by = {name: getattr(self, name) for name in _GRAPH_PARAMETERS}
            made_by["representatives"] = p = self._n_representatives(X)
            if self.representatives == AUTO and self._represented is not None:
                took = "a graph of all points" if p is None else f"{p:,} stand for all points"
                recorder.note(f"representatives: {took}: {self._represented[2]}")
            limits: Any = {"memory": self._budget, "executor": self._searches}
            limits["n_jobs"] = self.n_jobs
            cache = StageCache(recorder, self._kept_in)
            graph = cached_graph(X, weights, made_by, cache, random_state=seed, **limits)
        graph = self._complete(graph, views, weights, seed, recorder)
        return self._view(graph, recorder, held, weights, cost)

    def _points_and_view(
        self,
        X: Any,
        graph: Any,
        recorder: Recorder,
        seed: int,
        *,
        sample_weight: Any,
        cost: Cost,
        needs_points: bool,
        beside: int = 0,
    ) -> tuple[Any, Workspace]:
        """Points, where there are any, and the fit's view of the graph; raises InputError.

        Points on disk stay there unless they are needed. `graph` is one of the points, made before;
        `beside` the bytes that are held for the fit beside the points.
        """
        views, X = X, X.first if isinstance(X, Views) else X
        is_graph = isinstance(X, Graph | DiskGraph) or self.affinity == "precomputed"
        if is_graph and graph is not None:
            raise InputError("graph: X is a graph already; give points as X, or one graph only")
        if is_graph and needs_points:
            raise InputError(
                f"{type(self).__name__}: fits neighbourhoods of points, but only a graph was "
                "given; pass the points as X (and the graph as graph=)"
            )
        if graph is None:
            built = self._work(views, recorder, seed, sample_weight, cost, beside)
            if is_graph or (is_rows(X) and not needs_points):
                return (None if is_graph else X), built  # read when `predict` asks for them
            return (as_points if needs_points else as_rows)(X), built
        graph = graph_of_points(graph, X)
        self._remember(X)
        points = (as_points if needs_points else as_rows)(X)
        held = bytes_of_rows(points) + beside
        weights = as_sample_weight(sample_weight, graph.n_rows)
        self._allow(graph, cost, beside=held)
        graph = self._complete(graph, views, weights, seed, recorder)
        return points, self._view(graph, recorder, held, weights, cost)

    def _grown(self, X: Any, recorder: Recorder) -> Workspace:
        """The view of the fitted graph with new points (m, d) joined, or nodes (m, n + m).

        `graph_` and the points are those of all rows then; vectors are extended. Raises InputError.
        """
        fitted: Any = self  # what fits set has no types
        before, weights = fitted.graph_, getattr(self, "_row_weights", None)
        if not isinstance(before, Graph):
            raise InputError("add: the graph of this fit is on disk; fit again")
        if self._points is None:
            with recorder.stage("joining nodes"):
                graph = joined_nodes(before, unwrapped(X))
        else:
            points = as_rows(self._points)
            if search_bytes(points, self.metric, 1):
                what = "sparse rows" if sp.issparse(points) else f"metric={self.metric!r}"
                raise InputError(f"add: no points can be joined to a graph of {what}; fit again")
            new = as_points(self._as_fitted(X))
            with recorder.stage("joining points"):
                graph = (
                    joined_rows(before, new)
                    if before.shares
                    else joined_points(before, points, new)
                )
            self._points = np.concatenate([points, new.astype(points.dtype, copy=False)])
        if weights is not None:
            weights = np.append(weights, np.ones(graph.n_rows - weights.size))
            fitted._row_weights = weights
        work = self._view(graph, recorder, row_weights=weights)
        extend_vectors(before, work)
        fitted.graph_ = graph
        return work

    def _in_memory(self, stored: DiskGraph, cost: Cost | None) -> Graph:
        """A graph on disk read whole; InputError where it does not fit."""
        if self._budget is not None:
            size = Size(stored.n_nodes, stored.n_entries, 4)
            (cost or self.cost()).of_given().check(size, self._budget, single=True)
        graph = Graph.from_affinity(stored.whole(), stored.info)
        copies, rows = (None if one is None else one[:] for one in (stored.copies, stored.rows))
        return replace(graph, weights=copies, rows=rows)

    def _complete(
        self, graph: Graph, views: Any, weights: Floats | None, seed: int, recorder: Recorder
    ) -> Graph:
        """The graph and the others of `views` as one, rows counted as `weights` say; InputError."""
        cache = StageCache(recorder, self._kept_in)
        if not isinstance(views, Views):
            check_graph_weights(self.graph_weights, 1)
        else:
            origins = [one.derived.origin for one in (graph, *views.others)]
            graph = one_of(graph, views, self.graph_weights, seed, recorder)
            if None not in origins:
                how = origins[1:], graph.info["graph_weights"]
                graph.derived.origin = cache.name_of("several graphs", origins[0], *how)
        if weights is None:
            return graph
        found = graph.weighing(weights)
        found.derived.origin = cache.name_of("weighted graph", graph.derived.origin, weights)
        return found

    def _view(
        self,
        graph: Graph,
        recorder: Recorder,
        held: int = 0,
        row_weights: Floats | None = None,
        cost: Cost | None = None,
    ) -> Workspace:
        """A fit's view of a graph: single precision where double does not fit; InputError.

        `held` are the bytes of the points, which the caller keeps.
        """
        for note in range_notes(graph.info):
            recorder.note(note)
        budget, single = self._budget, False
        recorder.keep_to(self._allowance, held)
        if budget is not None:
            cost, W, room = cost or self.cost(), graph.affinity, budget - held
            single = cost.wants_single(Size(graph.n_nodes, W.nnz), room)
            if single:
                cost.check(Size(graph.n_nodes, W.nnz, W.dtype.itemsize), room, single=True)
                recorder.note(
                    f"memory: {self._halved} in single precision to stay within {size_text(budget)}"
                )
        return Workspace(graph, recorder, self._kept_in, budget, single, held, row_weights)

    def _n_representatives(self, X: Any) -> int | None:
        """How many points stand for all of X, None: each for itself; raises InputError."""
        p = self.representatives
        if p is None or getattr(X, "shares", None) is not None:  # a graph of some already
            return None
        is_points = self.affinity in POINTS and not isinstance(X, Graph | DiskGraph)
        other = p != AUTO and hasattr(X, "shape") and search_bytes(X, self.metric, 1)
        if not is_points or other:
            raise InputError(
                "representatives: they stand for dense points with Euclidean or cosine distances; "
                "give such points, or leave them out"
            )
        if p != AUTO:
            k = getattr(self, "n_clusters", None)
            return check_representatives(p, n_rows(X), k if isinstance(k, int) else None)
        if self._represented is None or self._represented[0] is not X:
            self._represented = X, *automatic_representatives(self, X)
        return self._represented[1]

    def cost(self, n_classes: int | None = None) -> Cost:
        """What a fit with these parameters takes at its peak, whatever the graph.

        `n_classes` are the classes that labels name, None if they are not known yet.
        """
        return eigenvectors(_COLUMNS)

    # --- on disk and on ranks

    def _in_memory_only(self) -> dict[str, bool]:
        """Parameters, and whether their values run in memory alone."""
        return {}

    def _stays_on_disk(self, stored: DiskGraph, cost: Cost | None = None) -> bool:
        """Whether a graph on disk is too large for the memory of an estimator that runs there."""
        data = FitInput(stored.n_nodes, stored.n_entries)
        home = home_for(self._budget, cost or self.cost(), data)
        return DISK in self.homes and home.name != MEMORY

    def _check_home(self, home: str, others: Mapping[str, Any] | None = None) -> None:
        """Raise InputError for a method, an option or other input that does not run in a home.

        `others` is what else was given to `fit`, by name. AtHomeOnlyError names a parameter.
        """
        where = f"on {home}"
        more = ", or give more memory" if home == DISK else ""
        if home not in self.homes:
            raise InputError(f"{type(self).__name__}: does not run {where}; choose another method")
        for name, value in (others or {}).items():
            if value is not None:
                raise InputError(f"{name}: does not run {where}; leave it out{more}")
        self._check()
        for name in (name for name, alone in self._in_memory_only().items() if alone):
            value = getattr(self, name)
            why = ": no preconditioner of graph and constraints in one is made there"
            words = f"{name}: {value!r} does not run {where}{why if value == 'exact' else ''}"
            raise AtHomeOnlyError(f"{words}; leave it out{more}", name)

    def _disk_work(
        self, graph: DiskGraph, columns: int, cost: DiskCost, recorder: Recorder
    ) -> DiskWork:
        """The home of a graph that stays on disk; InputError where `cost` is beyond `memory`."""
        budget, keeper = self._budget, self._kept_in
        recorder.estimator, recorder.progress = f"{type(self).__name__} {DISK}", None
        recorder.keep_to(self._allowance)
        if budget is not None:
            cost.check(budget)
            limit = size_text(budget)
            recorder.note(f"memory: graph and vectors stay on disk to stay within {limit}")
        folder = None if keeper is None else keeper.scratch
        return DiskWork(graph, columns, recorder, folder, keeper, cost.at_rest)
