"""Edges in text become a graph in HDF5 by blocks of lines: the graph that is read whole."""

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from cases import random_graph
from mustlink.graph import row_buckets as buckets
from mustlink_io import formats
from mustlink_io.commands.cli import run as cli
from mustlink_io.formats import text as reading
from mustlink_io.hdf5.graphs import stored_graph
from mustlink_io.jobs import convert


@pytest.fixture(autouse=True)
def _short_blocks(monkeypatch):
    monkeypatch.setattr(reading, "BLOCK_BYTES", 300)
    monkeypatch.setattr(buckets, "ENTRIES", 50)


@pytest.fixture(params=["arrow", "plain"])
def reader(request, monkeypatch):
    """With pyarrow, and where it is not there."""
    monkeypatch.setattr(reading, "LARGE", 0)
    if request.param == "plain":
        monkeypatch.setattr(reading, "_arrow", lambda: None)


def converted(source, capsys, memory="1GB"):
    out = source.with_name("graph.h5")
    code = cli(["convert", str(source), str(out), "--memory", memory])
    said = capsys.readouterr()
    return code, out, said.err


def edges(rng, n=70, m=300):
    i, j = rng.integers(0, n, (2, m))
    i[0], j[0] = n - 1, 0  # all numbers from the first to the last
    return i, j, rng.random(m).round(3) + 0.001


LISTS = {
    "numbers from 0": lambda i, j, w: [f"{a} {b} {c:g}" for a, b, c in zip(i, j, w, strict=True)],
    "from 1": lambda i, j, w: [f"{a + 1},{b + 1},{c:g}" for a, b, c in zip(i, j, w, strict=True)],
    "plain": lambda i, j, _: ["# a comment", *(f"{a}\t{b}" for a, b in zip(i, j, strict=True))],
    "sparse": lambda i, j, w: [f"{5 * a} {5 * b} {c:g}" for a, b, c in zip(i, j, w, strict=True)],
    "header": lambda i, j, w: [
        "number number weight",
        *(f"{a + 1} {b + 1} {c:g}" for a, b, c in zip(i, j, w, strict=True)),
    ],
    "names": lambda i, j, w: [
        "name name weight",
        *(f"{a + 3} {b + 3} {c:g}" for a, b, c in zip(i, j, w, strict=True)),
    ],
}


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("kind", LISTS)
def test_a_list_is_the_graph_that_is_read_whole(reader, kind, tmp_path, capsys):
    rng = np.random.default_rng(0)
    source = tmp_path / "list.edges"
    source.write_text("\n".join(LISTS[kind](*edges(rng))) + "\n")
    home = formats.load(str(source), "graph")
    code, out, err = converted(source, capsys)
    assert code == 0, err
    found = formats.load(str(out), "graph")
    assert found.value.shape == home.value.shape
    assert abs(found.value - home.value).max() < 1e-6
    assert found.value.nnz == home.value.nnz
    assert abs(stored_graph(out, "/graph").whole() - home.value).max() < 1e-6
    assert (found.names is None) == (home.names is None)
    if home.names is not None:
        assert list(found.names.texts) == list(home.names.texts)
    assert {one.name for one in tmp_path.iterdir()} == {"list.edges", "graph.h5"}


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
@pytest.mark.parametrize("field", ["real", "pattern"])
def test_matrix_market(reader, symmetry, field, tmp_path, capsys):
    W = random_graph(np.random.default_rng(1), 60, 2, isolated=4, weighted=field == "real")
    source = tmp_path / "graph.mtx"
    scipy.io.mmwrite(source, sp.coo_matrix(W), field=field, symmetry=symmetry, precision=9)
    code, out, err = converted(source, capsys)
    assert code == 0, err
    found = formats.load(str(out), "graph").value
    assert found.shape == W.shape
    assert abs(found - W).max() < 1e-6


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("0 1 1\n1 2 -1\n", "line 2"),
        ("0 1 1\n1 2 nan\n", "weight nan"),
        ("0 1 1\n1 -2 1\n", "numbered from 0"),
        ("0 1 1\n1 2\n", "columns"),
        ("0 1 1\n1 b 1\n", "not a number"),
        ("a b 1\nb c 1\n", "words"),
        ("0 1 1\n1 99999999999 1\n", "numbered"),
        ("0 1 1\n1 90000000 1\n", "--memory is"),
        ("", "empty"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(reader, text, what, tmp_path, capsys):
    source = tmp_path / "list.edges"
    source.write_text(text)
    code, out, err = converted(source, capsys)
    assert code == 2
    assert what in err
    assert err.count("\n") == 1
    assert not out.exists()


def test_what_is_not_read_by_lines_is_refused(tmp_path, capsys):
    np.save(tmp_path / "points.npy", np.ones((3, 2)))
    code, _, err = converted(tmp_path / "points.npy", capsys)
    assert code == 2
    assert "leave out --memory" in err
    sp.save_npz(tmp_path / "graph.npz", sp.eye_array(3, format="csr"))
    assert converted(tmp_path / "graph.npz", capsys)[0] == 2
    (tmp_path / "a.mtx").write_text("%%MatrixMarket matrix array real general\n2 2\n1\n0\n0\n1\n")
    assert converted(tmp_path / "a.mtx", capsys)[0] == 2
    (tmp_path / "list.edges").write_text("0 1\n")
    assert cli(["convert", str(tmp_path / "list.edges"), str(tmp_path / "a.npz"), "--memory",
                "1GB"]) == 2  # fmt: skip


def test_too_little_memory_is_told_before_the_file_is_read(tmp_path, capsys, monkeypatch):
    (tmp_path / "list.edges").write_text("0 1\n")
    monkeypatch.setattr(convert, "_counted", None)
    code, out, err = converted(tmp_path / "list.edges", capsys, "400MB")
    assert (code, err.count("\n")) == (2, 1)
    assert "edges by blocks need at least" in err
    assert not out.exists()


def test_zeros_and_loops(tmp_path, capsys):
    source = tmp_path / "list.edges"
    source.write_text("0 1 0\n0 2 1\n2 2 3\n2 0 2\n")
    code, out, err = converted(source, capsys)
    assert code == 0, err
    with h5py.File(out) as file:
        assert file["graph/data"].dtype == np.float32
    found = formats.load(str(out), "graph").value
    assert np.array_equal(found.toarray(), [[0, 0, 2], [0, 0, 0], [2, 0, 3]])
