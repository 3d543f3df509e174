"""A job from files to a file: the request, and what kinds of jobs differ in.

A kind of job (`cluster`, `propagate`) says what it reads beside the data, how it is fitted and what
it answers; everything else is in `run`.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.core.observe import Recorder
from mustlink.core.resources import AUTO, parse_size
from mustlink.errors import InputError
from mustlink.neighbors.affinities import PRECOMPUTED
from mustlink.preprocessing.request import Preparation
from mustlink_io import formats
from mustlink_io.formats import anndata
from mustlink_io.formats.points import Apart, columns_apart
from mustlink_io.hdf5.file_names import FORMS, named_view
from mustlink_io.jobs.carried import refuse_answered
from mustlink_io.jobs.diagnostics import command_line, content_of, findings_of
from mustlink_io.jobs.methods import Method, flag, keeps_sparse, steps_of
from mustlink_io.jobs.side_information import class_shares

# Fields in the order in which they are typed.
_TYPED = (
    *("n_clusters", "method", "labels", "constraints", "soft_labels", "graph", "prior"),
    *("belief", "beliefs", "strict", "confidence", "membership", "hierarchy", "stability"),
)
# Endings of other formats, which HDF5 under their name would be taken for.
_NOT_RESULTS = [ending for ending, form in FORMS.items() if form not in ("h5", "h5ad")]


def _size(memory: int | str | None) -> str | None:
    """What is typed after --memory, in GB where that is as exact; None: nothing, as for "auto"."""
    if memory is None or isinstance(memory, str):
        return {None: "none", AUTO: None}.get(memory, memory)
    text = f"{memory / 10**9:g}GB"
    return text if parse_size(text) == memory else str(memory)


@dataclass(frozen=True, kw_only=True)
class Job(ABC):
    """An estimator to be fitted to a file; `params` holds only what was set, `steps` prepare the
    columns of points before. `sample_weight` is a file that says how often every row counts,
    `views` are other graphs of the same nodes, or `NAME=FILE` other columns of the same rows,
    `text` is a column of texts that are the points, `ids` one that names the rows.
    `time_limit` counts from when the program `began` by `time.perf_counter`, None: from the run.

    `resume` keeps the results of stages after the run, `fresh` ignores those of earlier runs.
    The output has the model (`hdf5.model_tree`), but with `no_model`.
    Where the output is AnnData, the data with the result under `key` added, `in_place` lets it be
    the data file itself, and `overwrite` lets what is there under the key be replaced, or a result
    that has answers of a person.
    `strict`: names of rows in labels that the data do not have are errors, as contradictions are.
    `default_why`: why the method that was taken by default is not the one by evidence.
    """

    data: str
    output: str
    method: str
    labels: str | None = None
    sample_weight: str | None = None
    views: tuple[str, ...] = ()
    read_as: Literal["points", "bipartite"] | None = None
    text: str | None = None
    ids: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    steps: Preparation = field(default_factory=Preparation)
    threads: int | None = None
    memory: int | str | None = AUTO
    time_limit: float | None = None
    began: float | None = None
    resume: bool = False
    fresh: bool = False
    no_model: bool = False
    key: str = anndata.KEY
    in_place: bool = False
    overwrite: bool = False
    strict: bool = False
    default_why: str | None = None

    _not_chosen: ClassVar[tuple[str, ...]] = ("ranks",)  # what leaves no choice among methods
    verb: ClassVar[str]
    methods: ClassVar[Mapping[str, Method]]

    @classmethod
    def of(cls, options: Mapping[str, Any], *, ranks: int | None = None) -> Self:
        """The job that options of the command line ask for, None for those that are not set."""
        params = {name: value for name, value in options.items() if value is not None}
        steps = steps_of(params)
        names = {field.name for field in dataclasses.fields(cls)} - {"params", "steps"}
        own = {name: params.pop(name) for name in names & set(params)}
        all_set = {**params, **own, **({} if ranks is None else {"ranks": ranks})}
        usual: dict[str, Any] = {} if "method" in own else cls.usual(all_set)
        return cls(**usual, **own, params=params, steps=steps)

    @classmethod
    def _chosen(cls, own: Mapping[str, Any], otherwise: str) -> dict[str, Any]:
        """The method by evidence; another where something is set that it does not take."""
        of_methods = {name for method in cls.methods.values() for name in method.options}
        foreign = sorted((of_methods & set(own)) - cls.methods["auto"].options)
        foreign += [name for name in cls._not_chosen if own.get(name)]
        if not foreign:
            return {"method": "auto"}
        given = ", ".join(flag(name) for name in foreign)
        return {"method": otherwise, "default_why": f"{given}: no option of -m auto"}

    @classmethod
    @abstractmethod
    def usual(cls, own: Mapping[str, Any]) -> dict[str, Any]:
        """The method where none is named, by what else is set."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to say about the method that nobody named."""
        if self.default_why is None:
            return ()
        return (f"method: {self.method}, as {self.default_why}; -m names another",)

    @property
    def inputs(self) -> dict[str, str]:
        """Role of every file that is read."""
        files = {"data": self.data, "labels": self.labels, "weights": self.sample_weight}
        files |= self._more_inputs()
        for number, (name, text) in enumerate(map(named_view, self.views), 1):
            files[f"view {name or number}"] = text
        return {role: text for role, text in files.items() if text is not None}

    def _more_inputs(self) -> dict[str, str | None]:
        return {}

    @property
    def apart(self) -> tuple[Apart, ...]:
        """Columns of the data's own table that are labels or weights, and no coordinates."""
        return columns_apart(self.data, self.labels, self.sample_weight, self.ids)

    @property
    def target(self) -> anndata.Target | None:
        """Where the result goes if it goes into a copy of the data, as AnnData has it."""
        if formats.parse(self.output).suffix != anndata.ENDING:
            return None
        return anndata.Target(formats.parse(self.data).path, self.output, self.key, self.overwrite)

    @property
    def command(self) -> str:
        """The command line of this job."""
        own = {flag(name): getattr(self, name) for name in _TYPED if hasattr(self, name)}
        into = {"--key": self.key, "--overwrite": self.overwrite} if self.target else {}
        options = {
            **{name: None if value is False else value for name, value in own.items()},
            **dict.fromkeys(self.steps.options(), True),
            "--view": self.views,
            "--weights": self.sample_weight,
            "--as": self.read_as,
            "--text": self.text,
            "--id": self.ids,
            **{flag(name): value for name, value in self.params.items()},
            "--threads": self.threads,
            "--memory": _size(self.memory),
            "--time": self.time_limit,
            **{name: value or None for name, value in into.items()},
            **({"--in-place": True} if self.in_place else {"-o": self.output}),
            "--no-model": self.no_model or None,
        }
        return command_line(self.verb, self.data, options)

    @property
    def takes_sparse(self) -> bool:
        """Whether sparse rows stay so: methods that fit points and other distances want arrays."""
        fits_points = "points" in self.methods[self.method].needs
        return not fits_points and keeps_sparse(self.params)

    @property
    def wanted(self) -> formats.Want | None:
        """What the data is read as, whatever it looks like."""
        if self.text is not None:
            return formats.TextColumn(self.text)
        given = {"precomputed": "graph", "precomputed_nearest_neighbors": "distances"}
        by_affinity: Any = given.get(str(self.params.get("affinity")))
        return self.methods[self.method].reads or self.read_as or by_affinity

    def beside(self, n: int) -> int:
        """Bytes of n rows that are held beside the data from the reading on."""
        return 0

    @property
    def doubles(self) -> bool:
        """Whether every node is twice in the graph that is solved, as who sends and receives."""
        return self.methods[self.method].reads == "directed"

    @property
    def neighbours(self) -> int:
        """Neighbours of a point in the graph that will be made."""
        return int(self.estimator().n_neighbors)

    def stated_cost(self) -> Any:
        """What the estimator states of its memory (`mustlink.context.method_cost.Cost`)."""
        k = getattr(self, "n_clusters", None)
        return self.estimator().cost(None if isinstance(k, int) else self._classes_named())

    def estimator(self, side: Any = None, **more: Any) -> Any:
        """The estimator with its parameters and `more`; `side` is what `read` returned, if it did.

        Shares of the classes, which are of the labels, are left out before that.
        """
        params = {"random_state": 0, **self.params, **more}
        shares = params.pop("class_shares", None)
        labels = None if shares is None or side is None else self.labels_of(side)
        if labels is not None:
            params["class_mass"] = class_shares(shares, labels)
        return self.methods[self.method].kind(**params)

    def _classes_named(self) -> int | None:
        """Classes in the file of the labels; None where it is not there yet, or is no such file."""
        if self.labels is None or not formats.parse(self.labels).path.exists():
            return None
        try:
            codes = formats.load_classes(self.labels).codes
        except InputError:  # the reader says why
            return None
        return int(np.unique(codes[codes >= 0]).size) or None

    def settled(self, *, is_graph: bool) -> Self:
        """The same job where it is known whether the data are a graph."""
        return self

    def check(self) -> None:
        """Raise InputError for what is wrong without looking into a file."""
        self._check_output()
        method = self.methods[self.method]
        for name in self.params:
            if name not in method.options:
                able = ", ".join(key for key, m in self.methods.items() if name in m.options)
                raise InputError(
                    f"{flag(name)}: no option of -m {self.method}; it belongs to {able}"
                )
        if self.views and method.reads is not None:
            raise InputError(
                f"--view: -m {self.method} takes one {method.reads} graph; leave it out"
            )
        names = [name for name, _ in map(named_view, self.views) if name is not None]
        if len(set(names)) < len(names):
            raise InputError(f"--view {names[-1]}: two have one name; call one of them otherwise")
        if not self.views and "graph_weights" in self.params:
            raise InputError("--view-weights: there is one graph only; give others with --view")
        if self.read_as is not None and method.reads is not None:
            raise InputError(
                f"--as {self.read_as}: -m {self.method} takes a {method.reads} graph; leave it out"
            )
        if self.read_as is not None and self.params.get("affinity") in PRECOMPUTED:
            raise InputError(
                f"--as {self.read_as}: --affinity {self.params['affinity']} says that the data is "
                "a graph; leave one of them out"
            )
        self._check_text(method)
        if "labels" in method.needs and self.labels is None:
            raise InputError(f"-m {self.method}: needs labels of some nodes; give --labels FILE")
        self.estimator()._check()

    def _check_text(self, method: Method) -> None:
        from mustlink.neighbors.sparse_points import SPARSE

        if self.text is None:
            return
        if self.read_as is not None:
            raise InputError(f"--as {self.read_as}: --text reads texts as points; leave it out")
        if method.reads is not None or "points" in method.needs:
            raise InputError(
                f"-m {self.method}: takes no texts; leave out --text, or choose another"
            )
        affinity = self.params.get("affinity", "knn")
        if affinity in PRECOMPUTED or not self.takes_sparse:
            name = "metric" if affinity in ("auto", "knn") else "affinity"
            raise InputError(
                f"{flag(name)} {self.params[name]}: --text makes sparse points, for --affinity knn "
                f"and --metric {', '.join(SPARSE)}; leave it out"
            )
        folder, output = (Path(formats.parse(one).path) for one in (self.data, self.output))
        if folder.is_dir() and folder.resolve() in output.resolve().parents:
            raise InputError(f"{output}: is in the folder of the texts; write it elsewhere")

    def _check_output(self) -> None:
        place = formats.parse(self.output)
        if place.suffix in _NOT_RESULTS and self.output not in self.inputs.values():
            name = place.path.name
            into = f"--into {self.data} -o {name}" if place.suffix == ".graphml" else name
            raise InputError(
                f"{self.output}: results are written as .h5, or into .h5ad; write out.h5, then: "
                f"mustlink convert out.h5 {into}"
            )
        data = formats.parse(self.data)
        if self.target is not None and data.suffix != anndata.ENDING:
            raise InputError(
                f"{self.output}: is a copy of AnnData with the result in it, but {self.data} is "
                "not AnnData; write .h5"
            )
        if self.target is not None and self.read_as == "bipartite":
            raise InputError(
                f"{self.output}: holds answers of observations, not of columns; write .h5"
            )
        if self.target is None:
            if not self.overwrite:
                refuse_answered(place.path)
            for name, is_set in (
                ("--in-place", self.in_place),
                (f"--key {self.key}", self.key != anndata.KEY),
            ):
                if is_set:
                    raise InputError(f"{name}: is for an output in .h5ad, not {self.output}")

    def check_count(self, n_nodes: int | None = None) -> None:  # noqa: B027
        """Raise InputError for a number of clusters that makes no sense, of so many nodes."""

    @property
    def clusters_planned(self) -> int:
        """Clusters that a plan reckons with, 0 where nobody asks for clusters."""
        return 0

    def check_graph(self, where: Any) -> None:  # noqa: B027
        """Raise InputError where data that are a graph, in `where`, will not do."""

    @abstractmethod
    def read(
        self, data: formats.InputData, labels: formats.Labels | None, recorder: Recorder
    ) -> Any:
        """Read what else there is, checked against the data; raises InputError."""

    @abstractmethod
    def fit(self, estimator: Any, data: Any, side: Any, **more: Any) -> None:
        """Fit to the data with what `read` returned; `more` are observer and sample_weight."""

    @abstractmethod
    def labels_of(self, side: Any) -> NDArray[np.int64] | None:
        """Labels (n,), -1 unknown, if they are all that `read` found."""

    def answers(self, estimator: Any, side: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Answers as entries of the result file, and findings for its report."""
        findings = {**findings_of(estimator, side), "command": self.command}
        return content_of(estimator, side), findings

    def more_findings(self, estimator: Any, recorder: Recorder) -> dict[str, Any]:
        """What was asked for that takes further fits, as entries of the report."""
        return {}

    @property
    @abstractmethod
    def extras(self) -> frozenset[str]:
        """Entries of the result file that are made where they are requested."""
