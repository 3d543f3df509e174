"""Input checks: every array and parameter that enters the engine passes here once.

Nothing is changed in place. Each failure is one line `where: input, error; cure` (InputError).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError, InputTypeError, NumericalError

_SYMMETRY = 1e-6  # relative to the largest entry: single-precision files pass
_BLOCK = 1 << 22  # entries at a time
_SHOWN = 60  # letters of a value in a message


def as_affinity(
    affinity: Any,
    where: str = "affinity",
    surely_symmetric: Callable[[sp.csr_matrix], bool] | None = None,
) -> sp.csr_matrix:
    """Return W as a canonical CSR matrix: square, finite, non-negative, symmetric, not empty.

    Accepts every scipy sparse format and dense arrays. float32 is kept, everything else becomes
    float64; indices are int32 wherever they fit. Explicit zeros go, duplicates are summed,
    asymmetry below 1e-6 of the largest entry is averaged away. The input is never written to;
    where nothing needs to change its arrays are shared. Cost: one transpose, unless the matrix is
    `surely_symmetric` already. Raises InputError.
    """
    W = as_csr(affinity, where)
    n, m = W.shape
    if n != m:
        cure = "give one row per node, or bipartite_graph(M)"
        raise InputError(f"{where}: shape ({n}, {m}) is not square; {cure}")
    if n == 0:
        raise InputError(f"{where}: empty graph (0 nodes); nothing to cluster")
    W = positive(W, where)
    if W.nnz == 0:
        raise InputError(f"{where}: {n} nodes but no edge; nothing to cluster")
    return W if surely_symmetric is not None and surely_symmetric(W) else symmetric(W, where)


def as_csr(affinity: Any, where: str) -> sp.csr_matrix:
    """Canonical CSR in a floating type, sharing memory only where nothing is altered."""
    sparse: bool = sp.issparse(affinity)
    if sparse:
        if affinity.ndim != 2:
            raise InputError(f"{where}: {affinity.ndim}-d sparse array; give a matrix (n, n)")
        dtype = _float_type(affinity.dtype, where)
        own = affinity.tocsr()
        W = sp.csr_matrix((own.data, own.indices, own.indptr), shape=own.shape)
        try:
            W.check_format(full_check=True)
        except ValueError as error:
            raise InputError(f"{where}: broken sparse matrix ({error}); write it anew") from None
    else:
        dense = numeric_array(affinity, where)
        if dense.ndim != 2:
            raise InputError(f"{where}: {dense.ndim}-d array; give a matrix (n, n)")
        dtype = _float_type(dense.dtype, where)
        W = sp.csr_matrix(dense)
    W = W.astype(dtype, copy=False)
    if not W.has_canonical_format:
        W = W.copy()
        W.sum_duplicates()
    return W


def positive(W: sp.csr_matrix, where: str, *, signed: bool = False) -> sp.csr_matrix:
    """W without stored zeros; InputError names the first entry that is not finite, or negative.

    `signed`: negative entries are allowed.
    """
    for start in range(0, W.data.size, _BLOCK):
        block = W.data[start : start + _BLOCK]
        bad = ~np.isfinite(block) if signed else ~(block >= 0) | np.isinf(block)
        if bad.any():
            at = start + int(np.argmax(bad))
            row = int(np.searchsorted(W.indptr, at, side="right")) - 1
            value = W.data[at]
            what = "negative" if np.isfinite(value) else "not finite"
            cure = "affinities are >= 0" if np.isfinite(value) else "remove NaN and Inf"
            raise InputError(
                f"{where}: entry ({row}, {int(W.indices[at])}) is {value:g}, {what}; {cure}"
            )
    if W.data.size and not W.data.all():
        W = W.copy()
        W.eliminate_zeros()
    return W


def symmetric(
    W: sp.csr_matrix,
    where: str,
    cure: str = "pass (A + A.T) / 2, or the directed graph to DISIM (-m disim)",
) -> sp.csr_matrix:
    """W itself if symmetric, its symmetric part if so to 1e-6 of the largest entry; InputError."""
    T = W.T.tocsr()
    limit = _SYMMETRY * float(np.abs(W.data).max(initial=0.0))
    same = np.array_equal(W.indptr, T.indptr) and np.array_equal(W.indices, T.indices)
    if same and np.array_equal(W.data, T.data):
        return W
    rows = max(1, int(W.shape[0] * _BLOCK / max(W.nnz, 1)))
    for start in range(0, W.shape[0], rows):  # in blocks: the difference is a third matrix
        gap = abs(W[start : start + rows] - T[start : start + rows]).tocoo()
        if gap.nnz and gap.data.max() > limit:
            at = int(np.argmax(gap.data))
            i, j = start + int(gap.row[at]), int(gap.col[at])
            raise InputError(
                f"{where}: not symmetric, entry ({i}, {j}) is {W[i, j]:g} but ({j}, {i}) is "
                f"{W[j, i]:g}; {cure}"
            )
    half = W.dtype.type(0.5)  # halves first: sums may overflow
    return (W * half + T * half).tocsr()


def as_points(
    points: Any, where: str = "points", *, allow_missing: bool = False
) -> NDArray[np.floating]:
    """Return points (n, d) as a finite C-contiguous float32 or float64 array; InputError otherwise.

    float32 is kept, half precision and integers of up to 16 bits become float32 (exactly), the
    rest float64. Rows with NaN (unless they are allowed) or Inf are counted, the first is named.
    """
    if sp.issparse(points):
        raise InputError(f"{where}: sparse matrix; pass points.toarray() or an affinity graph")
    X = numeric_array(_without_objects(points, where), where)
    if X.ndim != 2:
        raise InputError(
            f"{where}: shape {X.shape} is {X.ndim}-d. Reshape your data to (n points, d features)"
        )
    for axis, (what, noun) in enumerate((("sample", "row"), ("feature", "column"))):
        if X.shape[axis] == 0:
            raise InputError(
                f"{where}: 0 {what}(s) (shape={X.shape}) while a minimum of 1 is required; give at "
                f"least one {noun}"
            )
    exact = X.dtype == np.float16 or (X.dtype.kind in "biu" and X.dtype.itemsize <= 2)
    dtype = np.dtype(np.float32) if exact else _float_type(X.dtype, where)
    X = np.ascontiguousarray(X, dtype=dtype)
    rows = max(1, _BLOCK // X.shape[1])
    parts = (X[start : start + rows] for start in range(0, X.shape[0], rows))
    if not all(
        np.isfinite(part).all() or (allow_missing and not np.isinf(part).any()) for part in parts
    ):
        raise _not_finite(X, where, allow_missing)
    return X


def _not_finite(X: NDArray[np.floating], where: str, allow_missing: bool) -> InputError:
    """The error of NaN or Inf in points: in how many rows, the first, the cure."""
    gap = np.isnan(X)
    if gap.any() and not allow_missing:
        bad, what = gap, "NaN"
        cure = "fill them (sklearn.impute.SimpleImputer()) or leave these rows out"
    else:
        bad, what, cure = np.isinf(X), "infinite values", "replace them by numbers"
    rows = np.flatnonzero(bad.any(axis=1))
    return InputError(
        f"{where}: {what} in {rows.size:,} row{'s' if rows.size > 1 else ''}, the first is row "
        f"{rows[0]}, column {int(bad[rows[0]].argmax())}; {cure}"
    )


def check_answer(values: Any, what: str) -> None:
    """Raise NumericalError if a solver's result has a NaN or Inf: none leaves the engine."""
    if not np.isfinite(values).all():
        raise NumericalError(
            f"{what}: NaN or Inf came out; the graph's weights differ by more than doubles hold, "
            "so raise the smallest, or leave out nodes that hardly hang on"
        )


