"""Labels that are text: the fit of their numbers, and clusters that are called by them."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

import mustlink as ml
from every import OF_GRAPHS
from mustlink.core.check import called_by_most
from mustlink.errors import InputError

INFORMED = ["CSP", "CSCGFHF", "SRCP", "E2CP", "SSSC", "SpectralLearning", "SSKK", "ConstrainedAP",
            "FastGE", "Auto"]  # fmt: skip
NAMES = np.array(["ant", "bee", "cat"])


@pytest.fixture(scope="module")
def blobs():
    X, t = make_blobs(150, centers=3, random_state=0, cluster_std=0.5)
    codes = np.where(np.arange(150) < 30, t, -1)
    return X, t, codes


def made(name):
    return getattr(ml, name)(random_state=0, **{"n_clusters": 3, **OF_GRAPHS.get(name, {})})


def as_text(codes, kind):
    y = np.array(["", *NAMES], dtype=object)[codes + 1]
    if kind is object:
        y[codes < 0] = np.resize(np.array([None, np.nan, "", -1], dtype=object), (codes < 0).sum())
    return y.astype(kind)


@pytest.mark.parametrize("name", INFORMED)
def test_clusters_are_called_by_the_labels(name, blobs, tmp_path):
    X, t, codes = blobs
    est = made(name).fit(X, as_text(codes, object if name in ("CSP", "Auto") else str))
    plain = made(name).fit(X, codes)
    assert est.labels_.dtype == np.int64
    assert np.array_equal(est.labels_, plain.labels_)
    assert plain.cluster_names_ == {}
    called = est.cluster_names_
    # the obvious twin: of every cluster the name that most of its labelled rows have
    for cluster in range(3):
        inside = NAMES[codes[(est.labels_ == cluster) & (codes >= 0)]].tolist()
        assert called[cluster] == max(set(inside), key=inside.count)
    assert [called[one] for one in est.predict(X[:40])] == NAMES[t[:40]].tolist()
    shares = est.predict_proba(X[:40])
    assert np.allclose(shares.sum(axis=1), 1)
    assert np.array_equal(shares.argmax(axis=1), est.predict(X[:40]))
    assert np.allclose(shares, est.membership_[:40], atol=1e-6)  # fitted points keep their own
    est.save(tmp_path / "out.h5")
    back = ml.load(tmp_path / "out.h5")
    assert back.cluster_names_ == called
    assert np.array_equal(back.labels_, est.labels_)


def test_no_two_clusters_are_called_alike(blobs):
    X, _, codes = blobs
    y = as_text(np.where(codes < 2, codes, -1), str)  # of two classes, for six clusters
    names = ml.CSP(n_clusters=6, random_state=0).fit(X, y).cluster_names_
    assert len(set(names.values())) == len(names) > 2
    assert {"ant", "bee"} < set(names.values())
    assert {one.split(" (")[0] for one in names.values()} == {"ant", "bee"}
    found = np.array([0, 0, 1, 1, 1, 2, 3, -1])
    known = np.array([0, 0, 0, 0, 0, 0, 1, 0])
    most = {0: "oak", 1: "", 2: "oak (2)"}  # that with most of the labels has the name alone
    assert called_by_most(found, known, most, 5) == ["oak (3)", "oak", "oak (4)", "", ""]


@pytest.mark.parametrize("name", ["CSP", "SRCP", "Auto"])
def test_names_follow_refits_and_new_rows(name, blobs):
    X, t, codes = blobs
    est = made(name).fit(X[:120], as_text(codes[:120], str))
    was = est.cluster_names_
    est.name_clusters({0: "first"})
    assert est.cluster_names_ == {**was, 0: "first"}
    assert est.name_clusters({0: ""}).cluster_names_ == {1: was[1], 2: was[2]}
    other = np.array(["", "x", "y", "z"])[codes[:120] + 1]
    assert set(est.refit(other).cluster_names_.values()) <= {"x", "y", "z"}
    assert est.refit(codes[:120]).cluster_names_.get(1, "") not in ("x", "y", "z")
    est.fit(X[:120], as_text(codes[:120], str))
    est.add(X[120:], np.where(np.arange(30) < 9, NAMES[t[120:]], ""))
    known = est.constraints_.labels
    assert np.array_equal(known[:30], t[:30])  # numbers of classes are as they were
    assert np.array_equal(known[120:129], t[120:129])
    with pytest.raises(InputError, match="labels are numbers here, names in the fit"):
        est.add(X[:2] + 0.01, [0, 1])


def test_a_propagator_answers_with_names(blobs):
    X, t, codes = blobs
    est = ml.LLGC().fit(X, as_text(codes, object))
    assert est.classes_.tolist() == NAMES.tolist()
    assert est.transduction_.tolist() == NAMES[t].tolist()
