"""Numbers and names of clusters stay through refits and other K, for every clusterer."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mustlink as ml
from cases import planted_graph
from mustlink.discretize.merge_tree import renumbered
from mustlink.errors import InputError

CLUSTERERS = {
    "NCut": ml.NCut,
    "CSP": ml.CSP,
    "SSSC": ml.SSSC,
    "FastGE": ml.FastGE,
    "ConstrainedAP": ml.ConstrainedAP,
    "SpectralLearning": ml.SpectralLearning,
    "SRCP": ml.SRCP,
    "E2CP": ml.E2CP,
    "SSKK": ml.SSKK,
    "CSCGFHF": ml.CSCGFHF,
    "DISIM": ml.DISIM,
}


def known_part(y, seed, share=0.3):
    return np.where(np.random.default_rng(seed).random(y.size) < share, y, -1)


def most_overlap(before, after):
    """By all ways to number the clusters after."""
    old, now = np.unique(before[before >= 0]), np.unique(after[after >= 0])
    cells = [np.sum((before == a) & (after == b)) for a in old for b in now]
    shared = np.reshape(cells, (old.size, now.size))
    if old.size > now.size:
        shared = shared.T
    few, many = shared.shape
    return max(sum(shared[i, way[i]] for i in range(few)) for way in
               itertools.permutations(range(many), few))  # fmt: skip


def test_names_are_given_by_number():
    W = planted_graph(np.random.default_rng(0), 60, 3)[0]
    est = ml.NCut(3, affinity="precomputed", random_state=0).fit(W)
    with pytest.raises(InputError, match="list given; give text by number"):
        est.name_clusters(["cats"])


@given(st.integers(1, 30), st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**31 - 1))
@settings(max_examples=60, deadline=None)
def test_renumbered_is_the_best_of_all_renamings(n, k, more, seed):
    rng = np.random.default_rng(seed)
    before, after = rng.integers(-1, k, n) * 3, rng.integers(-1, more, n)
    before[before < 0] = -1
    found = renumbered(before, after, 50)
    assert np.array_equal(found.labels < 0, after < 0)
    for now in np.unique(after):  # a renaming: one number for one number
        assert np.unique(found.labels[after == now]).size == 1
    assert np.unique(found.labels).size == np.unique(after).size
    kept = (found.labels == before) & (before >= 0)
    assert kept.sum() == most_overlap(before, after)
    there = set(found.labels[found.labels >= 0])
    assert set(found.gone) == set(before[before >= 0]) - there
    assert set(found.new) == there - set(before) == {x for x in there if x >= 50}
    again = renumbered(before, np.where(before >= 0, 70 - before, -1), 50)
    assert np.array_equal(again.labels, before)


@pytest.mark.thorough
@pytest.mark.parametrize("name", CLUSTERERS)
def test_refits_keep_numbers_and_names(name):
    W, y = planted_graph(np.random.default_rng(3), 120, 3)
    options = {} if name == "DISIM" else {"affinity": "precomputed"}
    if "subspace" in CLUSTERERS[name]._get_param_names():
        options["subspace"] = 8

    def told(seed):  # the circle of DISIM has no such classes
        return None if name == "DISIM" else known_part(y, seed)

    est = CLUSTERERS[name](3, random_state=0, **options).fit(W, told(0))
    before = est.labels_.copy()
    est.name_clusters({0: "left", 2: "right"})
    est.set_params(random_state=5)
    est.refit(told(1))
    assert np.mean(est.labels_ == before) == most_overlap(before, est.labels_) / y.size
    assert est.cluster_names_ == {0: "left", 2: "right"}
    changed = np.mean(est.labels_ != before)
    assert est.report_.extra["changed"] == pytest.approx(changed)
    before = est.labels_.copy()
    est.set_params(n_clusters=4).refit(told(1))
    changes = est.report_.extra["clusters_changed"]
    assert np.unique(est.labels_).size == 4
    assert np.mean(est.labels_ == before) >= most_overlap(before, est.labels_) / y.size - 1e-12
    assert changes == {"new": [3], "gone": []} or name == "CSCGFHF"
    before = est.labels_.copy()
    fewer = None if name == "DISIM" else np.where(told(1) == 2, -1, told(1))
    est.set_params(n_clusters=2).refit(fewer)
    if name == "CSCGFHF":  # classes number the clusters
        assert list(est.classes_) == [0, 1]
        return
    changes = est.report_.extra["clusters_changed"]
    assert len(changes["gone"]) == 2
    assert set(est.cluster_names_) <= set(est.labels_)
    assert est.membership_.shape[0] == 120
    assert np.allclose(est.membership_[np.arange(120), est.labels_], est.confidence_)
    gone, there = set(changes["gone"]), set(est.labels_)
    est.set_params(n_clusters=4).refit(told(1))
    assert not gone & set(est.labels_)  # a number never comes to mean something else
    assert there <= set(est.labels_)


def test_a_new_fit_forgets_names():
    W, _ = planted_graph(np.random.default_rng(3), 60, 3)
    est = ml.NCut(3, affinity="precomputed", random_state=0).fit(W)
    est.name_clusters({1: "one"})
    assert est.cluster_names_ == {1: "one"}
    assert est.name_clusters({1: ""}).cluster_names_ == {}
    with pytest.raises(InputError, match="no cluster has number 7"):
        est.name_clusters({7: "seven"})
    with pytest.raises(InputError, match="give text"):
        est.name_clusters({1: 1})
    est.name_clusters({1: "one"}).fit(W)
    assert est.cluster_names_ == {}


def test_columns_of_sskk_follow_the_numbers():
    W, y = planted_graph(np.random.default_rng(3), 90, 3)
    est = ml.SSKK(3, affinity="precomputed", random_state=0).fit(W, known_part(y, 0))
    est.labels_ = np.array([2, 0, 1])[est.labels_]
    est.refit(known_part(y, 0))
    best = est.embedding_.argmax(axis=1)
    assert np.mean(best == est.labels_) > 0.9


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("method", [ml.Poisson, ml.LLGC, ml.GFHF, ml.LELP])
def test_a_propagator_is_refitted_on_its_graph(method, names):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    X = rng.normal(size=(120, 3)) + 4 * np.eye(3)[y]
    first, then = known_part(y, 0), known_part(y, 1)
    if names:
        words = np.array(["a", "b", "c", ""], dtype=object)
        first, then = words[first], words[then]
    est = method(random_state=0).fit(X, first)
    assert np.array_equal(est.given_labels_, first)
    graph = est.graph_
    assert est.refit(then) is est
    fresh = method(random_state=0).fit(X, then)
    assert est.graph_ is graph
    assert np.array_equal(est.given_labels_, then)
    assert np.array_equal(est.labels_, fresh.labels_)
    assert np.array_equal(est.label_distributions_, fresh.label_distributions_)


def test_what_was_told_is_told_again():
    W, y = planted_graph(np.random.default_rng(3), 60, 3)
    est = ml.CSP(3, affinity="precomputed", random_state=0).fit(W, known_part(y, 0))
    more = ml.Constraints.from_pairs([[0, 1]], n_nodes=60)
    both = est.constraints_ + more
    est.refit(constraints=both)
    assert np.array_equal(est.constraints_.labels, known_part(y, 0))
    assert np.array_equal(est.constraints_.pairs, [[0, 1]])
    assert ml.NCut(3, affinity="precomputed").fit(W).constraints_.is_empty
