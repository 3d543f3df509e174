"""`mustlink cluster --confidence`, `--membership`: in the file, report, tables and AnnData."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pandas as pd
import pytest

import mustlink as ml
from mustlink_io.commands import cli


@pytest.fixture
def run(capsys):
    def said(*words):
        capsys.readouterr()
        code = cli.run([str(word) for word in words])
        found = capsys.readouterr()
        assert code == 0, found.err
        return found.out

    return said


@pytest.fixture
def points(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=150)
    X = rng.normal(size=(150, 4))
    X[:, :3] += 3 * np.eye(3)[y]
    np.save(tmp_path / "points.npy", X)
    np.save(tmp_path / "labels.npy", np.where(rng.random(150) < 0.4, y, -1))
    return tmp_path


@pytest.mark.thorough
def test_memberships_are_written_told_and_exported(points, run):
    out = points / "out.h5"
    words = ("cluster", points / "points.npy", "-k", 3, "--labels", points / "labels.npy")
    told = run(*words, "-m", "csp", "--membership", "--confidence", "-o", out)
    with h5py.File(out) as file:
        labels, P, sure = (file[name][:] for name in ("labels", "membership", "confidence"))
    np.testing.assert_array_equal(P.argmax(axis=1), labels)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(sure, P.max(axis=1))
    X, y = np.load(points / "points.npy"), np.load(points / "labels.npy")
    here = ml.CSP(3, random_state=0).fit(X, y)
    np.testing.assert_allclose(here.confidence_, sure, rtol=1e-4)  # the file has float32 points
    facts = json.loads(run("report", out, "--json"))
    assert facts["kind"] == "clusters"
    guessed = y < 0
    mean, by = sure[guessed].mean(), here.calibration_
    assert facts["confidence"]["mean"] == pytest.approx(mean)
    how = f"calibrated by {by.n_labels} labels held out"
    assert f"mean confidence    {mean:.3f}, {how}" in told
    assert sum(facts["confidence"]["histogram"]["counts"]) == guessed.sum()
    assert facts["confidence"]["calibrated"] == how
    table = facts["confidence"]["reliability"]
    assert sum(row["count"] for row in table) == by.n_labels
    assert facts["confidence"]["error"] == pytest.approx(
        sum(row["share"] * abs(row["sure"] - row["right"]) for row in table)
    )
    run("report", out, "-o", points / "page.html")
    page = (points / "page.html").read_text()
    assert f"without a known label; {how}." in page
    assert "Labels held out, by how sure the answer was" in page
    assert "/membership" in run("info", out)
    for answer, values in (("membership", P), ("confidence", sure)):
        run("convert", f"{out}:/{answer}", points / "m.npy", "--overwrite")
        np.testing.assert_array_equal(np.load(points / "m.npy"), values)  # to the last digit
        run("convert", f"{out}:/{answer}", points / "m.csv", "--overwrite")
        table = pd.read_csv(points / "m.csv", float_precision="round_trip")
        np.testing.assert_array_equal(table.to_numpy().squeeze(), values)
    assert table.columns.tolist() == ["confidence"]
    run("convert", out, points / "out.csv")
    table = np.genfromtxt(points / "out.csv", delimiter=",", names=True)
    np.testing.assert_allclose(table["confidence"], sure)


@pytest.mark.thorough
def test_chances_of_answers_are_written_told_and_drawn(points, run):
    out, plain = points / "out.h5", points / "plain.h5"
    words = ("propagate", points / "points.npy", "--labels", points / "labels.npy", "-m", "llgc")
    told = run(*words, "--membership", "-o", out)
    run(*words, "-o", plain)
    with h5py.File(out) as file, h5py.File(plain) as other:
        labels, P, sure = (file[name][:] for name in ("labels", "membership", "confidence"))
        margin, shares = other["confidence"][:], file["label_distributions"][:]
        np.testing.assert_array_equal(shares, other["label_distributions"][:])
        assert "membership" not in other
    np.testing.assert_array_equal(P.argmax(axis=1), labels)
    np.testing.assert_array_equal(sure, P.max(axis=1))
    X, y = np.load(points / "points.npy"), np.load(points / "labels.npy")
    here = ml.LLGC(random_state=0).fit(X, y)
    np.testing.assert_allclose(here.membership_, P, rtol=1e-4)  # the file has float32 points
    np.testing.assert_allclose(here.confidence_, margin, rtol=1e-3, atol=1e-6)
    how = f"calibrated by {here.calibration_.n_labels} labels held out"
    assert f"{sure[y < 0].mean():.3f}, {how}" in told
    facts = json.loads(run("report", out, "--json"))
    assert facts["kind"] == "classes"
    assert facts["confidence"]["calibrated"] == how
    assert sum(row["count"] for row in facts["confidence"]["reliability"]) > 30
    run("report", out, "-o", points / "page.html")
    page = (points / "page.html").read_text()
    assert "1 is certainty" in page
    assert "Labels held out, by how sure the answer was" in page
    before = json.loads(run("report", plain, "--json"))["confidence"]
    assert (before["calibrated"], before["reliability"]) == (None, [])
    assert "--membership" in facts["command"]


@pytest.mark.thorough
def test_confidence_alone_and_neither(points, run):
    words = ("cluster", points / "points.npy", "-k", 3)
    assert "not calibrated: there are too few" in run(
        *words, "--confidence", "-o", points / "sure.h5"
    )
    facts = json.loads(run("report", points / "sure.h5", "--json"))
    assert facts["confidence"]["calibrated"] == "not calibrated"
    run(*words, "-o", points / "plain.h5")
    with h5py.File(points / "sure.h5") as sure, h5py.File(points / "plain.h5") as plain:
        assert "confidence" in sure
        assert "membership" not in sure
        assert "confidence" not in plain
    assert "confidence" not in json.loads(run("report", points / "plain.h5", "--json"))


@pytest.mark.thorough
def test_anndata_has_a_column_and_a_matrix(points, run):
    anndata = pytest.importorskip("anndata")
    cells = anndata.AnnData(np.load(points / "points.npy"))
    cells.write_h5ad(points / "cells.h5ad")
    out = points / "out.h5ad"
    run("cluster", points / "cells.h5ad", "-k", 3, "--membership", "-o", out)
    found = anndata.read_h5ad(out)
    P = found.obsm["mustlink_membership"]
    np.testing.assert_array_equal(found.obs["mustlink_confidence"], P.max(axis=1))
    np.testing.assert_array_equal(found.obs["mustlink"].astype(int), P.argmax(axis=1))
