"""Entries of a result beside its model: what classes are called, which rows were left out."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import h5py
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.stage_cache import digest
from mustlink.core.check import as_points
from mustlink.core.observe import Recorder
from mustlink.errors import InputError
from mustlink.preprocessing.request import Preparation
from mustlink.propagation.held_out import AnswerCalibration
from mustlink.selection.calibration import Calibration
from mustlink_io import formats
from mustlink_io.formats import results
from mustlink_io.formats.points import Apart
from mustlink_io.hdf5 import result, store
from mustlink_io.hdf5.result import Input
from mustlink_io.hdf5.store import FileNames, stored_names


def names_content(
    data: formats.InputData, labels: formats.Labels | None, estimator: Any
) -> dict[str, Any]:
    """Names of nodes and of classes as entries of the result file, where there are some."""
    found: dict[str, Any] = {}
    called = data.stored_names if data.names is None else data.names
    if called is not None:
        found["/names"] = called.texts
    if labels is None or labels.classes is None:
        return found
    if hasattr(estimator, "label_distributions_"):
        return {**found, "/class_names": [labels.classes[at] for at in estimator.classes_]}
    named = dict(enumerate(labels.classes))
    clusters = np.asarray(estimator.labels_)
    found["/class_names"] = of_clusters(clusters, labels.codes, named, estimator.report_.n_clusters)
    return {**found, "/constraints/class_names": labels.classes}


def with_class_names(outcome: dict[str, Any], labels: formats.Labels | None) -> dict[str, Any]:
    """What a run found out, with names of classes beside the labels that were not kept."""
    if labels is None or labels.classes is None:
        return outcome
    return with_names(outcome, dict(enumerate(labels.classes)))


def with_names(outcome: dict[str, Any], names: Mapping[int, str]) -> dict[str, Any]:
    """The same with `names` of the classes by their numbers."""
    asked = outcome.get("constraints")
    if asked is None:
        return outcome
    named = {
        key: [{**row, "class_name": names.get(row["class"])} for row in asked[key]]
        for key in ("strays", "overruled")
        if key in asked
    }
    return {**outcome, "constraints": {**asked, **named}}


def of_clusters(
    found: NDArray[Any], given: NDArray[Any], names: Mapping[int, str], n_clusters: int
) -> list[str]:
    """The class that most labelled nodes of every cluster have, empty where none has a label.

    Clusters `found` (n,) and labels `given` (n,), -1 for none.
    """
    known = (given >= 0) & (found >= 0)
    size = int(given.max(initial=-1)) + 2
    n_clusters = max(n_clusters, int(found.max(initial=-1)) + 1)  # numbers may have gaps
    votes = np.bincount(found[known] * size + given[known], minlength=n_clusters * size)
    votes = votes.reshape(n_clusters, size)
    most = np.where(votes.any(axis=1), votes.argmax(axis=1), -1)
    return [names.get(number, "") for number in most.tolist()]


Rows = NDArray[np.int64]

_OF_NODES = ("/embedding", "/label_distributions", "/membership", "/confidence")  # 0 without node
_CODES = ("/labels", "/constraints/labels", "/hierarchy/leaves")  # -1


def of_kept(labels: formats.Labels | None, kept: Rows | None) -> formats.Labels | None:
    """Labels of the rows that are kept."""
    if labels is None or kept is None:
        return labels
    return replace(labels, codes=labels.codes[kept])


def tell_lost(recorder: Recorder, what: str, given: int, left: int) -> None:
    """Say how many labels or pairs are of rows that were left out."""
    if left < given:
        recorder.note(
            f"drop_missing: {given - left:,} of {given:,} {what} are of rows that are left out and "
            "not used; --impute keeps them"
        )


def content_of_all(content: Mapping[str, Any], kept: Rows, n: int) -> dict[str, Any]:
    """Entries of a result file for all n rows: a row that was left out has label -1."""
    found = dict(content)
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
    asked = outcome.get("constraints")
    if asked is None:
        return dict(outcome)
    told = dict(asked)
    if "worst" in asked:
        told["worst"] = [{**row, "nodes": kept[row["nodes"]].tolist()} for row in asked["worst"]]
    for key in ("strays", "overruled"):
        if key in asked:
            told[key] = [{**row, "node": int(kept[row["node"]])} for row in asked[key]]
    return {**outcome, "constraints": told}


def graph_of_all(affinity: sp.csr_matrix, kept: Rows, n: int) -> sp.csr_matrix:
    """The same graph with a node without edges for every row that was left out."""
    entries = affinity.tocoo()
    ends = (kept[entries.row], kept[entries.col])
    return sp.csr_matrix((entries.data, ends), shape=(n, n))


def mean_confidence(
    sure: NDArray[Any], labels: NDArray[Any], given: NDArray[np.int64] | None = None
) -> float:
    """The mean (n,) over nodes that have an answer and no label, over all answers without such."""
    return float(sure[guessed(labels, given)].mean())


def guessed(labels: NDArray[Any], given: NDArray[Any] | None) -> NDArray[np.bool_]:
    """Which nodes (n,) have an answer and no label; where there are none, which have an answer."""
    there = labels >= 0
    found = there if given is None else there & (given < 0)
    return found if found.any() else there


def told_of_confidence(
    sure: NDArray[Any],
    labels: NDArray[Any],
    given: NDArray[np.int64] | None,
    by: Calibration | AnswerCalibration,
) -> dict[str, Any]:
    """The mean confidence of the answers, and what it is calibrated by."""
    mean = mean_confidence(sure, labels, given)
    return {"mean_confidence": mean, "calibration": told_of_calibration(by)}


def told_of_calibration(by: Calibration | AnswerCalibration) -> dict[str, Any]:
    """Its parameters, how much was held out, and the reliability table of that."""
    if isinstance(by, Calibration):
        found: dict[str, Any] = {**by.trust._asdict(), "n_pairs": by.n_pairs}
    else:
        found = {"intercept": by.intercept, "slope": by.slope, "n_pairs": 0}
    found["n_labels"] = by.n_labels
    if by.reliability is not None:
        table = by.reliability
        found |= {"error": table.error, "width": table.width, "reliability": table.rows()}
    return found


_SURE = ("/confidence", "/membership")
_TREE = "/hierarchy/linkage"
_PREPARATION = "preparation"
Entries = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Carried:
    """Of a result: `entries` beside its model, answers that were `wanted`, and how it was made.

    `classes` are names of classes by the numbers that labels have, `clusters` those of clusters,
    or again of classes, by the numbers of the answer.
    """

    names: FileNames | None = None
    entries: Mapping[str, Any] = field(default_factory=dict)
    wanted: frozenset[str] = frozenset()
    classes: Mapping[int, str] = field(default_factory=dict)
    clusters: Mapping[int, str] = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)
    steps: Any = None
    inputs: tuple[Input, ...] = ()

    @classmethod
    def of(cls, path: Path) -> Self:
        """Read it of a result file; raises InputError."""
        with store.open_h5(path) as file:
            made = result.read(file, str(path)) or result.Result()
            data = made.report.data
            clusters = results.names_in(file, "/class_names", "/classes")
            apart = store.find(file, "/classes") is None
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
            )

    def then(self, command: str, answers: Path | None = None) -> Self:
        """The same once something else was done, with answers in a file."""
        before = self.told.get("command")
        told = {**self.told, "command": f"{before} && {command}" if before else command}
        inputs = self.inputs
        if answers is not None:
            size, digest = answers.stat().st_size, formats.sha256(answers)
            inputs += (Input(role="answers", name=str(answers), bytes=size, sha256=digest),)
        return replace(self, told=told, inputs=inputs)

    def with_classes(self, names: Mapping[int, str]) -> Self:
        """With names of classes that are new; where classes have none, the same."""
        return replace(self, classes={**self.classes, **names}) if self.classes else self

    def prepare(self, estimator: Any) -> None:
        """Have the fit make what is wanted of it, before its model is written."""
        if _TREE in self.wanted:
            _ = estimator.hierarchy_
        if self._sure(estimator):
            _ = estimator.calibration_

    def beside(
        self, estimator: Any, content: Entries, findings: Entries
    ) -> tuple[Entries, Entries]:
        """Entries of the file and findings of the report, with those that are carried."""
        found = {**content, **self.entries}
        if self.names is not None:
            found["/names"] = self.names
        found |= self._called(estimator, content)
        findings = {**with_names(findings, self._of_classes(content)), **self.told}
        sure = self._sure(estimator)
        if sure:
            spreads = hasattr(estimator, "label_distributions_")
            shares = estimator.membership_ if "/membership" in sure else None
            own = shares.max(axis=1) if spreads and shares is not None else estimator.confidence_
            found |= {"/confidence": own} | ({} if shares is None else {"/membership": shares})
            given = content.get("/constraints/labels")
            findings |= told_of_confidence(own, content["/labels"], given, estimator.calibration_)
        return found, findings

    @property
    def parameters(self) -> dict[str, Any]:
        """How the columns were prepared, as a parameter of the run."""
        return {} if self.steps is None else {_PREPARATION: self.steps}

    def _sure(self, estimator: Any) -> frozenset[str]:
        """What was asked for of how sure answers are; propagators tell their lead in any case."""
        spreads = hasattr(estimator, "label_distributions_")
        return self.wanted & frozenset(_SURE[1:] if spreads else _SURE)

    def _of_classes(self, content: Entries) -> Mapping[int, str]:
        own = content.get("/class_names")
        if own is None or "/classes" not in content:
            return self.classes
        return dict(zip(np.asarray(content["/classes"]).tolist(), own, strict=True))

    def _called(self, estimator: Any, content: Entries) -> Entries:
        """Names of clusters or classes; those that the estimator was given come first."""
        own, found = "/class_names" in content, Entries()
        if not self.classes and not self.clusters:
            return found
        if hasattr(estimator, "label_distributions_"):
            numbers = np.asarray(content["/classes"]).tolist()
            names = [self.classes.get(one, str(one)) for one in numbers]
            return found if own else {"/class_names": names}
        labels = content["/labels"]
        given = content.get("/constraints/labels", np.full_like(labels, -1))
        classes: dict[int, str] = {}
        if self.classes:
            classes = {at: str(at) for at in np.unique(given[given >= 0]).tolist()}
            classes |= self.classes
            names = [classes.get(at, "") for at in range(max(classes) + 1)]
            found["/constraints/class_names"] = names
        if not own:
            names = of_clusters(labels, given, classes, max(self.clusters, default=-1) + 1)
            names = [one or self.clusters.get(at, "") for at, one in enumerate(names)]
            found["/class_names"] = names
        return found


def _entries(file: h5py.File) -> Entries:
    found: Entries = {}
    if store.find(file, "/image") is not None:
        found["/image"] = store.read(file, "/image", {}, "/image")
        pixels, rows = found["/image"].shape[:2], store.dataset(file, "/labels").shape
        if found["/image"].dtype != np.uint8 or rows != (int(np.prod(pixels)),):
            raise InputError(f"{file.filename}:/image: is not of the nodes; damaged")
    if _PREPARATION in file.attrs:
        found[f"/@{_PREPARATION}"] = store.decoded(file.attrs[_PREPARATION])
    return found


_HOW = ("file", "sha256", "want", "steps", "apart", "shape", "content")
_ROWS = 1 << 16  # looked at in one go


class PointsElsewhere:
    """Points (n, d) of a model that are read when they are first asked for, and checked."""

    ndim = 2

    def __init__(self, reference: Mapping[str, Any], model: Path) -> None:
        self.reference = dict(reference)
        self.shape: tuple[int, int] = tuple(reference["shape"])
        self._model = model
        self._found: NDArray[Any] | None = None
        if "file" in reference:
            self._place()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All of them; raises InputError where they are not there, or others."""
        if self._found is None:
            self._found = self._read()
        return self._found if dtype is None else self._found.astype(dtype, copy=False)

    def _read(self) -> NDArray[Any]:
        if "file" not in self.reference:
            raise InputError(
                f"{self._model}: the points are not in it, only their digest; give them: "
                "mustlink.load(path, data=X)"
            )
        place, text = self._place(), self.reference["file"]
        there = os.path.exists(place.path)
        if not there or formats.sha256(place.path) != self.reference["sha256"]:
            gone = "has changed since" if there else "is not there"
            raise InputError(
                f"{self._model}: its points are those of {text}, which {gone}; give them: "
                "mustlink.load(path, data=X)"
            )
        given = self.reference["steps"]
        try:
            steps: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
            apart = tuple(Apart(str(option), str(name)) for option, name in self.reference["apart"])
            how: dict[str, Any] = {"steps": Preparation(**steps), "apart": apart}
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{self._model}: damaged: how points were read; save anew") from error
        how["want"] = "points" if self.reference["want"] == "points" else None
        return as_points(formats.load(str(place), **how).value)

    def _place(self) -> formats.Place:
        """Their file, as it was named or beside the model; InputError where it is no file.

        The model may name anything: reading a device or a pipe would never end.
        """
        place = formats.parse(self.reference["file"])
        beside = self._model.parent / place.path
        if not os.path.exists(place.path) and os.path.exists(beside):
            place = replace(place, path=beside)
        if os.path.exists(place.path) and not place.path.is_file():
            raise InputError(
                f"{self._model}: its points are those of {place.path}, which is no regular file; "
                "give them: mustlink.load(path, data=X)"
            )
        return place


