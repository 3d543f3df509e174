"""`mustlink convert`: every format there and back, and what cannot be held or is not true."""

import contextlib
import json
import re

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from mustlink.errors import InputError
from mustlink.preprocessing.request import Preparation
from mustlink_io import formats
from mustlink_io.commands import cli
from mustlink_io.formats import edges, networks
from mustlink_io.formats import text as reading
from mustlink_io.formats.tables import NodeNames
from mustlink_io.hdf5 import writing
from mustlink_io.jobs import on_disk

POINTS = np.array([[0.1, -2], [3e-7, 4], [5, 1e20]], dtype=np.float32)


def run(*words):
    return cli.run([str(word) for word in words])


def refused(capsys, *words):
    assert run(*words) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def graph(weights=(2.0, 1.0, 0.5, 4.0)):
    """Five nodes, the last one alone."""
    i, j = np.array([(0, 1), (1, 2), (0, 2), (2, 3)]).T
    upper = sp.coo_matrix((weights, (i, j)), shape=(5, 5))
    return sp.csr_matrix(upper + upper.T)


def same(found, expected):
    return found.shape == expected.shape and not (found != expected).nnz


@pytest.mark.parametrize("ending", ["h5", "h5ad", "npy", "npz", "mtx", "csv", "parquet"])
def test_points_there_and_back(tmp_path, ending):
    np.save(tmp_path / "a.npy", POINTS)
    assert run("convert", tmp_path / "a.npy", tmp_path / f"b.{ending}") == 0
    back = formats.load(f"{tmp_path}/b.{ending}")
    assert back.kind == "points"
    assert (back.value == POINTS).all()
    assert back.names is None


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "ending", ["h5", "h5ad", "npz", "mtx", "metis", "edges", "tsv", "graphml", "csv", "parquet"]
)
def test_graphs_there_and_back(tmp_path, ending, capsys):
    sp.save_npz(tmp_path / "a.npz", graph())
    assert run("convert", tmp_path / "a.npz", tmp_path / f"b.{ending}") == 0
    part = ":/obsp/connectivities" if ending == "h5ad" else ""
    back = formats.load(f"{tmp_path}/b.{ending}{part}")
    assert back.kind == "graph"
    if ending == "metis":  # whole weights
        assert "multiplied by 250000 and rounded" in capsys.readouterr().err
        back.value.data /= 250000
    assert same(back.value, graph())
    assert run("info", f"{tmp_path}/b.{ending}") == 0
    assert "5 x 5" in capsys.readouterr().out


@pytest.mark.parametrize("ending", ["h5", "h5ad", "edges", "graphml", "csv", "parquet"])
def test_names_go_with_the_graph(tmp_path, ending):
    names = ["ann lee", "bo", "cy", "ünn", "eve"]
    made = nx.relabel_nodes(nx.from_scipy_sparse_array(graph()), dict(enumerate(names)))
    nx.write_graphml(made, tmp_path / "a.graphml")
    assert run("convert", tmp_path / "a.graphml", tmp_path / f"b.{ending}") == 0
    part = ":/obsp/connectivities" if ending == "h5ad" else ""
    back = formats.load(f"{tmp_path}/b.{ending}{part}")
    rows = back.names.rows(names)  # the order may be another
    assert same(sp.csr_matrix(back.value)[rows][:, rows], graph())


def test_names_go_with_the_points(tmp_path):
    (tmp_path / "a.csv").write_text("node,x,y\nann,1,2\nbo,3,4\n")
    for ending in ("h5", "h5ad", "csv", "parquet"):
        assert run("convert", tmp_path / "a.csv", tmp_path / f"b.{ending}") == 0
        back = formats.load(f"{tmp_path}/b.{ending}")
        assert list(back.names.texts) == ["ann", "bo"]
        assert (back.value == [[1, 2], [3, 4]]).all()
    pd.DataFrame(POINTS).to_csv(tmp_path / "a.csv")  # pandas writes the row numbers, too
    assert (formats.load(f"{tmp_path}/a.csv").value == POINTS).all()
    frame = pd.DataFrame(POINTS, columns=["x", "y"], index=["u", "v", "w"])
    frame.to_parquet(tmp_path / "a.parquet")
    back = formats.load(f"{tmp_path}/a.parquet")
    assert list(back.names.texts) == ["u", "v", "w"]
    assert (back.value == POINTS).all()


