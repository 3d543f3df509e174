"""Prior knowledge of every node in the shell: from any file, as the engine has it."""

import json
import re

import h5py
import numpy as np
import pytest

import mustlink as ml
from mustlink_io import formats
from mustlink_io.hdf5 import writing

N, K = 90, 3
NAMES = ("leaf", "root", "stem")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Points in three groups that overlap, six labels, and distributions over the classes."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    truth = np.repeat(np.arange(K), N // K)
    X = (rng.normal(size=(N, 3)) + 2 * np.eye(3)[truth]).astype("f4")
    few = np.full(N, -1)
    few[[0, 1, 30, 31, 60, 61]] = truth[[0, 1, 30, 31, 60, 61]]
    P, u = rng.dirichlet(np.ones(K), N), rng.exponential(size=N)
    writing.write(folder / "points.h5", {"/points": X})
    with h5py.File(folder / "p.h5", "w") as file:
        file.update({"prior": P, "beliefs": u, "other": P})
    np.savetxt(folder / "few.txt", few, fmt="%d")
    words = [NAMES[one] if one >= 0 else "?" for one in few]
    (folder / "words.csv").write_text("\n".join(["class", *words]))
    np.save(folder / "p.npy", P)
    np.savez(folder / "p.npz", prior=P)
    np.save(folder / "u.npy", u)
    turned = [2, 0, 1]
    rows = [",".join(map(repr, row)) for row in P[:, turned].tolist()]
    table(folder / "plain.csv", None, [",".join(map(repr, row)) for row in P.tolist()])
    table(folder / "numbers.csv", "2,0,1", rows)
    table(folder / "called.csv", ",".join(NAMES[c] for c in turned), rows)
    order = rng.permutation(N)
    lines = [f"{i},{rows[i]},{float(u[i])!r}" for i in order]
    table(folder / "nodes.csv", "node,2,0,1,belief", lines)
    table(folder / "half.csv", "node,2,0,1", [f"{i},{rows[i]}" for i in order[:40]])
    points = [",".join(map(repr, row)) for row in X.astype(float).tolist()]
    table(folder / "named.csv", "name,a,b,c", [f"r{i},{points[i]}" for i in range(N)])
    table(folder / "turned.csv", "name,2,0,1", [f"r{i},{rows[i]}" for i in order])
    names = np.array([f"r{i}" for i in order], dtype=object)
    answer = {"/label_distributions": P[order][:, turned], "/classes": np.array(turned)}
    with h5py.File(folder / "answer.h5", "w") as file:
        file.update({**answer, "/names": names.astype("S")})
    wrong = P.copy()
    wrong[7] = 0.5
    np.save(folder / "heavy.npy", wrong)
    wrong[7] = 1.5, -0.25, -0.25
    np.save(folder / "below.npy", wrong)
    np.save(folder / "short.npy", P[1:])
    np.save(folder / "narrow.npy", P[:, 1:])
    np.save(folder / "flat.npy", u)
    np.save(folder / "minus.npy", u - 1)
    table(folder / "strange.csv", "leaf,root,flower", rows)
    table(folder / "absent.csv", "0,two,1", rows)
    table(folder / "text.csv", "0,1,2", ["a,b,c"] * N)
    table(folder / "twice.csv", "node,2,0,1", [f"0,{row}" for row in rows])
    table(folder / "far.csv", "node,2,0,1", [f"{i + 5},{rows[i]}" for i in range(N)])
    return folder


def table(path, header, lines):
    path.write_text("\n".join([*([header] if header else []), *lines]) + "\n")


def wanted(data, belief, method=ml.GFHF, rows=slice(None)):
    X, y = formats.load(str(data / "points.h5")).value, np.loadtxt(data / "few.txt", dtype=int)
    P, u = np.load(data / "p.npy"), np.broadcast_to(belief, N).copy()
    u[np.setdiff1d(np.arange(N), np.arange(N)[rows])] = 0
    return method(random_state=0).fit(X, y, prior=P, belief=u).label_distributions_


