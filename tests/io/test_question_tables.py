"""What a table of questions says of a row: its columns or picture, what is guessed, how sure."""

import csv
import json
import subprocess
import sys

import h5py
import numpy as np
import pytest
import scipy.linalg

import mustlink as ml

N = 90
Y = np.arange(N) % 3
KINDS = np.array(["ash", "elm", "oak"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Results of a table with ids, one column of words and a gap."""
    from mustlink_io.commands import cli

    found = tmp_path_factory.mktemp("questions")
    rng = np.random.default_rng(0)
    X = (4 * np.eye(3)[Y][:, :2] + rng.normal(size=(N, 2))).round(3)
    site = np.array(["hill", "bog"])[rng.integers(0, 2, N)]
    with (found / "trees.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["tag", "height", "site", "second"])
        cells = zip([f"tree {i}" for i in range(N)], X[:, 0], site, X[:, 1], strict=True)
        table.writerows([tag, "" if tag == "tree 4" else h, s, b] for tag, h, s, b in cells)
    with (found / "few.csv").open("w", newline="") as file:
        few = [[f"tree {i}", KINDS[Y[i]]] for i in range(24)]
        csv.writer(file).writerows([["tag", "kind"], *few])
    fitted(found, "csp", cli.run)
    return found


def fitted(folder, method, run):
    verb = ["propagate"] if method == "llgc" else ["cluster", "-k", "3"]
    to = ["--labels", str(folder / "few.csv"), "--quiet", "-o", str(folder / f"{method}.h5")]
    run([*verb, str(folder / "trees.csv"), "-m", method, *to])


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["auto", "csp", "llgc"])
def test_a_question_has_the_row_the_guess_and_the_next_two(told, folder, tmp_path, name):
    if name != "csp":
        fitted(folder, name, lambda words: told(*words))
    code, _, err = told("ask", f"{name}.h5", "-n", 5, "-o", tmp_path / "ask.csv")
    assert (code, err) == (0, "")
    est, table = ml.load(folder / f"{name}.h5"), rows(folder / "trees.csv")
    shares = getattr(est, "label_distributions_", None)
    if shares is None:  # the twin: memberships, of CSP calibrated, else of the usual exponents
        from mustlink.discretize.memberships import usual

        by, evidence = usual(est.graph_), getattr(est, "estimator_", est)._evidence()
        if name == "csp":
            assert est.calibration_.trust != by.trust
            by = est.calibration_
        shares = evidence.memberships(np.arange(N), by.trust)
    called = {k: v for k, v in enumerate(KINDS)} if name == "llgc" else est.cluster_names_
    for one in rows(tmp_path / "ask.csv"):
        at = int(one["row"])
        order = np.argsort(-shares[at])
        assert one["name"] == table[at]["tag"]
        assert one["now"] == called[order[0]]
        assert one["sure"] == f"{shares[at, order[0]]:.2f}"
        for title, which in (("second", 1), ("third", 2)):
            assert one[title] == f"{called[order[which]]} ({shares[at, order[which]]:.2f})"
        assert one["site"] == table[at]["site"]
        assert one["second (data)"] == f"{float(table[at]['second']):.6g}"
        assert one["answer"] == ""


def test_pairs_have_both_rows_and_pictures_are_named(told, folder, tmp_path):
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for row in range(N):
        (pictures / f"{row:03d}.png").touch()
    out = tmp_path / "ask.csv"
    assert told("ask", "csp.h5", "-n", 2, "--kind", "pairs", "--show", pictures, "-o", out)[0] == 0
    table = rows(folder / "trees.csv")
    for one in rows(out):
        for side in ("first", "second"):
            at = int(one[side])
            assert one[f"{side}_site"] == table[at]["site"]
            assert one[f"{side}_picture"] == str(pictures / f"{at:03d}.png")
    (pictures / "000.png").unlink()
    code, _, err = told("ask", "csp.h5", "--show", pictures)
    assert (code, f"show: {N - 1} pictures in" in err) == (2, True)


def test_of_a_table_that_has_changed_no_columns_are_told(told, folder, tmp_path, request):
    for name in ("trees.csv", "csp.h5"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    with h5py.File(tmp_path / "csp.h5", "r+") as file:
        text = file.attrs["inputs"].replace(str(folder / "trees.csv"), "trees.csv")
        file.attrs["inputs"] = text
    (folder / "trees.csv").rename(folder / "away.csv")
    request.addfinalizer(lambda: (folder / "away.csv").rename(folder / "trees.csv"))
    asked = told("ask", tmp_path / "csp.h5", "-n", 1)[1]
    assert "site" in asked.splitlines()[0]  # beside the result
    (tmp_path / "trees.csv").write_text("other\n1\n2\n")
    assert "site" not in told("ask", tmp_path / "csp.h5", "-n", 1)[1].splitlines()[0]


def test_questions_are_counted_by_rows_and_not_by_lines(told, tmp_path, monkeypatch):
    asked = ["row", "note"], [[1, "two\nlines"]]
    monkeypatch.setattr("mustlink_io.ui.answering.ask", lambda *_: asked)
    monkeypatch.setattr("csv.reader", None)  # nor is what was written read again
    said = told("ask", "csp.h5", "-o", tmp_path / "ask.csv")[1]
    assert said == f"1 question in {tmp_path / 'ask.csv'}\n"


def test_remarks_call_clusters_by_their_names(told, tmp_path):
    blocks = [np.triu(np.ones((12, 12)), 1)] * 4  # four components, three of them one heap
    i, j = np.nonzero(scipy.linalg.block_diag(*blocks))
    edges, few, out = (tmp_path / one for one in ("e.csv", "few.csv", "out.h5"))
    edges.write_text("i,j\n" + "".join(f"{a},{b}\n" for a, b in zip(i, j, strict=True)))
    few.write_text("node,kind\n0,oak\n1,oak\n12,elm\n13,elm\n")
    line = ["cluster", edges, "-k", "2", "-m", "csp", "--labels", few, "-o", out]
    result = json.loads(told(*line, "--json")[1])
    names = result["class_names"]
    assert sorted(names) == ["elm", "oak"]
    number = next(at for at, size in enumerate(result["sizes"]) if size == 36)
    words = f"cluster {number} ({names[number]}) is a heap of 3 components"
    assert words in " ".join(result["warnings"])
    assert words in told("report", out, "--json")[1]


@pytest.mark.thorough
def test_asking_imports_no_scikit_learn(folder):
    code = (
        "import sys; from mustlink_io.ui.answering import ask; "
        f"ask({str(folder / 'csp.h5')!r}, 3, 'labels', 'auto'); "
        "assert 'sklearn' not in sys.modules, 'sklearn'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
