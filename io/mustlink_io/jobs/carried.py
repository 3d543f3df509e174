"""What a result says that its estimator does not know: names, rows that were left out, origin."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import h5py
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core.check import called_by_most
from mustlink.core.observe import Recorder
from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.formats import results
from mustlink_io.hdf5 import result, store
from mustlink_io.hdf5.result import Input
from mustlink_io.hdf5.store import FileNames, stored_names
from mustlink_io.jobs.diagnostics import confidence_findings
from mustlink_io.jobs.points import RowSource


def with_names(outcome: dict[str, Any], names: Mapping[int, str]) -> dict[str, Any]:
    """The same with `names` of the classes by their numbers."""
    constraints = outcome.get("constraints")
    if constraints is None:
        return outcome
    named = {
        key: [{**row, "class_name": names.get(row["class"])} for row in constraints[key]]
        for key in ("strays", "overruled")
        if key in constraints
    }
    return {**outcome, "constraints": {**constraints, **named}}


def named_in(remarks: Iterable[str], names: Mapping[int, str]) -> list[str]:
    """Remarks of the engine, with the name of a cluster behind its number."""

    def called(found: re.Match[str]) -> str:
        name = names.get(int(found[1]))
        return f"{found[0]} ({name})" if name and name != found[1] else found[0]

    return [re.sub(r"\bcluster (\d+)\b", called, one) for one in remarks]


Rows = NDArray[np.int64]

_OF_NODES = ("/embedding", "/label_distributions", "/membership", "/confidence")  # 0 without node
_CODES = ("/labels", "/constraints/labels", "/hierarchy/leaves")  # -1


def of_kept(labels: formats.Labels | None, kept: Rows | None) -> formats.Labels | None:
    """Labels of the rows that are kept."""
    if labels is None or kept is None:
        return labels
    return replace(labels, codes=labels.codes[kept])


def note_lost(recorder: Recorder, what: str, total: int, left: int) -> None:
    """Say how many labels or pairs are of rows that were left out."""
    if left < total:
        recorder.note(
            f"drop_missing: {total - left:,} of {total:,} {what} are of rows that are left out and "
            "not used; --impute keeps them"
        )


def content_of_all(content: Mapping[str, Any], kept: Rows, n: int) -> dict[str, Any]:
    """Entries of a result file for all n rows: a row that was left out has label -1."""
    found = {**content, "/kept": kept}
    for name in (*_CODES, *_OF_NODES):
        if name in content:
            values = np.asarray(content[name])
            found[name] = np.full((n, *values.shape[1:]), -(name in _CODES), dtype=values.dtype)
            found[name][kept] = values
    if "/constraints/pairs" in content:
        found["/constraints/pairs"] = kept[np.asarray(content["/constraints/pairs"])]
    return found


def outcome_of_all(outcome: Mapping[str, Any], kept: Rows) -> dict[str, Any]:
    """What a run found out, its nodes numbered as the rows of the file."""
    constraints = outcome.get("constraints")
    if constraints is None:
        return dict(outcome)
    origin = dict(constraints)
    if "worst" in constraints:
        origin["worst"] = [
            {**row, "nodes": kept[row["nodes"]].tolist()} for row in constraints["worst"]
        ]
    for key in ("strays", "overruled"):
        if key in constraints:
            origin[key] = [{**row, "node": int(kept[row["node"]])} for row in constraints[key]]
    return {**outcome, "constraints": origin}


def graph_of_all(affinity: sp.csr_matrix, kept: Rows, n: int) -> sp.csr_matrix:
    """The same graph with a node without edges for every row that was left out."""
    entries = affinity.tocoo()
    ends = (kept[entries.row], kept[entries.col])
    return sp.csr_matrix((entries.data, ends), shape=(n, n))


_SURE = ("/confidence", "/membership")
_TREE = "/hierarchy/linkage"
_PREPARATION = "preparation"
Entries = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Carried:
    """Of a result: `entries` beside its model, answers that were `wanted`, and how it was made.

    `classes` are names of classes by the numbers that labels have, `clusters` those of clusters,
    or again of classes, by the numbers of the answer. `kept` (m,) are the rows of `n_rows` that
    the model has, where others were left out: its node i is row kept[i].
    """

    names: FileNames | NDArray[Any] | None = None
    entries: Mapping[str, Any] = field(default_factory=dict)
    wanted: frozenset[str] = frozenset()
    classes: Mapping[int, str] = field(default_factory=dict)
    clusters: Mapping[int, str] = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)
    steps: Any = None
    inputs: tuple[Input, ...] = ()
    kept: Rows | None = None
    n_rows: int = 0

    @classmethod
    def of_files(
        cls, data: formats.InputData, labels: formats.Labels | None, wanted: frozenset[str]
    ) -> Self:
        """What the files of data and labels tell."""
        names = data.stored_names if data.names is None else data.names
        classes = None if labels is None else labels.classes
        return cls(
            None if names is None else names.texts,
            wanted=wanted,
            classes=dict(enumerate(() if classes is None else classes)),
            kept=data.kept,
            n_rows=data.n_rows,
        )

    @classmethod
    def of(cls, path: Path, n_nodes: int) -> Self:
        """Read it of a result file whose model has so many nodes; raises InputError."""
        with store.open_h5(path) as file:
            made = result.read(file, str(path)) or result.Result()
            data = made.report.data
            clusters = results.names_in(file, "/class_names", "/classes")
            apart = store.find(file, "/classes") is None
            n = store.dataset(file, "/labels").shape[0]
            return cls(
                stored_names(file, path),
                _entries(file),
                frozenset(one for one in (*_SURE, _TREE) if store.find(file, one) is not None),
                results.names_in(file, "/constraints/class_names") if apart else clusters,
                clusters,
                {
                    "command": made.report.command,
                    "data": None if data is None else data.model_dump(),
                },
                made.parameters.get(_PREPARATION),
                tuple(made.inputs),
                _kept(file, path, n, n_nodes),
                n,
            )

    def rows(self, nodes: Rows) -> Rows:
        """The rows of the file that nodes of the model are."""
        return nodes if self.kept is None else self.kept[nodes]

    def row(self, node: int) -> int:
        """The row of the file that a node is."""
        return node if self.kept is None else int(self.kept[node])

    def node(self, row: int) -> int:
        """The node that a row is; raises InputError for one that was left out."""
        if self.kept is None:
            return row
        at = int(np.searchsorted(self.kept, row))
        if at == self.kept.size or self.kept[at] != row:
            raise InputError(f"row {row} was left out of the fit (missing values, or no words)")
        return at

    def called(self, node: int) -> str | None:
        """The name of a node; None where rows have no names."""
        row = self.row(node)
        return None if self.names is None else store.text(self.names[row : row + 1][0])

    def source(self, folder: Path) -> RowSource:
        """What the nodes are in their data, which may be in this folder."""
        command = self.origin.get("command")
        found = RowSource.of(self.inputs, command, self.n_rows, folder)
        if self.kept is None:
            return found
        return replace(found, columns={name: of[self.kept] for name, of in found.columns.items()})

    def then(self, command: str, answers: Path | None = None) -> Self:
        """The same once something else was done, with answers in a file."""
        before = self.origin.get("command")
        origin = {**self.origin, "command": f"{before} && {command}" if before else command}
        inputs = self.inputs
        if answers is not None:
            size, digest = answers.stat().st_size, formats.sha256(answers)
            inputs += (Input(role="answers", name=str(answers), bytes=size, sha256=digest),)
        return replace(self, origin=origin, inputs=inputs)

    def with_classes(self, names: Mapping[int, str]) -> Self:
        """With names of classes that are new."""
        return replace(self, classes={**self.classes, **names})

    def prepare(self, estimator: Any) -> None:
        """Have the fit make what is wanted of it, before its model is written."""
        if _TREE in self.wanted:
            _ = estimator.hierarchy_
        if self._sure(estimator):
            _ = estimator.calibration_

    def beside(
        self, estimator: Any, content: Entries, findings: Entries
    ) -> tuple[Entries, Entries]:
        """Entries of the file and findings of the report, with those that are carried.

        Of all rows: one that was left out has label -1.
        """
        found = {**content, **self.entries, **self._called(estimator, content)}
        if self.names is not None:
            found["/names"] = self.names
        findings = {**with_names(findings, self._of_classes(content)), **self.origin}
        wanted = self._sure(estimator)
        if wanted:
            shares = estimator.membership_ if "/membership" in wanted else None
            spreads = hasattr(estimator, "label_distributions_")
            own = shares.max(axis=1) if spreads and shares is not None else estimator.confidence_
            found |= {"/confidence": own} | ({} if shares is None else {"/membership": shares})
            known_labels = content.get("/constraints/labels")
            findings |= confidence_findings(
                own, content["/labels"], known_labels, estimator.calibration_
            )
        if self.kept is None:
            return found, findings
        return content_of_all(found, self.kept, self.n_rows), outcome_of_all(findings, self.kept)

    @property
    def parameters(self) -> dict[str, Any]:
        """How the columns were prepared, as a parameter of the run."""
        return {} if self.steps is None else {_PREPARATION: self.steps}

    def _sure(self, estimator: Any) -> frozenset[str]:
        """What is requested of how sure answers are; propagators have their lead in any case."""
        spreads = hasattr(estimator, "label_distributions_")
        return self.wanted & frozenset(_SURE[1:] if spreads else _SURE)

    def _of_classes(self, content: Entries) -> Mapping[int, str]:
        own = content.get("/class_names")
        if own is None or "/classes" not in content:
            return self.classes
        return dict(zip(np.asarray(content["/classes"]).tolist(), own, strict=True))

    def _called(self, estimator: Any, content: Entries) -> Entries:
        """Names of clusters or classes; those of the estimator come first."""
        own, found = "/class_names" in content, Entries()
        if not self.classes and not self.clusters:
            return found
        if hasattr(estimator, "label_distributions_"):
            numbers = np.asarray(content["/classes"]).tolist()
            names = [self.classes.get(one, str(one)) for one in numbers]
            return found if own else {"/class_names": names}
        labels = content["/labels"]
        known_labels = content.get("/constraints/labels", np.full_like(labels, -1))
        classes: dict[int, str] = {}
        if self.classes:
            classes = {at: str(at) for at in np.unique(known_labels[known_labels >= 0]).tolist()}
            classes |= self.classes
            names = [classes.get(at, "") for at in range(max(classes) + 1)]
            found["/constraints/class_names"] = names
        if not own:
            most = max(estimator.report_.n_clusters, max(self.clusters, default=-1) + 1)
            names = called_by_most(labels, known_labels, classes, most)
            names = [one or self.clusters.get(at, "") for at, one in enumerate(names)]
            found["/class_names"] = names
        return found


_ANSWERED = re.compile(r"(^|&& )mustlink (answer|ui) ")


def refuse_answered(path: Path) -> None:
    """Raise InputError where a result is there that has answers of a person in it."""
    if not (path.exists() and h5py.is_hdf5(path)):
        return
    command = None
    with suppress(InputError), store.open_h5(path) as file:  # a damaged one is no loss
        command = (result.read(file, str(path)) or result.Result()).report.command
    if _ANSWERED.search(command or ""):
        raise InputError(
            f"{path}: holds answers of a person; give another name with -o to keep them, or "
            "--overwrite to replace them"
        )


def _kept(file: h5py.File, path: Path, n: int, n_nodes: int) -> Rows | None:
    """Rows that are in the model, which has so many nodes; None for all n. Raises InputError."""
    if n_nodes == n:
        return None
    if store.find(file, "/kept") is None:
        raise InputError(f"{path}: {n} rows, but its model has {n_nodes}; run its command again")
    found: Rows = store.read(file, "/kept", {}, "/kept").astype(np.int64)
    if found.size != n_nodes or (np.diff(found, prepend=-1, append=n) <= 0).any():
        raise InputError(f"{path}:/kept: damaged: no rising rows, one for each node")
    return found


def _entries(file: h5py.File) -> Entries:
    found: Entries = {}
    image = store.image(file, store.dataset(file, "/labels").size)
    if image is not None:
        found["/image"] = image
    if _PREPARATION in file.attrs:
        found[f"/@{_PREPARATION}"] = store.decoded(file.attrs[_PREPARATION])
    return found