@pytest.mark.thorough
def test_from_names_to_named_answers(tmp_path, capsys):
    """Edges, pairs and labels between names; the answer by the same names."""
    rng = np.random.default_rng(0)
    lines = ["source,target,weight"]
    for group in "ab":
        for i in range(12):
            others = rng.choice(12, 5, replace=False)
            lines += [f"{group}{i},{group}{j},1" for j in others if i != j]
    (tmp_path / "g.csv").write_text("\n".join([*lines, "a0,b0,0.1"]))
    (tmp_path / "few.csv").write_text("node,label\na3,left\nb5,right\n")
    (tmp_path / "p.csv").write_text("i,j,belief\na1,b2,-1\n")
    out = tmp_path / "out.h5"
    assert run("cluster", tmp_path / "g.csv", "-k", 2, "--labels", tmp_path / "few.csv",
               "--constraints", tmp_path / "p.csv", "-o", out, "--quiet") == 0  # fmt: skip
    assert run("convert", out, tmp_path / "l.csv") == 0
    found = pd.read_csv(tmp_path / "l.csv")
    assert list(found) == ["node", "name", "cluster", "class"]
    assert (found["class"] == found["name"].str[0].map({"a": "left", "b": "right"})).all()
    assert run("graph", tmp_path / "g.csv", "-o", tmp_path / "g.h5", "--quiet") == 0
    assert len(formats.load(f"{tmp_path}/g.h5").names) == 24
    capsys.readouterr()
    assert run("score", out, "--truth", tmp_path / "l.csv", "--json") == 0
    assert json.loads(capsys.readouterr().out)["truth"]["ari"] == 1


@pytest.mark.thorough
def test_results_as_tables_and_labels(tmp_path, capsys):
    labels = np.array([0, 1, -1, 1])
    content = {"/labels": labels, "/embedding": np.eye(4)}
    writing.write(tmp_path / "out.h5", content)
    for ending in ("csv", "parquet", "npy", "npz", "txt", "h5"):
        assert run("convert", tmp_path / "out.h5", tmp_path / f"l.{ending}") == 0
        assert (formats.load_classes(f"{tmp_path}/l.{ending}", 4).codes == labels).all(), ending
    assert pd.read_parquet(tmp_path / "l.parquet")["cluster"].tolist() == labels.tolist()
    assert run("convert", f"{tmp_path}/out.h5:/embedding", tmp_path / "e.npy") == 0
    assert (np.load(tmp_path / "e.npy") == np.eye(4)).all()
    assert run("convert", f"{tmp_path}/out.h5:/labels", tmp_path / "part.txt") == 0
    assert (tmp_path / "part.txt").read_text() == "0\n1\n-1\n1\n"
    more = {"/classes": [0, 1, 7], "/confidence": [1, 0.5, 0, 1.0]}
    writing.write(tmp_path / "p.h5", {**content, **more, "/class_names": ["x", "y", "z"]})
    assert run("convert", tmp_path / "p.h5", tmp_path / "p.csv") == 0
    text = (tmp_path / "p.csv").read_text()
    assert text.splitlines()[:4] == ["node,class,confidence", "0,x,1.0", "1,y,0.5", "2,,0.0"]
    writing.write(tmp_path / "p.h5", {**content, **more})
    assert run("convert", tmp_path / "p.h5", tmp_path / "p.csv", "--json", "--overwrite") == 0
    assert (formats.load_classes(f"{tmp_path}/p.csv", 4).codes == labels).all()
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["kind"] == "labels"


