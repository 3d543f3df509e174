"""The method chosen: a few candidates on one graph, judged by what is known and held out of them.

`candidates` says which there are, and weighs what they predict against what is usual for as much
side information: means of `bench/defaults.py` on its choosing sets.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.advice.auto_input import AutoInput
from mustlink.advice.candidates import (
    COLUMNS,
    LABELS,
    NCUT,
    NOTHING,
    OF_NETWORKS,
    OF_PAIRS,
    OF_POINTS,
    PAIRS,
    PAIRS_OF_NETWORKS,
    WAYS,
    Candidate,
    Trial,
    Way,
    compare,
    ranked,
    reason,
)
from mustlink.advice.trials import Priors, Trials
from mustlink.clusterers.clusterer import AUTO, USUAL_CLUSTERS
from mustlink.constraints import Constraints
from mustlink.context.method_cost import (
    MOST_COUNTED,
    Cost,
    DiskCost,
    eigenvectors,
    home_for,
)
from mustlink.core.check import as_integer, as_points
from mustlink.core.names import estimator_of
from mustlink.core.observe import Observer, Recorder, Unheard, recorded
from mustlink.core.scikit_learn import ClusterMixin, check_is_fitted
from mustlink.core.state import before, fits, fits_again
from mustlink.eigen.work import DISK, MEMORY
from mustlink.errors import InputError, MustlinkError
from mustlink.estimators.graph_estimator import GraphEstimator, graph_of_points, input_of
from mustlink.estimators.side_information import doubt_content
from mustlink.graph import Graph
from mustlink.graph.disk_graph import DiskGraph
from mustlink.graph.forms import unwrapped
from mustlink.graph.several import several
from mustlink.neighbors.affinities import PRECOMPUTED
from mustlink.neighbors.points_by_rows import is_rows
from mustlink.selection.constrained_fit import USUAL

Ints = NDArray[np.int64]

_WHOLE = 3000  # points up to which candidates are judged on all of them, else on a sample
_WHOLE_GRAPH = 20_000  # nodes of a graph, of which no sample can be taken
_TRUST = {"labels": 60.0, "pairs": 150.0}  # held out, that count as much as what is usual
_SHARE = 1 / 3  # of the time that is left, for choosing
_FOLLOWS = ("memory", "n_jobs", "time_limit")  # parameters that a refit takes anew


@dataclass(eq=False, repr=False)
class Auto(ClusterMixin, GraphEstimator):
    """The method that predicts best what was held out, chosen among a few and fitted.

    * Nothing known: `NCut`.
    * Labels of all classes: `GFHF`, alone and with a prior: the mean of what clusters of `NCut`,
      `FastGE` or `CSP` say, on points a classifier on columns and smooth vectors, on networks
      `LLGC`, which is a candidate there itself. Answers are classes.
    * Pairs, labels of one class or of fewer than K: clusterers that take them.

    Every candidate is fitted without a part of what is known and predicts that part; beside it
    counts what is usual for as much side information, which decides alone where labels are one or
    two a class. Of more than 3,000 points the candidates are fitted to a sample. Answers are those
    of the chosen method, as are all methods and attributes that are not named here (`predict`,
    `membership_`, `transform`, `calibrate` …). A saved one is the chosen method.

    `n_clusters` K: None takes the number of classes among the labels, "auto" counts where there are
    none (`GraphClusterer`); without labels None counts, too. For the graph see `GraphEstimator`.

    After `fit`: `labels_` (n,), `method_`, the name of the chosen candidate, `estimator_`, fitted;
    `candidates_`, a dict each: `name`, `usual` (adjusted Rand index on other data), `held_out`
    (what it predicted; None: not tried), `score` (both weighed; the largest is taken), `seconds`
    of trying it, `chosen`, `note`; `report_.choices["auto"]` has the method and why.

    Cost: on a sample some twenty to fifty fits to at most some thousand points, then one to all.
    """

    n_clusters: int | str | None = None
    _: KW_ONLY

    homes: ClassVar[frozenset[str]] = frozenset({MEMORY, DISK})
    _known = NOTHING  # what kind of side information the last fit had

    def __getattr__(self, name: str) -> Any:
        """What the chosen method has; AttributeError before a fit, and for private names."""
        fitted = self.__dict__.get("estimator_")
        if fitted is None or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(fitted, name)

    def cost(self, n_classes: int | None = None) -> Cost:
        """That of the costliest candidate, as many smooth vectors as CSP takes."""
        k = self.n_clusters if isinstance(self.n_clusters, int) else n_classes
        usual = USUAL_CLUSTERS if self.n_clusters is None else MOST_COUNTED
        k = k if isinstance(k, int) and k > 0 else usual
        return eigenvectors(USUAL * k, least=k)

    def cost_of_clusters(self, k: int, n: int, nnz: int) -> DiskCost:
        """What a fit of k clusters takes on disk: that of the costliest candidate there."""
        found: DiskCost = estimator_of("CSP")(n_clusters=k).cost_of_clusters(k, n, nnz)
        return found

    @fits
    def fit(
        self,
        X: Any,
        y: Any = None,
        constraints: Constraints | None = None,
        graph: Any = None,
        graphs: Any = None,
        sample_weight: Any = None,
        observer: Observer | Recorder | None = None,
        prior: Any = None,
        belief: Any = None,
    ) -> Self:
        """Choose a method for points (n, d), an affinity (n, n) or a Graph, and fit it.

        `y` (n,) are labels of some rows, -1 or "" unknown, `constraints` anything else, or more.
        `graph` is a neighbour graph of the points that was made before, `graphs` are other graphs
        of the same nodes, `sample_weight` (n,) says how often every row counts. `prior` and
        `belief` are as in `GFHF.fit` where there are labels of all classes, else as in `CSP.fit`.
        Raises InputError.
        """
        self._check()
        recorder = recorded(observer)
        with self._running(recorder):
            X = self._prepared(X, recorder)
            self._used_seed = self._seed()
            known = {"y": y, "constraints": constraints, "prior": prior, "belief": belief}
            self._decide(self._data(X, graph, graphs, sample_weight, **known), recorder)
        if self._preparation is not None:
            self.prepared_by(self._preparation)
        return self

    @fits_again
    def refit(
        self,
        y: Any = None,
        constraints: Constraints | None = None,
        observer: Observer | Recorder | None = None,
    ) -> Self:
        """Fit the chosen method to the same graph with other labels `y` (n,) or constraints.

        They are all that is then known. Where they are of another kind, as pairs after labels,
        another method is chosen, on the same graph.
        """
        self._check()
        if isinstance(y, Constraints):
            y, constraints = constraints, y
        recorder, was = recorded(observer), before(self)
        fitted = was.estimator_
        with self._running(recorder):
            data = AutoInput.of(self.n_clusters, fitted.graph_, y, constraints)
            if fitted._points is not None:
                data = replace(data, X=fitted._points, points=fitted._points)
            if isinstance(fitted.graph_, Graph):
                data = replace(data, graph=fitted.graph_)
            if data.kind == self._known:
                self._again(was, data, recorder)
            elif data.graph is None:
                raise InputError("refit: the graph is on disk; give what is known to fit")
            else:
                self._decide(data, recorder)
        return self

    @fits_again
    def add(
        self,
        X: Any,
        y: Any = None,
        constraints: Constraints | None = None,
        observer: Observer | Recorder | None = None,
    ) -> Self:
        """Join new points (m, d) to the fitted ones, or nodes by their edges: the chosen method's.

        `y` (m,) are labels of the new, `constraints` more of all rows.
        """
        was, given = before(self), {"y": y, "constraints": constraints}
        known = {name: one for name, one in given.items() if one is not None}
        takes = {NOTHING: (), LABELS: ("y",), PAIRS: ("y", "constraints")}[self._known]
        for name in known:
            if name not in takes:
                raise InputError(f"{name}: {was.method_} takes none; refit with all that is known")
        fitted = copy(was.estimator_).add(X, **known, observer=observer)
        self._conclude(fitted, was.candidates_, was.report_.choices[AUTO][1])
        return self

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> Ints:
        """`fit(X, y, ...)`, then `labels_`."""
        found: Ints = self.fit(X, y, **options).labels_
        return found

    def save(self, path: Any, *, data: bool = True) -> None:
        """Write the chosen method, fitted, as its own `save` does; `mustlink.load` gives that."""
        check_is_fitted(self)
        self.estimator_.save(path, data=data)

    def prepared_by(self, preparation: Any) -> Self:
        """Say how the fitted points were prepared, see `GraphEstimator.prepared_by`."""
        self.estimator_.prepared_by(preparation)
        return self

    def _check(self) -> None:
        if self.n_clusters is not None and self.n_clusters != AUTO:
            as_integer(self.n_clusters, "n_clusters", 1)

    # --- choosing

    def _data(self, X: Any, graph: Any, graphs: Any, sample_weight: Any, **known: Any) -> AutoInput:
        """What a fit is given, checked; raises InputError."""
        X, graph = unwrapped(X), unwrapped(graph)
        is_graph = isinstance(X, Graph | DiskGraph)
        if graph is not None:
            if X is None or is_graph or self.affinity in PRECOMPUTED:
                raise InputError("graph: X is a graph already; give points as X, or one graph only")
            graph = graph_of_points(graph, X)
        rows = X
        if X is None and isinstance(graphs, Sequence) and len(graphs):
            rows = unwrapped(graphs[0])
        found = AutoInput.of(self.n_clusters, rows, **known)
        points = None
        if X is not None and not is_graph and self.affinity == "knn":
            points = X if is_rows(X) else as_points(X)
        given = X if isinstance(X, Graph) and graphs is None and sample_weight is None else graph
        return replace(
            found, X=X, points=points, graph=given, graphs=graphs, sample_weight=sample_weight
        )

    def _decide(self, data: AutoInput, recorder: Recorder) -> None:
        """Choose among the ways that there are, fit the best; sets what `fit` sets."""
        self._known = data.kind
        in_memory = data.graph is not None or self._in_reach(data)
        ways = [way for way in self._ways(data) if self._runs(way, data, in_memory)]
        if data.kind == NOTHING and (data.y is not None or data.constraints is not None):
            doubt_content(data.known, recorder, is_given=True)
        if data.graph is None and in_memory and self._wants_graph(data, ways):
            data = replace(data, graph=self._graph_of(data, recorder))
        level = data.level
        tried = [Candidate(way.name, way.usual[level]) for way in ways]
        held = 0
        if len(ways) > 1 and in_memory:
            held = self._judge(data, tried, recorder)
        self._fit_best(data, tried, held, recorder)

    def _ways(self, data: AutoInput) -> tuple[Way, ...]:
        if data.kind == NOTHING:
            return (NCUT,)
        network = data.graph.is_network if data.graph is not None else data.points is None
        if data.kind == PAIRS:
            return PAIRS_OF_NETWORKS if network else OF_PAIRS
        return OF_NETWORKS if network else OF_POINTS

    def _runs(self, way: Way, data: AutoInput, in_memory: bool) -> bool:
        """Whether a way can be fitted to the data where they are."""
        if COLUMNS in way.parts and (data.points is None or is_rows(data.points)):
            return False
        if way.parts and (data.prior is not None or not in_memory):
            return False
        if data.kind == PAIRS and data.prior is not None and way.method != "CSP":
            return False
        return in_memory or DISK in estimator_of(way.method).homes

    def _in_reach(self, data: AutoInput) -> bool:
        """Whether graph and vectors fit into the memory that is named."""
        limit = self._budget
        found = input_of(data.X, data.graphs, self.affinity, self.n_neighbors)
        if limit is None or found is None:
            return not isinstance(data.X, DiskGraph)
        return home_for(limit, self.cost(data.n_classes), found[0]).name == MEMORY

    def _wants_graph(self, data: AutoInput, ways: Sequence[Way]) -> bool:
        """Whether the graph of all rows is made before a method is chosen."""
        few = data.points is None or data.n <= _WHOLE
        return len(ways) > 1 and (few or data.graphs is not None)

    def _graph_of(self, data: AutoInput, recorder: Recorder) -> Graph:
        """The graph of all rows, of several the one they make; InputError."""
        X = several(data.X, data.graphs, lambda graph: data.known)
        cost = self.cost(data.n_classes)
        return self._work(X, recorder, self._used_seed, data.sample_weight, cost).graph

    def _judge(self, data: AutoInput, tried: Sequence[Candidate], recorder: Recorder) -> int:
        """Hold out a part of what is known of all rows, or of a sample; how much there was."""
        if data.n > (_WHOLE_GRAPH if data.points is None else _WHOLE):
            if data.points is None:
                return 0
            made_by = {name: getattr(self, name) for name in ("metric", "weights")}
            made_by["n_neighbors"] = self.n_neighbors
            data = data.sampled(made_by, self._used_seed)
        if data.graph is None or not data.enough:
            return 0
        quiet = Recorder(Unheard(), recorder.deadline.share(_SHARE))
        quiet.budget = recorder.budget
        trials = Trials(self, data, quiet)

        def tried_on(one: Candidate, fold: Any) -> Trial:
            began = time.perf_counter()
            try:
                right, failure = trials.right(WAYS[one.name], fold), ""
            except MustlinkError as error:
                right, failure = np.full(1, np.nan), str(error)
            return Trial(right, time.perf_counter() - began, failure)

        folds = data.folds(self._used_seed)
        return compare(tried, folds, tried_on, _TRUST[data.kind], recorder, quiet.deadline)

    def _fit_best(
        self, data: AutoInput, tried: Sequence[Candidate], held: int, recorder: Recorder
    ) -> None:
        """Fit the best to all rows; where it cannot be fitted the next, with a note."""
        failed = None
        for one in ranked(tried):
            try:
                fitted = self._fitted(WAYS[one.name], data, recorder)
            except InputError as error:
                failed = error if failed is None else failed
                one.note, one.score = str(error), -np.inf
                continue
            for other in tried:
                if other.score == -np.inf and other.note:
                    recorder.note(f"{other.name}: could not be fitted: {other.note}")
            one.chosen = True
            self._conclude(
                fitted, [other.row() for other in tried], reason(one, tried, data.kind, held)
            )
            return
        assert failed is not None
        raise failed

    def _fitted(self, way: Way, data: AutoInput, recorder: Recorder) -> Any:
        """An estimator, fitted to all rows as a way says; raises InputError."""
        graph = data.graph
        if way.parts and graph is None:
            graph = self._graph_of(data, recorder)
        made = self._made(way.method, data).keep_in(self._keeper).allow(self._allowed)
        made.search_on(getattr(self, "_searches", None))
        more: dict[str, Any] = {"observer": recorder, "sample_weight": data.sample_weight}
        if data.graphs is not None and graph is None:
            more["graphs"] = data.graphs
        if data.kind == LABELS:
            more["prior"], more["belief"] = data.prior, data.belief
            more |= self._prior(way, data, graph, recorder)
            if graph is None:
                return made.fit(data.X, data.labels_given, **more)
            if data.points is None:
                return made.fit(graph, data.labels_given, **more)
            return made.fit(data.X, data.labels_given, graph=graph, **more)
        if data.kind == PAIRS:
            more |= {"y": data.y, "prior": data.prior, "belief": data.belief}
        found = made.fit(data.X if graph is None else graph, constraints=data.constraints, **more)
        if graph is not None and data.points is not None:
            found._remember(data.X)
        return found

    def _prior(self, way: Way, data: AutoInput, graph: Any, recorder: Recorder) -> dict[str, Any]:
        """The prior by the parts of a way and its belief; empty where it has none."""
        if not way.parts:
            return {}
        with recorder.stage("prior"):
            priors = Priors(self, data, graph, Recorder(Unheard(), recorder.deadline))
            return dict(zip(("prior", "belief"), priors.of(way, data.labels), strict=True))

    def _made(self, method: str, data: AutoInput) -> Any:
        """An estimator with the parameters of this one that it has, not fitted."""
        kind = estimator_of(method)
        how = {
            name: one for name, one in self.get_params().items() if name in kind._get_param_names()
        }
        if not isinstance(self.random_state, int):
            how["random_state"] = self._used_seed
        if "n_clusters" in how and self.n_clusters is None and self._counts(data):
            how["n_clusters"] = AUTO
        if data.graph is not None:
            how["graph_weights"] = AUTO
        return kind(**how)

    def _counts(self, data: AutoInput) -> bool:
        """Whether clusters can be counted where nobody says how many: on a graph in memory."""
        return data.graph is not None or self._in_reach(data)

    def _again(self, was: Any, data: AutoInput, recorder: Recorder) -> None:
        """The method of the fit before, refitted."""
        way, fitted = WAYS[was.method_], copy(was.estimator_)
        own = fitted.get_params()
        fitted.set_params(**{name: getattr(self, name) for name in _FOLLOWS if name in own})
        if "n_clusters" in own and self.n_clusters is not None:
            fitted.set_params(n_clusters=self.n_clusters)
        more: dict[str, Any] = {}
        if data.kind == LABELS:
            more = {**self._prior(way, data, data.graph, recorder), "y": data.labels_given}
        elif data.kind == PAIRS:
            more = {"y": data.y, "constraints": data.constraints}
        fitted.refit(observer=recorder, **more)
        self._conclude(fitted, was.candidates_, was.estimator_.report_.choices[AUTO][1])

    def _conclude(self, fitted: Any, candidates: list[dict[str, Any]], why: str) -> None:
        """Set what a fit sets: the method that answers, and how it was chosen."""
        self.estimator_: Any = fitted
        self.candidates_: Any = candidates
        self.method_: str = next(one["name"] for one in candidates if one["chosen"])
        report = fitted.report_
        fitted.report_ = replace(
            report,
            choices={AUTO: [self.method_, why], **report.choices},
            extra={**report.extra, "auto_candidates": candidates},
        )