def fingerprint(X: Any) -> str:
    """SHA-256 of points (n, d) in single precision, which is how files are read; by rows."""
    found = hashlib.sha256()
    for first in range(0, X.shape[0], _ROWS):
        found.update(np.ascontiguousarray(X[first : first + _ROWS], dtype=np.float32).data)
    return found.hexdigest()


def reference_of(
    text: str, sha256: str, want: Any, steps: Preparation, apart: Any, X: Any
) -> dict[str, Any]:
    """How points are found again: from which file, read as what, prepared how; and which."""
    told = [(one.option, one.name) for one in apart]
    which = list(X.shape), fingerprint(X)
    return dict(zip(_HOW, (text, sha256, want, steps.to_dict(), told, *which), strict=True))


def points_of(reference: Mapping[str, Any], model: Path, data: Any) -> Any:
    """The caller's points, if they are those; else such that are read when asked for. InputError.

    `reference` may come from any file: it names a file to read, and nothing to be done.
    """
    shape: Any = reference.get("shape")
    fine = isinstance(shape, list | tuple) and len(shape) == 2
    told = "digest" in reference or set(_HOW) - {"content"} <= set(reference) <= set(_HOW)
    told = told and isinstance(reference.get("file", ""), str)
    if not fine or not told or not all(isinstance(size, int) and size > 0 for size in shape):
        raise InputError(f"{model}: damaged: the reference to its points; save it anew")
    elsewhere = PointsElsewhere(reference, model)
    if data is None:
        return elsewhere
    X = as_points(data, "data")
    if X.shape != tuple(shape):
        raise InputError(f"{model}: data of shape {X.shape}; those that were fitted have {shape}")
    if "digest" in reference:
        same = digest(X) == reference["digest"]
    else:  # models of 0.1 do not say which points they are: their file does
        X = X.astype(np.float32, copy=False)  # as files are read
        same = fingerprint(X) == (reference.get("content") or fingerprint(np.asarray(elsewhere)))
    if not same:
        raise InputError(f"{model}: data are other points than those that were fitted")
    return X