def numeric_array(values: Any, where: str) -> NDArray[Any]:
    """Return a numpy view of array-likes that hold real numbers; raises InputError."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: not an array of numbers ({error}); check the rows") from None
    if array.dtype.kind not in "biuf":
        wrong = f"{type(values).__name__ if array.ndim == 0 else f'type {array.dtype}'} given"
        if array.dtype.kind == "c":
            wrong = "complex numbers given. Complex data not supported"  # scikit-learn's words
        raise InputError(f"{where}: {wrong}; convert to real numbers")
    return array


def _without_objects(values: Any, where: str) -> Any:
    """Numbers held as Python objects, as tables of mixed columns have them, as floats."""
    columns = getattr(values, "columns", ())  # of a data frame
    values = np.asarray(values) if len(columns) else values
    if getattr(values, "dtype", np.dtype(float)).kind != "O":
        return values
    for name, cells in zip(columns, values.T, strict=False):
        try:
            np.asarray(cells, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{where}: column {name!r}: {error}; leave it out, or use pandas.get_dummies(X)"
            ) from None
    try:
        return np.asarray(values, dtype=np.float64)
    except TypeError as error:
        raise InputTypeError(f"{where}: {error}; convert to real numbers") from None
    except ValueError as error:
        raise InputError(f"{where}: {error}; convert to real numbers") from None


def _float_type(dtype: Any, where: str) -> np.dtype[Any]:
    """Keep float32, else float64; refuse what is not a real number."""
    kind = np.dtype(dtype)
    if kind.kind not in "biuf":
        raise InputError(f"{where}: type {kind} given; convert to real numbers")
    return kind if kind == np.float32 else np.dtype(np.float64)


# --- Parameters: numbers, choices, seeds


class PlainParameters:
    """Of an estimator: parameters that are numpy scalars become Python's when they are set.

    `np.int64(5)` is no `int`, `np.True_` is not `True`.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, np.generic) and not (name.startswith("_") or name.endswith("_")):
            value = value.item()
        super().__setattr__(name, value)


