"""Slips that are easily made with tables: told at once, in one line, or taken as they are meant."""

import json

import numpy as np
import pytest

import mustlink as ml
from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.commands.options import PREPARING, PreparingCommand
from results import labels_of

N = 90


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Three groups with a hole in row 3, some labels and pairs, and slips."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], N // 3)
    X = rng.normal(size=(N, 2)) + 5 * np.eye(3)[truth][:, :2]
    cells = [[f"{a:.6g}", f"{b:.6g}", str(i)] for i, (a, b) in enumerate(X)]
    plain = "\n".join(",".join(row[:2]) for row in cells)
    (folder / "plain.csv").write_text(f"a,b\n{plain}\n")
    cells[3][1] = ""
    wide = "\n".join(",".join([*row, row[2]]) for row in cells)
    (folder / "wide.csv").write_text(f"a,b,id,code\n{wide}\n")
    (folder / "same.csv").write_text("a,b\n" + "1,2\n" * N)
    few = np.where(np.arange(N) % 3 == 0, truth, -1)
    np.savetxt(folder / "few.txt", few, fmt="%d")
    np.savetxt(folder / "numbers.txt", np.arange(N), fmt="%d")
    (folder / "pairs.csv").write_text("i,j,belief\n0,1,1\n3,4,1\n0,40,-1\n3,50,-1\n41,42,1\n")
    return folder


@pytest.mark.parametrize(
    "line",
    [
        "cluster plain.csv -k 3 --labels numbers.txt -o out.h5",
        "cluster plain.csv -k 3 -m csc-gfhf --labels numbers.txt -o out.h5",
        "propagate plain.csv --labels numbers.txt -o out.h5",
        "suggest plain.csv --labels numbers.txt",
    ],
)
def test_labels_that_are_numbers_of_rows_are_refused(mustlink, data, line):
    code, _, err = mustlink(line)
    assert code == 2
    assert "numbers.txt: labels of 90 rows name 90 classes, every row another: is it a col" in err


def test_in_python_too_but_one_label_a_class_is_none_of_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    for fit in (ml.CSP(3).fit, ml.Poisson().fit, ml.suggest):
        with pytest.raises(InputError, match="labels of 90 rows name 90 classes"):
            fit(X, np.arange(N))
    y = np.full(N, -1)
    y[:40] = np.arange(40)
    assert ml.Poisson().fit(X, y).labels_.max() == 39


def test_points_that_are_all_equal_are_no_clusters(mustlink, data):
    code, _, err = mustlink("cluster same.csv -k 2 -o out.h5")
    assert code == 2
    assert "-k: 2 clusters asked of 1 distinct row: all 90 points are equal" in err
    X = np.ones((N, 2))
    with pytest.raises(InputError, match="2 clusters asked of 1 distinct row"):
        ml.NCut(2).fit(X)
    assert (ml.NCut(1).fit(X).labels_ == 0).all()
    X[0] = 2
    assert ml.NCut(2).fit(X).labels_.max() == 1


@pytest.mark.thorough
def test_labels_and_pairs_of_rows_left_out_are_counted(mustlink, data, tmp_path):
    given = "--labels few.txt --constraints pairs.csv --drop id,code --drop-missing"
    code, _, err = mustlink(f"cluster wide.csv -k 3 {given} -o {tmp_path}/out.h5")
    assert code == 0, err
    assert "drop_missing: 1 of 30 labels are of rows that are left out" in err
    assert "drop_missing: 2 of 5 pairs are of rows that are left out" in err
    given = "--labels few.txt --drop id,code --impute"
    code, _, err = mustlink(f"cluster wide.csv -k 3 {given} -o {tmp_path}/out.h5")
    assert (code, "are of rows" in err) == (0, False)