def test_what_cannot_be_held(tmp_path, capsys):
    np.save(tmp_path / "x.npy", POINTS)
    sp.save_npz(tmp_path / "g.npz", graph())
    writing.write(tmp_path / "out.h5", {"/labels": [0, 1]})
    before = sorted(tmp_path.iterdir())
    for source, target, words in (
        ("x.npy", "x.metis", "metis cannot hold points, which"),
        ("x.npy", "x.graphml", "write .h5, .h5ad, .npy"),
        ("g.npz", "g.npy", "npy cannot hold a graph"),
        ("out.h5", "l.mtx", "mtx cannot hold labels"),
        ("out.h5", "l.h5ad", "--into DATA.h5ad"),
        ("x.npy", "x.xlsx", r"unknown ending '.xlsx'; writable are .h5"),
        ("x.xlsx", "x.npy", "no such file"),
        ("x.npy", "x.npy", "is the input itself"),
    ):
        line = refused(capsys, "convert", tmp_path / source, tmp_path / target)
        assert words in line
    assert run("convert", tmp_path / "x.npy", tmp_path / "x.bin", "--to", "npz") == 0
    (tmp_path / "x.bin").unlink()
    assert "Missing argument 'OUT'" in refused(capsys, "convert", tmp_path / "x.npy")
    assert "belongs to --into" in refused(capsys, "convert", "x", "y", "--in-place")
    assert "goes into AnnData" in refused(
        capsys, "convert", tmp_path / "out.h5", "--into", tmp_path / "x.npy", "-o", "y.h5ad"
    ).replace("results go", "goes")
    assert sorted(tmp_path.iterdir()) == before


METIS = """% the example of the manual, with weights of nodes and edges
7 11 011
4  5 1 3 2 2 1
2  1 1 3 2 4 1
% between
5  5 3 4 2 2 2 1 2
3  2 1 3 2 6 2 7 5
1  1 1 3 3 6 2
6  5 2 4 2 7 6
2  6 6 4 5
"""


def test_the_example_of_the_metis_manual(tmp_path):
    path = tmp_path / "g.graph"
    path.write_text(METIS)
    data = formats.load(str(path))
    assert data.value.nnz == 22
    assert data.value[0].toarray().tolist() == [[0, 1, 2, 0, 1, 0, 0]]
    assert "weights of nodes are left out" in data.notes[0]
    assert on_disk.shape_of(str(path)) == on_disk.Shape(7, 0, 22, path.stat().st_size)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty; a METIS file begins"),
        ("x y\n", "the header 'x y' is not `n m"),
        ("3\n", "the header '3' is not"),
        ("3 2 7\n2\n1 3\n2\n", "the header '3 2 7' is not"),
        ("3 3\n2\n1 3\n2\n", "declares 3 edges, but the lines hold 4 neighbors, those of 2 edges"),
        ("4 2\n2\n1 3\n2\n", "declares 4 nodes, but there are 3 lines"),
        ("2 2\n2\n1 3\n2\n", "more lines of neighbors than the 2 nodes"),
        ("999999999 2\n2\n1 3\n2\n", "which its 20 bytes cannot hold"),
        ("3 2\n2\n1 4\n2\n", "a neighbor 4, but nodes are numbered from 1 to 3"),
        ("3 2\n2\n1 0\n2\n", "a neighbor 0, but"),
        ("3 2\n2\n1 1\n2\n", "names the same neighbor twice"),
        ("3 2\n2\n1 2\n2\n", "its own neighbor"),
        ("3 2\n2 3\n1\n2\n", "the edge between nodes . and . .from 1. is not the same in both"),
        ("3 2 1\n2 5\n1 4 3 1\n2 1\n", "the edge between nodes 1 and 2"),
        ("3 2 1\n2 0\n1 0 3 1\n2 1\n", "an edge of weight 0; weights are positive"),
        ("3 2 1\n2 1\n1 1 3\n2 1\n", "the line of node 2 has 3 numbers, which does not fit"),
        ("3 2 10\n\n1 1 3\n2 1\n", "the line of node 1 has 0 numbers"),
        ("3 2\n2\n1 3.5\n2\n", "'3.5' is not a whole number, in the line '1 3.5'"),
        ("3 2\n2\n1 x 3\n2\n", "'x' is not a whole number, in the line '1 x 3'"),
        ("3 2\n2\n1 \x00 3\n2\n", "is not a whole number"),
        ("3 2\n2\n1 99999999999999999999\n2\n", "a neighbor"),
    ],
)
def test_metis_files_that_lie(tmp_path, text, message):
    path = tmp_path / "g.metis"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        formats.load(str(path))


