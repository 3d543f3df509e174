"""Weights of rows from files: a row of weight 3 is three rows, in every command that takes them."""

import json
import re

import h5py
import numpy as np
import pytest

import mustlink as ml
from mustlink_io import formats
from mustlink_io.batch import arguments, jobs_file
from mustlink_io.commands import cli
from mustlink_io.formats import matrices
from mustlink_io.hdf5 import writing
from results import labels_of

N = 90


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Three round groups, how often every row counts, and the rows so often."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 30)
    X = (rng.normal(size=(N, 3)) + 5 * np.eye(3)[truth]).astype("f4")
    w = rng.integers(1, 4, N).astype(float)
    writing.write(folder / "points.h5", {"/points": X, "/weights": w})
    writing.write(folder / "many.h5", {"/points": np.repeat(X, w.astype(int), axis=0)})
    few = np.full(N, -1)
    few[[0, 1, 30, 31, 60, 61]] = truth[[0, 1, 30, 31, 60, 61]]
    np.savetxt(folder / "few.txt", few, fmt="%d")
    np.save(folder / "w.npy", w)
    np.savetxt(folder / "w.txt", w)
    order = rng.permutation(N)
    lines = "\n".join(f"{i},{w[i]}" for i in order)
    (folder / "w.csv").write_text(f"node,weight\n{lines}\n")
    lines = "\n".join(",".join(map(repr, map(float, [*x, c]))) for x, c in zip(X, w, strict=True))
    (folder / "table.csv").write_text(f"a,b,c,times\n{lines}\n")
    np.save(folder / "short.npy", w[:-1])
    np.save(folder / "below.npy", w - 2)
    return folder


@pytest.mark.parametrize("file", ["points.h5", "points.h5:/weights", "w.npy", "w.txt", "w.csv"])
def test_weights_are_read_from_any_file(data, file):
    with h5py.File(data / "points.h5") as h5:
        np.testing.assert_array_equal(formats.load_weights(str(data / file), N), h5["weights"][:])


def test_a_row_of_weight_3_is_three_rows(mustlink, data, tmp_path):
    out, many = tmp_path / "out.h5", tmp_path / "many.h5"
    code, _, err = mustlink(f"cluster points.h5 -k 3 -m ncut --weights w.npy -o {out}")
    assert code == 0, err
    assert mustlink(f"cluster many.h5 -k 3 -m ncut -o {many}")[0] == 0
    w = np.load(data / "w.npy").astype(int)
    found = np.repeat(labels_of(out), w)
    assert len(set(zip(found.tolist(), labels_of(many).tolist(), strict=True))) == 3


def test_the_shell_does_what_sample_weight_does(mustlink, data, tmp_path):
    out = tmp_path / "out.h5"
    line = f"propagate points.h5 --labels few.txt -m gfhf --weights w.npy -o {out} --json"
    code, said, err = mustlink(line)
    assert code == 0, err
    X, w = formats.load(str(data / "points.h5")).value, np.load(data / "w.npy")
    y = np.loadtxt(data / "few.txt", dtype=int)
    wanted = ml.GFHF(random_state=0).fit(X, y, sample_weight=w)
    with h5py.File(out) as file:
        np.testing.assert_allclose(
            file["label_distributions"][:], wanted.label_distributions_, atol=1e-6
        )
    assert "--weights w.npy" in json.loads(said)["command"]


def test_a_column_of_the_table_is_no_coordinate(mustlink, data, tmp_path):
    a, b = tmp_path / "a.h5", tmp_path / "b.h5"
    line = "cluster {} -k 3 -m ncut --weights {} -o {} --json"
    code, said, err = mustlink(line.format("table.csv", "table.csv:times", a))
    assert code == 0, err
    assert json.loads(said)["data"]["shape"] == [N, 3]
    assert mustlink(line.format("points.h5", "points.h5", b))[0] == 0
    np.testing.assert_array_equal(labels_of(a), labels_of(b))


@pytest.mark.thorough
def test_suggest_passes_weights_on(mustlink, data, tmp_path):
    code, said, err = mustlink(
        "suggest table.csv -k 3 --labels few.txt --weights table.csv:times --json"
    )
    assert code == 0, err
    told = json.loads(said)
    assert told["seen"]["d"] == 3  # the weights are no coordinate
    assert any("every row counts once" in note for note in told["notes"])
    command = told["command"].removeprefix("mustlink ").replace("-o out.h5", f"-o {tmp_path}/o.h5")
    assert "--weights table.csv:times" in command
    assert mustlink(command)[0] == 0
    code, _, err = mustlink("suggest points.h5 -k 3 --weights short.npy")
    assert code == 2
    assert "one for each of the 90 rows" in err


