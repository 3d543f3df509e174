"""Input checks: every array, parameter and label that enters the engine passes here once.

Nothing is changed in place. Each failure is one line `where: input, error; cure` (InputError).
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
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


def check_graph_weights(wanted: Any, count: int, names: Sequence[str] = ()) -> Any:
    """The word "auto" or "equal", or weights (count,) >= 0 that sum to 1; raises InputError.

    Of graphs that have `names` they may be given by these, 0 where left out.
    """
    where = "graph_weights"
    if isinstance(wanted, Mapping):
        strange = next((name for name in wanted if name not in names), None)
        if strange is not None:
            there = f"there are {', '.join(names)}" if names else "views alone have names"
            raise InputError(f"{where}: no view is called {strange!r}; {there}")
        wanted = [wanted.get(name, 0.0) for name in names]
    if isinstance(wanted, str):
        if wanted not in ("auto", "equal"):
            raise InputError(f'{where}: "{wanted}" given; give "auto", "equal" or numbers')
        return wanted
    found = np.asarray(numeric_array(wanted, where), dtype=np.float64)
    if found.shape != (count,):
        noun = "graph" if count == 1 else "graphs"
        raise InputError(f"{where}: shape {found.shape} for {count} {noun}; give one weight each")
    if not np.isfinite(found).all() or (found < 0).any() or not found.any():
        raise InputError(f"{where}: {found.tolist()} given; at least 0, finite, not all 0")
    found = found / found.max()  # whose sum could overflow
    return found / found.sum()


def check_regularization(value: float | str) -> None:
    """Raise InputError unless it is "auto" or a number from 0."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if value != "auto" and not (number and 0 <= float(value) < np.inf):
        raise InputError(
            f"regularization: {value!r} cannot be added to degrees; give auto, or a share of the "
            "mean degree such as 0.3 (0 adds nothing)"
        )


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


# --- Labels of some of the nodes: numbers or names of classes

EQUAL_ROWS = "kind of equal rows, kinds of equal rows"
REPRESENTATIVES = "representative, representatives"
_NUMBERED = 20  # labelled rows from which as many classes are no chance
_UNKNOWN = frozenset({"", "-1", "-1.0", "None", "nan", "NaN", "<NA>"})  # of Python, numpy, pandas


def as_labels(labels: Any, n_nodes: int, where: str = "labels") -> NDArray[np.int64]:
    """Return labels (n,) as int64, -1 for unknown. Raises InputError.

    Whole floats are accepted; NaN among them is unknown, too.
    """
    y = numeric_array(labels, where)
    if y.ndim == 2 and (y.shape[1] == 1 or y.size == n_nodes):  # those of a picture, row by row
        y = y.ravel()
    if y.ndim != 1:
        raise InputError(f"{where}: shape {y.shape}; give one label per node, ({n_nodes},)")
    if y.shape[0] != n_nodes:
        raise InputError(
            f"{where}: {y.shape[0]} labels for {n_nodes} nodes; give one per node, -1 for unknown"
        )
    if y.dtype.kind == "f":
        y = np.where(np.isnan(y), -1, y)
        bad = np.flatnonzero(~np.isfinite(y) | (y != np.round(y)))
        if bad.size:
            i = int(bad[0])
            raise InputError(
                f"{where}: label {y[i]:g} of node {i} is no whole number; number the "
                "classes from 0, -1 for unknown"
            )
    y = y.astype(np.int64)
    low = np.flatnonzero(y < -1)
    if low.size:
        i = int(low[0])
        raise InputError(f"{where}: label {y[i]} of node {i} is below -1; -1 means unknown")
    return y


