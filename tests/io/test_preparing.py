"""Preparation of columns from the shell: options, files, what is kept in the result."""

import json
import re

import h5py
import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mustlink as ml
from mustlink.preprocessing.fitted import Fitted, PreparedRows
from mustlink.preprocessing.request import Preparation
from mustlink_io import formats
from mustlink_io.batch import arguments, jobs_file
from mustlink_io.commands import cli
from mustlink_io.commands.options import _joined
from mustlink_io.hdf5 import writing
from mustlink_io.jobs.on_disk import shape_of
from results import labels_of

N = 120


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Three groups that only columns 0 and 3 tell apart, and a loud column 1; column 2 is codes."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 40)
    X = rng.normal(size=(N, 4)) * [0.1, 500, 1, 1]
    X[:, 0] += truth
    X[:, 2] = truth * 3 % 4
    X[:, 3] += 3 * truth
    few = np.full(N, -1)
    few[[0, 1, 40, 41, 80, 81]] = truth[[0, 1, 40, 41, 80, 81]]
    writing.write(folder / "points.h5", {"/points": X})
    holes = X.copy()
    holes[[5, 50, 119], [0, 3, 1]] = np.nan
    writing.write(folder / "holes.h5", {"/points": holes})
    np.savetxt(folder / "few.txt", few, fmt="%d")
    np.savetxt(folder / "truth.txt", truth, fmt="%d")
    (folder / "pairs.csv").write_text(
        "i,j,belief\n0,50,-1\n0,1,1\n5,40,-1\n118,119,1\n81,82,1\n3,99,0.05\n"
    )
    words = np.array(["red", "green", "blue"])[truth]
    lines = [f"{a:.17g},{w},{b:.17g}" for a, w, b in zip(X[:, 0], words, X[:, 3], strict=True)]
    lines[4] = lines[4].split(",", 1)[0] + ",,NA"
    (folder / "words.csv").write_text("size,colour,weight\n" + "\n".join(lines))
    (folder / "loud.csv").write_text("a,b\n" + "\n".join(f"{i},{np.exp(i / 5)}" for i in range(99)))
    return folder


@pytest.mark.thorough
def test_the_shell_and_a_pipeline_give_the_same_labels(mustlink, data, tmp_path):
    out = tmp_path / "out.h5"
    code, _, err = mustlink(
        f"cluster points.h5 -k 3 --labels few.txt --standardize -o {out} --json"
    )
    assert code == 0, err
    X, few = formats.load(str(data / "points.h5")).value, np.loadtxt(data / "few.txt", dtype=int)
    wanted = make_pipeline(StandardScaler(), ml.CSP(n_clusters=3, random_state=0)).fit(X, few)
    np.testing.assert_array_equal(labels_of(out), wanted[-1].labels_)
    with h5py.File(out) as file:
        told = json.loads(file.attrs["parameters"])["preparation"]
        fitted = Fitted.of(json.loads(file.attrs["preparation"]))
    assert Preparation.of(told) == Preparation("standard")
    with h5py.File(data / "points.h5") as file:
        raw = file["points"][:]
    np.testing.assert_allclose(fitted.transform(raw), StandardScaler().fit_transform(raw))


@pytest.mark.thorough
def test_another_preparation_takes_nothing_from_the_work_folder(mustlink, tmp_path):
    out = tmp_path / "out.h5"
    line = f"cluster points.h5 -k 3 -m ncut --resume -o {out} --json"
    assert json.loads(mustlink(line)[1])["stages_from_before"] == 0
    plain = labels_of(out)
    told = json.loads(mustlink(line + " --standardize")[1])
    assert told["stages_from_before"] == 0
    assert "--standardize" in told["command"]
    assert json.loads(mustlink(line)[1])["stages_from_before"] > 0
    np.testing.assert_array_equal(labels_of(out), plain)


