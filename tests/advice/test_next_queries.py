"""Questions: what they are worth against dense algebra, and what is never asked."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import mustlink as ml
from cases import blobs, planted_graph, random_graph
from mustlink.advice.pair_questions import STRATEGIES, Neighbourhoods
from mustlink.advice.situation import Situation, Walks, fitting_steps, uncertainties
from mustlink.discretize.memberships import usual
from mustlink.errors import InputError

LABELS, PAIRS = STRATEGIES["labels"], STRATEGIES["pairs"]


def fitted(seed=0, n=90, k=3, known=6, method="Poisson"):
    rng = np.random.default_rng(seed)
    W, y = planted_graph(rng, n, k)
    given = np.full(n, -1)
    for c in range(k):
        given[rng.choice(np.flatnonzero(y == c), known // k, replace=False)] = c
    options = {"affinity": "precomputed", "random_state": 0}
    if method in ("CSP", "SSSC", "SRCP"):
        options["n_clusters"] = k
    return getattr(ml, method)(**options).fit(W, given), y, given


@pytest.mark.parametrize("known", [6, 30])
def test_walks_are_powers_of_the_transition_matrix(known):
    est, _, _ = fitted(known=known)
    situation = Situation.of(est)
    order = situation.laplacian.nodes
    W = est.graph_.affinity.toarray()[np.ix_(order, order)]
    P = W / W.sum(axis=1, keepdims=True)
    sample = np.unique(np.linspace(0, len(W) - 1, 16).astype(int))
    back = [np.median(np.diag(np.linalg.matrix_power(P, t))[sample]) for t in range(9)]
    strategy = Walks.of(situation)
    t = strategy.steps
    assert t == 1 or back[t] * len(W) / (4 * known) >= 1
    assert t == 8 or back[t + 1] * len(W) / (4 * known) < 1
    assert strategy.own == pytest.approx(back[t] if t > 1 else 1)
    P = np.linalg.matrix_power(P, t)
    doubt, asked = uncertainties(situation), np.flatnonzero(situation.labelled).tolist()
    for node in (5, 60, 7):
        heard = P[:, asked].sum(axis=1)
        assert np.allclose(strategy.values, (doubt * np.exp(-heard / strategy.own)) @ P)
        strategy.answered(node)
        asked.append(node)


def test_walks_get_shorter_the_more_is_known():
    X, _ = blobs(np.random.default_rng(0), 600, 3, separation=2)
    laplacian = Situation.of(ml.NCut(3, n_neighbors=6, random_state=0).fit(X)).laplacian
    found = [fitting_steps(laplacian, 600 / known)[0] for known in (3, 30, 100, 300, 600)]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1] == 1


@pytest.mark.parametrize("method", ["Poisson", "CSP"])
def test_doubt_is_of_the_memberships(method):
    est, _, _ = fitted(method=method)
    situation = Situation.of(est)
    if method == "Poisson":
        P = est.label_distributions_[situation.rows]
    else:
        trust = usual(est.graph_).trust
        P = est._evidence().memberships(situation.laplacian.nodes, trust)
    P = np.sort(P, axis=1)
    assert np.allclose(P.sum(axis=1), 1)
    assert np.allclose(uncertainties(situation), 1 - P[:, -1] + P[:, -2])


# --- next_queries


@pytest.mark.thorough(but=3)
@pytest.mark.parametrize("method", ["Poisson", "GFHF", "LLGC", "CSP", "SSSC", "SRCP"])
@pytest.mark.parametrize("strategy", LABELS)
def test_known_and_avoided_nodes_are_never_asked(method, strategy):
    est, _, given = fitted(method=method)
    first = ml.next_queries(est, 7, strategy=strategy)
    assert np.array_equal(first, ml.next_queries(est, 7, strategy=strategy))
    assert np.unique(first).size == 7
    assert (given[first] < 0).all()
    avoid = first[:4]
    then = ml.next_queries(est, 7, strategy=strategy, avoid=avoid)
    assert not np.isin(then, avoid).any()
    assert np.unique(then).size == 7


@pytest.mark.parametrize("strategy", LABELS)
def test_all_one_and_no_nodes_left(strategy):
    est, y, _ = fitted(n=30)
    y = y.copy()
    est.refit(y)
    assert ml.next_queries(est, 3, strategy=strategy).size == 0
    y[12] = -1
    est.refit(y)
    assert ml.next_queries(est, 3, strategy=strategy).tolist() == [12]
    assert ml.next_queries(est, 3, strategy=strategy, avoid=[12]).size == 0


@pytest.mark.parametrize("strategy", LABELS)
def test_apart_alone_and_more_than_there_are(strategy):
    rng = np.random.default_rng(3)
    W = random_graph(rng, 40, components=3, isolated=4)
    given = np.full(40, -1)
    linked = np.flatnonzero(np.diff(W.indptr))
    given[linked[:4]] = [0, 1, 0, 1]
    est = ml.GFHF(affinity="precomputed").fit(W, given)
    asked = ml.next_queries(est, 100, strategy=strategy)
    assert np.array_equal(np.sort(asked), np.flatnonzero(given < 0))
    assert np.diff(W.indptr)[asked[-4:]].sum() == 0  # those without an edge come last


@pytest.mark.parametrize("strategy", LABELS)
def test_equal_rows_are_asked_once(strategy):
    X, _ = blobs(np.random.default_rng(0), 60, 3)
    X = np.repeat(X, 2, axis=0)
    y = np.full(len(X), -1)
    y[[0, 40, 80, 100]] = [0, 1, 2, 0]
    est = ml.Poisson(n_neighbors=5, random_state=0).fit(X, y)
    asked = ml.next_queries(est, 200, strategy=strategy)
    assert np.unique(asked // 2).size == asked.size == 56


def test_without_answers_every_cluster_is_asked_about():
    X, y = blobs(np.random.default_rng(0), 150, 5, separation=12)
    est = ml.CSP(5, n_neighbors=8, random_state=0).fit(X)
    asked = ml.next_queries(est, 5)
    assert np.unique(y[asked]).size == 5


def test_rows_of_named_classes():
    est, _y, given = fitted()
    names = np.where(given < 0, "", np.array(["a", "b", "c", ""])[given])
    named = ml.Poisson(affinity="precomputed", random_state=0).fit(est.graph_, names)
    assert np.array_equal(ml.next_queries(named, 5), ml.next_queries(est, 5))


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"n": 0}, "n:"),
        ({"kind": "edges"}, "kind"),
        ({"strategy": "guess"}, "strategy"),
        ({"kind": "pairs", "strategy": "walks"}, "strategy"),
        ({"avoid": [1.5]}, "avoid"),
        ({"avoid": [[1, 2]]}, "avoid"),
        ({"avoid": [1000]}, "avoid"),
        ({"avoid": [3], "kind": "pairs"}, "avoid"),
    ],
)
def test_what_cannot_be_asked_is_told(options, word):
    est, _, _ = fitted()
    with pytest.raises(InputError, match=word):
        ml.next_queries(est, **options)


def test_estimators_that_cannot_be_told_anything():
    W = sp.csr_matrix(planted_graph(np.random.default_rng(0), 40, 2)[0])
    for est in (ml.Poisson(), ml.LaplacianEigenmaps(affinity="precomputed").fit(W), object()):
        with pytest.raises(InputError, match="has refit"):
            ml.next_queries(est)


# --- pairs


def random_pairs(n, count=20):
    pairs = np.random.default_rng(1).integers(0, n, (count, 2))
    return pairs[pairs[:, 0] != pairs[:, 1]]


NONE = np.empty((0, 2), dtype=np.int64)


def answers(y, pairs):
    return np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("strategy", PAIRS)
def test_pairs_never_follow_from_what_is_known(strategy):
    est, y, _ = fitted(method="CSP", known=3)
    known = est.constraints_
    for _ in range(4):
        pairs = ml.next_queries(est, 6, kind="pairs", strategy=strategy)
        assert np.array_equal(pairs, ml.next_queries(est, 6, kind="pairs", strategy=strategy))
        closed = known.closure()
        Q = closed.matrix.toarray()
        if closed.factor is not None:
            F = closed.factor.toarray()
            core = closed.core.toarray() if sp.issparse(closed.core) else np.asarray(closed.core)
            Q = Q + F @ core @ F.T
        assert (pairs[:, 0] != pairs[:, 1]).all()
        again = known.to_dense()[pairs[:, 0], pairs[:, 1]] == 0
        follows = Q[pairs[:, 0], pairs[:, 1]]
        if strategy in ("auto", "neighbourhoods"):  # but for second opinions of what was a "yes"
            second = Neighbourhoods.of(Situation.of(est), NONE).second_opinions()
            asked = {tuple(sorted(one)) for one in pairs[follows != 0].tolist()}
            assert asked <= {tuple(sorted(one)) for one in Situation.of(est).rows[second].tolist()}
            assert again.all()
            assert (follows >= 0).all()
        else:
            assert (follows == 0).all()
        avoided = ml.next_queries(est, 6, kind="pairs", strategy=strategy, avoid=pairs[:3])
        refused = {tuple(sorted(one)) for one in pairs[:3].tolist()}
        assert not refused & {tuple(sorted(one)) for one in avoided.tolist()}
        known = known + ml.Constraints.from_pairs(pairs, answers(y, pairs), n_nodes=len(y))
        est.refit(constraints=known)


def test_after_a_no_the_next_likely_neighbourhood_is_asked():
    est, y, given = fitted(method="CSP", known=9)
    known = est.constraints_
    node = int(ml.next_queries(est, 1, kind="pairs")[0, 0])
    asked = []
    for _ in range(3):
        pair = ml.next_queries(est, 1, kind="pairs")
        assert node in pair[0].tolist()
        asked.append(int(given[pair[0][pair[0] != node]][0]))
        known = known + ml.Constraints.from_pairs(pair, -1.0, n_nodes=len(y))
        est.refit(constraints=known)
    assert sorted(asked) == [0, 1, 2]  # then it is of none of them: something new is asked
    assert ml.next_queries(est, 1, kind="pairs")[0, 0] != node


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["CSP", "FastGE", "SRCP", "Poisson"])
@pytest.mark.parametrize("known", [0, 12])
def test_questions_are_those_of_the_fit_whatever_else_its_graph_was_used_for(method, known):
    W, y = planted_graph(np.random.default_rng(3), 90, 3)
    given = np.where(np.arange(90) < (known or 3 * (method == "Poisson")), y, -1)
    options = {"affinity": "precomputed", "random_state": 0}
    own = options if method == "Poisson" else {**options, "n_clusters": 3}
    asked = []
    for used in (False, True):
        graph = ml.Graph.from_affinity(W)
        if used:
            ml.CSP(8, subspace=40, **options).fit(graph, np.where(np.arange(90) % 2, y, -1))
            ml.next_queries(ml.Poisson(**options).fit(graph, y), 3)
        est = getattr(ml, method)(**own).fit(graph, given if given.max() >= 0 else None)
        labels = [ml.next_queries(est, 8, strategy=one) for one in LABELS]
        pairs = [ml.next_queries(est, 8, kind="pairs", strategy=one) for one in PAIRS]
        asked.append([*labels, *(one.ravel() for one in pairs)])
    for fresh, then in zip(*asked, strict=True):
        np.testing.assert_array_equal(fresh, then)


def opinions(est, y, pairs, signs, avoid=NONE):
    """Of a fit that is told the pairs: the second opinions that are asked, as sorted rows."""
    known = ml.Constraints.from_pairs(np.array(pairs), np.array(signs, float), n_nodes=len(y))
    est.refit(constraints=known)
    situation = Situation.of(est)
    hoods = Neighbourhoods.of(situation, situation.at(avoid))
    second = np.array(hoods.second_opinions(), dtype=np.int64).reshape(-1, 2)
    return [tuple(sorted(one)) for one in situation.rows[second].tolist()], hoods


def test_a_yes_between_large_groups_is_asked_again_until_two_agree():
    est, y, _ = fitted(method="CSP")
    one, other = (np.flatnonzero(y == c)[:4].tolist() for c in (0, 1))
    paths = [*pairwise(one), *pairwise(other)]
    told, signs = [*paths, (one[1], other[1])], [1] * 7
    (second,), hoods = opinions(est, y, told, signs)
    assert len(hoods.groups) == 1
    assert (second[0] in one) != (second[1] in one)
    assert second != tuple(sorted((one[1], other[1])))
    avoided, _ = opinions(est, y, told, signs, np.array([second]))
    assert avoided != [second]
    # two yeses: nothing is left to ask about
    found, hoods = opinions(est, y, [*told, second], [*signs, 1])
    assert (found, len(hoods.groups)) == ([], 1)
    # one and one: open, so that it is asked a third time
    found, hoods = opinions(est, y, [*told, second], [*signs, -1])
    assert (found, len(hoods.groups), hoods.apart) == ([], 2, set())
    third = ml.next_queries(est, 1, kind="pairs")[0]
    assert (third[0] in one) != (third[1] in one)
    assert tuple(sorted(third.tolist())) not in {second, tuple(sorted(told[-1]))}
    # and two of three count
    _, hoods = opinions(est, y, [*told, second, third], [*signs, -1, 1])
    assert len(hoods.groups) == 1
    _, hoods = opinions(est, y, [*told, second, third], [*signs, -1, -1])
    assert (len(hoods.groups), hoods.apart) == (2, {(0, 1)})


def test_what_little_hangs_on_and_labels_are_not_asked_again():
    est, y, given = fitted(method="CSP", known=9)
    a, b, c, d = np.flatnonzero((y == 0) & (given < 0))[:4].tolist()
    assert opinions(est, y, [(a, b), (b, c), (c, d)], [1, 1, 1])[0] == []
    est.refit(given)
    assert Neighbourhoods.of(Situation.of(est), NONE).second_opinions() == []


def test_pairs_of_no_nodes_left():
    est, y, _ = fitted(n=30, method="CSP")
    est.refit(y)
    for strategy in PAIRS:
        assert ml.next_queries(est, 3, kind="pairs", strategy=strategy).shape == (0, 2)


# --- when to stop


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["Poisson", "CSP"])
def test_settled_where_half_of_the_answers_would_do(method):
    est, y, _ = fitted(n=120, method=method)
    few = ml.settled(est)
    est.refit(np.where(np.arange(120) % 2, y, -1))
    labels = est.labels_.copy()
    many = ml.settled(est)
    assert np.array_equal(est.labels_, labels)
    assert many.enough
    assert many.moved <= 0.02
    assert many.agreed > 0.9
    assert "hardly" in str(many)
    assert many.moved <= few.moved
    assert ml.settled(est) == many


@pytest.mark.parametrize(("shares", "moved", "enough"), [
    ((0.5, 0.5), 0.008, True), ((0.5, 0.5), 0.012, False), ((0.9, 0.1), 0.008, False),
    ((0.9, 0.1), 0.002, True), ((1.0, 0.0), 0.001, False), ((1.0, 0.0), 0.0, True),
])  # fmt: skip
def test_few_rows_that_move_count_more_where_most_are_of_one_class(
    shares, moved, enough, monkeypatch
):
    est, y, _ = fitted(n=120)
    est.refit(np.where(np.arange(120) % 2, y, -1))
    est.labels_ = np.repeat([0, 1], np.round(np.multiply(shares, 1000)).astype(int))
    monkeypatch.setattr("mustlink.advice.pair_questions._without", lambda *given: (moved, 1.0))
    assert ml.settled(est).enough == enough


def test_settled_stops_where_the_mean_cannot_fall_below_the_limit(monkeypatch):
    est = fitted(n=120)[0]
    moves = iter([0.05, 0.5, 0.0])
    monkeypatch.setattr("mustlink.advice.pair_questions._without", lambda *_: (next(moves), 1.0))
    found = ml.settled(est, moved=0.1)
    assert (found.draws, found.enough, found.moved) == (2, False, 0.275)


@pytest.mark.thorough
def test_settled_by_pairs_leaves_out_a_tenth():
    est, y, _ = fitted(n=120, method="CSP")
    pairs = random_pairs(120, 400)
    known = ml.Constraints.from_pairs(pairs, answers(y, pairs), n_nodes=120).closure()
    est.refit(constraints=known)
    found = ml.settled(est)
    assert (found.enough, found.left_out) == (True, 0.1)
    assert "without a tenth of the answers" in str(found)
    wrong = ml.Constraints.from_pairs(pairs, -answers(y, pairs), n_nodes=120)
    assert ml.settled(est.refit(constraints=wrong)).agreed < found.agreed
    labels = ml.settled(est.refit(np.where(np.arange(120) % 2, y, -1)))
    assert labels.left_out == 0.5


@pytest.mark.parametrize("method", ["Poisson", "CSP"])
def test_settled_with_one_label_a_class(method):
    est, _, _ = fitted(method=method, known=3)
    found = ml.settled(est)
    assert (found.enough, found.draws) == (False, 0)
    assert "too few" in str(found)


def test_settled_with_too_few_answers():
    est, _, _ = fitted(method="CSP")
    est.refit(constraints=ml.Constraints.none(90))
    found = ml.settled(est)
    assert not found.enough
    assert "too few" in str(found)


@pytest.mark.parametrize("strategy", PAIRS)
def test_as_many_pairs_are_asked_as_are_wanted(strategy):
    est, _, _ = fitted(n=260, k=2, known=4, method="CSP")
    found = ml.next_queries(est, 200, kind="pairs", strategy=strategy)
    assert found.shape == (200, 2)
    assert len({tuple(sorted(pair)) for pair in found.tolist()}) == 200
    if strategy not in ("auto", "neighbourhoods"):  # where every node is in one pair first
        assert np.unique(found[:100]).size == 200


def test_all_pairs_are_asked_that_do_not_follow():
    est, _, given = fitted(n=61, k=2, known=4, method="CSP")
    found = ml.next_queries(est, 10_000, kind="pairs", strategy="random")
    told = np.flatnonzero(given >= 0).tolist()
    wanted = {(i, j) for i in range(61) for j in range(i + 1, 61)} - {
        (i, j) for i in told for j in told if i < j
    }
    assert {tuple(sorted(pair)) for pair in found.tolist()} == wanted
    assert len(found) == len(wanted)


@pytest.mark.thorough
def test_a_matrix_whose_rows_alone_have_labels_is_settled_or_not():
    rng = np.random.default_rng(0)
    M = (rng.random((40, 30)) < 0.1).astype(float)
    M[:20, :15] += 1
    M[20:, 15:] += 1
    given = np.where(np.arange(40) % 3, np.arange(40) // 20, -1)
    graph = ml.bipartite_graph(M)
    for method in (ml.Poisson(), ml.CSP(2)):
        est = method.set_params(affinity="precomputed", random_state=0).fit(graph, given)
        assert ml.settled(est).draws == 3
        whole = np.concatenate([given, np.full(30, -1)])
        assert ml.settled(est) == ml.settled(est.refit(whole))
