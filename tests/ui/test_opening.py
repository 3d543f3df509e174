"""What a file and its labels become on a page: rows and classes by their names."""

import numpy as np
import pytest

from mustlink.errors import InputError
from mustlink.preprocessing.request import Preparation
from mustlink_io.ui.opening import session_of_file

pytestmark = pytest.mark.usefixtures("few_trees")

N, KINDS = 120, ("oak", "elm", "ash")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table with a column of names and one of classes, and files of labels."""
    rng = np.random.default_rng(0)
    truth = np.arange(N) % 3
    X = rng.normal(size=(N, 2)) + 6 * np.eye(3)[truth][:, :2]
    words = [KINDS[one] if at < 9 else "" for at, one in enumerate(truth)]
    rows = [f"tree {at},{a:.4g},{b:.4g}" for at, (a, b) in enumerate(X)]
    (tmp_path / "trees.csv").write_text("node,a,b\n" + "\n".join(rows) + "\n")
    whole = "\n".join(f"{row},{word},x" for row, word in zip(rows, words, strict=True))
    (tmp_path / "whole.csv").write_text(f"node,a,b,kind,notes\n{whole}\n")
    few = "".join(f"tree {at},{word}\n" for at, word in enumerate(words) if word)
    (tmp_path / "few.csv").write_text(f"node,label\n{few}")
    monkeypatch.chdir(tmp_path)
    return truth


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("data", "labels", "steps"),
    [("trees.csv", "few.csv", Preparation()),
     ("whole.csv", "whole.csv:kind", Preparation(drop=("notes",)))],
)  # fmt: skip
def test_rows_and_classes_have_their_names(folder, data, labels, steps):
    session, more = session_of_file(data, labels=labels, n_clusters=3, steps=steps)
    assert set(session.names.values()) == set(KINDS)
    assert set(session.choices.values()) == set(KINDS)
    assert more["columns"] == ("a", "b")
    names = np.array([session.names[one] for one in session.labels])
    assert np.mean(names == np.array(KINDS)[folder]) > 0.95
    session.label([50], "elm")
    assert session.history[-1].words == "tree 50: class elm"
    session.save("out.h5")
    again, _ = session_of_file("out.h5")
    assert set(again.choices.values()) == set(KINDS)
    assert again.beside.names[3:4].tolist() in (["tree 3"], [b"tree 3"])
    again.label([51], "ash")
    assert again.known_labels[51] == list(again.beside.classes.values()).index("ash")


def test_names_of_rows_that_are_not_there_are_named(folder, tmp_path):
    (tmp_path / "odd.csv").write_text("node,label\nbush 3,oak\nbush 4,elm\n")
    with pytest.raises(InputError, match="bush 4"):
        session_of_file("trees.csv", labels="odd.csv", n_clusters=3)


@pytest.mark.thorough
def test_the_map_stays_where_it_is_when_answers_are_read_again(folder):
    session, more = session_of_file("trees.csv", labels="few.csv", n_clusters=3)
    session.label(np.arange(20, 60), "oak")
    again, then = session_of_file("trees.csv", labels="few.csv", n_clusters=3)
    np.testing.assert_array_equal(again.labels, session.labels)
    np.testing.assert_array_equal(then["coordinates"], more["coordinates"])


def test_a_class_that_is_typed_is_new_where_classes_have_names(folder):
    def opened():
        return session_of_file("trees.csv", labels="few.csv", n_clusters=3)[0]

    session = opened()
    session.label(np.arange(50, 60), "fir")
    assert set(session.choices.values()) == {*KINDS, "fir"}
    assert session.history[-1].words == "10 nodes: class fir"
    with pytest.raises(InputError, match="elmm: did you mean elm"):
        session.label([60], "elmm")
    session.label([60], "elmm")  # said twice
    fir = {name: one for one, name in session.choices.items()}["fir"]
    session.choose([61], fir)
    assert [one.value for one in session.answers] == ["fir", "elmm", "fir"]
    again = opened()  # after a kill
    np.testing.assert_array_equal(again.labels, session.labels)
    assert again.choices == session.choices
    session.take_back(1)
    session.take_back(0)
    assert session.choices[session.known_labels[61]] == "fir"
    session.undo()
    session.undo()
    np.testing.assert_array_equal(again.labels, session.labels)
    session.save("out.h5")
    then, _ = session_of_file("out.h5")
    assert set(then.choices.values()) == {*KINDS, "fir", "elmm"}
    assert then.choices[then.known_labels[61]] == "fir"
    then.label([62], "yew")
    assert then.choices[then.known_labels[62]] == "yew"
    assert then.choices[then.known_labels[61]] == "fir"