def test_options_given_twice_add_up(mustlink, data, tmp_path):
    one, two = tmp_path / "one.h5", tmp_path / "two.h5"
    code, _, err = mustlink(f"cluster wide.csv -k 3 --drop id --drop code --impute -o {one}")
    assert code == 0, err
    assert mustlink(f"cluster wide.csv -k 3 --drop id,code --impute -o {two}")[0] == 0
    np.testing.assert_array_equal(labels_of(one), labels_of(two))
    words = ["--one-hot", "a,2", "--one-hot=b", "--drop", "7", "--drop", "7,d"]
    command = PreparingCommand("x")
    for option in PREPARING:
        command = option(command)
    params = command.make_context("x", words).params
    assert params["one_hot"] == ("a", 2, "b")
    assert params["drop"] == (7, "d")


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        (
            "oops",
            "'oops' in row 7, counted from 0, column 'b' is no number, while 89",
        ),
        ('"1,234"', "'1,234' in row 7.* write numbers with a point and no other mark"),
        ("1,5", "line 9, .*1,5': has 3 columns, but the first line has 2"),
    ],
)
def test_one_bad_cell_among_numbers_is_named(data, tmp_path, cell, told):
    lines = (data / "plain.csv").read_text().splitlines()
    lines[8] = lines[8].split(",")[0] + "," + cell
    (tmp_path / "x.csv").write_text("\n".join(lines))
    with pytest.raises(InputError, match=told):
        formats.load(f"{tmp_path}/x.csv")


@pytest.mark.parametrize("header", ["a;b;c\n", ""])
def test_decimal_commas_are_read_and_told(tmp_path, header):
    (tmp_path / "x.csv").write_text(header + "1,5;2;1.250\n1.002,25;3;2.500\n")
    found = formats.load(f"{tmp_path}/x.csv")
    assert found.value.tolist() == [[1.5, 2, 1250], [1002.25, 3, 2500]]
    assert "; separates cells, and , is the decimal sign" in found.notes[0]


def test_names_of_columns_are_looked_at_before_their_text(mustlink, data, tmp_path):
    (data / "words.csv").write_text(
        "customer_id,name,a\n" + "".join(f"{i},x,2\n" for i in range(9))
    )
    for option in ("--drop", "--one-hot"):
        code, _, err = mustlink(f"cluster words.csv -k 2 {option} customer_idd -o out.h5")
        assert code == 2
        assert f"{option}: no column is called 'customer_idd'; did you mean 'customer_id'?" in err