def test_a_graph_keeps_weights_for_later(mustlink, data, tmp_path):
    graph, out = tmp_path / "graph.h5", tmp_path / "out.h5"
    assert mustlink(f"graph points.h5 --weights w.npy -o {graph}")[0] == 0
    code, _, err = mustlink(f"cluster {graph} -k 3 -m ncut -o {out}")
    assert code == 0, err
    X, w = formats.load(str(data / "points.h5")).value, np.load(data / "w.npy")
    cut = ml.NCut(n_clusters=3, random_state=0).fit(X, sample_weight=w)
    np.testing.assert_array_equal(labels_of(out), cut.labels_)
    plain = tmp_path / "plain.h5"
    assert mustlink(f"graph points.h5 -o {plain}")[0] == 0
    code, _, err = mustlink(f"cluster {plain} -k 3 -m ncut --weights w.npy -o {out}")
    assert code == 0, err
    np.testing.assert_array_equal(labels_of(out), cut.labels_)


@pytest.fixture(scope="module")
def folded(data):
    """A graph of equal rows, each of which is one node, with names and labels of the rows."""
    with h5py.File(data / "many.h5") as file:
        X = file["points"][:]
    graph = ml.NCut(3, random_state=0).fit(X).graph_
    names = np.array([f"row {i}" for i in range(len(X))], dtype=object)
    content = matrices.graph_content(graph.affinity, {}, graph.weights, graph.rows)
    labels = np.arange(len(X)) % 3
    writing.write(data / "folded.h5", {**content, "/names": names, "/labels": labels})
    return graph, names, labels


def test_info_tells_what_nodes_stand_for(mustlink, folded):
    graph, _, _ = folded
    code, said, err = mustlink("info folded.h5 --json")
    assert code == 0, err
    shapes = {entry["path"]: entry["shape"] for entry in json.loads(said)["entries"]}
    n, rows = graph.n_nodes, graph.n_rows
    assert n < rows
    assert shapes["/graph"] == [n, n]
    assert (shapes["/graph/weights"], shapes["/graph/rows"]) == ([n], [rows])
    assert "/graph/data" not in shapes


def test_a_converted_graph_keeps_what_nodes_stand_for(mustlink, folded, tmp_path):
    graph, names, labels = folded
    out = tmp_path / "copy.h5"
    code, _, err = mustlink(f"convert folded.h5 {out}")
    assert (code, "warning" in err) == (0, False), err
    read = formats.load(str(out))
    np.testing.assert_array_equal(read.weights, graph.weights)
    np.testing.assert_array_equal(read.rows, graph.rows)
    np.testing.assert_array_equal(read.names.texts, names)
    with h5py.File(out) as file:
        np.testing.assert_array_equal(file["labels"][:], labels)


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("ending", ["npz", "mtx", "metis", "edges", "graphml", "csv"])
def test_formats_without_a_place_for_it_say_so(mustlink, folded, tmp_path, ending):
    graph, names, _ = folded
    out = tmp_path / f"graph.{ending}"
    code, _, err = mustlink(f"convert folded.h5 {out} --quiet")
    assert code == 0, err
    nodes, rows = graph.n_nodes, graph.n_rows
    assert err.splitlines() == [
        f"warning: {out}: has no place for how often nodes count: {nodes} nodes, which were {rows} "
        "rows, now count alike; .h5 has"
    ]
    read = formats.load(str(out), want="graph")
    assert read.value.nnz == graph.affinity.nnz
    if read.names is not None:
        assert set(read.names.texts) == set(names[graph.first_rows])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("cluster points.h5 -k 3 --weights short.npy -o o.h5", r"shape \(89,\).*each of the 90"),
        ("cluster points.h5 -k 3 --weights below.npy -o o.h5", "has weight -1; .*not negative"),
        ("cluster points.h5 -k 3 --weights none.npy -o o.h5", "none.npy"),
        ("cluster points.h5 -k 3 --weights table.csv -o o.h5", r"which column .*\(it has a, b, c"),
        ("cluster points.h5 -k 3 --edge-weights w.npy -o o.h5", "'w.npy' is not one of 'local'"),
    ],
)
def test_what_cannot_be_is_one_line(mustlink, data, line, words):
    code, _, err = mustlink(line)
    told = [one for one in err.splitlines() if one.startswith("mustlink: ")]
    assert code == 2
    assert len(told) == 1, err
    assert re.search(words, told[0]), err
    assert not (data / "o.h5").exists()


def test_a_jobs_file_takes_both(data, tmp_path):
    def jobs(text):
        (tmp_path / "jobs.toml").write_text(
            f'[[job]]\nname = "one"\ndata = "{data}/points.h5"\nk = 3\noutput = "o.h5"\n{text}\n'
        )
        where = jobs_file.Where(tmp_path / "jobs.toml")
        found = jobs_file.expand(jobs_file.load(where), where, lambda *_: True)
        return [arguments.check(job, where, cli.cli.commands) for job in found]

    ready = jobs(f'weights = "{data}/w.npy"\nedge-weights = "gaussian"')
    assert ready[0].job.sample_weight == f"{data}/w.npy"
    assert ready[0].job.params == {"weights": "gaussian"}