def check_number(value: Any, where: str, wanted: str) -> float:
    """Return a finite number; raises InputError that says what is `wanted`."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise InputError(f"{where}: {value!r} is not a number; give {wanted}")
    return number


def check_positive(value: Any, where: str) -> float:
    """Return a finite number > 0; raises InputError."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not 0 < number < np.inf:
        raise InputError(f"{where}: {value!r} given; it must be finite and above 0")
    return number


def check_share(value: Any, where: str) -> float:
    """Return a number strictly between 0 and 1; raises InputError."""
    number = check_number(value, where, "a number between 0 and 1")
    if not 0 < number < 1:
        raise InputError(f"{where}: {value!r} given; it must lie between 0 and 1, both excluded")
    return number


def check_tolerance(tol: float | None, where: str = "tol") -> None:
    """Raise InputError unless tol is None or a positive number."""
    try:
        fine = tol is None or 0 < float(tol) < np.inf
    except (TypeError, ValueError):
        fine = False
    if not fine:
        raise InputError(
            f"{where}: {tol!r} is no residual to reach; give a number above 0, such as 1e-4"
        )


def as_integer(value: Any, where: str, low: int | None = None) -> int:
    """Return a whole number (never a bool), at least `low`; raises InputError."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool | np.bool_):
        words = " ".join(repr(value).split())[:_SHOWN]
        raise InputError(f"{where}: {words} is not a whole number; give an integer")
    if low is not None and number < low:
        raise InputError(f"{where}: {number} given; it must be at least {low}")
    return number


def check_n_clusters(n_clusters: Any, n_nodes: int) -> int:
    """Return K as int with 1 <= K <= n; raises InputError."""
    k = as_integer(n_clusters, "n_clusters", 1)
    if k > n_nodes:
        raise InputError(
            f"n_clusters: {k} clusters asked of {n_nodes} nodes; ask for at most {n_nodes}"
        )
    return k


def check_n_jobs(n_jobs: Any) -> int | None:
    """Return a number of threads >= 1, or None for all of them (None, -1); raises InputError."""
    if n_jobs is None:
        return None
    jobs = as_integer(n_jobs, "n_jobs")
    if jobs == -1:
        return None
    if jobs < 1:
        raise InputError(f"n_jobs: {jobs} given; use 1, 2, …, or -1 for every core")
    return jobs


def check_choice(value: Any, choices: tuple[str, ...], where: str) -> str:
    """Return `value` when it is one of `choices`; raises InputError."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{where}: {value!r} is unknown; choose {' | '.join(choices)}")
    return value


def check_flag(value: Any, where: str) -> None:
    """Raise InputError unless the value is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{where}: {value!r} is neither True nor False")


def as_random_state(random_state: Any = None) -> np.random.Generator:
    """Return a Generator of None, an integer >= 0, a SeedSequence, Generator or RandomState.

    A Generator is returned as it is and so advances; an integer gives the same stream each time.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    if random_state is None or isinstance(random_state, np.random.SeedSequence):
        return np.random.default_rng(random_state)
    return np.random.default_rng(as_integer(random_state, "random_state", low=0))
