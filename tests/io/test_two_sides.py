"""Matrices of rows and columns, and edges with directions, from files through the shell."""

import json

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
from mustlink.context.method_cost import Size
from mustlink.discretize.cuts import network_scores
from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.formats import matrices
from mustlink_io.hdf5 import writing

ROWS, COLUMNS, K = 90, 60, 3


@pytest.fixture(scope="module")
def planted():
    """Entries mostly between rows and columns of the same kind: M, kinds of both."""
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, K, ROWS), rng.integers(0, K, COLUMNS)
    P = np.where(rows[:, None] == columns, 0.4, 0.04)
    return sp.csr_matrix((rng.random(P.shape) < P).astype(float)), rows, columns


@pytest.fixture(scope="module")
def circle():
    """Three blocks that send to the next one: A, blocks."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 240)
    P = np.where(y[None, :] == (y[:, None] + 1) % 3, 0.15, 0.02)
    return sp.csr_matrix((rng.random(P.shape) < P).astype(float)), y


@pytest.fixture(scope="module")
def data(tmp_path_factory, planted, circle):
    """Both in every format, and labels of some."""
    folder = tmp_path_factory.mktemp("data")
    M, rows, columns = planted
    scipy.io.mmwrite(folder / "words.mtx", M)
    sp.save_npz(folder / "words.npz", M)
    np.save(folder / "words.npy", M.toarray())
    writing.write(folder / "few.h5", {"/labels": np.where(np.arange(ROWS) < 20, rows, -1)})
    coo = M.tocoo()
    lines = [f"{i + 1}\t{j + 1}" for i, j in zip(coo.row, coo.col, strict=True)]
    (folder / "bought.tsv").write_text("\n".join(lines))
    sp.save_npz(folder / "whole.npz", ml.bipartite_graph(M).affinity)
    header = ",".join(["node", *(f"word{j}" for j in range(COLUMNS))])
    body = [f"doc{i}," + ",".join(map(str, row)) for i, row in enumerate(M.toarray())]
    (folder / "words.csv").write_text("\n".join([header, *body]))
    np.savetxt(folder / "both.txt", np.concatenate([rows, columns]), fmt="%d")
    np.savetxt(folder / "rows.txt", np.where(np.arange(ROWS) < 20, rows, -1), fmt="%d")
    np.savetxt(folder / "columns.txt", np.where(np.arange(COLUMNS) < 20, columns, -1), fmt="%d")
    np.savetxt(folder / "odd.txt", np.zeros(7), fmt="%d")
    pairs = [(i, ROWS + j, 1 if rows[i] == columns[j] else -1) for i in range(9) for j in range(9)]
    (folder / "pairs.csv").write_text(
        "i,j,belief\n" + "\n".join(",".join(map(str, pair)) for pair in pairs)
    )
    A, y = circle
    coo = A.tocoo()
    ends = list(zip(coo.row, coo.col, strict=True))
    (folder / "follows.edges").write_text("\n".join(f"{i} {j}" for i, j in ends))
    (folder / "weighed.edges").write_text("0 1 2\n1 0 3\n1 2 1\n2 1 1\n2 0 1\n0 3 1\n3 3 5\n")
    scipy.io.mmwrite(folder / "follows.mtx", A)
    writing.write(folder / "follows.h5", matrices.graph_content(A))
    np.savetxt(folder / "y.txt", y, fmt="%d")
    np.savetxt(folder / "some_y.txt", np.where(np.arange(240) < 30, y, -1), fmt="%d")
    return folder


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["words.mtx", "words.npz", "words.npy", "words.csv", "bought.tsv"])
def test_coclusters_of_every_format(mustlink, planted, tmp_path, name):
    M, rows, columns = planted
    out = tmp_path / "out.h5"
    code, said, err = mustlink(f"cluster {name} --as bipartite -k 3 -o {out}")
    assert code == 0, err
    assert "modularity" in said
    assert f"{ROWS} " in err
    with h5py.File(out) as file:
        found = {key: file[key][()] for key in ("labels", "row_labels", "column_labels")}
        names = file["names"][()].astype(str) if "names" in file else None
    assert adjusted_rand_score(rows, found["row_labels"]) > 0.9
    assert adjusted_rand_score(columns, found["column_labels"]) > 0.9
    same = ml.NCut(3, affinity="precomputed", random_state=0).fit(ml.bipartite_graph(M))
    assert np.array_equal(found["labels"], same.labels_)
    assert np.array_equal(found["labels"][ROWS:], found["column_labels"])
    expected = {
        "words.csv": [*(f"doc{i}" for i in range(ROWS)), *(f"word{j}" for j in range(COLUMNS))],
        "bought.tsv": [*range(1, ROWS + 1), *range(1, COLUMNS + 1)],
    }
    told = None if names is None else list(names)
    assert told == (list(map(str, expected[name])) if name in expected else None)


def test_a_graph_of_rows_and_columns_stays_as_it_is(planted, data):
    M, _, _ = planted
    loaded = formats.load(str(data / "whole.npz"), "bipartite")
    assert (loaded.value != ml.bipartite_graph(M).affinity).nnz == 0
    n, m = loaded.sides
    assert n + m == ROWS + COLUMNS
    assert not loaded.value[:n, :n].nnz
    assert not loaded.value[n:, n:].nnz


def test_a_square_matrix_of_rows_and_columns(tmp_path):
    M = sp.csr_matrix(np.triu(np.ones((6, 6))))
    sp.save_npz(tmp_path / "m.npz", M)
    assert formats.load(str(tmp_path / "m.npz"), "bipartite").sides == (6, 6)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "line",
    [
        "cluster words.mtx -k 3 --labels rows.txt",
        "cluster words.mtx -k 3 --labels few.h5",
        "cluster words.mtx -k 3 --labels columns.txt",
        "cluster words.mtx -k 3 --constraints pairs.csv",
        "cluster words.csv -k 3 -m csc-gfhf --labels both.txt",
        "propagate words.mtx --labels rows.txt",
        "propagate words.mtx --labels columns.txt -m gfhf --class-shares equal",
    ],
)
def test_what_is_known_of_either_side(mustlink, planted, tmp_path, line):
    _, rows, columns = planted
    out = tmp_path / "out.h5"
    code, _, err = mustlink(f"{line} --as bipartite -o {out}")
    assert code == 0, err
    assert ("taken as those of the " in err) == ("both" not in line and "--labels" in line)
    with h5py.File(out) as file:
        assert adjusted_rand_score(rows, file["row_labels"][()]) > 0.8
        assert adjusted_rand_score(columns, file["column_labels"][()]) > 0.8


@pytest.mark.thorough
def test_what_reads_results(mustlink, tmp_path):
    out, table = tmp_path / "out.h5", tmp_path / "out.csv"
    assert mustlink(f"cluster words.mtx --as bipartite -k 3 -o {out}")[0] == 0
    for line in (
        f"score {out} --truth both.txt --json",
        f"score {out} --graph words.mtx --json",
        f"score {out} --json",
    ):
        code, said, err = mustlink(line)
        assert code == 0, err
        told = json.loads(said)
        assert told.get("truth", {"ari": 1})["ari"] > 0.9
        assert told.get("modularity", 1) > 0.3
    assert mustlink(f"score {out}:/row_labels --truth rows.txt")[0] == 0
    assert mustlink(f"report {out} -o {tmp_path / 'out.html'}")[0] == 0
    code, said, _ = mustlink(f"info {out}")
    assert code == 0
    assert "of the rows, which are the first nodes" in said
    assert mustlink(f"convert {out} {table}")[0] == 0
    lines = table.read_text().splitlines()
    assert lines[0] == "node,side,cluster"
    sides = [lines[at].split(",")[1] for at in (1, ROWS, ROWS + 1, -1)]
    assert sides == ["row", "row", "column", "column"]


@pytest.mark.thorough
def test_plan_and_batch(mustlink, jobs_here, data, tmp_path):
    for line in ("words.mtx --as bipartite", "words.mtx --as bipartite --for propagate"):
        told = json.loads(mustlink(f"plan {line} --json")[1])
        assert (told["n"], told["d"]) == (ROWS + COLUMNS, 0)
    assert json.loads(mustlink("plan words.mtx --json")[1])["d"] == COLUMNS
    assert json.loads(mustlink("plan follows.mtx -m disim --json")[1])["n"] == 240
    jobs = tmp_path / "jobs.toml"
    jobs.write_text(
        f'[defaults]\nk = 3\n[[job]]\nname = "words"\ndata = "{data}/words.mtx"\nas = "bipartite"\n'
        f'output = "words.h5"\n[[job]]\nname = "ring"\ndata = "{data}/follows.edges"\n'
        'method = "disim"\noutput = "ring.h5"\n'
        '[[job]]\nname = "spread"\ncommand = "propagate"\n'
        f'data = "{data}/whole.npz"\nlabels = "{data}/both.txt"\noutput = "spread.h5"\n'
    )
    planned = json.loads(mustlink(f"batch {jobs} --dry-run --json")[1])["jobs"]
    assert [one["method"] for one in planned] == ["ncut", "disim", "auto"]
    code, said, err = mustlink(f"batch {jobs} --memory 2GB --json")
    assert [one["method"] for one in json.loads(said)["jobs"]] == ["ncut", "disim", "auto"]
    assert code == 0, err
    with h5py.File(tmp_path / "words.h5") as file:
        assert file["row_labels"].shape == (ROWS,)
    with h5py.File(tmp_path / "ring.h5") as file:
        assert file["sending_labels"].shape == (240,)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["follows.edges", "follows.mtx", "follows.h5"])
def test_directed_edges(mustlink, circle, tmp_path, name):
    A, y = circle
    out = tmp_path / "out.h5"
    code, _, err = mustlink(f"cluster {name} -k 3 -m disim -o {out}")
    assert code == 0, err
    with h5py.File(out) as file:
        assert adjusted_rand_score(y, file["labels"][()]) > 0.95
        same = ml.DISIM(3, random_state=0).fit(A)
        assert np.array_equal(file["sending_labels"][()], same.sending_labels_)
        assert np.array_equal(file["receiving_labels"][()], same.receiving_labels_)
    code, _, err = mustlink(f"cluster {name} -k 3 -m disim --labels some_y.txt -o {out}")
    assert code == 0, err


def test_a_directed_result_keeps_what_it_has(mustlink, tmp_path):
    out, table = tmp_path / "out.h5", tmp_path / "out.csv"
    assert mustlink(f"cluster follows.edges -k 3 -m disim -o {out}")[0] == 0
    assert mustlink(f"convert {out} {table}")[0] == 0
    header, *lines = table.read_text().splitlines()
    assert header == "node,sending,receiving,cluster"
    with h5py.File(out) as file:
        apart = np.array([line.split(",")[1:3] for line in lines], dtype=int).T
        assert np.array_equal(apart, [file["sending_labels"][()], file["receiving_labels"][()]])
        assert file["eigenvalues"].shape == (3,)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["follows.edges", "follows.mtx", "follows.h5"])
def test_scores_of_a_directed_result_are_those_of_both_directions(mustlink, circle, tmp_path, name):
    A, _ = circle
    out = tmp_path / "out.h5"
    assert mustlink(f"cluster follows.edges -k 3 -m disim -o {out}")[0] == 0
    code, said, err = mustlink(f"score {out} --graph {name} --json")
    assert code == 0, err
    told = json.loads(said)
    with h5py.File(out) as file:
        expected = network_scores(ml.Graph.from_affinity(A + A.T), file["labels"][()])
    assert told["modularity"] == pytest.approx(expected["modularity"])
    assert "undirected" in told["graph_is"]
    assert "undirected" in mustlink(f"score {out} --graph {name}")[1]


@pytest.mark.thorough
def test_suggest_hears_of_directions_and_of_two_sides(mustlink, planted, tmp_path):
    _, rows, columns = planted
    assert "-m disim" in mustlink("suggest follows.edges -k 3")[2]
    code, said, err = mustlink("suggest words.mtx --as bipartite -k 3 --labels rows.txt --json")
    assert code == 0, err
    told = json.loads(said)
    assert told["seen"]["n"] == ROWS + COLUMNS
    assert told["seen"]["known"]["labelled"] == 20
    out = tmp_path / "out.h5"
    assert mustlink(told["command"].removeprefix("mustlink ").replace("out.h5", str(out)))[0] == 0
    np.savetxt(tmp_path / "r.txt", rows, fmt="%d")
    np.savetxt(tmp_path / "c.txt", columns, fmt="%d")
    for name, count in (("r", ROWS), ("c", COLUMNS)):
        code, said, err = mustlink(f"score {out} --truth {tmp_path}/{name}.txt --json")
        assert code == 0, err
        assert json.loads(said)["truth"]["n_known"] == count
        assert json.loads(said)["truth"]["ari"] > 0.8
    code, _, err = mustlink(f"score {out} --truth odd.txt")
    assert code == 2
    assert "are enough" in err


def test_memory_of_directed_graphs_is_planned_as_it_is_asked_for(mustlink, circle):
    A, _ = circle
    told = json.loads(mustlink("plan follows.edges -k 3 -m disim --json")[1])
    graph = ml.bipartite_graph(A)
    size = Size(graph.n_nodes, graph.affinity.nnz)
    assert told["least_memory"] == ml.DISIM(3).cost().least_memory(size)


@pytest.mark.parametrize("lines", ["0 1 {}\n1 2 {}\n", "0 1 {'weight': 2, 'kind': 'x'}\n"])
def test_what_networkx_writes_of_attributes(tmp_path, lines):
    (tmp_path / "g.edges").write_text(lines)
    with pytest.raises(InputError, match="data=False"):
        formats.load(str(tmp_path / "g.edges"))


def test_graphml_with_directions(mustlink, circle, tmp_path):
    nx = pytest.importorskip("networkx")
    A, _ = circle
    graph = nx.from_scipy_sparse_array(A, create_using=nx.DiGraph)
    nx.write_graphml(graph, tmp_path / "g.graphml")
    loaded = formats.load(str(tmp_path / "g.graphml"), "directed")
    order = [int(text) for text in loaded.names.texts] if loaded.names else range(240)
    assert (loaded.value != A[order][:, order]).nnz == 0
    with pytest.raises(InputError, match="-m disim"):
        formats.load(str(tmp_path / "g.graphml"))


def test_unequal_directions_are_doubted(mustlink, tmp_path):
    out = tmp_path / "out.h5"
    _, _, err = mustlink(f"cluster weighed.edges -k 2 -o {out} --quiet")
    assert "1 of 2 edges that are given in both directions weigh differently" in err
    _, _, err = mustlink(f"cluster weighed.edges -k 2 -m disim -o {out} --quiet")
    assert "directions" not in err
    _, _, err = mustlink(f"cluster follows.edges -k 3 -o {out}")
    assert "in one only" in err


@pytest.mark.parametrize(
    ("lines", "notes", "doubts"),
    [
        ("0 1\n1 2\n2 0\n", 0, 0),  # who knows in which direction
        ("0 1 2\n1 0 2\n1 2 1\n2 1 1\n", 0, 0),  # both, equal
        ("0 1\n1 0\n1 2\n", 1, 0),
        ("1 0\n" + "".join(f"{i} {i + 1}\n" for i in range(300)), 1, 0),  # however few
        ("0 1 1\n1 0 2\n1 1 4\n", 0, 1),
        ("0 1 0\n1 0 2\n", 0, 0),  # an edge of weight 0 is none
        ("0 0 3\n0 1 1\n", 0, 0),
    ],
)
def test_what_is_said_of_directions(tmp_path, lines, notes, doubts):
    path = tmp_path / "g.edges"
    path.write_text(lines)
    loaded = formats.load(str(path))
    assert (len(loaded.notes), len(loaded.warnings)) == (notes, doubts)
    assert (loaded.value != loaded.value.T).nnz == 0


def test_rectangles_are_points_only_with_a_word(mustlink, tmp_path):
    out = tmp_path / "out.h5"
    code, _, err = mustlink(f"cluster words.mtx -k 3 -o {out} --quiet")
    assert code == 0
    assert f"read as {ROWS} points" in err
    assert "--as bipartite" in err
    code, _, err = mustlink(f"cluster words.mtx --as points -k 3 -o {out} --quiet")
    assert code == 0
    assert "read as" not in err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("follows.edges -m disim --as points", "takes a directed graph; leave it out"),
        ("words.mtx -m disim", "an affinity matrix is square; --as bipartite takes"),
        ("words.mtx --affinity precomputed", "an affinity matrix is square; --as bipartite takes"),
        ("words.mtx --as bipartite --labels odd.txt", "labels of its 90 rows, or of its 60 col"),
        ("words.mtx --as bipartite --standardize", "no columns to prepare"),
        ("words.mtx --as bipartite --affinity knn", "leave out --affinity knn"),
        ("words.mtx --as bipartite --affinity precomputed", "leave one of them out"),
        ("words.mtx --as cubes", "'cubes' is not one of"),
        ("follows.edges --as points", "is a graph, where points are wanted"),
        ("follows.mtx", "not symmetric"),
        ("negative.mtx --as bipartite", "negative"),
        ("empty.mtx --as bipartite", "no entry"),
    ],
)
def test_refusals_are_one_line(mustlink, data, tmp_path, line, words):
    scipy.io.mmwrite(data / "negative.mtx", -sp.eye(3, 4, format="coo"))
    scipy.io.mmwrite(data / "empty.mtx", sp.coo_matrix((3, 4)))
    code, _, err = mustlink(f"cluster {line} -k 3 -o {tmp_path / 'out.h5'} --quiet")
    assert code == 2
    assert words in err
    assert err.strip().count("\n") == 0


def test_a_graph_of_one_kind_is_no_matrix(mustlink, tmp_path):
    (tmp_path / "g.metis").write_text("3 2\n2\n1 3\n2\n")
    code, _, err = mustlink(f"cluster {tmp_path}/g.metis --as bipartite -k 2 -o {tmp_path}/o.h5")
    assert code == 2
    assert "leave out --as bipartite" in err


def test_of_a_list_in_one_direction_the_directions_are_told(tmp_path):
    rng = np.random.default_rng(0)
    ends = {tuple(pair) for pair in rng.integers(0, 60, (300, 2)).tolist() if pair[0] != pair[1]}
    once = [pair for pair in sorted(ends) if pair[::-1] not in ends]
    lines = [f"{a} {b}" for a, b in once]
    path = tmp_path / "cites.edges"
    path.write_text("\n".join(["citing cited", *lines]))
    loaded = formats.load(str(path))
    assert any("directions are dropped" in n and "-m disim" in n for n in loaded.notes)
    assert loaded.value.nnz == 2 * len(once)  # the header is no edge
    path.write_text("\n".join(f"{min(pair)} {max(pair)}" for pair in once))
    assert not any("direction" in note for note in formats.load(str(path)).notes)