def test_rows_that_are_left_out_have_label_minus_1(mustlink, data, tmp_path):
    out = tmp_path / "out.h5"
    line = f"cluster holes.h5 -k 3 --constraints pairs.csv --labels few.txt -o {out} --json"
    code, said, err = mustlink(line + " --drop-missing --standardize")
    assert code == 0, err
    assert "3 rows with missing values are left out, label -1" in err
    found, truth = labels_of(out), np.loadtxt(data / "truth.txt", dtype=int)
    np.testing.assert_array_equal(np.flatnonzero(found < 0), [5, 50, 119])
    with h5py.File(out) as file:
        pairs = file["constraints/pairs"][:]
        assert file["embedding"].shape[0] == N
    named = {tuple(sorted(pair)) for pair in pairs.tolist()}
    assert {(0, 1), (81, 82)} <= named
    assert not np.isin(pairs, [5, 50, 119]).any()
    worst = json.loads(said)["constraints"]["worst"]
    assert [pair["nodes"] for pair in worst] == [[3, 99]]
    for pair in worst:
        i, j = pair["nodes"]
        assert found[i] == pair["clusters"][0]
        assert found[j] == pair["clusters"][1]
    code, said, _ = mustlink(f"score {out} --truth truth.txt --json")
    assert code == 0
    assert json.loads(said)["unassigned"] == 3
    assert len(set(zip(found.tolist(), truth.tolist(), strict=True)) - {(-1, 0), (-1, 1), (-1, 2)})


@pytest.mark.thorough
def test_propagation_and_graphs_number_rows_as_the_file(mustlink, data, tmp_path):
    out, graph = tmp_path / "out.h5", tmp_path / "graph.h5"
    code, _, err = mustlink(f"graph holes.h5 --drop-missing --standardize -o {graph}")
    assert code == 0, err
    W = formats.load(str(graph)).value
    assert W.shape == (N, N)
    np.testing.assert_array_equal(np.flatnonzero(np.diff(W.indptr) == 0), [5, 50, 119])
    line = f"propagate holes.h5 --labels few.txt --drop-missing --standardize -m gfhf -o {out}"
    code, _, err = mustlink(line)
    assert code == 0, err
    np.testing.assert_array_equal(np.flatnonzero(labels_of(out) < 0), [5, 50, 119])
    first = labels_of(out)
    code, _, err = mustlink(f"{line} --graph {graph}")
    assert code == 0, err
    np.testing.assert_array_equal(labels_of(out), first)


def test_text_and_empty_cells_of_a_table(mustlink, data, tmp_path):
    out = tmp_path / "out.h5"
    line = f"cluster words.csv -k 3 -m ncut -o {out}"
    code, _, err = mustlink(line + " --standardize")
    assert code == 2
    assert "'colour' is text" in err
    assert "--one-hot" in err
    code, _, err = mustlink(line + " --one-hot colour")
    assert code == 2
    assert "row 4, column 'colour'; fill them: --impute" in err
    code, _, err = mustlink(line + " --one-hot colour --impute --standardize")
    assert code == 0, err
    assert "column 'colour' becomes 3 columns" in err
    found, truth = labels_of(out), np.loadtxt(data / "truth.txt", dtype=int)
    assert len(set(zip(np.delete(found, 4), np.delete(truth, 4), strict=True))) == 3


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["csv", "npy", "h5"])
def test_missing_values_that_are_filled_are_planned(mustlink, data, tmp_path, ending):
    with h5py.File(data / "holes.h5") as file:
        X = np.tile(file["points"][:], (80, 1))  # enough rows to be probed
    path = tmp_path / f"holes.{ending}"
    if ending == "csv":
        np.savetxt(path, X[:N], delimiter=",")
    elif ending == "npy":
        np.save(path, X)
    else:
        writing.write(path, {"/points": X})
    for step in ("--impute", "--drop-missing"):
        code, out, err = mustlink(f"plan {path} -k 3 {step} --json")
        assert code == 0, err
        assert json.loads(out)["peak_bytes"] > 0
    code, out, err = mustlink(f"suggest {path} -k 3 --json")
    assert code == 0, err
    assert json.loads(out)["seconds"] is not None
    line = f"cluster {path} -k 3 -m ncut --impute=median --memory 8GB -o {tmp_path / 'out.h5'}"
    code, _, err = mustlink(line)
    assert code == 0, err