def test_metis_leaves_out_loops_and_keeps_whole_weights(tmp_path):
    matrix = graph((2, 1, 5, 4)) + sp.diags([1.0, 0, 0, 0, 0])
    notes = networks.write_metis(str(tmp_path / "g.metis"), matrix.tocsr())
    assert len(notes) == 1
    assert "1 edges of a node to itself" in notes[0]
    assert same(networks.read_metis(tmp_path / "g.metis")[0], graph((2, 1, 5, 4)))


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_any_graph_through_the_text_formats(tmp_path_factory, data):
    """METIS and edge lists, in blocks that end anywhere."""
    n = data.draw(st.integers(2, 9))
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] != p[1])
    ends = np.array(data.draw(st.lists(pair, min_size=1, max_size=20)))
    weights = np.array(data.draw(st.lists(st.integers(1, 9), min_size=len(ends),
                                          max_size=len(ends))), dtype=float)  # fmt: skip
    matrix = edges.affinity_of(ends, weights, n)
    expected = np.zeros((n, n))
    for (i, j), weight in zip(ends, weights, strict=True):
        expected[i, j] = expected[j, i] = max(expected[i, j], weight)
    assert (matrix.toarray() == expected).all()
    folder = tmp_path_factory.mktemp("g")
    names = NodeNames(np.array([f"n {i}" for i in range(n)], dtype=object), "x")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "BLOCK_BYTES", data.draw(st.integers(1, 40)))
        networks.write_metis(f"{folder}/g.metis", matrix)
        assert same(networks.read_metis(folder / "g.metis")[0], matrix)
        for known in (None, names):
            edges.write_edges(f"{folder}/g.tsv", matrix, known)
            found, back, _ = edges.read_edges(folder / "g.tsv")
            if known is None:
                assert same(found, matrix)
            else:
                rows = back.rows(list(names.texts))
                assert same(found[rows][:, rows], matrix)


def test_edge_lists_as_users_have_them(tmp_path):
    path = tmp_path / "g.txt"
    snap = "# Directed graph\n# FromNodeId\tToNodeId\n1\t2\n2\t1\n2\t4\n"
    for text, nodes in (
        (snap, ["1", "2", "3", "4"]),
        ("# far apart\n7000000 12\n12 99\n", ["12", "99", "7000000"]),
        ("tom anna 2\nanna  zoë 1\n", ["tom", "anna", "zoë"]),
        ('"tom a.","anna"\n"anna","zoë"\n', ["tom a.", "anna", "zoë"]),
        ("source;target;weight\ntom;anna;2\n# comment\nanna;zoë;1\n", ["tom", "anna", "zoë"]),
    ):
        path.write_text(text, encoding="utf-8")
        data = formats.load(str(path))
        assert list(data.names.texts) == nodes, text
        assert ["in one only" in note for note in data.notes] == [False, True][: 1 + (text is snap)]
        assert data.value.shape == (len(nodes), len(nodes))
        assert abs(data.value - data.value.T).max() == 0
    for text in ("0 1\r\n1 2\r\n", "source target\n0 1\n1 2", "\ufeff0,1\n1,2\n", "0;1;1\n1;2;1"):
        path.write_text(text, encoding="utf-8")
        data = formats.load(str(path))
        assert data.names is None
        assert data.value.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    for text, message in (
        ("tom anna\nanna\n", "line 2, 'anna': has 1 columns, but the first line has 2"),
        ("tom,anna\n,bo\n", "a node without a name"),
        ("tom anna 1\nanna zoe x\n", "line 2, 'anna zoe x': 'x' is not a number"),
        ("tom anna 1\n# no\nanna zoe -1\n", r"line 3, .* \(anna, zoe\) has weight -1"),
        ("0 1 2\n1 2\n", "line 2, '1 2': has 2 .* has 3"),
        ("tom anna\ntom zoe 2\n", "line 2, 'tom zoe 2': has 3 .* has 2"),
        ("source target\n", "a header, but no values"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            formats.load(str(path))
    frame = pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"], "weight": [1, 2.5]})
    frame.to_parquet(tmp_path / "g.parquet")
    data = formats.load(f"{tmp_path}/g.parquet")
    assert list(data.names.texts) == ["a", "b", "c"]
    assert data.value[1, 2] == 2.5


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("0 1\n5 1\n", 6),  # half of the numbers occur
        ("0 1\n6 1\n", ["0", "1", "6"]),
        ("1096 99809\n1096 1396\n", ["1096", "1396", "99809"]),
        ("1 2\n1 9\n", ["1", "2", "9"]),
        ("number number\n0 1\n6 1\n", 7),
        ("number,number,weight\n1,2,1\n", 3),
        ("name\tname\n0\t1\n3\t1\n", ["0", "1", "3"]),
    ],
)
def test_numbers_are_names_where_most_of_them_are_missing(tmp_path, text, nodes):
    (tmp_path / "g.txt").write_text(text)
    data = formats.load(f"{tmp_path}/g.txt")
    if isinstance(nodes, int):
        assert (data.names, data.notes, data.value.shape) == (None, (), (nodes, nodes))
        return
    assert list(data.names.texts) == nodes
    assert data.value.shape == (len(nodes), len(nodes))
    assert len(data.notes) == 1
    assert "header" in data.notes[0]  # which says how to have it otherwise, or why it is so
    edges.write_edges(f"{tmp_path}/b.tsv", data.value, data.names)
    assert sorted(formats.load(f"{tmp_path}/b.tsv").names.texts) == sorted(nodes)


