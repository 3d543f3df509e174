"""k-means that starts from labels, against scikit-learn's from the same centres."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans

import mustlink as ml
from cases import blobs, labelled, planted_graph
from mustlink.discretize.assign import dealt, held_out_right, label_centers, lloyd, seeded_kmeans
from mustlink.errors import InputError
from mustlink.space import LocalSpace


@given(st.integers(0, 2**31))
def test_centres_are_class_means_then_rows(seed):
    rng = np.random.default_rng(seed)
    X, y = blobs(rng, 40, 3)
    known = labelled(y, 2)
    classes = np.unique(y)
    centres = label_centers(X, known, classes.size + 2, seed)
    for at, c in enumerate(classes):
        np.testing.assert_allclose(centres[at], X[known == c].mean(axis=0))
    for centre in centres[classes.size :]:
        assert (centre == X).all(axis=1).any()


def test_clusters_are_those_of_scikit_learn_from_the_same_centres():
    X, y = blobs(np.random.default_rng(3), 300, 5, separation=15.0)
    known = labelled(y, 3)
    means = np.stack([X[known == c].mean(axis=0) for c in range(5)])
    theirs = KMeans(5, init=means, n_init=1, tol=0).fit_predict(X)
    assert np.array_equal(seeded_kmeans(X, known, 5, 0), theirs)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(0, 2**31))
def test_labels_are_dealt_evenly_and_the_only_one_of_a_class_is_not(codes, seed):
    codes = np.array(codes)
    part = dealt(codes, np.random.default_rng(seed), 3)
    for c in np.unique(codes):
        own = part[codes == c]
        if own.size == 1:
            assert own[0] == -1
        else:
            counts = np.bincount(own, minlength=3)
            assert counts.max() - counts.min() <= 1
    held = np.bincount(part[part >= 0], minlength=3)
    assert held.max() - held.min() <= 1


def test_round_clusters_are_told_apart_from_others_by_what_is_held_out():
    X, y = blobs(np.random.default_rng(1), 400, 4)
    noise = np.random.default_rng(2).standard_normal((400, 2))
    right, wrong = held_out_right((X, noise), labelled(y, 10), 4, 0)
    assert right == 40 > wrong


def test_a_cluster_whose_only_row_is_taken_over_stays_a_number():
    rows = np.array([[0.0], [0.0], [0.0], [5.0]])
    centres = np.array([[0.0], [9.0], [100.0], [200.0]])
    found = lloyd(LocalSpace(4), rows, centres)
    assert np.isfinite(found.centers).all()
    assert np.abs(found.centers).max() <= 200


@pytest.mark.parametrize(("kind", "more"), [("NCut", 0), ("NCut", 1), ("CSP", 0), ("FastGE", 1)])
def test_clusters_from_labels_are_the_classes_in_their_order(kind, more):
    W, y = planted_graph(np.random.default_rng(0), 90, 3)
    known = labelled(y, 4) * 10  # names of classes are no numbers of clusters
    known[known < 0] = -1
    est = getattr(ml, kind)(3 + more, init="labels", affinity="precomputed", random_state=0)
    found = est.fit(W, known).labels_
    assert [np.bincount(found[y == c]).argmax() for c in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("est", "y", "words"),
    [
        (ml.NCut(2, init="labels"), None, "requires y"),
        (ml.NCut(2, init="labels"), [0, 1, 2, -1, -1, -1], "labels of 3 classes for 2 clusters"),
        (ml.NCut(2, init="labels", variant="shi-malik"), [0, 1] * 3, "starts nowhere"),
        (ml.NCut(2, init="middle"), None, "init"),
        (ml.CSP(2, init="labels"), None, "labels of 0 classes for 2 clusters"),
    ],
)
def test_a_start_that_is_none(est, y, words):
    X = np.random.default_rng(0).random((6, 2))
    with pytest.raises(InputError, match=words):
        est.fit(X, y)
