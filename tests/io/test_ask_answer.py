"""`mustlink ask` and `mustlink answer`: from a result over a table to the next result."""

import csv
import json
from pathlib import Path

import h5py
import numpy as np
import pytest

import mustlink as ml
from cases import blobs
from mustlink.errors import InputError
from mustlink_io.commands import cli
from mustlink_io.formats import labels as label_files
from mustlink_io.hdf5 import store
from mustlink_io.ui.answering import Opened
from mustlink_io.ui.journal import Answer, Journal
from mustlink_io.ui.node_session import NodeSession
from mustlink_io.ui.opening import session_of_file

pytestmark = pytest.mark.usefixtures("few_trees")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = blobs(np.random.default_rng(0), 200, 4, d=3)
    given = np.full(200, -1)
    for c in range(4):
        given[np.flatnonzero(y == c)[:2]] = c
    np.save("x.npy", X)
    np.save("y.npy", given)
    return y, given


def made(*options):
    assert cli.run([*options, "--labels", "y.npy", "-o", "out.h5", "--seed", "0", "--quiet"]) == 0


def cluster():
    made("cluster", "x.npy", "-k", "4", "-m", "csp")


def filled(path, answers):
    """The table with its column `answer`; returns the rows."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    for row, answer in zip(rows, answers, strict=True):
        row["answer"] = answer
    with open(path, "w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    return rows


@pytest.mark.thorough
@pytest.mark.parametrize("verb", [["cluster", "x.npy", "-k", "4"], ["propagate", "x.npy"]])
def test_from_a_result_to_the_next(place, verb, capsys):
    y, given = place
    made(*verb)
    assert cli.run(["ask", "out.h5", "-n", "6", "-o", "ask.csv"]) == 0
    asked = ml.next_queries(ml.load("out.h5"), 6)
    rows = [int(one["row"]) for one in filled("ask.csv", [""] * 6)]
    assert rows == asked.tolist()
    answers = [*map(str, y[asked[:4]]), "?", ""]
    filled("ask.csv", answers)
    capsys.readouterr()
    assert cli.run(["answer", "out.h5", "ask.csv", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["answers"], told["unknown"]) == (4, 2)
    est = ml.load("out.h5")
    known = given.copy()
    known[asked[:4]] = y[asked[:4]]
    labels = est.given_labels_ if hasattr(est, "given_labels_") else est.constraints_.labels
    assert np.array_equal(labels, known)
    assert cli.run(["ask", "out.h5", "-n", "200", "-o", "all.csv"]) == 0
    left = {int(one["row"]) for one in filled("all.csv", [""] * (200 - 8 - 6))}
    assert not left & set(rows)  # neither what is known nor what nobody knew


@pytest.mark.thorough
def test_pairs_and_another_output(place, capsys):
    cluster()
    before = Path("out.h5").read_bytes()
    argv = ["ask", "out.h5", "-n", "4", "--kind", "pairs", "--strategy", "neighbourhoods"]
    assert cli.run([*argv, "-o", "ask.csv"]) == 0
    rows = filled("ask.csv", ["", "yes", "no", "Apart"])
    assert cli.run(["answer", "out.h5", "ask.csv", "-o", "new.h5"]) == 0
    assert "go on?" in capsys.readouterr().out
    assert Path("out.h5").read_bytes() == before
    pairs, belief = ml.load("new.h5").constraints_.merged
    wanted = {tuple(sorted((int(r["first"]), int(r["second"])))): a
              for r, a in zip(rows[1:], [1, -1, -1], strict=True)}  # fmt: skip
    assert {tuple(p): b for p, b in zip(pairs.tolist(), belief, strict=True)} == wanted
    refused = tuple(sorted((int(rows[0]["first"]), int(rows[0]["second"]))))
    assert cli.run(["ask", "new.h5", "-n", "30", "--kind", "pairs", "-o", "then.csv"]) == 0
    with open("then.csv", newline="") as file:
        then = {tuple(sorted((int(r["first"]), int(r["second"])))) for r in csv.DictReader(file)}
    assert refused not in then


@pytest.mark.thorough
def test_the_page_and_the_table_have_the_same_answers(place):
    cluster()
    est = ml.load("out.h5")
    first = ml.next_queries(est, 3)
    journal = Journal.beside(Path("out.h5"), est)
    journal.write([Answer("label", first[:1], 2), Answer("unknown", first[1:2])])
    assert cli.run(["ask", "out.h5", "-n", "5", "-o", "ask.csv"]) == 0
    rows = filled("ask.csv", ["0", "?", "", "", ""])
    assert not {int(one["row"]) for one in rows} & set(first[:2].tolist())
    assert cli.run(["answer", "out.h5", "ask.csv"]) == 0
    labels = ml.load("out.h5").constraints_.labels
    assert (labels[first[0]], labels[int(rows[0]["row"])]) == (2, 0)
    kept = journal.read()
    assert {one.kind for one in kept} == {"unknown"}
    assert {int(one.nodes[0]) for one in kept} >= {int(first[1]), int(rows[1]["row"])}


@pytest.mark.thorough
@pytest.mark.parametrize("verb", ["propagate", "cluster"])
def test_names_of_rows_and_classes_stay(place, verb):
    y, given = place
    names = np.array(["ants", "bees", "cats", "dogs", ""])
    with open("x.csv", "w") as file:
        file.write("name,a,b,c\n")
        file.writelines(f"r{i},{a},{b},{c}\n" for i, (a, b, c) in enumerate(np.load("x.npy")))
    with open("y.csv", "w") as file:
        file.write("node,class\n")
        file.writelines(f"r{i},{names[given[i]]}\n" for i in np.flatnonzero(given >= 0))
    more = ["-k", "4"] if verb == "cluster" else []
    argv = [verb, "x.csv", *more, "--labels", "y.csv", "-o", "out.h5", "--quiet"]
    assert cli.run(argv) == 0
    assert cli.run(["ask", "out.h5", "-n", "3", "-o", "ask.csv"]) == 0
    rows = filled("ask.csv", [""] * 3)
    assert [one["name"] for one in rows] == [f"r{one['row']}" for one in rows]
    assert {one["now"] for one in rows} <= set(names)
    filled("ask.csv", names[y[[int(one["row"]) for one in rows]]])
    assert cli.run(["answer", "out.h5", "ask.csv"]) == 0
    with store.open_h5("out.h5") as file:
        assert store.texts(file, "/names")[7] == "r7"
        assert set(store.texts(file, "/class_names")) == set(names[:4])
    assert cli.run(["convert", "out.h5", "labels.csv"]) == 0
    assert "cats" in Path("labels.csv").read_text()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no line with an answer"),
        ("row,answer\n", "no line with an answer"),
        ("row,what\n3,1\n", "has no column answer, but row, what"),
        ("number;answer\n3;1\n", "has no column row, but number, answer"),
        ("row,answer\n3,1\n5,?\n3,2\n", "lines 2 and 4 answer row 3 as '1' and '2'"),
        ("first,second,answer\n3,4,yes\n4,3,no\n", "answer row 4 and 3 as 'yes' and 'no'"),
        ("row,answer\n900,1\n", "rows are 0 to 199"),
        ("row,answer\n-1,1\n", "rows are 0 to 199"),
        ("row,answer\n3,cat\n", "answered 'cat'"),
        ("row,answer\n3,-4\n", "answered '-4'"),
        ("first,second,answer\n3,3,yes\n", "row 3 twice"),
        ("first,second,answer\n3,4,perhaps\n", "give yes or no"),
        ('row,answer\n"3,1\n', "no table of text"),
    ],
)
def test_tables_that_say_nothing_are_one_line(place, text, words, capsys):
    cluster()
    before = Path("out.h5").read_bytes()
    with open("ask.csv", "w") as file:
        file.write(text)
    capsys.readouterr()
    assert cli.run(["answer", "out.h5", "ask.csv"]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1
    assert Path("out.h5").read_bytes() == before


@pytest.mark.thorough
def test_what_cannot_be_asked_is_one_line(place, capsys):
    made("cluster", "x.npy", "-k", "4", "--no-model")
    assert cli.run(["ask", "out.h5"]) == 2
    assert "has no model" in capsys.readouterr().err
    cluster()
    assert cli.run(["ask", "out.h5", "--strategy", "neighbourhoods"]) == 2
    assert cli.run(["ask", "out.h5", "-o", "out.h5"]) == 2
    assert "strategy" in capsys.readouterr().err


@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16"])
def test_what_spreadsheets_do_to_a_table_does_not_matter(tmp_path, coding):
    path = tmp_path / "ask.csv"
    text = "Row \tnow\t Answer\tremark\r\n3.0\t1\t2\t\r\n\t\t\t\r\n4\t1\tDon't know\tcafé\r\n"
    path.write_bytes((text + "3\t1\t2\tagain\r\n").encode(coding))
    found = label_files.load_answers(path, 10)
    assert [(one.nodes, one.answer, one.line) for one in found] == [((3,), "2", 2), ((4,), "", 4)]


@pytest.mark.parametrize(("raw", "kind"), [(b"row,answer\n3,caf\xe9\n", "no text in UTF-8"),
                                           (b"PK\x03\x04\xff\xfe", "a workbook")])  # fmt: skip
def test_what_is_no_text_is_told(tmp_path, raw, kind):
    path = tmp_path / "ask.csv"
    path.write_bytes(raw)
    with pytest.raises(InputError, match=f"is {kind}; save it as CSV in UTF-8"):
        label_files.load_answers(path, 10)


def test_semicolons_of_a_spreadsheet_are_read(tmp_path):
    path = tmp_path / "ask.csv"
    path.write_bytes(b"\xef\xbb\xbfrow;now;answer\r\n3;1;2\r\n4;1;?\r\n")
    found = label_files.load_answers(path, 10)
    assert [(one.nodes, one.answer) for one in found] == [((3,), "2"), ((4,), "")]


def test_an_answer_leaves_the_prior(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng, n = np.random.default_rng(0), 200
    X = rng.normal(size=(n, 2)).astype(np.float32)
    truth = (X[:, 0] > 0).astype(int)
    np.save("x.npy", X)
    np.save("y.npy", np.where(np.arange(n) < 4, truth, -1))
    np.save("p.npy", np.eye(2)[truth] * 0.8 + 0.1)
    line = "propagate x.npy --labels y.npy --prior p.npy -m gfhf -o o.h5 --quiet"
    assert cli.run(line.split()) == 0
    (tmp_path / "a.csv").write_text(f"row,answer\n10,{truth[10]}\n")
    assert cli.run(["answer", "o.h5", "a.csv"]) == 0
    with h5py.File("o.h5") as file:
        assert np.mean(file["labels"][()] == truth) > 0.95  # .84 without


def test_questions_replace_no_table_of_somebody_else(place, capsys):
    cluster()
    Path("data.csv").write_text("node,height\n0,1.5\n1,2.5\n")
    assert cli.run(["ask", "out.h5", "-n", "2", "-o", "data.csv"]) == 2
    assert "is there, and no table of questions" in capsys.readouterr().err
    assert Path("data.csv").read_text().startswith("node,height")
    assert cli.run(["ask", "out.h5", "-n", "2", "-o", "ask.csv"]) == 0
    assert cli.run(["ask", "out.h5", "-n", "3", "-o", "ask.csv"]) == 0  # nothing is filled in
    filled("ask.csv", ["", "1", ""])
    assert cli.run(["ask", "out.h5", "-n", "3", "-o", "ask.csv"]) == 2
    assert "has answers; give them by mustlink answer" in capsys.readouterr().err


def test_a_result_replaces_no_file_of_somebody_else(place, capsys):
    with h5py.File("mine.h5", "w") as file:
        file["points"] = np.ones((3, 2))
    words = ["cluster", "x.npy", "-k", "4", "-m", "ncut", "--quiet", "-o"]
    assert cli.run([*words, "mine.h5"]) == 2
    assert "mine.h5: is an HDF5 file that mustlink did not write" in capsys.readouterr().err
    with h5py.File("mine.h5") as file:
        assert list(file) == ["points"]
    Path("notes.h5").write_text("mine")
    assert cli.run([*words, "notes.h5"]) == 2
    assert "notes.h5: is there, a file that mustlink did not write" in capsys.readouterr().err
    assert Path("notes.h5").read_text() == "mine"
    assert cli.run([*words, "out.h5"]) == cli.run([*words, "out.h5", "--fresh"]) == 0


def test_a_result_replaces_no_answers_of_a_person(place, capsys):
    cluster()
    cluster()  # without answers it may
    Path("ask.csv").write_text("row,answer\n17,1\n")
    assert cli.run(["answer", "out.h5", "ask.csv", "--quiet"]) == 0
    before, words = Path("out.h5").read_bytes(), ["cluster", "x.npy", "-k", "4", "-m", "ncut"]
    words += ["--quiet", "-o", "out.h5"]
    capsys.readouterr()
    assert cli.run(words) == 2
    told = capsys.readouterr().err
    assert told == (
        "mustlink: out.h5: holds answers of a person; give another name with -o to keep them, or "
        "--overwrite to replace them\n"
    )
    assert Path("out.h5").read_bytes() == before
    assert cli.run([*words, "--overwrite"]) == 0
    assert Path("out.h5").read_bytes() != before
    session, _ = session_of_file("out.h5.before")  # and of the page
    session.choose([3], 1)
    session.save("out.h5")
    assert cli.run(words) == 2


@pytest.mark.thorough
def test_classes_get_names_where_nothing_was_known(place, capsys):
    y, _ = place
    assert cli.run(["cluster", "x.npy", "-k", "4", "-m", "csp", "-o", "out.h5", "--quiet"]) == 0
    assert cli.run(["ask", "out.h5", "-n", "12", "-o", "ask.csv"]) == 0
    rows = [int(one["row"]) for one in filled("ask.csv", [""] * 12)]
    called = np.array(["ant", "bee", "cat", "dog"])
    filled("ask.csv", called[y[rows]])
    assert cli.run(["answer", "out.h5", "ask.csv", "-o", "named.h5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["new_classes"] == sorted(set(called[y[rows]]))
    assert cli.run(["ask", "named.h5", "-n", "3", "-o", "more.csv"]) == 0
    now = {one["now"] for one in filled("more.csv", ["", "", ""])}
    assert now <= set(called)


def test_a_heading_with_commas_does_not_hide_semicolons(tmp_path):
    path = tmp_path / "ask.csv"
    path.write_text("row;size, colour, form, age;answer\n3;1,5;2\n")
    found = label_files.load_answers(path, 10)
    assert [(one.nodes, one.answer) for one in found] == [((3,), "2")]


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["csp", "auto", "llgc"])
def test_the_same_answers_by_page_shell_and_python_give_the_same_labels(place, method):
    """Eight answers in the same order, one after another; each way from the same result file."""
    y, given = place
    verb = ["propagate", "x.npy"] if method == "llgc" else ["cluster", "x.npy", "-k", "4"]
    made(*verb, "-m", method)
    asked = ml.next_queries(ml.load("out.h5"), 8).tolist()
    session = NodeSession(ml.load("out.h5"))
    est, known = ml.load("out.h5"), given.copy()
    Path("shell.h5").write_bytes(Path("out.h5").read_bytes())
    for row in asked:
        session.label([row], int(y[row]))
        Path("a.csv").write_text(f"row,answer\n{row},{y[row]}\n")
        assert cli.run(["answer", "shell.h5", "a.csv", "--quiet"]) == 0
        known[row] = y[row]
        est.refit(y=known)
        np.testing.assert_array_equal(ml.load("shell.h5").labels_, est.labels_)
        np.testing.assert_array_equal(session.labels, est.labels_)


def test_rows_that_were_left_out_are_passed_over(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = blobs(np.random.default_rng(0), 90, 3, d=2)
    gone = [0, 17, 89]
    kept = np.setdiff1d(np.arange(90), gone)
    cells = [[f"tree {i}", *row, y[i] if i % 9 == 4 else ""] for i, row in enumerate(X.tolist())]
    for row in gone:
        cells[row][2] = ""
    for name, rows in (("all", range(90)), ("twin", kept)):
        with open(f"{name}.csv", "w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["tree", "width", "height", "kind"])
            table.writerows(cells[row] for row in rows)
        line = f"cluster {name}.csv -k 3 -m csp --labels {name}.csv:kind --drop-missing --quiet"
        assert cli.run([*line.split(), "-o", f"{name}.h5"]) == 0
        assert cli.run(["ask", f"{name}.h5", "-n", "6", "-o", f"{name}-ask.csv"]) == 0
    twin, asked = filled("twin-ask.csv", [""] * 6), filled("all-ask.csv", [""] * 6)
    assert [kept[int(one.pop("row"))] for one in twin] == [int(one.pop("row")) for one in asked]
    assert twin == asked  # with the same names, guesses and cells

    named = [str(y[int(one["name"].split()[1])]) for one in asked]
    for name in ("all", "twin"):
        filled(f"{name}-ask.csv", named)
        assert cli.run(["answer", f"{name}.h5", f"{name}-ask.csv", "--quiet"]) == 0
    with h5py.File("all.h5") as file, h5py.File("twin.h5") as other:
        assert np.array_equal(file["kept"], kept)
        assert np.array_equal(file["labels"][kept], other["labels"])
        assert (file["labels"][gone] == -1).all()
        known = np.flatnonzero(file["constraints/labels"][:] >= 0)
        assert np.array_equal(known, kept[other["constraints/labels"][:] >= 0])
        assert file["names"].asstr()[:].tolist() == [f"tree {i}" for i in range(90)]
    session, more = session_of_file("all.h5")
    assert (session.called(0), session.row(86)) == ("tree 1", 88)
    assert f"{X[1, 0]:.6g}" in more["show"](0)

    Path("ask.csv").write_text("row,answer\n17,1\n")
    capsys.readouterr()
    assert cli.run(["answer", "all.h5", "ask.csv"]) == 2
    assert "line 2: row 17 was left out" in capsys.readouterr().err
    with h5py.File("all.h5", "a") as file:
        file["kept"][5] = 4
    with pytest.raises(InputError, match="/kept: damaged"):
        Opened.of("all.h5")
