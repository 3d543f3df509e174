"""Estimators in scikit-learn: its base classes, imported late, and the state that fits set.

scikit-learn imports scipy.stats, pandas and pyarrow: most of the time that `from mustlink import
CSP` took. Classes are made on empty bases of the same names. The first instance of any of them puts
scikit-learn's classes below these, and they are its estimators from then on, by `isinstance`, by
tags and by `set_fit_request`. Only `issubclass(CSP, BaseEstimator)` is false before, and that only
where scikit-learn was imported after mustlink.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import wraps
from inspect import signature
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:  # scikit-learn has no types
    import numpy as np
    from numpy.typing import NDArray

    BaseEstimator: Any
    ClassifierMixin: Any
    ClassNamePrefixFeaturesOutMixin: Any
    ClusterMixin: Any
    TransformerMixin: Any

else:

    class _Waiting:
        """A class without scikit-learn's below it yet; instances are `unbound` ones alone."""

        @classmethod
        def _get_param_names(cls) -> list[str]:
            return sorted(name for name in signature(cls.__init__).parameters if name != "self")

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            found = {name: getattr(self, name) for name in self._get_param_names()}
            if not (deep and any(hasattr(value, "get_params") for value in found.values())):
                return found
            import_bases()
            return self.get_params(deep)  # scikit-learn's by now

        def __copy__(self) -> Any:
            made = object.__new__(type(self))
            vars(made).update(vars(self))
            return made

        def set_params(self, **params: Any) -> Any:
            if params.keys() <= set(self._get_param_names()):  # none of a part of another
                vars(self).update(params)
                return self
            import_bases()
            return self.set_params(**params)

    def _set_plainly(self: Any, name: str, value: Any) -> None:
        """Set a parameter, numpy's scalars as Python's: `np.int64(5)` is no `int`."""
        import numpy as np  # which `--version` does without

        if isinstance(value, np.generic) and not (name.startswith("_") or name.endswith("_")):
            value = value.item()
        object.__setattr__(self, name, value)

    def _base(name: str, **more: Any) -> type:
        """scikit-learn's class of that name, from the first instance on."""

        def new(cls, *_: Any, **__: Any) -> Any:
            import_bases()
            return object.__new__(cls)

        return type(name, (_Waiting,), {"__new__": new, "__module__": __name__, **more})

    BaseEstimator = _base("BaseEstimator", __setattr__=_set_plainly)
    ClassifierMixin = _base("ClassifierMixin")
    ClassNamePrefixFeaturesOutMixin = _base("ClassNamePrefixFeaturesOutMixin")
    ClusterMixin = _base("ClusterMixin")
    TransformerMixin = _base("TransformerMixin")
    _LOCK = Lock()  # the first instances of two threads
    _BASES = _Waiting.__subclasses__()

    def import_bases() -> None:
        """Put scikit-learn's classes below those of this module."""
        import sklearn.base

        with _LOCK:
            if not issubclass(BaseEstimator, _Waiting):
                return
            made = list(dict.fromkeys(one for base in _BASES for one in _below(base)))
            for base in _BASES:
                base.__bases__ = (getattr(sklearn.base, base.__name__),)
            for one in made:  # as Python does for a class that is made on these bases
                super(one, one).__init_subclass__()

    def _below(base: type) -> Iterator[type]:
        """All subclasses, a class before its own."""
        for one in base.__subclasses__():
            yield one
            yield from _below(one)

    if "sklearn.base" in sys.modules:  # it costs nothing any more
        import_bases()


def unbound(kind: type, **parameters: Any) -> Any:
    """An instance for which scikit-learn is not imported: to ask what its parameters allow.

    Also one that is read from a file, to be looked at or fitted again; see `import_bases`.
    """
    one: Any = object.__new__(kind)
    one.__init__(**parameters)
    return one


def check_columns(estimator: Any, X: Any, *, reset: bool = True) -> None:
    """Remember number and names of the columns, or compare those of new points; ValueError."""
    from sklearn.utils import validation

    validation.validate_data(estimator, X, reset=reset, skip_check_array=True)


def check_is_fitted(estimator: Any) -> None:
    """Raise NotFittedError before the first fit."""
    if any(name.endswith("_") and not name.startswith("__") for name in vars(estimator)):
        return  # as scikit-learn decides
    from sklearn.utils import validation

    validation.check_is_fitted(estimator)


class GraphTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """scikit-learn's transformer of a `GraphEstimator` that has an `embedding_`."""

    def fit_transform(self: Any, X: Any, y: Any = None, **options: Any) -> NDArray[np.float64]:
        """`fit(X, y, ...)`, then `embedding_`, one row for each of X."""
        found: NDArray[np.float64] = self.fit(X, y, **options).embedding_
        return found

    def transform(self: Any, X: Any) -> NDArray[np.float64]:
        """Embedding of new points (q, d): the mean of the rows of their nearest fitted points.

        z(x) = Σ_j w_j z_j / Σ_j w_j over the `n_neighbors` nearest, w_j = exp(−d_j²/s²), s the
        distance of the 7th; a fitted point keeps its own row. Cost O(q n d).
        """
        check_is_fitted(self)
        found: NDArray[np.float64] = self._new_points(X, self._n_features_out).mean(self.embedding_)
        return found

    @property
    def _n_features_out(self: Any) -> int:
        return int(self.embedding_.shape[1])


# --- The state of estimators: results of a fit are set at its end, at once; the next removes them
#
# A method that fits runs on a twin of the estimator, whose attributes are taken over in one
# assignment. After any error the estimator is as it was; another thread reads the one fit or the
# other. No attribute is left from an earlier fit.


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
