"""Conversions that keep labels, scores of many files, what is told of an output not yet there."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.batch import arguments, jobs_file
from mustlink_io.batch import run as batch_table
from mustlink_io.batch.run import BatchJob
from mustlink_io.batch.state import State
from mustlink_io.commands import cli
from mustlink_io.hdf5 import writing
from mustlink_io.hdf5.locks import locked
from mustlink_io.jobs.fits import ClusterJob, PropagateJob

N = 60


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 20)
    X = rng.normal(size=(N, 3)) + 6 * np.eye(3)[truth]
    np.savez(folder / "set.npz", X=X, y=truth)
    names = np.array([f"n{i}" for i in range(N)], dtype=object)
    writing.write(folder / "set.h5", {"/points": X.astype("f4"), "/labels": truth, "/names": names})
    np.savetxt(folder / "truth.txt", truth, fmt="%d")
    np.savetxt(folder / "wrong.txt", np.roll(truth, 7), fmt="%d")
    return folder


@pytest.mark.thorough
def test_convert_keeps_labels_and_names(mustlink, data, tmp_path):
    truth = np.loadtxt(data / "truth.txt", dtype=int)
    a, b, c = tmp_path / "a.h5", tmp_path / "b.npz", tmp_path / "c.npy"
    code, _, err = mustlink(f"convert set.npz {a}")
    assert code == 0
    assert "float64 became float32" in err
    np.testing.assert_array_equal(formats.load_classes(str(a)).codes, truth)
    code, _, err = mustlink(f"convert set.h5 {b}")
    assert code == 0
    assert "float64" not in err
    with np.load(b) as archive:
        np.testing.assert_array_equal(archive["y"], truth)
    code, _, err = mustlink(f"convert set.h5 {c}")
    assert code == 0
    assert "no place for the labels" in err
    again = tmp_path / "again.h5"
    assert mustlink(f"convert set.h5 {again}")[0] == 0
    loaded = formats.load(str(again))
    assert loaded.names.texts.tolist() == [f"n{i}" for i in range(N)]
    np.testing.assert_array_equal(formats.load_classes(str(again)).codes, truth)


def test_a_score_of_many_files_is_a_row_each(mustlink):
    code, said, _ = mustlink("score truth.txt wrong.txt --truth set.h5:/labels --json")
    assert code == 0
    told = json.loads(said)["scores"]
    assert [one["labels"] for one in told] == ["truth.txt", "wrong.txt"]
    one = json.loads(mustlink("score wrong.txt --truth set.h5:/labels --json")[1])
    assert told[1] == one
    code, said, _ = mustlink("score truth.txt wrong.txt --truth set.h5:/labels")
    assert code == 0
    rows = [line.split() for line in said.splitlines() if ".txt" in line]
    assert [row[0] for row in rows] == ["wrong.txt", "truth.txt"]
    assert "1.0000" in rows[1]
    assert mustlink("score truth.txt none.txt")[0] == 2


def test_info_of_an_output_that_is_not_there_yet(mustlink, tmp_path):
    out = tmp_path / "out.h5"
    assert mustlink(f"cluster set.h5 -k 3 -m ncut --resume -o {out} --quiet")[0] == 0
    assert "unfinished" not in mustlink(f"info {out}")[1]
    out.unlink()
    code, said, _ = mustlink(f"info {out}")
    assert code == 0
    assert "unfinished; the same command again goes on" in " ".join(said.split())
    told = json.loads(mustlink(f"info {out} --json")[1])
    assert "unfinished" in told["unfinished"]
    assert told["work"]["results"]
    with locked(out):
        assert "a run is writing it" in " ".join(mustlink(f"info {out}")[1].split())
    assert mustlink(f"info {tmp_path / 'other.h5'}")[0] == 2


def jobs_of(tmp_path, text):
    (tmp_path / "jobs.toml").write_text(text)
    where = jobs_file.Where(tmp_path / "jobs.toml")
    file = jobs_file.load(where)
    commands = cli.cli.commands
    arguments.check_keys(file, where, commands)
    found = jobs_file.expand(file, where, lambda c, v, k: arguments.fits(commands, c, v, k))
    return [arguments.check(job, where, commands) for job in found]


JOBS = """[defaults]
output = "{{name}}.h5"
method = "ncut"
k = {{ set = 3, other = 5 }}
truth = "{data}/{{data}}.h5:/labels"
[[job]]
name = "{{data}}"
data = ["{data}/set.h5", "{data}/other.h5"]
"""


def test_a_batch_has_k_and_truth_by_data_set(data, tmp_path):
    (data / "other.h5").write_bytes((data / "set.h5").read_bytes())
    ready = jobs_of(tmp_path, JOBS.format(data=data))
    assert [one.job.n_clusters for one in ready] == [3, 5]
    assert [one.truth for one in ready] == [
        f"{data}/set.h5:/labels", f"{data}/other.h5:/labels",
    ]  # fmt: skip
    with pytest.raises(InputError, match="k: its table has no value for other; there are set"):
        jobs_of(tmp_path, JOBS.format(data=data).replace(", other = 5", ""))
    with pytest.raises(InputError, match=r'job "set": truth: .*no such file'):
        jobs_of(tmp_path, JOBS.format(data=data).replace("{data}.h5:/labels", "{data}.no"))


@pytest.mark.thorough
def test_the_table_of_a_batch_scores_what_is_done(mustlink, data, tmp_path):
    (data / "other.h5").write_bytes((data / "set.h5").read_bytes())
    ready = jobs_of(tmp_path, JOBS.format(data=data))
    assert mustlink(f"cluster set.h5 -k 3 -m ncut -o {tmp_path / 'set.h5'} --quiet")[0] == 0
    state = State(tmp_path / "state")
    first = batch_table.row(BatchJob(ready[0], phase="done"), state)
    assert first["ari"] == first["accuracy"] == 1
    waiting = batch_table.row(BatchJob(ready[1]), state)
    assert waiting["ari"] is None
    (data / "short.txt").write_text("0\n1\n")
    short = replace(ready[0], truth=str(data / "short.txt"))
    assert "2 labels" in batch_table.row(BatchJob(short, phase="done"), state)["error"]


KNOWN = {"output": "o.h5", "labels": "few.csv"}
OF_CLUSTERS = {**KNOWN, "n_clusters": 3}


@pytest.mark.parametrize(
    ("kind", "options", "ranks", "method", "on_graph"),
    [
        (ClusterJob, {**OF_CLUSTERS, "labels": None}, None, "ncut", "ncut"),
        (ClusterJob, OF_CLUSTERS, None, "auto", "auto"),
        (ClusterJob, OF_CLUSTERS, 2, "csp", "csp"),
        (ClusterJob, {**OF_CLUSTERS, "beta": 0.5}, None, "csp", "csp"),
        (ClusterJob, {**OF_CLUSTERS, "soft_labels": "p.npy"}, None, "csp", "csp"),
        (ClusterJob, {**OF_CLUSTERS, "method": "srcp"}, None, "srcp", "srcp"),
        (PropagateJob, KNOWN, None, "auto", "auto"),
        (PropagateJob, {**KNOWN, "prior": "p.npy"}, None, "auto", "auto"),
        (PropagateJob, KNOWN, 2, "poisson", "llgc"),
        (PropagateJob, {**KNOWN, "alpha": 0.5}, None, "poisson", "llgc"),
        (PropagateJob, {**KNOWN, "prior": "p.npy", "alpha": 0.5}, None, "gfhf", "llgc"),
    ],
)
def test_the_method_where_none_is_named(data, kind, options, ranks, method, on_graph):
    """Chosen by evidence, unless an option, or where it runs, is for other methods."""
    job = kind.of({**options, "data": str(data / "set.h5")}, ranks=ranks)
    assert job.settled(is_graph=False).method == method
    assert job.settled(is_graph=True).method == on_graph


def test_rows_that_the_truth_has_and_the_result_has_not_are_left_out_and_told(
    mustlink, data, tmp_path
):
    rows = [f"n{i},{i // 20}" for i in range(N)]
    (tmp_path / "more.csv").write_text("\n".join(["node,class", *rows, "x,1", "n99,2"]) + "\n")
    line = f"score set.h5:/labels --truth {tmp_path / 'more.csv'}"
    code, said, _ = mustlink(f"{line} --json")
    truth = json.loads(said)["truth"]
    assert (code, truth["n_known"], truth["ari"]) == (0, N, 1.0)
    assert (truth["left_out"], truth["strange"]) == (2, ["x", "n99"])
    words = "2 rows of the truth, not among the labelled: x, n99"
    assert words in mustlink(line)[1]
    both = mustlink(line.replace("score", "score set.h5:/labels"))[1]
    assert both.count(f"left out, set.h5:/labels  {words}") == 2
    assert ("known class" in both, f" {N} " in both.splitlines()[-4]) == (True, True)
    code, _, err = mustlink(f"{line} --strict")
    assert (code, "named 'x'" in err) == (2, True)
    (tmp_path / "more.csv").write_text("node,class\nx,1\ny,2\n")
    assert mustlink(line)[0] == 2  # nothing is left to compare
