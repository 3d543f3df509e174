"""Constraints: dense twins, closure, contradictions, splitting, adding, clear errors."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from mustlink.constraints import Constraints, closure
from mustlink.constraints.label_groups import DENSE_CORE
from mustlink.errors import InputError


@st.composite
def pair_sets(draw, signs=(1.0, -1.0), max_pairs=15):
    n = draw(st.integers(2, 9))
    node = st.integers(0, n - 1)
    pair = st.tuples(node, node).filter(lambda p: p[0] != p[1])
    pairs = draw(st.lists(pair, max_size=max_pairs))
    belief = draw(st.lists(st.sampled_from(signs), min_size=len(pairs), max_size=len(pairs)))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2), np.array(belief, dtype=float), n


@st.composite
def labellings(draw):
    return np.array(draw(st.lists(st.sampled_from([-1, 0, 2, 3, 7]), min_size=1, max_size=12)))


def from_pairs(case):
    pairs, belief, n = case
    return Constraints.from_pairs(pairs, belief, n_nodes=n)


def soft_matrix(n, seed, signed=True):
    rng = np.random.default_rng(seed)
    Q = rng.standard_normal((n, n)) * (rng.random((n, n)) < 0.4)
    Q = Q + Q.T
    return Q if signed else abs(Q)


# dense twins


@given(pair_sets(signs=(1.0, -1.0, 0.25, -2.5)))
def test_pairs_are_the_dense_matrix(case):
    c = from_pairs(case)
    np.testing.assert_allclose(c.to_dense(), oracles.pairs_dense(*case), atol=1e-15)
    assert c.kind == ("pairs" if len(case[0]) else "none")
    assert c.pairs.dtype == c.nodes.dtype == np.int64
    assert c.n_constraints == len({frozenset(p) for p in case[0].tolist()})
    assert c.nodes.tolist() == sorted(set(case[0].ravel().tolist()))


@given(labellings())
def test_labels_are_the_dense_matrix(y):
    c = Constraints.from_labels(y)
    np.testing.assert_array_equal(c.to_dense(), oracles.labels_dense(y))
    assert c.matrix.nnz == 0
    count = int((y >= 0).sum())
    assert c.n_constraints == count * (count - 1) // 2
    assert c.classes.tolist() == sorted(set(y[y >= 0].tolist()))
    assert c.closure() is c


def test_very_many_classes_need_no_dense_core():
    y = np.arange(DENSE_CORE + 90) // 2
    few, many = Constraints.from_labels(y), Constraints.from_labels(np.arange(DENSE_CORE + 90))
    np.testing.assert_array_equal(few.to_dense(), oracles.labels_dense(y))
    assert sp.issparse(many.core)
    np.testing.assert_array_equal(many.to_dense(), 2 * np.eye(DENSE_CORE + 90) - 1)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, sp.coo_matrix, sp.csc_array])
def test_graph_and_matrix_keep_their_entries_and_diagonal(form):
    A, Q = soft_matrix(12, 0, signed=False), soft_matrix(12, 1)
    graph, matrix = Constraints.from_graph(form(A)), Constraints.from_matrix(form(Q))
    np.testing.assert_array_equal(graph.to_dense(), A)
    np.testing.assert_array_equal(matrix.to_dense(), Q)
    assert (graph.kind, matrix.kind) == ("graph", "matrix")
    assert graph.n_constraints == np.count_nonzero(np.triu(A, 1))
    assert graph.closure() is graph


def test_a_graph_object_gives_its_affinity():
    class Graph:
        affinity = sp.csr_matrix(soft_matrix(5, 2, signed=False))

    c = Constraints.from_graph(Graph())
    np.testing.assert_array_equal(c.to_dense(), Graph.affinity.toarray())
    assert c.soft is not Graph.affinity


def test_rounding_asymmetry_is_averaged_away():
    Q = soft_matrix(6, 3)
    Q[0, 1], Q[1, 0] = 1.0, 1.0 + 1e-15
    dense = Constraints.from_matrix(Q).to_dense()
    np.testing.assert_array_equal(dense, dense.T)


@given(pair_sets(), st.integers(0, 2**31))
def test_dot_is_the_dense_product_and_symmetric(case, seed):
    n = case[2]
    rng = np.random.default_rng(seed)
    c = from_pairs(case) + Constraints.from_labels(rng.integers(-1, 3, n))
    c = c + Constraints.from_matrix(soft_matrix(n, seed))
    for one in (c, c.closure()):
        X, Y = rng.standard_normal((2, n, 3))
        np.testing.assert_allclose(one.dot(X), one.to_dense() @ X, atol=1e-12)
        np.testing.assert_allclose(one.dot(X[:, 0]), one.to_dense() @ X[:, 0], atol=1e-12)
        np.testing.assert_allclose(np.vdot(one.dot(X), Y), np.vdot(X, one.dot(Y)), atol=1e-10)


def test_inputs_are_copied_and_left_alone():
    pairs, belief = np.array([[3, 1], [0, 2]]), np.array([1.0, -1.0])
    y, Q = np.array([0, -1, 1]), soft_matrix(4, 5)
    kept = [a.copy() for a in (pairs, belief, y, Q)]
    c = Constraints.from_pairs(pairs, belief, n_nodes=4)
    c.closure(), c.split(0.5, 0), Constraints.from_labels(y), Constraints.from_matrix(Q)
    for array, copy in zip((pairs, belief, y, Q), kept, strict=True):
        np.testing.assert_array_equal(array, copy)
    pairs[0, 0] = 2
    assert c.pairs[0].tolist() == [3, 1]


def test_repeated_pairs_count_once_with_mean_belief():
    c = Constraints.from_pairs([[1, 0], [0, 1], [0, 1]], [1.0, 0.5, -0.3], n_nodes=3)
    assert c.to_dense()[0, 1] == pytest.approx(0.4)
    assert c.n_constraints == 1
    cancelled = Constraints.from_pairs([[1, 0], [0, 1]], [1, -1], n_nodes=3)
    assert cancelled.matrix.nnz == 0
    assert cancelled.counts()["undecided"] == 1


# nothing given, one node in very many pairs, large node numbers


def test_no_constraints():
    empty = Constraints.none(5)
    for c in (
        empty,
        Constraints.from_pairs([], n_nodes=5),
        Constraints.from_pairs(np.empty((0, 2)), np.empty(0), n_nodes=5),
        Constraints.from_labels([-1] * 5),
        Constraints.from_graph(sp.csr_matrix((5, 5))),
        empty + empty,
        empty.closure(strict=True),
        *empty.split(0.3, 0),
    ):
        assert c.kind == "none"
        assert c.is_empty
        assert c.n_constraints == 0
        assert c.nodes.size == 0
        assert c.contradictions() == ()
        assert not c.to_dense().any()


def test_one_node_in_thousands_of_pairs():
    n = 5001
    pairs = np.column_stack([np.zeros(n - 1, dtype=int), np.arange(1, n)])
    closed = Constraints.from_pairs(pairs, n_nodes=n).closure()
    assert closed.factor.shape == (n, 1)
    assert closed.factor.nnz == n
    apart = Constraints.from_pairs(pairs, -1, n_nodes=n).closure()
    assert apart.core.nnz == n + 2 * (n - 1)


def test_node_numbers_stay_int64_on_a_huge_graph():
    n = 3_000_000
    c = Constraints.from_pairs(np.array([[n - 1, n - 2]], dtype=np.int32), n_nodes=n)
    assert c.merged[0].tolist() == [[n - 2, n - 1]]
    assert c.merged[0].dtype == c.nodes.dtype == np.int64


def test_a_million_nodes_make_no_cliques():
    rng = np.random.default_rng(0)
    n, m = 1_000_000, 100_000
    pairs = rng.integers(0, n, (m, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    y = np.full(n, -1)
    y[rng.permutation(n)[:20_000]] = rng.integers(0, 10, 20_000)
    closed = Constraints.from_pairs(pairs, rng.choice([-1.0, 1.0], len(pairs)), n_nodes=n).closure()
    labels = Constraints.from_labels(y)
    assert closed.core.nnz < 4 * m
    assert labels.factor.nnz == 20_000


# closure and contradictions


@pytest.mark.thorough
@given(pair_sets(signs=(1.0, -1.0, 0.3, -0.4)))
@settings(max_examples=200)
def test_closure_is_brute_force_transitive_closure(case):
    c = from_pairs(case)
    Q = oracles.pairs_dense(*case)
    reach = (Q >= 1) | np.eye(len(Q), dtype=bool)
    reach = np.linalg.matrix_power(reach.astype(float), len(Q)) > 0
    closed = c.closure()
    dense = closed.to_dense()
    np.testing.assert_array_equal(dense, dense.T)
    if not (reach & (Q <= -1)).any():
        np.testing.assert_allclose(dense, oracles.closure_dense(Q), atol=1e-15)
    if closed.factor is not None:
        assert (np.asarray(closed.factor.sum(axis=1)) <= 1).all()
        np.testing.assert_array_equal(closed.core.diagonal(), 1)


@pytest.mark.thorough
@given(pair_sets())
def test_closure_is_idempotent(case):
    closed = from_pairs(case).closure()
    assert closed.closure() is closed
    Q = closed.to_dense()
    i, j = np.nonzero(np.triu(Q, 1))
    if i.size and not from_pairs(case).contradictions():
        again = Constraints.from_pairs(np.column_stack([i, j]), Q[i, j], n_nodes=len(Q)).closure()
        np.testing.assert_array_equal(again.to_dense(), Q)


def test_closure_of_labels_and_pairs_extends_the_classes():
    y = [0, -1, 5, -1, -1]
    c = Constraints.from_labels(y) + Constraints.from_pairs([[0, 1], [2, 3]], n_nodes=5)
    assert c.kind == "mixed"
    np.testing.assert_array_equal(c.closure().to_dense(), oracles.labels_dense([0, 0, 5, 5, -1]))


@pytest.mark.thorough
@given(pair_sets(), st.integers(0, 2**31))
def test_closure_is_the_same_for_very_many_classes(case, seed):
    n = case[2]
    c = from_pairs(case) + Constraints.from_labels(np.random.default_rng(seed).integers(-1, 5, n))
    few = c.closure().to_dense()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(closure, "DENSE_CORE", 1)
        many = c.closure()
    np.testing.assert_array_equal(many.to_dense(), few)
    if not c.contradictions():
        Q = oracles.pairs_dense(*case) + oracles.labels_dense(
            np.full(n, -1) if c.labels is None else c.labels
        )
        np.fill_diagonal(Q, 0)
        stated = oracles.closure_dense(np.clip(Q, -1, 1))
        off = ~np.eye(n, dtype=bool)
        np.testing.assert_array_equal(few[off], stated[off])


def test_a_must_link_between_two_classes_is_kept_soft():
    c = Constraints.from_labels([0, -1, 5]) + Constraints.from_pairs([[0, 1], [1, 2]], n_nodes=3)
    (found,) = c.check()
    assert found.reason == "between classes"
    assert found.pair == (1, 2)
    expected = oracles.labels_dense([0, 0, 5])
    expected[1, 2] = expected[2, 1] = -1 + 1
    np.testing.assert_array_equal(c.closure().to_dense(), expected)
    with pytest.raises(InputError, match=r"must-link \(1, 2\) of row 1 joins two classes"):
        c.closure(strict=True)


def test_soft_pairs_are_not_closed():
    c = Constraints.from_pairs([[0, 1], [1, 2]], [1.0, 0.4], n_nodes=4)
    closed = c.closure()
    assert closed.to_dense()[0, 2] == 0
    assert closed.to_dense()[1, 2] == 0.4
    assert c.closure(hard=0.4).to_dense()[0, 2] == 1
    np.testing.assert_array_equal(c.closure(hard=5).to_dense(), c.to_dense())
    assert c.closure(hard=5).factor is None


def test_both_signs_for_one_pair():
    c = Constraints.from_pairs([[0, 1], [4, 2], [2, 4]], [1, -1, 0.5], n_nodes=5)
    (found,) = c.contradictions()
    assert found.reason == "both signs"
    assert (found.pair, found.rows) == ((2, 4), (2, 1))
    with pytest.raises(InputError, match=r"\(2, 4\) is must-link in row 2, cannot-link in row 1"):
        c.check(strict=True)


def test_a_cannot_link_inside_a_group_comes_with_its_path():
    pairs = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [6, 7], [1, 6], [0, 7]]
    c = Constraints.from_pairs(pairs, [1] * 8 + [-1], n_nodes=10)
    (found,) = c.contradictions()
    assert found.path == (0, 1, 6, 7)
    assert (found.reason, found.n_nodes, found.rows) == ("within group", 8, (8,))
    closed = c.closure().to_dense()
    assert closed[0, 7] == 1 - 1
    assert closed[0, 6] == 1
    assert "0 - 1 - 6 - 7" in str(found)


def test_a_cannot_link_inside_a_class_is_found():
    c = Constraints.from_labels([3, 3, -1, 3]) + Constraints.from_pairs([[0, 3]], -1, n_nodes=4)
    assert [one.pair for one in c.contradictions()] == [(0, 3)]


def test_strict_names_up_to_five_pairs():
    rng = np.random.default_rng(0)
    pairs = np.column_stack([np.arange(40), np.arange(40) + 1])
    bad = np.array([[0, 30 + k] for k in range(9)])
    order = rng.permutation(49)
    c = Constraints.from_pairs(
        np.vstack([pairs, bad])[order], np.repeat([1, -1], [40, 9])[order], n_nodes=41
    )
    with pytest.raises(InputError, match="9 contradictions") as caught:
        c.closure(strict=True)
    assert str(caught.value).count("cannot-link (") == 5
    assert "and 4 more" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(c.check()) == 9


# splitting


@given(pair_sets(), st.floats(0.05, 0.95), st.integers(0, 2**31))
def test_pairs_split_into_a_partition(case, fraction, seed):
    c = from_pairs(case)
    kept, held = c.split(fraction, np.random.default_rng(seed))
    together = np.vstack([kept.pairs, held.pairs])
    assert sorted(map(tuple, together)) == sorted(map(tuple, c.pairs))
    np.testing.assert_allclose(kept.to_dense() + held.to_dense(), c.to_dense(), atol=1e-15)
    assert not (set(map(tuple, kept.merged[0])) & set(map(tuple, held.merged[0])))
    if c.n_constraints > 1:
        assert kept.n_constraints
        assert held.n_constraints


@given(labellings(), st.floats(0.05, 0.95), st.integers(0, 2**31))
def test_labels_split_into_a_partition(y, fraction, seed):
    kept, held = Constraints.from_labels(y).split(fraction, seed)
    known = [np.full(y.size, -1) if c.labels is None else c.labels for c in (kept, held)]
    assert not ((known[0] >= 0) & (known[1] >= 0)).any()
    np.testing.assert_array_equal(np.maximum(*known), y)
    assert set(kept.classes) == set(y[y >= 0])
    sizes = np.unique(y[y >= 0], return_counts=True)[1]
    assert bool(held.classes.size) == bool((sizes > 1).any())


@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.5])
def test_held_out_share_is_right_on_average(fraction):
    y = np.repeat([0, 4, 5], [5, 50, 500])
    c = Constraints.from_labels(y)
    shares = [(c.split(fraction, s)[1].labels >= 0).mean() for s in range(100)]
    # Only the rounding of three classes is random: the mean of 100 draws varies by 2e-4.
    assert np.mean(shares) == pytest.approx(fraction, abs=2e-3)


@given(st.integers(2, 10), st.floats(0.1, 0.9), st.integers(0, 2**31))
def test_matrices_split_into_symmetric_parts(n, fraction, seed):
    Q = soft_matrix(n, seed)
    c = Constraints.from_matrix(Q)
    kept, held = c.split(fraction, seed)
    np.testing.assert_array_equal(kept.to_dense() + held.to_dense(), Q)
    np.testing.assert_array_equal(held.to_dense(), held.to_dense().T)
    assert kept.n_constraints + held.n_constraints == c.n_constraints
    assert held.n_constraints == round(fraction * c.n_constraints)


def test_split_keeps_the_kind_and_the_seed_decides():
    graph = Constraints.from_graph(soft_matrix(10, 0, signed=False))
    assert [c.kind for c in graph.split(0.5, 3)] == ["graph", "graph"]
    first, second = graph.split(0.5, 3)[1], graph.split(0.5, 3)[1]
    np.testing.assert_array_equal(first.to_dense(), second.to_dense())


def test_parts_of_a_closure_are_closed_and_scored_apart():
    pairs = np.column_stack([np.arange(20), np.arange(20) + 1])
    closed = Constraints.from_pairs(pairs, n_nodes=21).closure()
    kept, held = closed.split(0.25, 0)
    assert kept.hard == held.hard == 1.0
    assert (kept.n_constraints, held.n_constraints) == (15, 5)


# adding


@given(pair_sets(signs=(1.0, -1.0, 0.5)), st.integers(0, 2**31))
def test_adding_disjoint_pairs_adds_matrices(case, seed):
    c = from_pairs(case)
    if c.n_constraints < 2:
        return
    a, b = c.split(0.5, seed)
    np.testing.assert_allclose((a + b).to_dense(), a.to_dense() + b.to_dense(), atol=1e-15)
    assert (a + b).kind == "pairs"


@given(pair_sets(), st.integers(0, 2**31))
def test_adding_different_kinds_adds_matrices(case, seed):
    rng = np.random.default_rng(seed)
    n = case[2]
    parts = [
        from_pairs(case),
        Constraints.from_labels(rng.integers(-1, 3, n)),
        Constraints.from_graph(soft_matrix(n, seed, signed=False)),
        Constraints.from_matrix(soft_matrix(n, seed + 1)),
    ]
    total = parts[0] + parts[1] + parts[2] + parts[3]
    np.testing.assert_allclose(total.to_dense(), sum(p.to_dense() for p in parts), atol=1e-12)


def test_adding_labels_joins_the_classes():
    a, b = Constraints.from_labels([0, -1, 4, -1]), Constraints.from_labels([-1, 0, 4, -1])
    np.testing.assert_array_equal((a + b).to_dense(), oracles.labels_dense([0, 0, 4, -1]))
    with pytest.raises(InputError, match="node 2 is labelled 4 in one set and 1 in the other"):
        a + Constraints.from_labels([-1, -1, 1, -1])


def test_adding_to_a_closure_closes_the_sum():
    a = Constraints.from_pairs([[0, 1]], n_nodes=4).closure()
    total = a + Constraints.from_pairs([[1, 2]], n_nodes=4)
    assert total.to_dense()[0, 2] == 1


# errors


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Constraints.from_pairs([[0, 1]] * 17 + [[3, 1000000]], n_nodes=1000000),
            "constraints: pair 17 is (3, 1000000) but the graph has 1000000 nodes, numbered from 0",
        ),
        (lambda: Constraints.from_pairs([[-1, 2]], n_nodes=3), "pair 0 is (-1, 2) but the graph"),
        (lambda: Constraints.from_pairs([[0, 1], [2, 2]], n_nodes=3), "pair 1 is (2, 2), a node"),
        (lambda: Constraints.from_pairs([[0, 1.5]], n_nodes=3), "pair 0 is (0.0, 1.5); nodes"),
        (lambda: Constraints.from_pairs([[0, np.nan]], n_nodes=3), "pair 0 is (0.0, nan); nodes"),
        (lambda: Constraints.from_pairs([["a", "b"]], n_nodes=3), "give node numbers as integers"),
        (lambda: Constraints.from_pairs([1, 2, 3], n_nodes=3), "pairs have shape (3,)"),
        (lambda: Constraints.from_pairs([[0, 1]], 0, n_nodes=3), "belief is 0; give a finite"),
        (lambda: Constraints.from_pairs([[0, 1]], [np.nan], n_nodes=3), "with belief nan"),
        (lambda: Constraints.from_pairs([[0, 1]], [1, 1], n_nodes=3), "shape (2,) for 1 pairs"),
        (lambda: Constraints.from_pairs([[0, 1]], "x", n_nodes=3), "belief is not numeric"),
        (lambda: Constraints.from_pairs([[0, 1]], n_nodes=0), "n_nodes is 0"),
        (lambda: Constraints.from_labels([0, np.nan]), "label nan of node 1"),
        (lambda: Constraints.from_labels([0, 0.5]), "label 0.5 of node 1"),
        (lambda: Constraints.from_labels([0, -2]), "label -2 of node 1"),
        (lambda: Constraints.from_labels([0, 1j]), "constraints: "),
        (lambda: Constraints.from_labels(np.array(["cat", 3], object)), "text and numbers"),
        (lambda: Constraints.from_labels([[0], [1]]), "labels have shape (2, 1)"),
        (lambda: Constraints.from_graph(np.ones((2, 3))), "graph has shape (2, 3)"),
        (lambda: Constraints.from_graph(-np.ones((2, 2))), "graph: entry (0, 0) is -1, negative"),
        (lambda: Constraints.from_graph([[0, np.inf], [1, 0]]), "entry (0, 1) is inf, not finite"),
        (lambda: Constraints.from_matrix([[0, 1], [2, 0]]), "entry (0, 1) is 1 but (1, 0) is 2"),
        (lambda: Constraints.from_matrix("Q"), "convert to real numbers"),
        (
            lambda: Constraints.none(90).require_nodes(100),
            "made for 90 nodes but the graph has 100;",
        ),
        (lambda: Constraints.none(90) + Constraints.none(91), "made for 91 nodes but"),
        (lambda: Constraints.none(20_001).to_dense(), "20001 nodes are too many"),
        (lambda: Constraints.none(9).split(1.0, 0), "fraction is 1.0"),
    ],
)
def test_bad_input_is_one_clear_line(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert message in str(caught.value)
    assert str(caught.value).startswith("constraints: ")
    assert "\n" not in str(caught.value)


def test_whole_number_floats_and_unsigned_numbers_are_fine():
    c = Constraints.from_pairs(np.array([[0.0, 2.0]]), n_nodes=3)
    u = Constraints.from_pairs(np.array([[0, 2]], dtype=np.uint64), n_nodes=3)
    np.testing.assert_array_equal(c.to_dense(), u.to_dense())
    assert Constraints.from_labels(np.array([1.0, -1.0])).labels.tolist() == [1, -1]


def test_repr_says_what_is_there():
    c = Constraints.from_pairs([[0, 1], [1, 2]], [1, -1], n_nodes=7)
    assert repr(c) == "Constraints(pairs: 1 must-links, 1 cannot-links on 3 of 7 nodes)"