def test_far_numbers_that_are_forced_need_room(tmp_path):
    (tmp_path / "g.txt").write_text("number number\n0 99999999999\n")
    with pytest.raises(InputError, match="1 entries, but 100000000000 rows"):
        formats.load(f"{tmp_path}/g.txt")
    (tmp_path / "g.csv").write_text("person,friend,strength\nann,bo,1\n")
    with pytest.raises(InputError, match="begin it with the header `source,target,weight`"):
        formats.load(f"{tmp_path}/g.csv")
    (tmp_path / "g.csv").write_text("person,friend,strength\n" + "ann,bo,1\nbo,cy,2\ncy,bo,3\n" * 3)
    (doubt,) = formats.load(f"{tmp_path}/g.csv").warnings
    assert "begin it with the header `source,target,weight`" in doubt


@pytest.mark.parametrize("ending", ["graphml", "tsv", "csv", "metis", "npz"])
def test_a_second_graph_in_any_format(tmp_path, ending):
    """Nodes are found by name where both graphs have names, in whatever order."""
    names = NodeNames(np.array(["a", "b", "c", "d", "e"], dtype=object), "data.txt")
    if ending in ("metis", "npz"):
        sp.save_npz(tmp_path / "a.npz", graph())
    else:
        turned = nx.Graph()
        turned.add_weighted_edges_from(
            [("d", "c", 4), ("c", "b", 1), ("b", "a", 2), ("c", "a", 0.5)]
        )
        nx.write_graphml(turned, tmp_path / "a.graphml")
    source = "a.npz" if ending in ("metis", "npz") else "a.graphml"
    path = tmp_path / f"b.{ending}"
    assert run("convert", tmp_path / source, path) == 0
    found = formats.load_matrix(str(path), 5, names)
    assert same(found / found.max(), graph() / 4)
    if source == "a.graphml":
        part = NodeNames(names.texts[:3], "data.txt")
        with pytest.raises(InputError, match=r"no node of data.txt is named 'd'"):
            formats.load_matrix(str(path), 3, part)


def test_pairs_without_their_header_are_no_graph(tmp_path):
    (tmp_path / "p.txt").write_text("0 1 1\n1 2 -1\n")
    with pytest.raises(InputError, match=r"line 2.*weight -1.*pairs begin with the header `i,j,"):
        formats.load_matrix(f"{tmp_path}/p.txt", 3)
    (tmp_path / "p.txt").write_text("i j belief\n0 1 1\n1 2 -1\n")
    assert formats.load_matrix(f"{tmp_path}/p.txt", 3) is None
    assert formats.load_pairs(f"{tmp_path}/p.txt")[1].tolist() == [1, -1]
    (tmp_path / "p.txt").write_text("0 1\n")  # fewer nodes than the data
    assert formats.load_matrix(f"{tmp_path}/p.txt", 3).shape == (3, 3)
    with pytest.raises(InputError, match=r"an edge of node 1, but the data has 1 nodes"):
        formats.load_matrix(f"{tmp_path}/p.txt", 1)


