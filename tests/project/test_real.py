"""Reproductions on real data, `make test-slow`; skipped, with the reason, where it is absent."""

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.metrics import adjusted_rand_score, rand_score

import mustlink as ml
from cases import labelled
from mustlink.discretize.cuts import mncut

DATA = Path(
    os.environ.get("MUSTLINK_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")
)
pytestmark = pytest.mark.slow


def load(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not in the data folder (MUSTLINK_DATA)")
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)


def graph(name):
    a = load(f"graphs/{name}.npz")
    shape = tuple(a["shape"])
    return sp.csr_matrix((a["data"].astype(float), a["indices"], a["indptr"]), shape), a.get("y")


@pytest.fixture(scope="module")
def digits():
    a = load("points/mnist.npz")
    return ml.knn_graph(a["X"], 15, random_state=0), a["y"].astype(np.int64)


@pytest.mark.parametrize(("per_class", "least"), [(1, 0.6), (5, 0.7), (20, 0.85)])
def test_labels_help_on_mnist(digits, per_class, least):
    known, y = digits
    ncut = ml.NCut(10, affinity="precomputed", random_state=0).fit(known)
    csp = ml.CSP(10, affinity="precomputed", random_state=0).fit(
        known, labelled(y, per_class, np.random.default_rng(0))
    )
    found = adjusted_rand_score(y, csp.labels_)
    assert found > least
    assert found > adjusted_rand_score(y, ncut.labels_) - 0.01


def test_pairs_help_on_mnist(digits):
    known, y = digits
    pairs = np.random.default_rng(0).choice(y.size, (1000, 2), replace=False)
    belief = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0)
    c = ml.Constraints.from_pairs(pairs, belief, n_nodes=y.size)
    csp = ml.CSP(10, affinity="precomputed", random_state=0).fit(known, constraints=c)
    assert adjusted_rand_score(y, csp.labels_) > 0.8
    assert csp.report_.satisfaction["kept"] > 0.95


def test_planted_blocks_are_found():
    W, y = graph("sbm_graphchallenge_20000")
    ncut = ml.NCut(32, affinity="precomputed", random_state=0).fit(W)
    assert adjusted_rand_score(y, ncut.labels_) > 0.999
    assert ncut.report_.convergence.converged.all()


@pytest.mark.parametrize(
    "name", ["prone_dblp", "notredame_actors_bipartite", "LFR_N100000_ad5_mc50_mu0.3", "com_dblp"]
)
def test_wild_graphs_end_and_say_what_they_are(name):
    W, _ = graph(name)
    ncut = ml.NCut(10, affinity="precomputed", random_state=0).fit(W)
    report = ncut.report_
    assert report.convergence.converged.all() or any("above" in note for note in report.notes)
    assert ncut.embedding_.shape == (W.shape[0], 10)
    isolated = int(np.count_nonzero(np.diff(W.indptr) == 0))
    if report.extra["n_components"] - isolated > 10:
        if report.choices["regularization"][0]:  # which links all components
            plain = ml.NCut(10, affinity="precomputed", regularization=0.0, random_state=0)
            report = plain.fit(W).report_
        assert any("components" in note for note in report.notes)


def clicks(name):
    a = load(f"images/{name}.npz")
    labels = np.full(a["image"].shape[:2], -1)
    for c in range(int(a["n_classes"])):
        x, y = np.rint(a[f"pts{c}"]).astype(int).T - 1
        labels[y, x] = c
    return a["image"], labels


@pytest.mark.parametrize("name", ["crab", "daisy"])
def test_every_click_on_a_photograph_is_obeyed_by_a_cut_along_strokes(name):
    image, labels = clicks(name)
    clicked = labels >= 0
    cut = ml.StrokeCut(random_state=0).fit(image, labels)
    assert_array_equal(cut.labels_[clicked], labels[clicked])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("crab", marks=pytest.mark.xfail(reason="2 of 32 clicks lose to the cut")),
        "daisy",
    ],
)
def test_every_click_on_a_photograph_is_obeyed(name):
    image, labels = clicks(name)
    known = ml.image_graph(image, n_similar=8)
    csp = ml.CSP(2, affinity="precomputed", random_state=0).fit(known, labels.ravel())
    assert csp.report_.satisfaction["kept"] == 1.0


@pytest.fixture(scope="module")
def fcsc():
    """WHC11 Table 3, FCSC-θ2SP, pairs of 2 % of the labels, three draws: Rand indices and cuts."""
    a = load("uci/dermatology.npz")
    X = np.where(np.isnan(a["X"]), np.nanmedian(a["X"], axis=0), a["X"])
    y = a["y"].astype(np.int64)
    known = ml.rbf_graph((X - X.mean(axis=0)) / X.std(axis=0))
    options = {"beta": "wide", "balanced": True, "n_vectors": 6, "assign": "sphere"}
    est = ml.CSP(6, affinity="precomputed", subspace="exact", random_state=0, **options)
    rand, cuts = [], []
    for draw in range(3):
        told = np.random.default_rng(draw).permutation(y.size)[:7]
        i, j = (told[at] for at in np.triu_indices(told.size, 1))
        belief = np.where(y[i] == y[j], 1.0, -1.0)
        pairs = ml.Constraints.from_pairs(np.column_stack([i, j]), belief, n_nodes=y.size)
        labels = est.fit(known, constraints=pairs).labels_
        rand.append(rand_score(y, labels))
        cuts.append(mncut(known, labels) / np.unique(labels).size)
    return np.mean(rand), np.mean(cuts)


def test_fcsc_of_the_wider_range_cuts_no_worse_than_in_the_paper(fcsc):
    assert fcsc[1] <= 0.036


@pytest.mark.xfail(reason="the paper's Rand index belongs to a worse minimum, see bench/papers")
def test_fcsc_of_the_wider_range_on_dermatology(fcsc):
    """Three draws against the paper's ten."""
    assert fcsc[0] == pytest.approx(0.894, abs=0.03)
    assert fcsc[0] > 0.827  # spectral clustering alone, in the paper