def run(mustlink, line, out):
    code, said, err = mustlink(f"propagate {line} --json -o {out}")
    assert code == 0, err
    with h5py.File(out) as file:
        return json.loads(said), file["label_distributions"][:]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "file",
    ["p.h5", "p.h5:/other", "p.npy", "p.npz", "plain.csv", "numbers.csv", "nodes.csv"],
)
def test_any_file_is_the_engine_s_prior(mustlink, data, tmp_path, file):
    line = f"points.h5 --labels few.txt --prior {file} --belief 0.5"
    told, found = run(mustlink, line, tmp_path / "o.h5")
    np.testing.assert_allclose(found, wanted(data, 0.5), atol=1e-6)
    assert told["method"] == "GFHF"
    assert f"--prior {file} --belief 0.5" in told["command"]
    assert [one["role"] for one in told["inputs"]] == ["data", "labels", "prior"]
    asked = told["constraints"]["prior"]
    y, P = np.loadtxt(data / "few.txt", dtype=int), np.load(data / "p.npy")
    same = (found.argmax(axis=1) == P.argmax(axis=1))[y < 0]
    assert asked == {"n_believed": 84, "mean_belief": 0.5, "n_as_believed": int(same.sum())}


@pytest.mark.thorough
@pytest.mark.parametrize("belief", ["p.h5", "p.h5:/beliefs", "u.npy", "nodes.csv"])
def test_a_belief_may_be_of_every_node(mustlink, data, tmp_path, belief):
    line = f"points.h5 --labels few.txt -m llgc --prior p.npy --belief {belief}"
    told, found = run(mustlink, line, tmp_path / "o.h5")
    expected = wanted(data, np.load(data / "u.npy"), method=ml.LLGC)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert [one["role"] for one in told["inputs"]][2:] == ["prior", "belief"]


@pytest.mark.thorough
def test_columns_are_matched_by_the_names_of_classes(mustlink, data, tmp_path):
    line = "points.h5 --labels words.csv --prior called.csv"
    _, found = run(mustlink, line, tmp_path / "o.h5")
    np.testing.assert_allclose(found, wanted(data, 1.0), atol=1e-6)
    assert mustlink(f"report {tmp_path}/o.h5 -o {tmp_path}/o.html")[0] == 0
    page = " ".join((tmp_path / "o.html").read_text().split())
    assert "believed of 84 nodes without a label, with belief 1 on average" in page


@pytest.mark.parametrize("file", ["turned.csv", "answer.h5"])
def test_rows_are_matched_by_the_names_of_nodes(mustlink, data, tmp_path, file):
    _, found = run(mustlink, f"named.csv --labels few.txt --prior {file}", tmp_path / "o.h5")
    np.testing.assert_allclose(found, wanted(data, 1.0), atol=1e-6)


def test_nodes_that_are_not_named_are_not_believed(mustlink, data, tmp_path):
    line = "points.h5 --labels few.txt --prior half.csv"
    told, found = run(mustlink, line, tmp_path / "o.h5")
    rows = np.loadtxt(data / "half.csv", delimiter=",", skiprows=1)[:, 0].astype(int)
    np.testing.assert_allclose(found, wanted(data, 1.0, rows=rows), atol=1e-6)
    assert "half.csv: says nothing of 50 of 90 nodes" in told["notes"]


@pytest.mark.thorough
def test_an_answer_is_a_prior_of_another_run(mustlink, data, tmp_path):
    first = tmp_path / "first.h5"
    run(mustlink, "points.h5 --labels words.csv", first)
    line = f"points.h5 --labels words.csv --prior {first} --belief 1e9"
    _, found = run(mustlink, line, tmp_path / "o.h5")
    with h5py.File(first) as file:
        np.testing.assert_allclose(found, file["label_distributions"][:], atol=1e-5)


def test_rows_that_are_left_out_are_no_nodes(mustlink, data, tmp_path):
    lines = (data / "named.csv").read_text().splitlines()
    lines[3] = "r2,,1,1"
    (tmp_path / "gaps.csv").write_text("\n".join(lines))
    line = f"{tmp_path}/gaps.csv --drop-missing --labels few.txt --prior turned.csv"
    told, found = run(mustlink, line, tmp_path / "o.h5")
    assert told["constraints"]["prior"]["n_believed"] == 83
    assert not found[2].any()