def test_points_on_disk_stay_there(data):
    asked = Preparation("standard", (2,), "mean")
    held = formats.load(str(data / "holes.h5"), steps=asked)
    lazy = formats.load(str(data / "holes.h5"), steps=asked, lazy_above=100)
    assert isinstance(held.value, np.ndarray)
    assert isinstance(lazy.value, PreparedRows)
    np.testing.assert_array_equal(np.asarray(lazy.value), held.value)
    assert held.notes == lazy.notes
    shape = shape_of(str(data / "holes.h5"), asked)
    assert (shape.n, shape.d) == held.value.shape == (N, 6)


def test_a_budget_gives_the_same_labels(mustlink, tmp_path):
    a, b = tmp_path / "a.h5", tmp_path / "b.h5"
    line = "cluster points.h5 -k 3 -m ncut --standardize --one-hot 2"
    assert mustlink(f"{line} -o {a}")[0] == 0
    code, _, err = mustlink(f"{line} --memory 2GB -o {b}")
    assert code == 0, err
    np.testing.assert_array_equal(labels_of(a), labels_of(b))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("cluster points.h5 -k 3 --one-hot 9 -o {out}", "--one-hot: column 9 is not there"),
        ("cluster points.h5 -k 3 --one-hot x -o {out}", "--one-hot: 'x' is no number, and"),
        ("cluster loud.csv -k 3 --one-hot aa -o {out}", "no column is called 'aa'; did you mean"),
        ("cluster points.h5 -k 3 --standardize=no -o {out}", "'no' is not one of"),
        ("cluster holes.h5 -k 3 -o {out}", "3 rows have missing values .* row 5, column 0; .*--im"),
        ("cluster holes.h5 -k 3 --impute --drop-missing -o {out}", "--drop-missing: .* give one"),
        ("cluster graph.h5 -k 3 --standardize -o {out}", "is a graph"),
        ("plan points.h5 -k 3 --one-hot 1,,2", "is no list of columns"),
    ],
)
def test_what_cannot_be_is_one_line(mustlink, data, tmp_path, line, words):
    if not (data / "graph.h5").exists():
        assert mustlink(f"graph points.h5 -o {data / 'graph.h5'} --quiet")[0] == 0
    code, _, err = mustlink(line.format(out=tmp_path / "out.h5"))
    last = [one for one in err.splitlines() if one.startswith("mustlink: ")]
    assert code == 2
    assert len(last) == 1, err
    assert re.search(words, last[0]), err
    assert not (tmp_path / "out.h5").exists()


def test_a_value_may_be_left_out_and_is_never_the_data():
    assert _joined(["--standardize", "points.h5", "-k", "3"]) == [
        "--standardize=standard", "points.h5", "-k", "3",
    ]  # fmt: skip
    assert _joined(["--standardize", "robust", "--impute"]) == [
        "--standardize=robust", "--impute=mean",
    ]  # fmt: skip
    assert _joined(["--", "--impute"]) == ["--", "--impute"]


def test_jobs_of_a_batch_are_prepared(data, tmp_path):
    (tmp_path / "jobs.toml").write_text(
        f'[defaults]\noutput = "{{name}}.h5"\nk = 3\nmethod = "ncut"\n'
        f'[[job]]\nname = "one"\ndata = "{data}/holes.h5"\nimpute = true\n'
        'standardize = ["standard", "robust"]\none-hot = "2"\n'
    )
    where = jobs_file.Where(tmp_path / "jobs.toml")
    commands = cli.cli.commands
    jobs = jobs_file.expand(jobs_file.load(where), where, lambda *_: True)
    ready = [arguments.check(job, where, commands) for job in jobs]
    assert [one.job.steps for one in ready] == [
        Preparation("standard", (2,), "mean"),
        Preparation("robust", (2,), "mean"),
    ]
    words = arguments.argument_list(jobs[1], where, commands["cluster"], {})
    assert {"--impute=mean", "--standardize=robust", "--one-hot=2"} <= set(words)