@pytest.mark.parametrize("verb", ["cluster -k 2", "propagate --labels a.graphml", "convert"])
def test_a_graph_without_edges_is_one_line(tmp_path, monkeypatch, capsys, verb):
    monkeypatch.chdir(tmp_path)
    made = nx.Graph()
    made.add_nodes_from("abc")
    nx.write_graphml(made, "a.graphml")
    name, *more = verb.split()
    more += ["out.h5"] if name == "convert" else ["-o", "out.h5"]
    assert cli.run([name, "a.graphml", *more]) == 2
    told = capsys.readouterr().err.strip()
    assert told == "mustlink: a.graphml: a graph without edges; nothing to cluster"


@pytest.mark.thorough
def test_clusters_into_a_copy_of_graphml(tmp_path, capsys):
    made = nx.relabel_nodes(nx.from_scipy_sparse_array(graph()), dict(enumerate("vwxyz")))
    nx.set_node_attributes(made, {"v": 0.5}, "x")
    nx.write_graphml(made, tmp_path / "net.graphml")
    names = np.array(list("zyxwv"), dtype=object)
    labels = np.array([0, 1, -1, 1, 0])
    writing.write(tmp_path / "out.h5", {"/labels": labels, "/names": names})
    into = ("convert", tmp_path / "out.h5", "--into", tmp_path / "net.graphml")
    assert run(*into, "-o", tmp_path / "new.graphml") == 0
    back = nx.read_graphml(tmp_path / "new.graphml")
    assert dict(back.nodes(data="mustlink")) == dict(zip("zyxwv", labels.tolist(), strict=True))
    assert back.nodes["v"]["x"] == 0.5
    assert back["v"]["w"]["weight"] == 2
    assert run(*into, "--in-place", "--key", "k") == 0
    line = refused(capsys, *into, "--in-place", "--key", "k")
    assert "have an attribute 'k' already; give --overwrite" in line
    assert run(*into, "--in-place", "--key", "k", "--overwrite") == 0
    capsys.readouterr()
    assert "--into GRAPH.graphml -o" in refused(
        capsys, "convert", tmp_path / "out.h5", tmp_path / "l.graphml"
    )
    assert "call it .graphml" in refused(capsys, *into, "-o", tmp_path / "new.csv")
    writing.write(tmp_path / "out.h5", {"/labels": labels[:4]})
    assert "5 nodes, but the result has 4" in refused(capsys, *into, "-o", tmp_path / "n.graphml")


def test_bad_graphml(tmp_path):
    path = tmp_path / "g.graphml"
    multi = nx.MultiGraph([(0, 1), (0, 1)])
    some = nx.Graph([(0, 1), (1, 2)])
    some[0][1]["weight"] = 2.0
    text = nx.Graph()
    text.add_edge(0, 1, weight="much")
    negative = nx.Graph()
    negative.add_edge(0, 1, weight=-1.0)
    for made, message in (
        (nx.DiGraph([(0, 1)]), "a directed graph"),
        (multi, "several edges between two nodes"),
        (some, "1 of 2 edges have no weight"),
        (text, "`weight` is not a number"),
        (negative, r"\(0, 1\) has weight -1"),
        (nx.Graph(), "a graph without nodes"),
    ):
        nx.write_graphml(made, path)
        with pytest.raises(InputError, match=message):
            formats.load(str(path))
    for broken in ("<graphml>", "no xml", "<graphml><graph edgedefault='undirected'/>"):
        path.write_text(broken)
        with pytest.raises(InputError, match="not a GraphML file"):
            formats.load(str(path))


