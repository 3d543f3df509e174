"""Rows that were left out of the points: answers and what is told are numbered as in the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.observe import Recorder
from mustlink_io import formats

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
