"""`mustlink propagate`: a data set and labels of a few nodes to a class of every node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.core.observe import Recorder
from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.formats import results
from mustlink_io.jobs.carried import of_kept
from mustlink_io.jobs.job import Job
from mustlink_io.jobs.methods import GRAPH_OPTIONS, PROPAGATORS, Method, flag
from mustlink_io.jobs.side_information import (
    class_labels,
    load_believed,
    load_graph,
    prior_findings,
)

ON_GRAPHS, ON_PICTURES = "llgc", "gfhf"
_DOUBLE = 8


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