def test_parquet_labels_pairs_and_bad_tables(tmp_path):
    path = tmp_path / "t.parquet"
    kinds = pd.Categorical(["b", None, "a"], categories=["b", "unused", "a"])
    frame = pd.DataFrame({"x": [1, 2.5, 3], "kind": kinds, "word": ["u", None, "w"]})
    frame.to_parquet(path)
    with pytest.raises(InputError, match=r"column 'kind' is text, where coordinates are numbers"):
        formats.load(str(path), steps=Preparation(standardize="standard"))
    found = formats.load_classes(f"{path}:kind", 3)
    assert (found.codes.tolist(), found.classes) == ([0, -1, 2], ("b", "unused", "a"))
    assert formats.load_classes(f"{path}:word", 3).codes.tolist() == [0, -1, 1]
    with pytest.raises(InputError, match="no such column; the table has x, kind, word"):
        formats.load_classes(f"{path}:nope", 3)
    with pytest.raises(InputError, match="all columns of a table are coordinates"):
        formats.load(f"{path}:x")
    pd.DataFrame({"i": [0, 2], "j": [1, 1], "belief": [1, -1]}).to_parquet(path)
    assert formats.load_pairs(str(path))[0].tolist() == [[0, 1], [2, 1]]
    whole = path.read_bytes()
    for cut in (0, 3, len(whole) // 2, len(whole) - 9):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match="not a Parquet file, or damaged"):
            formats.load(str(path))
    rng = np.random.default_rng(0)
    for _ in range(30):  # whatever is in it: values or one line
        damaged = bytearray(whole)
        for at in rng.integers(len(whole), size=3):
            damaged[at] = rng.integers(256)
        path.write_bytes(damaged)
        with contextlib.suppress(InputError):
            formats.load_pairs(str(path))
    pyarrow.parquet.write_table(pyarrow.table({"pair": [[1, 2]]}), path)
    with pytest.raises(InputError, match="column 'pair' is of type list"):
        formats.load(str(path))


def test_labels_as_words(tmp_path):
    path = tmp_path / "l.csv"
    for text, codes in (
        ("node,label\n2,dog\n0,cat\n", [0, -1, 1]),
        ("label\ncat\n\ndog\n", None),
        ("cat\nNA\ndog\n", [0, -1, 1]),
        ("cat\n-1\ndog\n", [0, -1, 1]),
        ("cat\n?\ndog\n", [0, -1, 1]),
        (',kind,other\n0,"cat",1\n2,dog,1\n', None),
        ("name,class,size\n2,dog,3\n0,cat,1\n", [0, -1, 1]),
    ):
        path.write_text(text)
        if codes is None:
            with pytest.raises(InputError, match=r"2 labels, but|name another column"):
                formats.load_classes(str(path), 3)
            continue
        found = formats.load_classes(str(path), 3)
        assert (found.codes.tolist(), found.classes) == (codes, ("cat", "dog")), text
    np.save(tmp_path / "l.npy", ["dog", "?", "cat"])
    assert formats.load_classes(f"{tmp_path}/l.npy", 3).codes.tolist() == [1, -1, 0]
    path.write_text("node,label\n5,dog\n")
    with pytest.raises(InputError, match="row 0 names node 5, but there are 3"):
        formats.load_classes(str(path), 3)


def test_extras_that_are_missing(tmp_path, monkeypatch):
    (tmp_path / "g.graphml").write_text("")
    (tmp_path / "g.parquet").write_text("")
    for package, ending, extra in (
        ("networkx", "graphml", "networks"),
        ("pyarrow", "parquet", "frames"),
    ):
        monkeypatch.setitem(__import__("sys").modules, package, None)
        message = re.escape(f"pip install 'mustlink[{extra}]'")
        with pytest.raises(InputError, match=message):
            formats.load(f"{tmp_path}/g.{ending}")


def test_a_file_that_is_there_is_replaced_only_if_that_is_said(tmp_path, capsys):
    writing.write(tmp_path / "out.h5", {"/labels": [0, 1, 1]})
    mine = tmp_path / "few.csv"
    mine.write_text("node,class\n0,oak\n")
    assert run("convert", tmp_path / "out.h5", mine) == 2
    said = capsys.readouterr().err
    assert "few.csv: is there already; give another name to write to, or --overwrite" in said
    assert mine.read_text() == "node,class\n0,oak\n"
    assert run("convert", tmp_path / "out.h5", mine, "--overwrite") == 0
    assert "cluster" in mine.read_text()
    for _ in range(2):  # HDF5 says who wrote it
        np.save(tmp_path / "x.npy", POINTS)
        assert run("convert", tmp_path / "x.npy", tmp_path / "x.h5") == 0
