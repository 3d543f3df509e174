"""Representatives in the shell: from a file by blocks, with what is known, plans, wrong numbers."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
from every import blobs
from mustlink.graph import shares
from mustlink.neighbors import representatives


@pytest.fixture
def data(tmp_path):
    return tmp_path


@pytest.fixture
def case(tmp_path):
    X, y = blobs(0, 600)
    known = np.where(np.arange(600) % 20 == 0, y, -1)
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["X"], file["y"] = X, known
    return tmp_path / "d.h5", X, y, known


@pytest.fixture(params=["held", "in the file"])
def held(request, monkeypatch):
    if request.param == "in the file":
        usual = representatives.representative_graph.__kwdefaults__
        monkeypatch.setitem(usual, "held", 0)
        monkeypatch.setattr(shares, "BLOCK", 250)
        monkeypatch.setattr(representatives, "BLOCK", 250)
    return request.param == "held"


def read(path, *names):
    with h5py.File(path) as file:
        return [file[name][()] if name in file else None for name in names]


def test_clusters_from_a_file(mustlink, case, held, tmp_path):
    path, X, y, _ = case
    out = tmp_path / "out.h5"
    how = ("-k", 3, "-m", "ncut", "--representatives", 60, "-o", out)
    code, said, wrong = mustlink("cluster", f"{path}:X", *how, "--json")
    assert code == 0, wrong
    labels, embedding = read(out, "labels", "embedding")
    assert adjusted_rand_score(labels, y) > 0.95
    assert sum(json.loads(said)["sizes"]) == 600
    here = ml.NCut(3, representatives=60, random_state=0).fit(X)
    assert adjusted_rand_score(labels, here.labels_) == 1
    assert (embedding is not None) == held
    if held:
        assert np.array_equal(ml.load(out).predict(X[:50]), here.predict(X[:50]))


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("method", ["csp", "srcp"])
def test_labels_are_carried_down(mustlink, case, held, method, tmp_path):
    path, _, y, _ = case
    out = tmp_path / "out.h5"
    how = ("-k", 3, "-m", method, "--labels", f"{path}:y", "--representatives", 60, "-o", out)
    code, _, wrong = mustlink("cluster", f"{path}:X", *how)
    assert code == 0, wrong
    assert adjusted_rand_score(read(out, "labels")[0], y) > 0.95


def test_labels_are_spread_and_kept(mustlink, case, held, tmp_path):
    path, X, y, known = case
    out = tmp_path / "out.h5"
    how = ("-m", "gfhf", "--labels", f"{path}:y", "--representatives", 60, "-o", out)
    code, _, wrong = mustlink("propagate", f"{path}:X", *how)
    assert code == 0, wrong
    labels, shares_of = read(out, "labels", "label_distributions")
    assert np.array_equal(labels[known >= 0], known[known >= 0])
    assert np.mean(labels == y) > 0.95
    here = ml.GFHF(representatives=60, random_state=0).fit(X, known)
    assert np.array_equal(labels, here.labels_)
    assert np.allclose(shares_of, here.label_distributions_, atol=1e-6)  # in single precision


@pytest.mark.thorough
def test_a_plan_of_a_hundred_million_points(mustlink):
    how = ("-k", 20, "-m", "ncut", "--representatives", 1000, "--memory", "4GB", "--json")
    code, said, wrong = mustlink("plan", "100000000x16", *how)
    assert code == 0, wrong
    found = json.loads(said)
    assert found["disk_bytes"] == 0
    assert found["peak_bytes"] < 4e9
    names = [stage["name"] for stage in found["stages"]]
    assert "shares of representatives" in names
    assert "kNN graph" not in names
    auto = ("-k", 20, "-m", "ncut", "--representatives", "auto", "--memory", "4GB", "--json")
    same = json.loads(mustlink("plan", "100000000x16", *auto)[1])  # but for the machine's speed
    assert [stage["name"] for stage in same["stages"]] == names
    assert same["peak_bytes"] == found["peak_bytes"]
    assert "kNN graph" in mustlink("plan", "10000x16", *auto)[1]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--representatives", 700), "representatives: 700 for 600 points"),
        (("--representatives", "many"), "'many' is neither a whole number nor auto"),
        (("--representatives", 2), "representatives: 2 for 3 clusters"),
    ],
)
def test_wrong_numbers_are_one_line(mustlink, case, more, words, tmp_path):
    out = tmp_path / "out.h5"
    code, _, wrong = mustlink("cluster", f"{case[0]}:X", "-k", 3, "-m", "ncut", *more, "-o", out)
    assert code == 2
    assert words in wrong
    assert not out.exists()


@pytest.mark.parametrize("kind", ["npy", "folder"])
def test_clusters_of_other_files_by_blocks(mustlink, case, kind, held, tmp_path):
    path, X, _, _ = case
    data = tmp_path / ("points.npy" if kind == "npy" else "points")
    if kind == "npy":
        np.save(data, X)
    else:
        pa = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        data.mkdir()
        for number, rows in enumerate((X[:100], X[100:450], X[450:])):
            table = pa.table({f"x{c}": rows[:, c] for c in range(X.shape[1])})
            parquet.write_table(table, data / f"part-{number}.parquet", row_group_size=120)
    found = []
    for source in (f"{path}:X", data):
        out = tmp_path / f"out{len(found)}.h5"
        how = ("-k", 3, "-m", "ncut", "--representatives", 60, "-o", out)
        code, _, wrong = mustlink("cluster", source, *how)
        assert code == 0, wrong
        found.append(read(out, "labels")[0])
    assert np.array_equal(*found) or adjusted_rand_score(*found) > 0.95
    if held:
        how = ("-k", 3, "-m", "ncut", "--json")
        assert json.loads(mustlink("plan", data, *how)[1])["seconds"] > 0


def test_a_folder_of_other_tables_is_one_line(mustlink, tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "tables"
    folder.mkdir()
    out = tmp_path / "out.h5"

    def said():
        code, _, wrong = mustlink("cluster", folder, "-k", 2, "-m", "ncut", "-o", out)
        assert code == 2
        assert not out.exists()
        return wrong

    assert "is a directory, not a file" in said()
    parquet.write_table(pa.table({"a": [1.0, 2.0], "b": ["x", "y"]}), folder / "0.parquet")
    assert "column 'b' is of type string; columns of a folder are numbers" in said()
    parquet.write_table(pa.table({"a": [1.0, 2.0]}), folder / "0.parquet")
    parquet.write_table(pa.table({"c": [1.0, 2.0]}), folder / "1.parquet")
    assert "its columns are not those of the files before it" in said()
    (folder / "1.parquet").write_bytes(b"PAR1 nothing")
    assert "not a Parquet file, or damaged" in said()


def test_a_run_goes_on_from_the_pass_that_is_done(mustlink, case, held, tmp_path, monkeypatch):
    path, out = case[0], tmp_path / "out.h5"
    how = ("-k", 3, "-m", "ncut", "--representatives", 60, "--resume", "-o", out)
    assert mustlink("cluster", f"{path}:X", *how)[0] == 0
    first = read(out, "labels")[0]

    def never(*_args, **_more):
        raise AssertionError("the first pass was made again")

    monkeypatch.setattr("mustlink.neighbors.affinities.representative_graph", never)
    code, _, wrong = mustlink("cluster", f"{path}:X", *how)
    assert code == 0, wrong
    assert np.array_equal(read(out, "labels")[0], first)
