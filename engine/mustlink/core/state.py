"""The state of estimators: results of a fit are set at its end, at once; the next removes them.

A method that fits runs on a twin of the estimator, whose attributes are taken over in one
assignment. After any error the estimator is as it was; another thread reads the one fit or the
other. No attribute is left from an earlier fit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from mustlink.core.scikit_learn import check_is_fitted

Verb = TypeVar("Verb", bound=Callable[..., Any])

_OF_THE_DATA = frozenset({"graph_", "n_features_in_", "feature_names_in_"})


def fits(verb: Verb) -> Verb:
    """Make a method a `fit`: it begins without results of an earlier one."""

    @wraps(verb)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _run(verb, self, _found(self), args, kwargs)

    return cast(Verb, fit)


def fits_again(verb: Verb) -> Verb:
    """Make a method a `refit` or an `add`: it begins with the data and choices of the fit before.

    Its results are in `before(self)` alone. Raises NotFittedError where there was no fit.
    """

    @wraps(verb)
    def refit(self: Any, *args: Any, **kwargs: Any) -> Any:
        check_is_fitted(self)
        results = {name for name in _found(self) if name.endswith("_")} - _OF_THE_DATA
        return _run(verb, self, results, args, kwargs)

    return cast(Verb, refit)


def before(estimator: Any) -> Any:
    """The estimator as it was when `refit` or `add` of it was called, with its results."""
    return estimator._before


def chosen(estimator: Any) -> Any:
    """The estimator that another one chose and fitted, or itself."""
    return getattr(estimator, "estimator_", estimator)


def found_by_fit(estimator: Any, *names: str) -> None:
    """Mark attributes that were set outside of a fit as its results: the next removes them."""
    estimator._of_fit = _found(estimator) | set(names)


def _found(estimator: Any) -> frozenset[str]:
    """Names of what fits set."""
    return vars(estimator).get("_of_fit", frozenset())


def _run(verb: Callable[..., Any], estimator: Any, forgotten: Any, args: Any, kwargs: Any) -> Any:
    """Run a method on a twin without `forgotten` attributes, and take over what it sets."""
    left_out = forgotten | {"_before"}
    kept = {name: value for name, value in vars(estimator).items() if name not in left_out}
    twin = object.__new__(type(estimator))
    vars(twin).update(kept, _before=estimator)
    try:
        verb(twin, *args, **kwargs)
    finally:
        del twin._before
    after = vars(twin)
    made = {name: one for name, one in after.items() if name not in kept or kept[name] is not one}
    lost = forgotten | (kept.keys() - after.keys())
    made["_of_fit"] = frozenset((_found(estimator) - lost) | _found(twin) | made.keys())
    stay = {name: value for name, value in vars(estimator).items() if name not in lost}
    estimator.__dict__ = stay | made  # what was set from elsewhere in the meantime stays
    return estimator