@pytest.mark.thorough
def test_fewer_clusters_than_classes_are_named_and_no_classifier_is_advised(
    mustlink, data, tmp_path
):
    classes = np.where(np.arange(N) % 3 == 0, np.arange(N) // 9, -1)
    np.savetxt(tmp_path / "ten.txt", classes, fmt="%d")
    for line in ("cluster plain.csv -k 3 -o out.h5", "suggest plain.csv -k 3"):
        code, out, err = mustlink(f"{line} --labels {tmp_path}/ten.txt")
        assert code == 0
        told = " ".join((out + err).split())
        assert "3 is below the 10 classes of the labels" in told
        assert "classifier" not in told
    code, out, err = mustlink(f"cluster plain.csv -k auto --labels {tmp_path}/ten.txt -o out.h5")
    assert "is below" not in out + err


def test_columns_that_are_left_out_are_so_in_the_command_that_is_suggested(mustlink, data):
    code, out, _ = mustlink("suggest wide.csv --drop id,code -k 3 --json")
    found = json.loads(out)
    assert code == 0
    assert "--drop=id,code" in found["command"]
    assert found["seen"]["d"] == 3  # and whether a cell was empty


@pytest.fixture
def trees(tmp_path, monkeypatch):
    """A table with names of rows, and labels by words."""
    X = np.random.default_rng(0).normal(size=(N, 2)) + 6 * np.eye(3)[np.arange(N) % 3][:, :2]
    rows = [f"tree {at},{a:.4g},{b:.4g}" for at, (a, b) in enumerate(X)]
    (tmp_path / "trees.csv").write_text("tree,a,b\n" + "\n".join(rows) + "\n")
    rows[7] = rows[3]
    (tmp_path / "twice.csv").write_text("tree,a,b\n" + "\n".join(rows) + "\n")
    monkeypatch.chdir(tmp_path)

    def label(**more):
        classes = {f"tree {at}": ("oak", "maple", "ash")[at % 3] for at in range(9)}
        lines = [f"{row},{one}" for row, one in classes.items()] + [*more.values()]
        (tmp_path / "few.csv").write_text("tree,kind\n" + "\n".join(lines) + "\n")

    return label


def test_a_class_of_one_label_that_is_spelt_like_another_is_doubted(trees):
    trees()
    names = formats.load("trees.csv").names
    assert formats.load_classes("few.csv", N, names).warnings == ()
    trees(slip="tree 20,mapple", other="tree 21,elm")
    (told,) = formats.load_classes("few.csv", N, names).warnings
    assert (
        told == "few.csv: class 'mapple' has one label, and 'maple' 3: correct it, if it is a slip"
    )


def test_a_row_that_is_labelled_twice_is_called_by_its_name(trees):
    trees(twice="tree 3,ash")
    with pytest.raises(InputError, match="node tree 3 is labelled 'oak' and 'ash'; keep one"):
        formats.load_classes("few.csv", N, formats.load("trees.csv").names)


def test_names_that_are_there_twice_are_told(trees):
    assert formats.load("trees.csv").warnings == ()
    (told,) = formats.load("twice.csv").warnings
    assert "would name the rows, but 'tree 3' is in it twice" in told


def test_a_table_is_no_result_to_ask_about(trees, mustlink):
    code, _, err = mustlink("ask trees.csv -o ask.csv")
    assert (code, err.strip()) == (
        2,
        "mustlink: trees.csv: no result; give the .h5 file that a run wrote, as: out.h5",
    )


def test_a_misspelt_section_of_a_batch_is_named(trees, tmp_path, mustlink):
    (tmp_path / "jobs.toml").write_text('[[jobs]]\ndata = "trees.csv"\n')
    code, _, err = mustlink(f"batch {tmp_path}/jobs.toml --dry-run")
    assert code == 2
    assert "jobs: unknown; did you mean job?" in err


@pytest.mark.parametrize(("verb", "word", "meant"), [
    ("cluster", "cps", "csp"), ("propagate", "LLGCC", "llgc"), ("cluster", "zzz", None),
])  # fmt: skip
def test_a_method_that_is_spelt_alike_is_named(shell, verb, word, meant):
    code, out, err = shell(verb, "x.npy", "--labels", "y.npy", "-m", word, "-o", "out.h5")
    assert (code, out) == (2, "")
    assert (f"'{word}' is none; did you mean {meant}?" in err) == (meant is not None)
    assert ("is not one of" in err) == (meant is None)


def test_a_class_that_differs_by_its_case_is_doubted(trees):
    trees(slip="tree 20,MAPLE")
    (told,) = formats.load_classes("few.csv", N, formats.load("trees.csv").names).warnings
    assert "class 'MAPLE' has one label, and 'maple' 3" in told


@pytest.mark.parametrize(("line", "message"), [
    ("cluster tres.csv -k 3 -o out.h5", "tres.csv: no such file; did you mean trees.csv?"),
    ("cluster elsewhere.npy -k 3 -o out.h5", "elsewhere.npy: no such file"),
    ("cluster trees.csv -k 3 --id tre -o out.h5", "--id tre: no such column; did you mean tree?"),
    ("cluster trees.csv -k 3 -o away/out.h5", "no folder {0}/away; make it first"),
    ("cluster first.h5 -k 3 -o out.h5", "first.h5: is a result, not data; give the data that it"),
])  # fmt: skip
def test_files_columns_and_folders_that_are_not_there(trees, shell, tmp_path, line, message):
    if "first.h5" in line:
        assert shell("cluster trees.csv -k 3 -m ncut --quiet -o first.h5")[0] == 0
    code, _, err = shell(line + " --quiet")
    assert (code, err.count("\n")) == (2, 1)
    assert message.format(tmp_path) in err


def test_nodes_without_an_answer_are_told_once(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{a} {b}" for of in (range(9), range(9, 18)) for a in of for b in of if a < b]
    (tmp_path / "net.edges").write_text("\n".join([*lines, "20 21"]))
    (tmp_path / "few.csv").write_text("node,side\n0,left\n1,left\n9,right\n10,right\n")
    code, out, _ = shell("cluster net.edges --labels few.csv -m auto -o out.h5")
    assert code == 0
    assert out.count("(label -1)") == 1
