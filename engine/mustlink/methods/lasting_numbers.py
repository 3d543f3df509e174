"""Clusters that keep their numbers and names while what is known of them changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mustlink.errors import InputError
from mustlink.observe import Recorder
from mustlink.rounding.renumber import renumbered
from mustlink.state import found_by_fit

Ints = NDArray[np.int64]


class LastingNumbers:
    """Names of clusters, and numbers that mean the same cluster from one refit to the next."""

    labels_: Ints
    report_: Any

    _names: Mapping[int, str] | None = None
    _first_new: int = 0  # no cluster ever had this number or a larger one

    @property
    def cluster_names_(self) -> dict[int, str]:
        """Names that the person gave to clusters, by number; they stay while the cluster does."""
        check_is_fitted(self)
        return dict(self._names or {})

    def name_clusters(self, names: Mapping[int, str]) -> Self:
        """Give names to clusters by their numbers in `labels_`; "" takes one away. InputError."""
        check_is_fitted(self)
        there = set(np.unique(self.labels_[self.labels_ >= 0]).tolist())
        found = self.cluster_names_
        if not isinstance(names, Mapping):
            told = f"{type(names).__name__} given"
            raise InputError(f"names: {told}; give them by number: {{0: 'cats', 3: 'dogs'}}")
        for number, name in names.items():
            if number not in there:
                raise InputError(f"names: no cluster has number {number}; labels_ tells which do")
            if not isinstance(name, str):
                raise InputError(f"names: {name!r} for cluster {number}; give text")
            found[int(number)] = name
        self._names = {number: name for number, name in sorted(found.items()) if name}
        found_by_fit(self, "_names")
        return self

    def _numbers_anew(self) -> None:
        """Forget names and numbers: clusters are numbered by other classes."""
        self._names, self._first_new = None, 0

    def _numbered_as(self, before: Ints, recorder: Recorder, verb: str = "refit") -> Self:
        """Give clusters the numbers they had `before` (b,), b <= n; the report tells what changed.

        Rows that are new, n − b, move with their clusters.
        """
        first = max(self._first_new, int(before.max(initial=-1)) + 1)
        old = np.full(self.labels_.size, -1, dtype=np.int64)
        old[: before.size] = before
        found = renumbered(old, self.labels_, first)
        self._reorder(found.labels)
        self.labels_ = found.labels
        self._first_new = max(first, int(found.labels.max(initial=-1)) + 1)
        self._names = {
            number: name for number, name in self.cluster_names_.items() if number not in found.gone
        }
        moved = float(np.mean(found.labels[: before.size] != before)) if before.size else 0.0
        recorder.note(f"{verb}: {moved:.2%} of the nodes changed their cluster")
        if found.new or found.gone:
            told = [f"new {', '.join(map(str, found.new))}"] if found.new else []
            told += [f"gone {', '.join(map(str, found.gone))}"] if found.gone else []
            recorder.note(f"{verb}: clusters {'; '.join(told)}")
        changed = {"new": list(found.new), "gone": list(found.gone)}
        more = {**self.report_.extra, "changed": moved, "clusters_changed": changed}
        told_by = recorder.told()
        self.report_ = replace(
            self.report_, extra=more, notes=told_by["notes"], warnings=told_by["warnings"]
        )
        return self

    def _reorder(self, labels: Ints) -> None:
        """Put what has a column a cluster in the order of the numbers that `labels_` will have."""
