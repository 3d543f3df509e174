"""Labels and weights in a column of the data's own table: read row by row, and no coordinates."""

import json

import numpy as np
import pandas as pd
import pytest

import mustlink as ml
from mustlink.errors import InputError
from mustlink.preprocessing.request import Preparation
from mustlink_io import formats
from mustlink_io.jobs.side_information import labels_of as labels_of_rows
from mustlink_io.terminal import console
from mustlink_io.ui import opening
from results import labels_of

N = 150


def three_groups():
    """Points (N, 2), and the group of each."""
    truth = np.repeat([0, 1, 2], N // 3)
    return np.random.default_rng(0).normal(size=(N, 2)) + 4 * np.eye(3)[truth][:, :2], truth


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Three groups, a few labels and a name in the table, and the same table without these."""
    folder = tmp_path_factory.mktemp("data")
    X, truth = three_groups()
    few = np.where(np.arange(N) % 10 == 0, truth, -1)
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame.to_csv(folder / "plain.csv", index=False)
    np.savetxt(folder / "few.txt", few, fmt="%d")
    frame["cls"] = few
    frame["times"] = 1 + np.arange(N) % 2
    np.savetxt(folder / "times.txt", frame["times"])
    frame.drop(columns="times").to_csv(folder / "numbers.csv", index=False)
    frame.drop(columns="times").to_parquet(folder / "numbers.parquet", index=False)
    frame.to_csv(folder / "both.csv", index=False)
    words = np.where(few < 0, "", np.array(["u", "v", "w"])[few])
    named = pd.DataFrame({"id": range(N), "name": [f"P {i % 7}" for i in range(N)], "a": X[:, 0]})
    named.assign(b=X[:, 1], segment=words).to_csv(folder / "named.csv", index=False)
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": words}).to_csv(
        folder / "usual.csv", index=False
    )
    return folder


@pytest.mark.thorough
@pytest.mark.parametrize(
    "given",
    [
        "numbers.csv --labels numbers.csv:cls",
        "numbers.parquet --labels numbers.parquet:cls",
        "numbers.csv --labels numbers.csv:CLS --drop cls",
        "named.csv --labels named.csv:segment --drop id,name",
        "usual.csv --labels usual.csv",
    ],
)
def test_labels_in_the_table_are_no_coordinates(mustlink, data, tmp_path, given):
    out, plain = tmp_path / "out.h5", tmp_path / "plain.h5"
    assert mustlink(f"propagate plain.csv --labels few.txt -o {plain}")[0] == 0
    code, _, err = mustlink(f"propagate {given} -o {out}")
    assert code == 0, err
    assert "is that of --labels and no coordinate" in err
    np.testing.assert_array_equal(labels_of(out), labels_of(plain))


@pytest.mark.thorough
def test_labels_and_weights_of_one_table(mustlink, data, tmp_path):
    one, two = tmp_path / "one.h5", tmp_path / "two.h5"
    given = "--labels both.csv:cls --weights both.csv:times"
    assert mustlink(f"cluster both.csv -k 3 {given} -o {one}")[0] == 0
    given = "--labels few.txt --weights times.txt"
    assert mustlink(f"cluster plain.csv -k 3 {given} -o {two}")[0] == 0
    np.testing.assert_array_equal(labels_of(one), labels_of(two))


@pytest.mark.thorough
def test_plan_and_suggest_leave_them_out_too(mustlink, data):
    code, out, err = mustlink("plan numbers.csv -k 3 --labels numbers.csv:cls --json")
    assert (code, json.loads(out)["d"]) == (0, 2), err
    found = mustlink("suggest numbers.csv --labels numbers.csv:cls --json")
    plain = mustlink("suggest plain.csv --labels few.txt --json")
    one, two = (json.loads(told[1]) for told in (found, plain))
    assert one["seen"]["d"] == 2
    for told in (one, two):
        for name in ("data", "command", "notes", "peak_bytes", "seconds", "baseline"):
            del told[name]
    assert one["warnings"] == two["warnings"]
    assert one["reasons"] == two["reasons"]


def test_a_column_that_is_not_there_is_told(mustlink, data, tmp_path):
    code, _, err = mustlink(f"propagate numbers.csv --labels numbers.csv:klass -o {tmp_path}/o.h5")
    assert code == 2
    assert "numbers.csv:klass: no such column; the table has a, b, cls" in err


def test_a_table_of_labels_alone_still_names_its_nodes(data, tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("name,label\n2,u\n0,v\n1,u\n")
    assert formats.load_classes(str(path), 3, data="other.csv").codes.tolist() == [1, 0, 0]


def test_a_name_that_is_unknown_is_said_under_any_title(tmp_path):
    names = formats.tables.NodeNames(np.array(["ash", "elm", "oak"], dtype=object), "trees.csv")
    path = tmp_path / "few.csv"
    path.write_text("tree,kind\nash,a\noak,b\nfir,b\n")
    said = r"no node of trees\.csv is named 'fir'"
    with pytest.raises(InputError, match=said):
        formats.load_classes(str(path), 3, names, strict=True)
    found = formats.load_classes(str(path), 3, names)
    assert (found.codes.tolist(), found.strange) == ([0, -1, 1], ("fir",))
    (doubt,) = found.warnings
    assert "few.csv: 1 row is left out: no node of trees.csv is named 'fir'" in doubt
    path.write_text("tree,kind\nash,a\noak,b\n")
    assert formats.load_classes(str(path), 3, names).codes.tolist() == [0, -1, 1]


@pytest.fixture(scope="module")
def leaves(tmp_path_factory):
    """A table with a class by name and by number, a column alike that is none, and few labels."""
    folder = tmp_path_factory.mktemp("leaves")
    X, truth = three_groups()
    kinds, ids = np.array(["ash", "elm", "oak"]), np.array([f"leaf{i:03}" for i in range(N)])
    table = pd.DataFrame({"leaf": ids, "a": X[:, 0], "b": X[:, 1]})
    table["neighbour"] = kinds[(truth + 1 + np.arange(N) % 2) % 3]
    table.assign(kind=kinds[truth]).to_csv(folder / "words.csv", index=False)
    table.drop(columns="neighbour").assign(kind=truth).to_csv(folder / "codes.csv", index=False)
    few = pd.DataFrame({"leaf": ids, "what": kinds[truth], "code": truth})[::10]
    few[["leaf", "what"]].to_csv(folder / "few.csv", index=False)
    few[["leaf", "code"]].to_csv(folder / "numbered.csv", index=False)
    slips = few[["leaf", "what"]].replace({"leaf010": "leaf01O", "leaf020": "tree"})
    slips.to_csv(folder / "slips.csv", index=False)
    return folder


def loaded(leaves, table, labels, **how):
    """The notes on labels beside a table."""
    data = formats.load(str(leaves / table), **how)
    return labels_of_rows(str(leaves / labels), data).notes


def test_a_column_with_the_classes_of_the_labels_is_noted(leaves):
    for table, labels in (("words.csv", "few.csv"), ("codes.csv", "numbered.csv")):
        (note,) = loaded(leaves, table, labels)
        assert (
            "its column 'kind' has the classes of the labels, and is taken as data; to lea" in note
        )
        assert note.endswith("--drop kind")
        assert not loaded(leaves, table, labels, steps=Preparation(drop=("kind",)))
    assert not loaded(leaves, "words.csv", "numbered.csv")  # 0 is not called ash


def test_a_name_of_no_row_is_one_warning_in_all_verbs(shell, leaves, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(leaves)
    out = tmp_path / "out.h5"
    left = "slips.csv: 2 rows are left out: no node of words.csv is named 'leaf01O' (did you mean"
    verbs = ("cluster", "-m", "csp"), ("propagate", "-m", "gfhf"), ("suggest",)
    for verb, *more in verbs:
        to = [] if verb == "suggest" else ["-o", out]
        code, told, err = shell(verb, "words.csv", "--labels", "slips.csv", *more, *to)
        assert code == 0, err
        words = " ".join((told + err).split())
        assert left in words
        assert "to leave it out: --drop kind" in words
    with console.observing(quiet=False) as observer:
        opening.session_of_file(
            "words.csv", labels="slips.csv", output=str(tmp_path / "ui.h5"), observer=observer
        )
    assert left in " ".join(capsys.readouterr().err.split())
    code, told, _ = shell("score", out, "--truth", "slips.csv")
    assert code == 0
    assert "2 rows of the truth, not among the labelled: leaf01O, tree" in told
    for words in (("cluster", "words.csv", "-o", out, "--labels"), ("score", out, "--truth")):
        code, _, err = shell(*words, "slips.csv", "--strict")
        assert code == 2
        assert "is named 'leaf01O' (did you mean" in err


def test_in_python_a_column_of_labels_is_doubted(data):
    frame = pd.read_csv(data / "numbers.csv")
    warnings = ml.suggest(frame, frame.cls, random_state=0).warnings
    assert any("column 'cls' has one value for every class" in warning for warning in warnings)
    warnings = ml.suggest(frame[["a", "b"]], frame.cls, random_state=0).warnings
    assert not any("has one value for every class" in warning for warning in warnings)
