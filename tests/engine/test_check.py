"""Every bad input gives one clear line; good input comes through unchanged."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linear_sum_assignment

import cases
from mustlink.core import check
from mustlink.errors import InputError


def refuses(function, *arguments, words, **keywords):
    with pytest.raises(InputError) as caught:
        function(*arguments, **keywords)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert ":" in message


def graph(seed=0, n=20):
    return cases.random_graph(np.random.default_rng(seed), n, 2, 1)


FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("array", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, bool])
def test_any_sparse_format(kind, array, dtype):
    A = (graph() * 10).astype(dtype)
    given_ = (sp.csr_array(A) if array else A).asformat(kind)
    W = check.as_affinity(given_)
    assert isinstance(W, sp.csr_matrix)
    assert W.dtype == (np.float32 if dtype == np.float32 else np.float64)
    assert W.indices.dtype == np.int32
    assert_array_equal(W.toarray(), A.toarray().astype(W.dtype))
    assert W.has_canonical_format


def test_dense_arrays_and_lists():
    A = graph().toarray()
    assert_array_equal(check.as_affinity(A).toarray(), A)
    assert_array_equal(check.as_affinity(A.tolist()).toarray(), A)
    assert check.as_affinity(A.astype(np.float32)).dtype == np.float32


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_untidy_matrices_are_not_mutated(seed, wide, zeros):
    rng = np.random.default_rng(seed)
    A = graph(seed).tocoo()
    pick = rng.permutation(A.nnz)  # unsorted, with duplicates (halves) and explicit zeros
    row, col, val = A.row[pick], A.col[pick], A.data[pick] / 2
    if zeros:
        row, col, val = np.append(row, [1, 2]), np.append(col, [2, 1]), np.append(val, [0.0, 0.0])
    row, col, val = np.tile(row, 2), np.tile(col, 2), np.tile(val, 2)
    order = np.argsort(row, kind="stable")
    index = np.int64 if wide else np.int32
    indptr = np.searchsorted(row[order], np.arange(21)).astype(index)
    untidy = sp.csr_matrix((20, 20))
    untidy.data, untidy.indices, untidy.indptr = val[order], col[order].astype(index), indptr
    before = untidy.data.copy(), untidy.indices.copy(), untidy.indptr.copy()
    W = check.as_affinity(untidy)
    for now, then in zip((untidy.data, untidy.indices, untidy.indptr), before, strict=True):
        assert_array_equal(now, then)
        assert now.dtype == then.dtype
    assert_allclose(W.toarray(), A.toarray())
    assert W.data.all()
    assert W.has_canonical_format


def test_clean_input_is_shared():
    A = graph()
    assert np.shares_memory(check.as_affinity(A).data, A.data)


def test_small_asymmetry_is_averaged():
    A = graph().toarray()
    i, j = np.argwhere(A > 0)[0]
    A[i, j] *= 1 + 1e-9
    W = check.as_affinity(A)
    assert abs(W - W.T).max() == 0
    assert_allclose(W.toarray(), A, rtol=1e-8)


def bad(change, sparse=True):
    A = graph().toarray()
    change(A)
    return sp.csr_matrix(A) if sparse else A


def one_way(A):
    A[A > 0] = 1
    A[3, 5], A[5, 3] = 2.5, 0


def negative(A):
    A[4, 6] = A[6, 4] = -0.5


def not_a_number(A):
    A[2, 7] = A[7, 2] = np.nan


def infinite(A):
    A[2, 7] = A[7, 2] = np.inf


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (one_way, "not symmetric, entry (3, 5) is 2.5 but (5, 3) is 0"),
        (negative, "entry (4, 6) is -0.5, negative"),
        (not_a_number, "entry (2, 7) is nan, not finite"),
        (infinite, "entry (2, 7) is inf, not finite"),
    ],
)
def test_bad_entries_are_named(change, words, sparse):
    refuses(check.as_affinity, bad(change, sparse), words=words)


def test_asymmetry_is_found_in_any_block(monkeypatch):
    monkeypatch.setattr(check, "_BLOCK", 8)
    refuses(check.as_affinity, bad(one_way), words="entry (3, 5)")


def test_bad_matrices():
    refuses(check.as_affinity, np.ones((3, 4)), words="shape (3, 4) is not square")
    refuses(check.as_affinity, np.zeros((0, 0)), words="empty graph")
    refuses(check.as_affinity, sp.csr_matrix((0, 0)), words="empty graph")
    refuses(check.as_affinity, sp.csr_matrix((5, 5)), words="5 nodes but no edge")
    refuses(check.as_affinity, np.ones(4), words="1-d")
    refuses(check.as_affinity, sp.coo_array(np.ones(4)), words="1-d sparse")
    refuses(check.as_affinity, np.ones((2, 2)) * 1j, words="complex")
    refuses(check.as_affinity, sp.csr_matrix(np.ones((2, 2)) * 1j), words="complex")
    refuses(check.as_affinity, "graph", words="convert to real numbers")
    refuses(check.as_affinity, [[1, 2], [3]], words="not an array of numbers")
    broken = graph()
    broken.indices[0] = 99
    refuses(check.as_affinity, broken, words="broken sparse matrix")
    refuses(check.as_affinity, np.ones((2, 3)), where="file.h5:graph", words="file.h5:graph: ")


def test_points():
    kinds = {np.float32: np.float32, np.float64: np.float64, np.uint8: np.float32}
    kinds |= {np.int64: np.float64, np.float16: np.float32, bool: np.float32}
    for given_, kept in kinds.items():
        X = np.ones((4, 3), dtype=given_)
        assert check.as_points(X).dtype == kept
    X = np.asfortranarray(np.random.default_rng(0).random((5, 2)))
    assert check.as_points(X).flags.c_contiguous
    assert_array_equal(check.as_points(X), X)
    refuses(check.as_points, np.ones(4), words="1-d")
    refuses(check.as_points, np.ones((2, 2, 2)), words="3-d")
    refuses(check.as_points, np.ones((0, 3)), words="0 sample(s)")
    refuses(check.as_points, np.ones((3, 0)), words="0 feature(s)")
    refuses(check.as_points, sp.eye(3), words="toarray")
    refuses(check.as_points, np.array([["a", "b"]]), words="convert to real numbers")
    X = np.ones((9, 2))
    X[4, 1] = np.nan
    refuses(check.as_points, X, words="in 1 row, the first is row 4,")
    X[1:8, 0] = np.inf  # what is missing is told first
    refuses(check.as_points, X, words="NaN in 1 row, the first is row 4,")


def test_points_in_blocks(monkeypatch):
    monkeypatch.setattr(check, "_BLOCK", 4)
    X = np.ones((9, 2))
    X[7, 1] = np.nan
    refuses(check.as_points, X, words="the first is row 7,")


def test_labels():
    assert_array_equal(check.as_labels([0, -1, 2.0], 3), [0, -1, 2])
    assert check.as_labels(np.array([[1], [2]], dtype=np.uint8), 2).dtype == np.int64
    refuses(check.as_labels, [0, 1], 3, words="2 labels for 3 nodes")
    refuses(check.as_labels, [0.5, 1], 2, words="label 0.5 of node 0")
    refuses(check.as_labels, [0, np.inf], 2, words="label inf of node 1")
    refuses(check.as_labels, [0, -2], 2, words="label -2 of node 1 is below -1")
    refuses(check.as_labels, np.ones((2, 2)), 2, words="shape (2, 2)")
    refuses(check.as_labels, ["a", "b"], 2, words="convert to real numbers")


def test_numbers():
    assert check.check_n_clusters(np.int64(3), 3) == 3
    refuses(check.check_n_clusters, 0, 10, words="at least 1")
    refuses(check.check_n_clusters, 11, 10, words="11 clusters asked of 10 nodes")
    refuses(check.check_n_clusters, 2.0, 10, words="not a whole number")
    refuses(check.check_n_clusters, True, 10, words="not a whole number")
    refuses(check.check_positive, 0, "sigma", words="above 0")
    refuses(check.check_positive, np.inf, "sigma", words="finite")
    refuses(check.check_positive, None, "sigma", words="finite and above 0")
    refuses(check.check_choice, 3, ("a", "b"), "kind", words="choose a | b")
    assert check.check_n_jobs(-1) is None
    assert check.check_n_jobs(2) == 2
    refuses(check.check_n_jobs, 0, words="n_jobs: 0")


def test_random_state():
    first = check.as_random_state(7).random(3)
    assert_array_equal(first, check.as_random_state(np.int64(7)).random(3))
    rng = np.random.default_rng(1)
    assert check.as_random_state(rng) is rng
    legacy = [check.as_random_state(np.random.RandomState(3)).random() for _ in range(2)]
    assert legacy[0] == legacy[1]
    assert check.as_random_state(None).random() != check.as_random_state(None).random()
    refuses(check.as_random_state, -1, words="at least 0")
    refuses(check.as_random_state, "seed", words="not a whole number")


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 40), st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_best_matches_are_those_of_the_hungarian_method(a, b, most, seed):
    worth = np.random.default_rng(seed).integers(0, most, (a, b)) / 2
    rows, columns = linear_sum_assignment(worth, maximize=True)
    found = check.best_matches(worth)
    assert worth[found].sum() == worth[rows, columns].sum()
    assert_array_equal(found, (rows, columns))
    assert check.best_matches(np.zeros((0, 3)))[0].size == 0
