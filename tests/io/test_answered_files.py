"""A result with answers is as good a file as the first: nothing that it said is lost on the way."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from PIL import Image

import mustlink as ml
from cases import blobs
from mustlink.core.state import chosen
from mustlink_io.commands import cli
from mustlink_io.formats import results
from mustlink_io.formats.photographs import save_image
from mustlink_io.hdf5 import store
from mustlink_io.jobs.carried import Carried
from mustlink_io.ui.node_session import NodeSession

pytestmark = pytest.mark.usefixtures("few_trees")

NAMES = np.array(["ants", "bees", "cats", "dogs"])
COLUMNS = ["--standardize", "standard", "--one-hot", "colour"]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Rows with names, a column of text, columns of other sizes, and classes by name."""
    monkeypatch.chdir(tmp_path)
    X, y = blobs(np.random.default_rng(0), 120, 3, d=2)
    with open("t.csv", "w") as file:
        file.write("node,a,b,colour\n")
        colours = np.array(["red", "green", "blue"])[y]
        file.writelines(f"r{i},{a},{100 * b},{colours[i]}\n" for i, (a, b) in enumerate(X))
    with open("y.csv", "w") as file:
        file.write("node,class\n")
        file.writelines(f"r{i},{NAMES[y[i]]}\n" for i in range(0, 120, 10))
    return y


def run(*argv):
    assert cli.run([*map(str, argv)]) == 0


def result(verb, *more):
    k = ["-k", 3] if verb == "cluster" else []
    argv = [*k, "--labels", "y.csv", *COLUMNS, *more, "-o", "out.h5", "--quiet"]
    run(verb, "t.csv", *argv)


def answered(source, rows, words, *more, code=0):
    """`mustlink answer` of rows by words, which ends with a code."""
    lines = [f"{row},{word}\n" for row, word in zip(rows, words, strict=True)]
    Path("ask.csv").write_text("".join(["row,answer\n", *lines]))
    assert cli.run(["answer", source, "ask.csv", *more]) == code


def told(path, capsys):
    capsys.readouterr()
    run("report", path, "--json")
    return json.loads(capsys.readouterr().out)


def entries(path):
    """Names of all datasets outside the model, and of the attributes."""
    with h5py.File(path) as file:
        found = []
        file.visit(lambda name: found.append(name) if not name.startswith("model/") else None)
        return sorted(found), sorted(file.attrs)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("verb", "more"),
    [("cluster", ["--membership", "--hierarchy"]), ("propagate", ["--membership"])],
)
def test_all_that_a_result_says_of_its_rows_stays(table, verb, more, capsys):
    result(verb, *more)
    first = told("out.h5", capsys)
    answered("out.h5", [1, 2, 3], NAMES[table[1:4]], "-o", "new.h5")
    assert entries("new.h5") == entries("out.h5")
    with h5py.File("out.h5") as old, h5py.File("new.h5") as new:
        for name in ("names", "class_names"):
            assert old[name][()].tolist() == new[name][()].tolist()
        assert old.attrs["preparation"] == new.attrs["preparation"]
        labels, shares = new["labels"][()], new["membership"][()]
        assert np.array_equal(shares.argmax(axis=1), labels)
        assert np.allclose(new["confidence"][()], shares.max(axis=1))
    then = told("new.h5", capsys)
    assert None not in (then["command"], then["data"], then["graph"])
    assert then["data"] == first["data"]
    assert then["parameters"]["preparation"] == first["parameters"]["preparation"]
    assert then["inputs"][:-1] == first["inputs"]
    assert (then["inputs"][-1]["role"], then["inputs"][-1]["name"]) == ("answers", "ask.csv")
    assert then["command"] == f"{first['command']} && mustlink answer out.h5 ask.csv -o new.h5"
    assert then["confidence"]["calibrated"] is not None
    est = ml.load("new.h5")
    assert np.asarray(chosen(est)._points).shape == (120, 5)  # of the table, prepared as at first
    answered("new.h5", [4], NAMES[table[4:5]])  # and again, in its place
    assert entries("new.h5") == entries("out.h5")


@pytest.mark.thorough
def test_a_picture_stays_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    image = np.full((12, 16, 3), 40, np.uint8)
    image[:, 8:] = 200
    save_image(image, Path("photo.png"))
    labels = np.full(12 * 16, -1)
    labels[[1, 17, 33]], labels[[14, 30, 46]] = 0, 1
    np.save("y.npy", labels)
    run("graph", "photo.png", "-o", "g.h5", "--quiet")
    run("cluster", "g.h5", "-k", 2, "--labels", "y.npy", "-o", "out.h5", "--quiet")
    answered("out.h5", [100, 110], [0, 1])
    with store.open_h5("out.h5") as file:
        assert np.array_equal(store.read(file, "/image", {}, "/image"), image)
    run("convert", "out.h5", "labels.png")
    with Image.open("labels.png") as found:
        assert found.size == (16, 12)
    run("convert", "out.h5", "labels.npy")
    assert np.load("labels.npy").shape == (12, 16)


def test_rows_and_columns_stay_apart(tmp_path):
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, 40)
    M = sp.csr_matrix(np.where(kinds[:30, None] == kinds[None, 30:], 1.0, 0.05))
    graph = ml.bipartite_graph(M)
    y = np.where(np.arange(30) < 8, kinds[:30], -1)
    est = ml.CSP(2, affinity="precomputed", random_state=0).fit(graph, y)
    est.save(tmp_path / "m.h5")
    assert results.about(str(tmp_path / "m.h5")).sides == (30, 10)


