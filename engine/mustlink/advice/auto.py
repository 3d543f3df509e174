"""The method chosen: a few candidates on one graph, judged by what is known and held out of them.

`candidates` says which there are, and weighs what they predict against what is usual for as much
side information: means of `bench/defaults.py` on its choosing sets.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.advice.auto_input import AutoInput, Trials
from mustlink.advice.candidates import (
    BOTH_OF_NETWORKS,
    LABELS,
    NCUT,
    NOTHING,
    OF_BOTH,
    OF_NETWORKS,
    OF_PAIRS,
    OF_POINTS,
    PAIRS,
    PAIRS_OF_NETWORKS,
    WAYS,
    WITHOUT_COLUMNS,
    Candidate,
    Held,
    Trial,
    Way,
    compare,
    ranked,
    reason,
)
from mustlink.clusterers.clusterer import AUTO, USUAL_CLUSTERS
from mustlink.clusterers.label_clusters import (
    ALONE,
    COLUMNS,
    NAMED,
    LabelClusters,
    Priors,
    made_like,
)
from mustlink.constraints import Constraints
from mustlink.context.method_cost import (
    MOST_COUNTED,
    MOST_TRIED,
    Cost,
    DiskCost,
    eigenvectors,
    home_for,
)
from mustlink.core.check import as_integer, check_choice, encoded
from mustlink.core.names import estimator_of
from mustlink.core.observe import Observer, Recorder, Unheard, recorded
from mustlink.core.state import ClusterMixin, before, fits, fits_again, found_by_fit
from mustlink.eigen.work import DISK, MEMORY
from mustlink.errors import InputError, MustlinkError
from mustlink.estimators.fit_input import graph_of_points, graphs_of_views, input_of, warn_if_empty
from mustlink.estimators.graph_estimator import GraphEstimator
from mustlink.graph import Graph
from mustlink.graph.disk_graph import DiskGraph
from mustlink.graph.forms import unwrapped
from mustlink.graph.several import several
from mustlink.neighbors.affinities import PRECOMPUTED
from mustlink.neighbors.distances import POINTS, as_rows
from mustlink.neighbors.points_by_rows import is_rows
from mustlink.selection.constrained_fit import USUAL

Ints = NDArray[np.int64]

_WHOLE = 3000  # points up to which candidates are judged on all of them, else on a sample
_ENOUGH = {"labels": 60.0, "pairs": 150.0}  # held out, of which all predicted is enough
_TRUST = {"labels": 30.0, "pairs": 150.0}  # held out, that count as much as what is usual
_SHARE = 1 / 3  # of the time that is left, for choosing
CLUSTERS, CLASSES = "clusters", "classes"
_FOLLOWS = ("memory", "n_jobs", "time_limit")  # parameters that a refit takes anew


def _without_columns(points: Any) -> bool:
    """Whether nothing is learned from columns: sparse rows, rows read by blocks, none."""
    return points is None or is_rows(points) or sp.issparse(points)


@dataclass(eq=False, repr=False)
class Auto(ClusterMixin, GraphEstimator):
    """The method that predicts best what was held out, chosen among a few and fitted.

    * Nothing known: `NCut`.
    * Labels of all classes: `GFHF`, alone and with a prior. On points a classifier on columns, with
      smooth vectors or alone, or the mean of it and of what clusters of `FastGE` and `NCut` or,
      with six labels a class or more, `CSP` say; on networks that of clusters of `NCut` and
      `CSCGFHF` and of `LLGC`, which is a candidate there itself. Clusters of `NCut` that the labels
      only name are one, too, on up to 3,000 points with one or two labels a class, those of
      `FastGE` with six.
    * Pairs, labels of one class or of fewer than K: clusterers that take them. In memory single
      nodes then move to where their pairs and neighbours want them, `satisfaction.moved_by_pairs`.
      Where all K classes have labels, too, also these spread, with the same moves.

    Every candidate is fitted without a part of what is known and predicts that part; beside it
    counts what is usual for as much side information, and of labels what answers tell about the
    edges; these decide alone where labels are one or two a class. Of more than 3,000 points the
    candidates are fitted to a sample. Answers are those of the chosen method, as are all methods
    and attributes that are not named here (`predict`, `membership_`, `confidence_`, `embedding_`,
    `hierarchy_`, `calibrate` …).

    `answers`: "clusters" have numbers from 0; of labels of all classes cluster c is that of
    `classes_[c]`, and `embedding_` (n, K) are the shares of the classes. "classes": `labels_` are
    classes, and the rest is that of a propagator; labels of all classes are needed.

    `n_clusters` K: None takes the number of classes among the labels, "auto" counts where there are
    none (`GraphClusterer`); without labels None counts, too. For the graph see `GraphEstimator`.

    After `fit`: `labels_` (n,), `method_`, the name of the chosen candidate, `estimator_`, fitted;
    `candidates_`, a dict each: `name`, `usual` (adjusted Rand index on other data), `edges`
    (what answers by labels tell about them, as a share of what the best tell), `agrees` (with the
    other candidates, of few pairs: mean adjusted Rand index), `held_out` (what it
    predicted, of labels each class by its size; None: not tried), `score` (all weighed; the
    largest is taken, but the one with the fewest parts of those that predict all of 60 labels or
    more), `seconds` of trying it, `chosen`, `note`; `report_.choices["auto"]` has the method and
    why.

    Cost: on a sample some twenty to fifty fits to at most some thousand points, then one to all.
    """

    n_clusters: int | str | None = None
    _: KW_ONLY
    answers: str = CLUSTERS

    homes: ClassVar[frozenset[str]] = frozenset({MEMORY, DISK})
    _informed: ClassVar[bool] = True  # whether it takes constraints
    _known = NOTHING  # what kind of side information the last fit had
    _amount = 0  # labels and pairs that the method was chosen by

    def __getattr__(self, name: str) -> Any:
        """What the chosen method has; AttributeError before a fit, and for private names."""
        fitted = self.__dict__.get("estimator_")
        if fitted is None or name.startswith("_"):
            first = "" if name.startswith("_") else "; call fit first: the method that it takes may"
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{first}")
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
        views: Any = None,
    ) -> Self:
        """Choose a method for points (n, d), an affinity (n, n) or a Graph, and fit it.

        `y` (n,) are labels of some rows, -1 or "" unknown, `constraints` anything else, or more.
        `graph` is a neighbour graph of the points that was made before, `graphs` are other graphs
        of the same nodes, `views` other columns of the same rows (`CSP.fit`), `sample_weight` (n,)
        says how often every row counts. `prior` and `belief` are as in `GFHF.fit` where there are
        labels of all classes, else as in `CSP.fit`. Raises InputError.
        """
        self._check()
        recorder = recorded(observer)
        with self._running(recorder):
            X = self._prepared(X, recorder)
            graphs = graphs_of_views(self, X, graphs, views, recorder, sample_weight)
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

        They are all that is then known. A method is chosen anew, on the same graph, where they are
        of another kind, as pairs after labels, or twice or half as many as at the last choice.
        Until then clusterers of its prior keep what they have chosen, or found without labels.
        Clusters keep their numbers, or have those of their classes.
        """
        self._check()
        if isinstance(y, Constraints):
            y, constraints = constraints, y
        recorder, was = recorded(observer), before(self)
        fitted = was.estimator_
        with self._running(recorder):
            data = self._input(fitted.graph_, y=y, constraints=constraints)
            if fitted._points is not None:
                data = replace(data, X=fitted._points, points=fitted._points)
            if isinstance(fitted.graph_, Graph):
                data = replace(data, graph=fitted.graph_)
            similar = 0.5 <= (data.amount + 1) / (self._amount + 1) <= 2
            known = was.method_ in WAYS  # a model of another version may have one that is not
            if known and data.kind == self._known and (similar or data.graph is None):
                self._again(was, data, recorder)
            elif data.graph is None:
                raise InputError("refit: the graph is on disk; give what is known to fit")
            else:
                self._decide(data, recorder)
                self._follow(was, recorder)
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
                raise InputError(
                    f"{name}: {was.method_} takes none of new rows; add these alone, then refit "
                    "with all that is known"
                )
        fitted = copy(was.estimator_).add(X, **known, observer=observer)
        why = was.report_.choices.get(AUTO, ["", ""])[1]
        self._conclude(fitted, was.candidates_, why)
        if "classes_" in vars(was):
            self.classes_: Any = was.classes_
        return self

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> Ints:
        """`fit(X, y, ...)`, then `labels_`."""
        found: Ints = self.fit(X, y, **options).labels_
        return found

    @classmethod
    def after(cls, fitted: Any) -> Self:
        """One whose fit is that of `NCut`: the next refit, by what is then known, chooses."""
        own = set(cls._get_param_names())
        found = cls(**{one: value for one, value in fitted.get_params().items() if one in own})
        found.estimator_, found.method_ = fitted, NCUT.name
        found.candidates_ = [replace(Candidate(NCUT.name, 0.0), chosen=True).row()]
        found._used_seed = fitted._used_seed
        found_by_fit(found, "estimator_", "method_", "candidates_", "_used_seed")
        return found

    def prepared_by(self, preparation: Any) -> Self:
        """Say how the fitted points were prepared, see `GraphEstimator.prepared_by`."""
        self.estimator_.prepared_by(preparation)
        return self

    def _check(self) -> None:
        if self.n_clusters is not None and self.n_clusters != AUTO:
            as_integer(self.n_clusters, "n_clusters", 1)
        check_choice(self.answers, (CLUSTERS, CLASSES), "answers")

    # --- choosing

    def _data(self, X: Any, graph: Any, graphs: Any, sample_weight: Any, **known: Any) -> AutoInput:
        """What a fit is given, checked; raises InputError."""
        is_graph = isinstance(X, Graph | DiskGraph)
        if graph is not None:
            if X is None or is_graph or self.affinity in PRECOMPUTED:
                raise InputError("graph: X is a graph already; give points as X, or one graph only")
            graph = graph_of_points(graph, X)
        rows = X
        if X is None and isinstance(graphs, Sequence) and len(graphs):
            rows = unwrapped(graphs[0])
        found = self._input(rows, **known)
        points = None
        if X is not None and not is_graph and self.affinity in POINTS:
            points = X if is_rows(X) else as_rows(X)
        given = X if isinstance(X, Graph) and graphs is None and sample_weight is None else graph
        return replace(
            found, X=X, points=points, graph=given, graphs=graphs, sample_weight=sample_weight
        )

    def _input(self, X: Any, **known: Any) -> AutoInput:
        """What is known of X; a prior beside labels is of rows, which clusterers take."""
        found = AutoInput.of(self.n_clusters, X, **known)
        if self.answers == CLASSES and found.kind != LABELS:
            raise InputError('answers: "classes" need labels of every class, and no pairs')
        if found.prior is not None and self.answers == CLUSTERS:
            return replace(found, kind=PAIRS)
        return found

    def _decide(self, data: AutoInput, recorder: Recorder) -> None:
        """Choose among the ways that there are, fit the best; sets what `fit` sets."""
        in_memory = data.graph is not None or self._in_reach(data)
        if data.kind == LABELS and self.answers == CLUSTERS and not in_memory:
            data = replace(data, kind=PAIRS)
            recorder.note("method: CSP, as the graph stays on disk, where nothing else is tried")
        ways = [way for way in self._ways(data) if self._runs(way, data, in_memory)]
        if data.kind == NOTHING and (data.y is not None or data.constraints is not None):
            warn_if_empty(data.known, recorder, is_given=True)
        if data.graph is None and in_memory and self._wants_graph(data, ways):
            data = replace(data, graph=self._graph_of(data, recorder))
        self._known, self._amount = data.kind, data.amount  # by the graph, as a refit counts
        level = data.level
        tried = [Candidate(way.name, way.usual[level] or 0.0) for way in ways]
        held = Held()
        if len(ways) > 1 and in_memory:
            held = self._judge(data, tried, recorder)
        self._fit_best(data, tried, held, recorder)

    def _ways(self, data: AutoInput) -> tuple[Way, ...]:
        if data.kind == NOTHING:
            return (NCUT,)
        network = data.is_network
        if data.kind == PAIRS:
            both = (BOTH_OF_NETWORKS if network else OF_BOTH) if data.all_classes else ()
            return *(PAIRS_OF_NETWORKS if network else OF_PAIRS), *both
        if network:
            return OF_NETWORKS
        return WITHOUT_COLUMNS if _without_columns(data.points) else OF_POINTS

    def _runs(self, way: Way, data: AutoInput, in_memory: bool) -> bool:
        """Whether a way is a candidate, and can be fitted to the data where they are."""
        if way.usual[data.level] is None:
            return False
        if _without_columns(data.points) and {COLUMNS, ALONE} & set(way.parts):
            return False
        if way.parts and (data.prior is not None or not in_memory):
            return False
        if NAMED in way.parts and data.points is not None and data.n > _WHOLE:
            return False  # clusters of a sample say little of those of all, which nothing judges
        if data.kind == PAIRS and data.is_soft and way.method != "CSP":
            return False
        if data.kind == PAIRS and way.parts and self._n_representatives(data.X) is not None:
            return False
        return in_memory or DISK in estimator_of(way.method).homes

    def _in_reach(self, data: AutoInput) -> bool:
        """Whether graph and vectors fit into the memory that is named."""
        limit = self._budget
        if data.points is not None and self._n_representatives(data.X) is not None:
            return True
        found = input_of(data.X, data.graphs, self.affinity, self.n_neighbors, self.metric)
        if limit is None or found is None:
            return not isinstance(data.X, DiskGraph)
        return home_for(limit, self.cost(data.n_classes), found[0]).name == MEMORY

    def _wants_graph(self, data: AutoInput, ways: Sequence[Way]) -> bool:
        """Whether the graph of all rows is made before a method is chosen."""
        few = data.points is None or data.n <= _WHOLE
        return len(ways) > 1 and (few or data.graphs is not None)

    def _graph_of(self, data: AutoInput, recorder: Recorder) -> Graph:
        """The graph of all rows, of several the one they make; InputError.

        With `representatives="auto"` what labels held out say of GFHF on either decides.
        """
        X, seed = data.X, self._used_seed
        if data.graphs is not None:
            X = several(X, data.graphs, lambda graph: data.known)
        if data.kind == LABELS and data.sample_weight is None:
            tried: Any = self._made(OF_POINTS[0], data).allow(self._allowed)
            graph: Graph | None = tried._graph_by_evidence(X, recorder, seed, data.labels)
            if graph is not None:
                return graph
        cost = self.cost(data.n_classes)
        return self._work(X, recorder, seed, data.sample_weight, cost).graph

    def _judge(self, data: AutoInput, tried: Sequence[Candidate], recorder: Recorder) -> Held:
        """Hold out a part of what is known of all rows, or of a sample; what that was."""
        if data.n > (MOST_TRIED if data.points is None else _WHOLE):
            if data.points is None:
                return Held()
            made_by = {name: getattr(self, name) for name in ("metric", "weights")}
            made_by["n_neighbors"] = self.n_neighbors
            data = data.sampled(made_by, self._used_seed)
        if data.kind == LABELS and data.graph is not None:
            data = replace(data, known=Constraints.from_labels(data.said))
        if data.graph is None:
            return Held()
        quiet = Recorder(Unheard(), recorder.deadline.share(_SHARE))
        quiet.budget = recorder.budget
        trials = Trials(self, data, quiet)

        def tried_on(one: Candidate, fold: Any) -> Trial:
            began = time.perf_counter()
            try:
                right, weight = trials.right(WAYS[one.name], fold)
                failure = ""
            except MustlinkError as error:
                right, weight, failure = np.full(1, np.nan), np.ones(1), str(error)
            return Trial(right, weight, time.perf_counter() - began, failure)

        spread, folds = data.kind == LABELS, data.folds() if data.enough else []

        def evidence(one: Candidate) -> Any:
            with suppress(MustlinkError):
                way = WAYS[one.name]
                return trials.nats(way) if spread else trials.clusters(way)
            return 0.0 if spread else np.zeros(data.n, dtype=np.int64)

        how = (evidence,) if spread or not folds else ()
        trust = _TRUST[data.kind]
        amount = compare(tried, folds, tried_on, trust, recorder, quiet.deadline, *how)
        if not (spread and amount):
            return Held(amount)
        rows = np.concatenate(folds[: len(tried[0].right)])
        return Held(amount, rows, data.labels[rows])

    def _fit_best(
        self, data: AutoInput, tried: Sequence[Candidate], held: Held, recorder: Recorder
    ) -> None:
        """Fit the best to all rows; where it cannot be fitted the next, with a note."""
        failed = None
        for one in ranked(tried, enough=held.amount >= _ENOUGH.get(data.kind, np.inf)):
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
            rows, why = [other.row() for other in tried], reason(one, tried, data.kind, held.n)
            known = data.labels if held.classes is not None else None
            self._conclude(fitted, rows, why, data.y, held.of(one, fitted.labels_, known))
            return
        assert failed is not None
        raise failed

    def _fitted(self, way: Way, data: AutoInput, recorder: Recorder) -> Any:
        """An estimator, fitted to all rows as a way says; raises InputError."""
        graph = data.graph
        if way.parts and graph is None:
            graph = self._graph_of(data, recorder)
        spreads = self.answers == CLUSTERS and (data.kind == LABELS or bool(way.parts))
        made = self._made(way, replace(data, graph=graph), spreads=spreads)
        made.keep_in(self._kept_in).allow(self._allowed)
        made.search_on(self._searches)
        more: dict[str, Any] = {"observer": recorder, "sample_weight": data.sample_weight}
        if data.graphs is not None and graph is None:
            more["graphs"] = data.graphs
        if data.kind == LABELS and self.answers == CLASSES:
            more["prior"], more["belief"] = data.prior, data.belief
            more |= self._prior(way, data, graph, recorder)
            if graph is None:
                return made.fit(data.X, data.named_labels, **more)
            if data.points is None:
                return made.fit(graph, data.named_labels, **more)
            return made.fit(data.X, data.named_labels, graph=graph, **more)
        if spreads:
            made._columns_of = None if graph is None else data.points
        if data.kind != NOTHING:
            more |= {"y": data.y, "prior": data.prior, "belief": data.belief}
        found = made.fit(data.X if graph is None else graph, constraints=data.constraints, **more)
        if graph is not None and data.points is not None:
            found._remember(data.X)
        found.__dict__.pop("_columns_of", None)
        return found

    def _prior(self, way: Way, data: AutoInput, graph: Any, recorder: Recorder) -> dict[str, Any]:
        """The prior by the parts of a way and its belief; empty where it has none."""
        if not way.parts:
            return {}
        with recorder.stage("prior"):
            quiet = Recorder(Unheard(), recorder.deadline)
            work = self._view(graph, quiet, cost=self.cost(data.n_classes))
            priors = Priors(self, work, data.points, self._used_seed)
            found = priors.of(way.parts, way.belief, data.labels)
        return dict(zip(("prior", "belief"), found, strict=True))

    def _made(self, way: Way, data: AutoInput, *, spreads: bool = False) -> Any:
        """An estimator with the parameters of this one that it has, not fitted.

        Of a way, or of what it `spreads` with its prior: `LabelClusters`.
        """
        kind = LabelClusters if spreads else estimator_of(way.method)
        made = made_like(self, kind, self._used_seed)
        if spreads:
            made.set_params(method=way.method, parts=way.parts, belief=way.belief)
        own = made.get_params()
        for name in ("graph_weights", "representatives"):
            if name in own and data.graph is None:
                made.set_params(**{name: getattr(self, name)})
        if "n_clusters" in own and self.n_clusters is None and self._counts(data):
            made.set_params(n_clusters=AUTO)
        if data.pull:
            made._pull = data.pull
        return made

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
        if data.kind == LABELS and self.answers == CLASSES:
            more = {**self._prior(way, data, data.graph, recorder), "y": data.named_labels}
        elif data.kind != NOTHING:
            more = {"y": data.y, "constraints": data.constraints}
        fitted.refit(observer=recorder, **more)
        why = was.estimator_.report_.choices.get(AUTO, ["", ""])[1]
        self._conclude(fitted, was.candidates_, why, data.y)

    def _follow(self, was: Any, recorder: Recorder) -> None:
        """Give clusters of another method the numbers and names of the fit before."""
        fitted, old = self.estimator_, was.estimator_
        if self.answers == CLUSTERS:
            fitted._names, fitted._first_new = old._names, old._first_new
            fitted._numbered_as(old.labels_, recorder)

    def _conclude(
        self,
        fitted: Any,
        candidates: list[dict[str, Any]],
        why: str,
        y: Any = None,
        right: dict[str, Any] | None = None,
    ) -> None:
        """Set what a fit sets: the method that answers by labels `y` (n,), how, and how `right`."""
        if y is not None and self.answers == CLUSTERS and hasattr(fitted, "classes_"):
            names = encoded(y, "y")[1]
            self.classes_ = fitted.classes_ if names is None else names[fitted.classes_]
        self.estimator_: Any = fitted
        self.candidates_: Any = candidates
        self.method_: str = next(one["name"] for one in candidates if one["chosen"])
        report = fitted.report_
        fitted.report_ = replace(
            report,
            choices={AUTO: [self.method_, why], **report.choices},
            extra={
                **report.extra,
                "auto_candidates": candidates,
                **({} if right is None else {"held_out": right}),
            },
        )
