"""Labels and constraints of the rows of a fit, of new rows too, checked."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.constraints.constraints import among
from mustlink.core.labels import as_labels, encoded, refuse_row_numbers
from mustlink.core.observe import Recorder
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.graph.disk_graph import DiskGraph
from mustlink.graph.forms import on_both_sides


def side_information(
    graph: Graph | DiskGraph,
    y: Any,
    constraints: Constraints | None,
    recorder: Recorder | None = None,
    *,
    needed: bool = True,
    prior: Any = None,
    belief: Any = None,
) -> Constraints:
    """Labels `y` (n,) and constraints together; raises InputError, warns where they are empty.

    Of a bipartite graph `y` may be of the rows alone. Unless they are `needed` none may be given;
    without a recorder there are no warnings. `prior` (n, K) has a column for each class of the
    labels, in their order, or for class 0, 1 and so on.
    """
    n = graph.n_rows
    found = Constraints.none(n)
    if isinstance(y, Constraints):
        raise InputError("y: Constraints given; pass them as constraints=")
    if y is not None:
        refuse_blind_scoring(y)
        labels = as_labels(encoded(on_both_sides(y, graph), "y")[0], n)
        refuse_row_numbers(labels, "y")
        found = found + Constraints.from_labels(labels)
    if constraints is not None:
        if not isinstance(constraints, Constraints):
            raise InputError(
                f"constraints: {type(constraints).__name__} given; make them by "
                "Constraints.from_pairs, from_labels, from_soft_labels, from_graph or from_matrix"
            )
        constraints.require_nodes(n)
        found = constraints if found.is_empty else found + constraints
    if prior is not None:
        as_many = np.ndim(prior) == 2 and np.shape(prior)[1] == found.classes.size
        columns = found.classes if as_many else None
        found = found + Constraints.from_soft_labels(prior, belief, classes=columns)
    elif belief is not None:
        raise InputError("belief: no prior that it is a belief in; give prior (n, K) as well")
    is_given = y is not None or constraints is not None or prior is not None
    if recorder is not None and (needed or is_given):
        doubt_content(found, recorder, is_given=is_given)
    return found


def doubt_content(known: Constraints, recorder: Recorder, *, is_given: bool) -> None:
    """Warn of no constraints, and of those that one cluster of all nodes keeps."""
    if not is_given:
        recorder.warn(
            "labels, constraints: neither is given; the graph alone was clustered; give some "
            "(mustlink ask says which), or take NCut (-m ncut) where nothing will be known"
        )
    elif known.is_empty:
        recorder.warn(
            f"labels, constraints: none of the {known.n_nodes} nodes has any, or all weigh 0; the "
            "graph alone was clustered"
        )
    elif known.kind == "labels" and known.labels is not None and known.classes.size == 1:
        count = np.count_nonzero(known.labels >= 0)
        recorder.warn(
            f"labels: all {count} are of class {known.classes[0]}, which one cluster of all nodes "
            "keeps; label nodes of other classes"
        )


# --- of the rows that were fitted, and of those that are added


def told_of_all(known: Constraints | None, n: int, y: Any, more: Constraints | None) -> Constraints:
    """What is known of the first of n rows, with labels `y` (m,) of the new ones, and `more`.

    Raises InputError.
    """
    before = np.arange(0 if known is None else known.n_nodes)
    found = Constraints.none(n) if known is None else among(known, before, n)
    if y is not None:
        labels = labels_of_all(np.full(before.size, -1), y, n - before.size)
        found = found + Constraints.from_labels(labels)
    return found if more is None else found + more


def labels_of_all(given: NDArray[Any], y: Any, m: int) -> NDArray[Any]:
    """Labels given before, and those (m,) of new rows: unknown where left out. InputError."""
    names = given.dtype.kind in "OUS"
    unknown: Any = "" if names and all(isinstance(one, str) for one in given.tolist()) else -1
    new = np.full(m, unknown, dtype=given.dtype if names else np.int64) if y is None else y
    new = np.asarray(new)
    if new.shape != (m,):
        raise InputError(f"y: shape {new.shape} for {m} new rows; give one label for each")
    both = [given.tolist(), new.tolist()]
    return np.array(both[0] + both[1], dtype=object) if names else np.concatenate([given, new])


# --- Searches of scikit-learn that would score against unknown labels
#
# Its metrics, as scoring="adjusted_rand_score", take -1 for one more class: a search then prefers
# what agrees with the unknown, without a warning. A scorer is never shown to the estimator: all
# that can be done is to look for the search on the stack while a fold is fitted.


_SEARCH = ("sklearn.model_selection._validation", "_fit_and_score")


def refuse_blind_scoring(y: Any) -> None:
    """Raise InputError if scikit-learn will score this fit by a metric on unknown labels.

    Labels `y` (n,) of the fit; nothing happens where all are known, in fits outside of a search,
    and with scorers that are no metric, such as `ConstraintScorer` and the estimator's own `score`.
    """
    frame = sys._getframe(1) if _unknown(y) else None
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) == _SEARCH:
            search = frame.f_locals
            held, names = _unknown(search["y"], search["test"]), _metrics(search["scorer"])
            if held and names:
                raise InputError(
                    f"scoring: {names[0]} takes unknown labels for a class, and {held} of those "
                    "held out are unknown; use scoring=mustlink.ConstraintScorer(), or "
                    "cv=mustlink.ConstraintKFold(Constraints.from_labels(y)), whose test parts are "
                    "labelled nodes only"
                )
            return
        frame = frame.f_back


def _unknown(y: Any, rows: Any = slice(None)) -> int:
    """How many of the labels are unknown."""
    if y is None:
        return 0
    codes = np.asarray(encoded(y, "y")[0])[rows]
    return int(np.count_nonzero(codes == -1))


def _metrics(scorer: Any) -> list[str]:
    """Names of the metrics that a scorer, or a set of them, computes."""
    some = scorer if isinstance(scorer, dict) else getattr(scorer, "_scorers", {"": scorer})
    found = [getattr(one, "_score_func", None) for one in some.values()]
    return [str(getattr(one, "__name__", one)) for one in found if one is not None]