@pytest.mark.thorough
def test_the_summary_and_the_plan_tell_of_it(mustlink, data, tmp_path):
    line = "points.h5 --labels few.txt --prior p.npy"
    code, said, err = mustlink(f"propagate {line} -o {tmp_path}/o.h5")
    assert code == 0, err
    assert "of 84 nodes, mean belief 1;" in said
    peak = []
    for more in ("", "--prior p.npy --belief 0.5"):
        line = f"plan 1000000x5 --for propagate -m gfhf --labels few.txt {more} --json"
        code, said, err = mustlink(line)
        assert code == 0, err
        peak.append(json.loads(said))
    for key in ("peak_bytes", "least_memory"):
        assert peak[1][key] - peak[0][key] >= 2 * 8 * 1_000_000 * K
    code, _, err = mustlink("plan points.h5 -k 3 --prior p.npy")
    assert code == 2
    assert "--for propagate" in err


@pytest.mark.thorough
def test_a_jobs_file_takes_both(mustlink, jobs_here, data, tmp_path):
    (tmp_path / "jobs.toml").write_text(
        f"""
[defaults]
data = "{data}/points.h5"
labels = "{data}/few.txt"
output = "{{name}}.h5"
prior = "{data}/p.npy"
belief = [0.5, "{data}/u.npy"]

[[job]]
name = "run"
command = "propagate"
method = ["gfhf", "poisson"]
"""
    )
    code, _, err = mustlink(f"batch {tmp_path}/jobs.toml --quiet")
    assert code == 0, err
    assert (tmp_path / "run-poisson.h5").exists()  # which takes none, so that it is left out
    for name, belief in (("run-gfhf-0.5", 0.5), ("run-gfhf-u", np.load(data / "u.npy"))):
        with h5py.File(tmp_path / f"{name}.h5") as file:
            found = file["label_distributions"][:]
        np.testing.assert_allclose(found, wanted(data, belief), atol=1e-6)


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("--prior none.npy", "none.npy"),
        ("--prior heavy.npy", "heavy.npy: row 7 is no distribution"),
        ("--prior below.npy", "below.npy: row 7 is no distribution"),
        ("--prior short.npy", "short.npy: 89 rows and 3 columns, but there are 90 nodes and 3"),
        ("--prior narrow.npy", r"90 rows and 2 columns, .* 3 classes \(0, 1, 2\)"),
        ("--prior flat.npy", r"shape \(90,\)"),
        ("--prior p.h5:/nowhere", "nowhere"),
        ("--prior strange.csv", "column 'leaf' is no class .*: 0, 1, 2"),
        ("--prior absent.csv", "column 'two' is no class"),
        ("--prior text.csv", "text.csv: column '0' is text"),
        ("--prior twice.csv", "node 0 is named twice"),
        ("--prior far.csv", "row 85 names node 90"),
        ("--prior plain.csv:a", "all columns of a table are the prior"),
        ("--prior p.npy -m poisson", "-m poisson minimises nothing .* -m gfhf or llgc"),
        ("--prior p.npy -m lnp", "LNP minimises nothing"),
        ("--belief 2", "--belief: no prior that it is a belief in"),
        ("--prior p.npy --belief=-1", "--belief -1: it must be finite"),
        ("--prior p.npy --belief nan", "--belief nan: it must be finite"),
        ("--prior p.npy --belief minus.npy", r"row \d+ has belief -.*; beliefs are finite"),
        ("--prior p.npy --belief short.npy", "beliefs are numbers, one for each of the 90 rows"),
    ],
)
def test_what_cannot_be_is_one_line(mustlink, data, given, words):
    code, _, err = mustlink(f"propagate points.h5 --labels few.txt {given} -o o.h5")
    told = [one for one in err.splitlines() if one.startswith("mustlink: ")]
    assert code == 2
    assert len(told) == 1, err
    assert re.search(words, told[0]), err
    assert not (data / "o.h5").exists()
