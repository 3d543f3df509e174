"""`mustlink cluster` and `propagate`: data and what is known of them to clusters, or to classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.context.method_cost import MOST_COUNTED
from mustlink.core.observe import Recorder
from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.formats import results
from mustlink_io.jobs.carried import note_lost, of_kept
from mustlink_io.jobs.job import Job
from mustlink_io.jobs.methods import GRAPH_OPTIONS, METHODS, PROPAGATORS, Method, flag
from mustlink_io.jobs.side_information import (
    class_labels,
    load_believed,
    load_constraints,
    load_graph,
    load_soft_labels,
    prior_findings,
    refuse_contradictions,
)

_DRAWS, _LEFT_OUT = 5, 0.5  # fits to a graph without this share of its edges
_SOFT = 40  # bytes a node and column: the shares, a copy, and what CSR has of them
ON_GRAPHS, ON_PICTURES = "llgc", "gfhf"
_DOUBLE = 8


@dataclass(frozen=True, kw_only=True)
class ClusterJob(Job):
    """A request to `mustlink cluster`; `soft_labels` is a file of shares of the classes.

    `belief` is a number or a file of how much each row of that is believed.
    """

    n_clusters: int | str
    method: str = "csp"
    constraints: str | None = None
    soft_labels: str | None = None
    belief: float | str | None = None
    beliefs: Mapping[str, float] = field(default_factory=dict)
    confidence: bool = False
    membership: bool = False
    hierarchy: bool = False
    stability: bool = False

    _not_chosen: ClassVar[tuple[str, ...]] = ("ranks", "soft_labels", "beliefs")
    verb: ClassVar[str] = "cluster"
    methods: ClassVar[Mapping[str, Method]] = METHODS

    @classmethod
    def usual(cls, own: Mapping[str, Any]) -> dict[str, Any]:
        """The method where none is named, by whether anything is known."""
        known = any(own.get(name) for name in ("labels", "constraints", "soft_labels"))
        return cls._chosen(own, "csp") if known else {"method": "ncut"}

    def settled(self, *, is_graph: bool) -> Self:
        """With CSP for a picture where the method would be chosen: strokes are not drawn at random.

        What is held out of strokes lies beside what is not, and says nothing about the rest.
        """
        of_picture = is_graph and results.about(self.data).pixels is not None
        if not of_picture or self.method != "auto":
            return self
        return replace(self, method="csp", default_why="strokes of a picture say little beside it")

    def _more_inputs(self) -> dict[str, str | None]:
        believed = self.belief if isinstance(self.belief, str) else None
        files = {"constraints": self.constraints, "soft labels": self.soft_labels}
        return {**files, "belief": believed}

    def check(self) -> None:
        """Raise InputError for what is wrong without looking into a file."""
        self.check_count()
        takes = self._takes
        if not takes and (self.labels or self.constraints):
            able = ", ".join(name for name, m in METHODS.items() if m.takes)
            raise InputError(
                f"-m {self.method}: uses no labels or constraints; choose -m {able}, or leave "
                "them out"
                + ("; or let k-means start from them: --init labels" if self._may_start else "")
            )
        if self.constraints is not None and "constraints" not in takes:
            raise InputError(
                f"-m {self.method}: takes --labels only; leave out --constraints, or choose -m csp"
            )
        known = self.labels or self.constraints or self.soft_labels
        if self.beliefs and ("constraints" not in takes or not known):
            raise InputError(
                "--beliefs: weighs kinds of constraints; give --labels or --constraints to a "
                "method that takes both, such as -m csp"
            )
        self._check_soft_labels()
        super().check()

    def _check_soft_labels(self) -> None:
        if self.soft_labels is None:
            if self.belief is not None:
                raise InputError(
                    "--belief: no soft labels that it is a belief in; give --soft-labels FILE too"
                )
            return
        if "constraints" not in self._takes:
            raise InputError(
                f"--soft-labels: -m {self.method} takes none; choose a method that takes "
                "constraints, such as -m csp, or mustlink propagate --prior"
            )
        if isinstance(self.belief, float) and not 0 <= self.belief <= 1:
            raise InputError(
                f"--belief {self.belief:g}: it must lie between 0 and 1, as sure as a label"
            )

    def beside(self, n: int) -> int:
        """Bytes of the soft labels: shares, and the columns made of them."""
        return 0 if self.soft_labels is None else _SOFT * n * (self.clusters_planned + 1)

    def check_count(self, n_nodes: int | None = None) -> None:
        """Raise InputError for less than 2 clusters, or more than nodes."""
        if isinstance(self.n_clusters, str):
            return
        if self.n_clusters < 2:
            raise InputError(f"-k {self.n_clusters}: ask for at least 2 clusters")
        if n_nodes is not None and self.n_clusters > n_nodes:
            raise InputError(f"-k {self.n_clusters}: more clusters than the {n_nodes} nodes")

    @property
    def clusters_planned(self) -> int:
        """K; of auto the classes of the labels, or as many as are counted in graphs of points."""
        if isinstance(self.n_clusters, str):
            return self._classes_named() or MOST_COUNTED
        return self.n_clusters

    def read(
        self, data: formats.InputData, labels: formats.Labels | None, recorder: Recorder
    ) -> Any:
        """Labels of a method that takes nothing else, else Constraints or None."""
        n_nodes = data.n_fitted
        self.check_count(n_nodes)
        if self._labels_only:
            if labels is None and not self._may_start:
                return None
            return class_labels(of_kept(labels, data.kept), self.labels)
        known = None if labels is None else labels.codes
        constraints = load_constraints(
            known,
            self.constraints,
            data.n_rows,
            data.names,
            self.labels,
            self.beliefs,
            soft=self.soft_labels is not None,
        )
        if self.soft_labels is not None:
            where = self.soft_labels, self.belief
            more = load_soft_labels(*where, data, labels, self.data, recorder)
            more = more.weighted(**self.beliefs)
            constraints = more if constraints is None else constraints + more
        if constraints is not None and self.strict:
            refuse_contradictions(constraints, self.constraints or self.labels)
        if constraints is None or data.kept is None:
            return constraints
        left = constraints[data.kept]
        note_lost(recorder, "pairs", len(constraints.pairs), len(left.pairs))
        return left

    @property
    def _takes(self) -> frozenset[str]:
        """Side information that is used: by the method, or by where its k-means starts."""
        starts = self._may_start and self.params.get("init") == "labels"
        return frozenset({"labels"}) if starts else self.methods[self.method].takes

    @property
    def _may_start(self) -> bool:
        """Whether labels are of use to a method that takes nothing, as a start."""
        method = self.methods[self.method]
        return not method.takes and "init" in method.options

    @property
    def _labels_only(self) -> bool:
        return self._takes == {"labels"}

    def estimator(self, side: Any = None, **more: Any) -> Any:
        """The estimator with its parameters, K among them."""
        return super().estimator(side, n_clusters=self.n_clusters, **more)

    def fit(self, estimator: Any, data: Any, side: Any, **more: Any) -> None:
        """Fit to points or a graph."""
        if self._labels_only:
            estimator.fit(data, side, **more)
        else:
            estimator.fit(data, constraints=side, **more)
        if self.confidence or self.membership:
            estimator.calibrate(more.get("observer"))

    def more_findings(self, estimator: Any, recorder: Recorder) -> dict[str, Any]:
        """How stable the clusters are; a note where there is no time for it."""
        if not self.stability:
            return {}
        from mustlink.advice.stability import stability

        if recorder.deadline.remaining() < _DRAWS * estimator.report_.seconds:
            recorder.skip_for_time("how stable the clusters are is not known")
            return {}
        with recorder.stage("stability without some edges"):
            found = stability(estimator, _DRAWS, _LEFT_OUT)
        of_clusters = [None if np.isnan(one) else float(one) for one in found.clusters]
        values = {"draws": _DRAWS, "share": _LEFT_OUT, "mean": found.mean, "clusters": of_clusters}
        return {"stability": values}

    @property
    def extras(self) -> frozenset[str]:
        """What else the result tells."""
        requested = {
            "/confidence": self.confidence or self.membership,
            "/membership": self.membership,
            "/hierarchy/linkage": self.hierarchy,
        }
        return frozenset(name for name, one in requested.items() if one)

    def labels_of(self, side: Any) -> NDArray[np.int64] | None:
        """Labels (n,), -1 unknown, if they are all that `read` found."""
        if self._labels_only:
            return np.asarray(side)
        return side.labels if side is not None and side.kind == "labels" else None


@dataclass(frozen=True)
class Sides:
    """Labels (n,), -1 unknown, the neighbour graph of the points and the prior, if any."""

    labels: NDArray[np.int64]
    graph: Any | None
    believed: tuple[NDArray[np.float64], NDArray[np.float64]] | None


@dataclass(frozen=True, kw_only=True)
class PropagateJob(Job):
    """A request to `mustlink propagate`; `graph` is a graph of the points in `data`.

    `on_graphs` is the method where the data are a graph, None: the same. `prior` is a file of
    distributions over the classes, `belief` a number or a file of how much each is believed.
    `membership` asks for chances, by labels held out.
    """

    graph: str | None = None
    prior: str | None = None
    belief: float | str | None = None
    on_graphs: str | None = None
    membership: bool = False

    verb: ClassVar[str] = "propagate"
    methods: ClassVar[Mapping[str, Method]] = PROPAGATORS

    @classmethod
    def usual(cls, own: Mapping[str, Any]) -> dict[str, Any]:
        """The methods where none is named: for points, and for a graph.

        Chosen by evidence, unless something is set that only other methods take.
        """
        found = cls._chosen(own, "gfhf" if own.get("prior") else "poisson")
        return {**found, "on_graphs": "auto" if found["method"] == "auto" else ON_GRAPHS}

    def _more_inputs(self) -> dict[str, str | None]:
        believed = self.belief if isinstance(self.belief, str) else None
        return {"graph": self.graph, "prior": self.prior, "belief": believed}

    def settled(self, *, is_graph: bool) -> Self:
        """With the method for what the data are."""
        if self.on_graphs is None or not is_graph:
            return self
        of_picture = results.about(self.data).pixels is not None
        return replace(self, method=ON_PICTURES if of_picture else self.on_graphs)

    @property
    def neighbours(self) -> int:
        """Neighbours of a point in the graph that will be made."""
        return 0 if self.graph is not None else super().neighbours

    def check(self) -> None:
        """Raise InputError for what is wrong without looking into a file."""
        super().check()
        self._check_prior()
        if self.graph is None:
            return
        # local fits take the nearest of the neighbours in the graph
        fits = {"n_neighbors", "metric"} if "points" in self.methods[self.method].needs else set()
        for name in sorted((GRAPH_OPTIONS - fits) & set(self.params)):
            raise InputError(f"{flag(name)}: --graph says who neighbours are; leave it out")

    def _check_prior(self) -> None:
        if self.prior is None:
            if self.belief is not None:
                raise InputError("--belief: no prior that it is a belief in; give --prior FILE too")
            return
        if "prior" not in self.methods[self.method].takes:
            raise InputError(
                f"--prior: -m {self.method} minimises nothing that it could be added to; use -m "
                "gfhf or llgc"
            )
        if isinstance(self.belief, float) and not 0 <= self.belief < float("inf"):
            raise InputError(f"--belief {self.belief:g}: it must be finite and 0 or more")

    def beside(self, n: int) -> int:
        """Bytes of the prior and the beliefs."""
        return 0 if self.prior is None else _DOUBLE * n * (self.stated_cost().columns + 1)

    def estimator(self, side: Any = None, **more: Any) -> Any:
        """The estimator with its parameters; one that chooses answers with classes."""
        if self.methods[self.method].estimator == "Auto":
            more["answers"] = "classes"
        return super().estimator(side, **more)

    def stated_cost(self) -> Any:
        """What the estimator states, with what it keeps of a prior."""
        cost = super().stated_cost()
        return cost if self.prior is None else cost.with_prior()

    def check_graph(self, where: Any) -> None:
        """Raise InputError where only points will do, or where there would be two graphs."""
        if "points" in self.methods[self.method].needs:
            raise InputError(
                f"-m {self.method}: fits neighbourhoods of points, but {where} is a graph; give "
                "the points, and the graph as --graph"
            )
        if self.graph is not None:
            raise InputError(f"{where}: is a graph already; leave out --graph {self.graph}")

    def read(
        self, data: formats.InputData, labels: formats.Labels | None, recorder: Recorder
    ) -> Sides:
        """Labels and the graph."""
        if data.kind == "graph":
            self.check_graph(data.place)
            if self.on_graphs not in (None, self.method):
                recorder.note(
                    f"method: {self.method}, as the graph is that of a picture, where {ON_GRAPHS} "
                    "finds less of what strokes mark; -m names another"
                )
        kept = of_kept(labels, data.kept)
        known = class_labels(kept, self.labels)
        graph = None if self.graph is None else load_graph(self.graph, data)
        if self.prior is None or kept is None:
            return Sides(known, graph, None)
        believed = load_believed(self.prior, self.belief, data, kept, self.data, recorder)
        return Sides(known, graph, believed)

    def fit(self, estimator: Any, data: Any, side: Sides, **more: Any) -> None:
        """Fit to points, points and their graph, or a graph."""
        if side.believed is not None:
            more["prior"], more["belief"] = side.believed
        estimator.fit(data, side.labels, graph=side.graph, **more)
        if self.membership:
            estimator.calibrate(more.get("observer"))

    def labels_of(self, side: Sides) -> NDArray[np.int64] | None:
        """Labels (n,), -1 unknown."""
        return side.labels

    def answers(self, estimator: Any, side: Sides) -> tuple[dict[str, Any], dict[str, Any]]:
        """As of every job, with what a prior did."""
        content, findings = super().answers(estimator, side.labels)
        if side.believed is not None:
            prior = prior_findings(*side.believed, side.labels, estimator)
            findings["constraints"]["prior"] = prior
        return content, findings

    @property
    def extras(self) -> frozenset[str]:
        """What else the result tells."""
        return frozenset({"/membership"} if self.membership else ())