def labels_of_nodes(
    labels: NDArray[np.int64],
    rows: NDArray[np.integer[Any]],
    weights: NDArray[np.float64],
    n_nodes: int,
    kind: str = EQUAL_ROWS,
) -> tuple[NDArray[np.int64], str]:
    """Labels (n_nodes,) of nodes from those (n,) of their rows, and a warning of contradictions.

    `rows` (n,) are the nodes of the rows, `weights` (n,) those of the rows. Of different labels in
    one node that of most weight counts, -1 for a tie; rows of weight 0 do not count. `kind` is what
    a node is, with its plural. Cost O(n + l log l), l labels.
    """
    given = np.flatnonzero((labels >= 0) & (weights > 0))
    classes, code = np.unique(labels[given], return_inverse=True)
    cells, cell = np.unique(
        rows[given] * np.int64(max(classes.size, 1)) + code, return_inverse=True
    )
    weight = np.bincount(cell, weights=weights[given], minlength=cells.size)
    node, own = np.divmod(cells, max(classes.size, 1))
    order = np.lexsort((weight, node))  # of every node the heaviest class last
    node, own, weight = node[order], own[order], weight[order]
    last = np.append(node[1:] != node[:-1], True)[: node.size]
    tied = np.append(False, (node[1:] == node[:-1]) & (weight[1:] == weight[:-1]))[: node.size]
    found = np.full(n_nodes, -1, dtype=np.int64)
    found[node[last]] = np.where(tied[last], -1, classes[own[last]])
    several = np.bincount(node, minlength=n_nodes) > 1
    count = int(np.count_nonzero(several))
    if not count:
        return found, ""
    example = given[rows[given] == np.argmax(several)]
    other = example[np.argmax(labels[example] != labels[example[0]])]
    one, many = kind.split(", ")
    noun = f"{one} has" if count == 1 else f"{many} have"
    return found, (
        f"{count} {noun} different labels, such as row {example[0]} ({labels[example[0]]}) and row "
        f"{other} ({labels[other]}): the label of most of them counts, none where they tie"
    )


def encoded(labels: Any, where: str) -> tuple[Any, NDArray[Any] | None]:
    """Labels as they are and None; names of classes as numbers (n,), and the names in order.

    Class names are text, or a column of Python objects. Unknown are "", "-1", -1, None and NaN.
    """
    array = np.asarray(labels)
    if array.dtype.kind not in "OUS":
        return labels, None
    if array.ndim not in (1, 2):
        raise InputError(f"{where}: shape {array.shape}; give one label per node")
    array = array.ravel()  # a picture's row by row
    unknown = np.array([text_of(label) in _UNKNOWN for label in array.tolist()], dtype=bool)
    try:
        names, codes = np.unique(array[~unknown], return_inverse=True)
    except TypeError:
        raise InputError(
            f"{where}: labels are a mixture of text and numbers; give all of one kind, -1 for "
            "unknown"
        ) from None
    found = np.full(array.shape[0], -1, dtype=np.int64)
    found[~unknown] = codes
    return found, names


def text_of(label: Any) -> str:
    """A label as text."""
    return str(label.decode() if isinstance(label, bytes) else label)


def class_texts(y: Any) -> tuple[str, ...] | None:
    """Names of the classes in the order of their numbers; None where labels (n,) are numbers."""
    names = None if y is None else encoded(y, "y")[1]
    return None if names is None else tuple(map(text_of, names.tolist()))


def numbered_after(y: Any, known: tuple[str, ...] | None) -> tuple[Any, tuple[str, ...] | None]:
    """Labels (m,) of new rows, numbered as the classes that are `known`; classes that are new last.

    Returns the numbers and the names of all. Raises InputError where one has names and the other
    numbers; without `known` names labels are numbered by themselves.
    """
    own = class_texts(y)
    if y is None or (own is None and known is None):
        return y, known
    if own is None or known is None:
        one, other = ("numbers", "names") if own is None else ("names", "numbers")
        raise InputError(f"y: labels are {one} here, {other} in the fit; give all of one kind")
    every = tuple(dict.fromkeys((*known, *own)))
    place = np.array([every.index(name) for name in own] + [-1], dtype=np.int64)
    return place[encoded(y, "y")[0]], every


def class_of_most(
    found: NDArray[np.int64], known_labels: NDArray[np.int64], n_clusters: int
) -> NDArray[np.int64]:
    """The class that most labelled rows of every cluster have (K,), -1 where none has a label.

    Clusters `found` (n,), of which `n_clusters` at least, and labels (n,), -1 for none. Cost
    O(n + K · classes).
    """
    known = (known_labels >= 0) & (found >= 0)
    size = int(known_labels.max(initial=-1)) + 2
    n_clusters = max(n_clusters, int(found.max(initial=-1)) + 1)  # numbers may have gaps
    votes = np.bincount(found[known] * size + known_labels[known], minlength=n_clusters * size)
    votes = votes.reshape(n_clusters, size)
    return np.where(votes.any(axis=1), votes.argmax(axis=1), -1)


