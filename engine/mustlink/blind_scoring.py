"""Searches of scikit-learn that would score against labels that nobody knows.

Its metrics, as scoring="adjusted_rand_score", take -1 for one more class: a search then prefers
what agrees with what is unknown, and says nothing. A scorer is no business of the estimator and is
never shown to it; all that can be done is to look, while a fold is fitted, who asked for the fit.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from mustlink.errors import InputError
from mustlink.labels import encoded

_SEARCH = ("sklearn.model_selection._validation", "_fit_and_score")


def refuse_blind_scoring(y: Any) -> None:
    """Raise InputError if scikit-learn will score this fit by a metric on unknown labels.

    Labels `y` (n,) of the fit; nothing happens where all are known, in fits of nobody's search, and
    with scorers that are no metric, such as `ConstraintScorer` and the estimator's own `score`.
    """
    frame = sys._getframe(1) if _unknown(y) else None
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) == _SEARCH:
            asked = frame.f_locals
            held, names = _unknown(asked["y"], asked["test"]), _metrics(asked["scorer"])
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
