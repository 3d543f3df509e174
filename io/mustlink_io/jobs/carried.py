"""What a result file says that its model does not know of, for the file with further answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import h5py
import numpy as np

from mustlink.errors import InputError
from mustlink_io.formats import stream
from mustlink_io.hdf5 import result, store
from mustlink_io.hdf5.result_parts import Input
from mustlink_io.hdf5.stored_names import StoredNames, stored_names
from mustlink_io.jobs.class_names import of_clusters, with_names
from mustlink_io.jobs.how_sure import told_of_confidence

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

    names: StoredNames | None = None
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
            clusters = names_in(file, "/class_names", "/classes")
            apart = store.find(file, "/classes") is None
            return cls(
                stored_names(file, path),
                _entries(file),
                frozenset(one for one in (*_SURE, _TREE) if store.find(file, one) is not None),
                names_in(file, "/constraints/class_names") if apart else clusters,
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
            size, digest = answers.stat().st_size, stream.sha256(answers)
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
    """The picture and the preparation."""
    found: Entries = {}
    if store.find(file, "/image") is not None:
        found["/image"] = store.read(file, "/image", {}, "/image")
        pixels, rows = found["/image"].shape[:2], store.dataset(file, "/labels").shape
        if found["/image"].dtype != np.uint8 or rows != (int(np.prod(pixels)),):
            raise InputError(f"{file.filename}:/image: is not of the nodes; damaged")
    if _PREPARATION in file.attrs:
        found[f"/@{_PREPARATION}"] = store.decoded(file.attrs[_PREPARATION])
    return found


def names_in(file: h5py.File, name: str, numbers: str = "") -> dict[int, str]:
    """Texts by their numbers, those that are none left out; numbers may be those of an entry."""
    if store.find(file, name) is None:
        return {}
    texts = [str(one) for one in store.texts(file, name)]
    known = range(len(texts))
    if numbers and store.find(file, numbers) is not None:
        known = store.read(file, numbers, {}, numbers).tolist()
    if len(known) != len(texts):
        raise InputError(f"{file.filename}:{name}: damaged: not one name a class")
    return {number: one for number, one in zip(known, texts, strict=True) if one}