def called_by_most(
    found: NDArray[np.int64],
    known_labels: NDArray[np.int64],
    names: Mapping[int, str],
    n_clusters: int = 0,
) -> list[str]:
    """Names of clusters (K,): that of `class_of_most`, "" without one; no two are alike.

    Of several of one class that with most of its labels is called "oak", the next "oak (2)".
    """
    most = class_of_most(found, known_labels, n_clusters)
    called, taken = [""] * most.size, set(names.values())
    for code, name in names.items():
        own = np.flatnonzero(most == code)
        votes = np.bincount(found[(known_labels == code) & (found >= 0)], minlength=most.size)
        free = itertools.chain(
            [name], (one for i in itertools.count(2) if (one := f"{name} ({i})") not in taken)
        )
        for at in own[np.argsort(-votes[own], kind="stable")].tolist() if name else ():
            called[at] = next(free)
    return called


def in_order_of_rows(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Classes (n,) numbered from 0 in the order of their first rows, -1 unknown.

    What is drawn class by class is then the same whatever the classes are called.
    """
    known = np.flatnonzero(labels >= 0)
    _, first, codes = np.unique(labels[known], return_index=True, return_inverse=True)
    place = np.empty(first.size, dtype=np.int64)
    place[np.argsort(first)] = np.arange(first.size)
    found = np.full(labels.size, -1, dtype=np.int64)
    found[known] = place[np.ravel(codes)]
    return found


def check_two_classes(labels: NDArray[np.int64], where: str) -> None:
    """Raise InputError unless labels (n,), -1 unknown, are of two classes or more."""
    classes = np.unique(labels[labels >= 0])
    if classes.size == 0:
        raise InputError(f"{where}: all {labels.size} labels are -1; give some nodes their class")
    if classes.size == 1:
        raise InputError(
            f"{where}: labels of 1 class only ({classes[0]}); give labels of at least two classes"
        )
    refuse_row_numbers(labels, where)


def refuse_row_numbers(labels: NDArray[np.int64], where: str) -> None:
    """Raise InputError where most rows have a label (n,), and every one is a class of its own."""
    known = labels[labels >= 0]
    if known.size < _NUMBERED or 2 * known.size <= labels.size:
        return
    if np.unique(known).size == known.size:
        raise InputError(
            f"{where}: labels of {known.size} rows name {known.size} classes, every row another: "
            "is it a column of row numbers? name the one that has the classes"
        )


def class_labels(y: Any, where: str = "y") -> tuple[NDArray[np.int64], NDArray[Any] | None]:
    """Labels of at least two classes, checked before any work, and names of classes.

    Raises InputError, in scikit-learn's words where it has the same error.
    """
    if y is None:
        raise InputError(
            "y: requires y to be passed, but the target y is None; give one label per node, -1 for "
            "unknown"
        )
    codes, names = encoded(y, where)
    raw = np.asarray(codes)
    if raw.ndim == 2 and raw.shape[1] == 1:
        from sklearn.utils.validation import column_or_1d

        raw = column_or_1d(raw, warn=True)
    if raw.dtype.kind == "f":
        between = np.isfinite(raw) & (raw != np.round(raw))
        if between.any():
            raise InputError(
                f"{where}: Unknown label type: continuous, {raw[between][0]:g} is no class; number "
                "the classes from 0, -1 for unknown"
            )
    labels = as_labels(raw, raw.size, where)  # a picture's row by row
    check_two_classes(labels, where)
    return labels, names


def n_classes_in(y: Any) -> int | None:
    """The number of classes among labels, None without any; labels are checked later."""
    if y is None:
        return None
    codes = np.asarray(encoded(y, "y")[0])
    return np.unique(codes[codes >= 0]).size or None


def named(names: NDArray[Any], codes: NDArray[np.int64]) -> NDArray[Any]:
    """Return names[codes]; code -1 becomes the unknown label: -1, or "" among text."""
    unknown: Any = "" if isinstance(names[0], str | bytes) else -1
    return np.where(codes >= 0, names[codes], np.array(unknown).astype(names.dtype))


def best_matches(worth: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of a table (a, b), each taken once, whose entries have the largest sum.

    At once where the largest entries of the rows are in columns of their own, and no row has two:
    then there is no other result. Else by the Hungarian method, O(max(a, b)³), for which
    scipy.optimize is imported, which takes longer than small tables do.
    """
    if worth.size:
        rows, columns = np.nonzero(worth == worth.max(axis=1, keepdims=True))
        if rows.size == len(worth) == np.unique(columns).size:
            return rows, columns
    from scipy.optimize import linear_sum_assignment

    found: tuple[NDArray[np.intp], NDArray[np.intp]] = linear_sum_assignment(worth, maximize=True)
    return found
