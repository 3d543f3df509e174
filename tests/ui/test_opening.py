"""What a file and its labels become on a page: rows and classes by their names."""

import re

import numpy as np
import pytest

from mustlink.errors import InputError
from mustlink.preprocessing.request import Preparation
from mustlink_io.jobs.points import RowSource
from mustlink_io.ui.node_view import TableRows
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


def test_of_many_columns_a_question_shows_those_first_that_set_the_row_apart():
    rng = np.random.default_rng(0)
    columns = {f"x{at}": rng.normal(size=60) for at in range(12)}
    columns |= {"kind": np.array(["oak", "elm"], dtype=object)[(np.arange(60) == 7).astype(int)]}
    columns |= {"note": np.array([f"note {at}" for at in range(60)], dtype=object)}
    columns["x3"][7] = np.nan
    shown = TableRows(RowSource(columns))(7)
    found = re.findall(r"<tr><td>(.*?)</td>", shown)
    away = {f"x{at}": abs(columns[f"x{at}"][7] - columns[f"x{at}"].mean()) / columns[f"x{at}"].std()
            for at in range(12) if at != 3}  # fmt: skip
    away["kind"] = (59 / 1) ** 0.5  # the only elm: 1 of a column of mean 1/60
    first = sorted(away, key=away.get)[::-1][:5]
    assert found == [*first, *(one for one in columns if one not in first)]
    few = TableRows(RowSource({one: columns[one] for one in ("x1", "kind", "x0")}))(7)
    assert re.findall(r"<tr><td>(.*?)</td>", few) == ["x1", "kind", "x0"]
    wide = TableRows(RowSource({f"x{at}": np.arange(3.0) for at in range(30)}))(0)
    assert "and 6 more columns" in wide


def test_a_text_is_read_as_a_paragraph():
    texts = np.array(["short", "long " * 300], dtype=object)
    shown = TableRows(RowSource({"body": texts, "group": np.array(["a", "b"], object)}, "body"))
    assert shown(1).count("long") == 300
    assert re.findall(r"<tr><td>(.*?)</td>", shown(1)) == ["group"]