def given(path):
    est = ml.load(path)
    return est.given_labels_ if hasattr(est, "given_labels_") else est.constraints_.labels


@pytest.mark.thorough
@pytest.mark.parametrize("verb", ["cluster", "propagate"])
def test_a_class_that_is_new_has_its_name(table, verb, capsys):
    result(verb)
    half = np.flatnonzero(table == 0)[::2]
    half = half[half % 10 > 0]
    dogs = ["dogs"] * (half.size - 1)
    before = Path("out.h5").read_bytes()
    answered("out.h5", half[:-1], dogs, "-o", "other.h5", code=2)
    assert "--new-classes" in capsys.readouterr().err
    assert not Path("other.h5").exists()
    answered("out.h5", half[:-1], dogs, "--new-classes")
    assert Path("out.h5.before").read_bytes() == before
    assert "new classes dogs" in " ".join(capsys.readouterr().out.split())
    run("score", "out.h5.before", "out.h5", "--truth", "out.h5")  # it is read by its own ending
    answered("out.h5", half[-1:], ["dogs"])  # by then it is known
    assert "new classes" not in capsys.readouterr().out
    assert np.unique(given("out.h5")[half]).tolist() == ["dogs" if verb == "propagate" else 3]
    run("convert", "out.h5", "labels.csv")
    assert ",dogs" in Path("labels.csv").read_text()
    answered("out.h5", [1], [9], "--new-classes")  # by a number among names
    run("convert", "out.h5", "labels.csv", "--overwrite")
    with store.open_h5("out.h5") as file:
        where = "/class_names" if verb == "propagate" else "/constraints/class_names"
        assert {*NAMES, "9"} <= set(store.texts(file, where))


@pytest.mark.thorough
def test_a_slip_is_an_error_that_names_the_class(table, capsys):
    result("cluster")
    before = Path("out.h5").read_bytes()
    word = NAMES[0][:-2] + NAMES[0][:-3:-1]
    answered("out.h5", [3, 4], [NAMES[1], word], code=2)
    error = capsys.readouterr().err
    assert f"line 3 is answered {word}: did you mean {NAMES[0]}?" in error
    assert error.count("\n") == 1
    for word, words in ((NAMES[0].upper(), f": did you mean {NAMES[0]}?"), ("qq", ", which is no")):
        answered("out.h5", [3, 4], [NAMES[1], word], code=2)
        assert f"line 3 is answered {word}{words}" in capsys.readouterr().err
    assert Path("out.h5").read_bytes() == before
    assert not Path("out.h5.before").exists()


@pytest.mark.thorough
def test_numbers_that_are_known_are_not_told_as_new(table, capsys):
    np.save("y.npy", np.where(np.arange(120) % 10, -1, (table + 1) % 3))
    k = ["-k", "3", "--labels", "y.npy", "-m", "srcp", *COLUMNS, "-o", "out.h5", "--quiet"]
    run("cluster", "t.csv", *k)
    est = ml.load("out.h5")
    now = [int(est.labels_[np.flatnonzero(table == c)[0]]) for c in range(3)]
    answered("out.h5", [1, 2, 3], [now[c] for c in table[1:4]])
    assert "new classes" not in capsys.readouterr().out
    assert given("out.h5")[1:4].tolist() == ((table[1:4] + 1) % 3).tolist()
    answered("out.h5", [4], [8], "--new-classes")
    assert "new classes 8" in " ".join(capsys.readouterr().out.split())


@pytest.mark.thorough
def test_a_class_that_is_most_of_no_cluster_is_the_same_when_it_is_named_again(table):
    with open("y.csv", "a") as file:
        file.write("r1,lone\n")
    result("cluster")
    code = int(given("out.h5")[1])
    answered("out.h5", [2], ["lone"])
    assert given("out.h5")[[1, 2]].tolist() == [code, code]
    answered("out.h5", [3], [NAMES[table[3]]])
    assert given("out.h5")[3] == table[3]


@pytest.mark.thorough
def test_answers_for_another_file_do_not_count_in_the_first(table):
    result("cluster")
    answered("out.h5", [1, 2, 3], NAMES[(table[1:4] + 1) % 3], "-o", "wrong.h5")
    answered("out.h5", [4], NAMES[table[4:5]], "-o", "right.h5")
    assert not list(Path().glob("*.answers"))
    assert given("right.h5")[1:5].tolist() == [-1, -1, -1, table[4]]


@pytest.mark.thorough
def test_what_the_page_saves_has_it_as_well(table):
    result("cluster")
    est = ml.load("out.h5")
    session = NodeSession(est, beside=Carried.of(Path("out.h5"), est.labels_.size))
    session.label([1], int(table[1]))
    session.save("new.h5")
    assert entries("new.h5") == entries("out.h5")


@pytest.mark.thorough
def test_a_damaged_file_is_one_line(table, capsys):
    result("cluster")
    with h5py.File("out.h5", "a") as file:
        file["image"] = np.zeros((3, 3, 3), np.uint8)
    capsys.readouterr()
    assert cli.run(["ask", "out.h5"]) == 2
    error = capsys.readouterr().err
    assert "/image" in error
    assert error.count("\n") == 1
