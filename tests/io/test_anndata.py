"""AnnData files: what is taken of them, and results put into a copy, checked with `anndata`."""

import json
import os
import re
import resource
import sys
import warnings

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mustlink as ml
from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.commands import cli
from mustlink_io.formats import anndata as annotating
from mustlink_io.formats import results
from mustlink_io.hdf5 import writing

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import anndata

N, K = 60, 3
TYPES = np.array(["T cell", "B cell", "NK"])
TRUTH = np.arange(N) % K

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::UserWarning", "ignore:Element"
)


def cells(rng, **more):
    """AnnData of three far groups, with names, categories, missing labels and a graph."""
    X = (rng.normal(size=(N, 8)) + 9 * np.eye(K, 8)[TRUTH]).astype(np.float32)
    few = pd.Series(TYPES[TRUTH], dtype=object).where(rng.random(N) < 0.4)
    few[:K] = TYPES[TRUTH[:K]]
    obs = pd.DataFrame(
        {
            "cell_type": pd.Categorical(TYPES[TRUTH]),
            "few": pd.Categorical(few, categories=["T cell", "never", "B cell", "NK"]),
            "depth": rng.random(N),
            "n": TRUTH,
        },
    )
    obs.index = [f"cell_{i}" for i in range(N)]
    near = sp.csr_matrix((TRUTH[:, None] == TRUTH[None, :]).astype(float) - np.eye(N))
    found = anndata.AnnData(X=X, obs=obs)
    found.obsm["X_pca"] = X[:, :4].copy()
    found.obsp["connectivities"] = near
    found.obsp["distances"] = near * 2.0
    found.uns["leiden"] = {"params": {"resolution": 1.0, "name": "x"}}
    for name, value in more.items():
        setattr(found, name, value)
    return found


@pytest.fixture
def pbmc(tmp_path, rng):
    path = tmp_path / "pbmc.h5ad"
    cells(rng).write_h5ad(path)
    return path


@pytest.fixture(scope="module")
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def result(tmp_path):
    """A result of N nodes without names, two of them in no cluster."""
    path = tmp_path / "out.h5"
    labels = TRUTH.copy()
    labels[:2] = -1
    writing.write(
        path,
        {
            "/labels": labels,
            "/embedding": np.arange(N * 2.0).reshape(N, 2),
            "/eigenvalues": np.array([0.0, 0.25]),
            "/@parameters": json.dumps({"method": "csp", "k": 3, "no": None, "list": [1, 2]}),
        },
    )
    return path


def run(*words):
    return cli.run([str(word) for word in words])


def said(capsys, *words):
    """The one line that a refused command says."""
    assert run(*words) == 2
    line = capsys.readouterr().err.strip().splitlines()
    assert len(line) == 1, line
    return line[0]


@pytest.mark.thorough
def test_what_is_taken_and_why(pbmc, rng):
    data = formats.load(str(pbmc))
    assert (data.kind, data.place.part, data.value.shape) == ("points", "/obsm/X_pca", (N, 4))
    assert "principal components" in data.notes[0]
    assert list(data.names.texts[:2]) == ["cell_0", "cell_1"]
    graph = formats.load(f"{pbmc}:/obsp/connectivities")
    assert graph.kind == "graph"
    assert graph.value.shape == (N, N)
    assert len(graph.names) == N
    assert formats.load(str(pbmc), want="graph").place.part == "/obsp/connectivities"
    lists = np.array([np.flatnonzero(row) for row in graph.value.toarray()])
    lengths = np.full(lists.shape, 2.0)
    of_distances = formats.load(f"{pbmc}:obsp/distances")
    assert of_distances.kind == "graph"
    assert "weighted as those of points" in of_distances.notes[0]
    expected = ml.graph_from_neighbors(lists, lengths).affinity
    assert abs(of_distances.value - expected).max() < 1e-12
    for form in (sp.csr_matrix, sp.csc_matrix, np.asarray):
        plain = cells(rng)
        del plain.obsm["X_pca"]
        dense = np.where(plain.X > 1, plain.X, 0)
        plain.X = form(dense)
        plain.write_h5ad(pbmc)
        found = formats.load(str(pbmc))
        assert found.place.part == "/X"
        assert "scanpy.pp.pca" in found.notes[0]
        assert (found.value == dense).all()
        assert run("info", pbmc) == 0


def test_missing_parts_are_told(tmp_path, pbmc, rng):
    with pytest.raises(InputError, match="obsm/X_umap: no such dataset"):
        formats.load(f"{pbmc}:/obsm/X_umap")
    bare = anndata.AnnData(obs=cells(rng).obs)
    bare.write_h5ad(tmp_path / "bare.h5ad")
    with pytest.raises(InputError, match="neither /obsm/X_pca nor X nor /obsp/connectivities"):
        formats.load(str(tmp_path / "bare.h5ad"))
    with h5py.File(pbmc, "r+") as file:
        del file["obsm/X_pca"]
        file["obsm/X_pca"] = np.ones((N - 1, 2))
    with pytest.raises(InputError, match=f"{N - 1} rows, but obs has {N}"):
        formats.load(str(pbmc))


def test_labels_of_columns(pbmc):
    known = formats.load_classes(f"{pbmc}:/obs/cell_type", N)
    assert known.classes == ("B cell", "NK", "T cell")
    assert [known.classes[code] for code in known.codes] == list(TYPES[TRUTH])
    few = formats.load_classes(f"{pbmc}:obs/few")
    assert few.classes == ("T cell", "never", "B cell", "NK")  # the order of the categories
    missing = anndata.read_h5ad(pbmc).obs["few"].isna().to_numpy()
    assert 0 < missing.sum() < N
    assert ((few.codes == -1) == missing).all()
    assert (formats.load_classes(f"{pbmc}:/obs/n").codes == TRUTH).all()
    with pytest.raises(InputError, match="not a whole number"):
        formats.load_classes(f"{pbmc}:/obs/depth")
    with pytest.raises(InputError, match=r"obs/nope: no such column; obs has cell_type, depth"):
        formats.load_classes(f"{pbmc}:/obs/nope")
    with pytest.raises(InputError, match=r"name a column as pbmc.h5ad:/obs/COLUMN \(obs has"):
        formats.load_classes(str(pbmc))
    with pytest.raises(InputError, match=f"{N} labels, but the data has 3 nodes"):
        formats.load_classes(f"{pbmc}:/obs/n", 3)


def test_columns_in_every_encoding(tmp_path, pbmc, rng):
    data = cells(rng)
    half = rng.random(N) < 0.5
    data.obs = pd.DataFrame(
        {
            "numbers": pd.Categorical(np.where(half, np.nan, TRUTH)),
            "leiden": pd.Categorical(np.where(half, None, TRUTH.astype(str))),
            "nullable": pd.array(np.where(half, None, TRUTH), dtype="Int64"),
            "flag": half,
            "gap": np.where(half, np.nan, TRUTH),
        },
        index=data.obs.index,
    )
    data.write_h5ad(pbmc)
    expected = np.where(half, -1, TRUTH)
    for name in ("numbers", "leiden", "nullable", "gap"):
        found = formats.load_classes(f"{pbmc}:/obs/{name}", N)
        assert (found.codes == expected).all(), name
        assert found.classes is None, name
    assert (formats.load_classes(f"{pbmc}:/obs/flag").codes == half).all()
    with h5py.File(pbmc, "r+") as file:  # text that was not made categorical
        file["obs"].create_dataset("word", data=[*TYPES[TRUTH[1:]], ""], dtype=h5py.string_dtype())
    found = formats.load_classes(f"{pbmc}:/obs/word")
    assert found.classes == tuple(sorted(TYPES))
    assert found.codes[-1] == -1


def old(path):
    """Write categories and tables as anndata 0.7 did."""
    with h5py.File(path, "r+") as file:
        obs = file["obs"]
        codes, known = obs["cell_type/codes"][()], obs["cell_type/categories"][()]
        for name in ("cell_type", "few"):
            del obs[name]
        obs.attrs["encoding-version"] = "0.1.0"
        obs.attrs["column-order"] = ["cell_type", "depth"]
        obs.create_dataset("__categories/cell_type", data=known, dtype=h5py.string_dtype())
        obs["cell_type"] = codes
        obs["cell_type"].attrs["categories"] = obs["__categories/cell_type"].ref
        for item in (obs["cell_type"], obs["__categories/cell_type"], obs["_index"]):
            for attribute in ("encoding-type", "encoding-version"):
                item.attrs.pop(attribute, None)


def test_files_of_anndata_0_7(tmp_path, pbmc, result):
    old(pbmc)
    assert list(anndata.read_h5ad(pbmc).obs["cell_type"]) == list(TYPES[TRUTH])
    found = formats.load_classes(f"{pbmc}:/obs/cell_type")
    assert [found.classes[code] for code in found.codes] == list(TYPES[TRUTH])
    assert run("convert", result, "--into", pbmc, "-o", tmp_path / "new.h5ad") == 0
    back = anndata.read_h5ad(tmp_path / "new.h5ad")
    assert list(back.obs) == ["cell_type", "depth", "mustlink"]
    assert list(back.obs["mustlink"].cat.categories) == ["0", "1", "2"]
    with h5py.File(pbmc, "r+") as file:
        del file["obs"]
        file["obs"] = np.zeros(N, dtype=[("index", "S8"), ("x", "f4")])
    with pytest.raises(InputError, match=r"obs is stored as before anndata 0.7"):
        annotating.check(annotating.Target(pbmc, "new.h5ad"))


@pytest.mark.thorough
def test_a_result_in_a_copy_leaves_all_else_as_it_was(tmp_path, pbmc, result):
    before = pbmc.read_bytes()
    new = tmp_path / "new.h5ad"
    assert run("convert", result, "--into", pbmc, "-o", new) == 0
    assert pbmc.read_bytes() == before
    was, now = anndata.read_h5ad(pbmc), anndata.read_h5ad(new)
    column = now.obs["mustlink"]
    assert column.isna().tolist() == [True, True] + [False] * (N - 2)
    assert (column[2:].astype(int).to_numpy() == TRUTH[2:]).all()
    assert (now.obsm["X_mustlink"] == np.arange(N * 2.0).reshape(N, 2)).all()
    about = now.uns["mustlink"]
    assert about["params"]["method"] == "csp"
    assert about["params"]["list"].tolist() == [1, 2]
    assert "no" not in about["params"]
    assert about["eigenvalues"].tolist() == [0, 0.25]
    with h5py.File(pbmc) as a, h5py.File(new) as b:
        assert a["X"].id.get_offset() == b["X"].id.get_offset()
        assert (a["X"][()] == b["X"][()]).all()
    del now.obs["mustlink"], now.obsm["X_mustlink"], now.uns["mustlink"]
    pd.testing.assert_frame_equal(was.obs, now.obs)
    assert was.uns == now.uns
    assert list(was.obsm) == list(now.obsm)
    assert (was.obsp["connectivities"] != now.obsp["connectivities"]).nnz == 0
    back = anndata.read_h5ad(new)  # and through anndata once more
    back.write_h5ad(tmp_path / "again.h5ad")
    again = anndata.read_h5ad(tmp_path / "again.h5ad")
    pd.testing.assert_frame_equal(back.obs, again.obs)
    assert run("convert", result, "--into", tmp_path / "again.h5ad", "--in-place") == 0


@pytest.mark.thorough
def test_keys_in_the_file_already(pbmc, result, capsys):
    assert "--in-place" in said(capsys, "convert", result, "--into", pbmc, "-o", pbmc)
    line = said(capsys, "convert", result, "--into", pbmc, "--in-place", "--key", "cell_type")
    assert re.search(r"has /obs/cell_type which mustlink did not write; give --overwrite", line)
    for wrong in ("a/b", ".x", "", "_index"):
        assert "--key" in said(
            capsys, "convert", result, "--into", pbmc, "--in-place", "--key", wrong
        )
    line = said(capsys, "convert", result, "--into", pbmc, "--in-place", "-o", "x.h5ad")
    assert "leave out -o" in line
    for _ in range(2):  # what mustlink wrote, it replaces
        assert run("convert", result, "--into", pbmc, "--in-place") == 0
    assert list(anndata.read_h5ad(pbmc).obs).count("mustlink") == 1
    assert run("convert", result, "--into", pbmc, "--in-place", "--key", "few", "--overwrite") == 0
    back = anndata.read_h5ad(pbmc)
    assert list(back.obs)[:1] == ["cell_type"]
    assert (back.obs["few"][2:].astype(int).to_numpy() == TRUTH[2:]).all()


def test_a_column_stays_in_its_file_and_is_no_more_than_a_column(tmp_path, pbmc):
    (tmp_path / "other.h5").write_bytes(pbmc.read_bytes())
    with h5py.File(pbmc, "r+") as file:
        codes = file["obs/cell_type/codes"]
        codes[0] = 99
        del file["obs/few/codes"]
        file["obs/few/codes"] = h5py.ExternalLink("other.h5", "/obs/few/codes")
        file.create_group("obs/round")
        file["obs/round/again"] = file["obs/round"]
        file["obs/table"] = np.ones((N, 2))
    for name, words in (
        ("cell_type", r"obs/cell_type: codes outside of its 3 categories"),
        ("few", "an external link"),
        ("round", "is no column"),
        ("table", "is no column"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            formats.load_classes(f"{pbmc}:/obs/{name}", N)
        assert str(caught.value).isprintable()


def test_only_writing_needs_the_extra(tmp_path, pbmc, result, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "anndata", None)
    assert formats.load(str(pbmc)).names.texts[0] == "cell_0"
    new, words = tmp_path / "new.h5ad", "pip install 'mustlink[anndata]'"
    assert formats.load_classes(f"{pbmc}:/obs/few", N).codes.size == N
    assert words in said(capsys, "convert", result, "--into", pbmc, "-o", new)
    assert words in said(capsys, "convert", f"{pbmc}:/obsm/X_pca", new)
    assert not new.exists()


@pytest.mark.thorough
def test_a_failure_leaves_the_old_file(tmp_path, pbmc, result, monkeypatch, capsys):
    before = pbmc.read_bytes()

    def crash(*_):
        os.kill(os.getpid(), 11)

    for place, name, value, words in (
        (annotating, "_categorical", crash, "crashes the library"),
        (annotating, "_set_columns", lambda *_: 1 / 0, "may be damaged"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, value)
            assert words in said(capsys, "convert", result, "--into", pbmc, "--in-place")
        assert pbmc.read_bytes() == before
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, hard))  # as on a full disk
    try:
        line = said(capsys, "convert", result, "--into", pbmc, "--in-place")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "was not written: File too large" in line
    assert pbmc.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.h5", "pbmc.h5ad"]


@pytest.mark.thorough
def test_other_nodes(tmp_path, pbmc, rng, result, capsys):
    part = cells(rng)[: N - 1].copy()
    part.write_h5ad(tmp_path / "part.h5ad")
    line = said(
        capsys, "convert", result, "--into", tmp_path / "part.h5ad", "-o", tmp_path / "x.h5ad"
    )
    assert f"{N - 1} observations, but the result has {N} nodes" in line
    assert not (tmp_path / "x.h5ad").exists()
    content = results.read(formats.parse(str(result)))
    names = np.array([f"cell_{i}" for i in range(N)], dtype=object)
    turned = {**content, "/names": names[::-1]}
    writing.write(
        tmp_path / "named.h5", {k: v for k, v in turned.items() if k != "/@mustlink-version"}
    )
    for target in ("part.h5ad", "pbmc.h5ad"):  # with names, nodes are matched by them
        assert run("convert", tmp_path / "named.h5", "--into", tmp_path / target,
                   "-o", tmp_path / "x.h5ad", "--overwrite") == 0  # fmt: skip
        assert "nodes matched by name" in capsys.readouterr().err
        back = anndata.read_h5ad(tmp_path / "x.h5ad")
        expected = content["/labels"][::-1][: back.n_obs]
        assert (back.obs["mustlink"].cat.codes.to_numpy() == expected).all()
        assert (back.obsm["X_mustlink"] == content["/embedding"][::-1][: back.n_obs]).all()


def test_repeated_names(tmp_path, rng):
    data = cells(rng)
    data.obs.index = ["twin", "twin", *data.obs.index[2:]]
    path = tmp_path / "twins.h5ad"
    data.write_h5ad(path)
    names = formats.load(str(path)).names
    (tmp_path / "p.csv").write_text("i,j,belief\n2,3,1\n")
    assert formats.load_pairs(str(tmp_path / "p.csv"), names)[0].tolist() == [[2, 3]]
    (tmp_path / "p.csv").write_text("i,j,belief\ncell_2,cell_3,1\n")
    with pytest.raises(InputError, match=r"several nodes named 'twin'; number them from 0"):
        formats.load_pairs(str(tmp_path / "p.csv"), names)


def test_pairs_and_labels_by_name(tmp_path, pbmc):
    names = formats.load(str(pbmc)).names
    path = tmp_path / "p.csv"
    path.write_text("i,j,belief\ncell_17,cell_40,-1\ncell_0,cell_3,0.5\n")
    pairs, belief = formats.load_pairs(str(path), names)
    assert pairs.tolist() == [[17, 40], [0, 3]]
    assert belief.tolist() == [-1, 0.5]
    path.write_text("i,j,belief\n17,40,-1\n")
    assert formats.load_pairs(str(path), names)[0].tolist() == [[17, 40]]
    path.write_text("i,j,belief\ncell_17,cell_400,-1\n")
    with pytest.raises(InputError, match=r"no node of .*pbmc.h5ad is named 'cell_400'"):
        formats.load_pairs(str(path), names)
    with pytest.raises(InputError, match=r"names a node 'cell_17', but the data has no names"):
        formats.load_pairs(str(path))
    path.write_text("node,label\ncell_3,B\ncell_1,A\ncell_3,B\n")
    found = formats.load_classes(str(path), N, names)
    assert found.classes == ("A", "B")
    assert found.codes[:5].tolist() == [-1, 0, -1, 1, -1]
    path.write_text("node,label\ncell_3,B\ncell_3,A\n")
    with pytest.raises(InputError, match=r"node cell_3 is labelled 'B' and 'A'; keep one"):
        formats.load_classes(str(path), N, names)
    anndata.read_h5ad(pbmc).obs.to_csv(tmp_path / "obs.csv")
    found = formats.load_classes(f"{tmp_path}/obs.csv:cell_type", N, names)
    assert [found.classes[code] for code in found.codes] == list(TYPES[TRUTH])
    turned = anndata.read_h5ad(pbmc).obs[["cell_type"]][::-1]
    turned.rename_axis("barcode").to_csv(tmp_path / "turned.csv")  # another order, another header
    found = formats.load_classes(f"{tmp_path}/turned.csv", N, names)
    assert [found.classes[code] for code in found.codes] == list(TYPES[TRUTH])
    with pytest.raises(InputError, match=r"obs.csv:COLUMN"):
        formats.load_classes(f"{tmp_path}/obs.csv", N, names)


def test_names_that_are_numbers_are_names(tmp_path, rng):
    data = cells(rng)
    data.obs.index = [str(2 * i + 1) for i in range(N)]
    data.write_h5ad(tmp_path / "a.h5ad")
    names = formats.load(f"{tmp_path}/a.h5ad").names
    (tmp_path / "p.csv").write_text("i,j,belief\n1,5,1\n")
    assert formats.load_pairs(f"{tmp_path}/p.csv", names)[0].tolist() == [[0, 2]]
    (tmp_path / "p.csv").write_text("i,j,belief\n0,5,1\n")
    with pytest.raises(InputError, match=r"is named '0' \(names are as '1'\)"):
        formats.load_pairs(f"{tmp_path}/p.csv", names)
    data.obs.index = [str(i) for i in range(N)]
    data.write_h5ad(tmp_path / "a.h5ad")
    assert formats.load(f"{tmp_path}/a.h5ad").names is None


@pytest.mark.thorough
def test_from_h5ad_to_h5ad(tmp_path, pbmc, capsys):
    """A copy of the input, with the classes under their names; and in place."""
    out, line = tmp_path / "out.h5ad", f"{pbmc}:/obs/few"
    assert run("propagate", pbmc, "--labels", line, "-o", out, "--neighbors", 8) == 0
    assert "B cell: 20" in capsys.readouterr().out
    back = anndata.read_h5ad(out)
    assert (back.obs["mustlink"].astype(str) == back.obs["cell_type"].astype(str)).all()
    assert back.obs["mustlink_confidence"].between(0, 1).all()
    assert back.obsm["mustlink_distributions"].shape == (N, 3)
    assert back.uns["mustlink"]["params"]["method"] == "auto"
    assert run("score", f"{out}:/obs/mustlink", "--truth", f"{out}:/obs/cell_type", "--json") == 0
    assert json.loads(capsys.readouterr().out)["truth"]["ari"] == 1
    words = ["cluster", pbmc, "-k", 3, "-m", "ncut", "--neighbors", 8, "--quiet", "--json"]
    assert run(*words, "--in-place", "--key", "cut") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["output"] == str(pbmc)
    assert any("/obsm/X_pca is taken" in note for note in told["notes"])
    back = anndata.read_h5ad(pbmc)
    pairs = pd.crosstab(back.obs["cut"], back.obs["cell_type"]).to_numpy()
    assert (np.sort(pairs, axis=1)[:, :-1] == 0).all()
    assert "is the input itself" in said(capsys, *words, "-o", pbmc)
    for wrong, told in (
        (("-o", tmp_path / "x.csv"), "mustlink convert out.h5 x.csv"),
        (("-o", tmp_path / "x.h5", "--key", "a"), "is for an output in .h5ad"),
        ((), "Missing option '-o'"),
    ):
        assert told in said(capsys, *words, *wrong)


@pytest.mark.thorough
def test_a_graph_alone_and_its_clusters(tmp_path, capsys):
    """AnnData as `convert` writes it of a graph: no points; clusters come back with names."""
    edges = [f"{g}{i},{g}{j}" for g in "ab" for i in range(9) for j in range(i)]
    (tmp_path / "g.csv").write_text("\n".join(["source,target", *edges, "a0,b0"]))
    source, out = tmp_path / "g.h5ad", tmp_path / "x.h5ad"
    assert run("convert", tmp_path / "g.csv", source) == 0
    assert run("cluster", source, "-k", 2, "-o", out) == 0
    assert "/obsp/connectivities is taken as graph" in capsys.readouterr().err
    for place in (out, f"{out}:/obs/mustlink"):
        assert run("convert", place, tmp_path / "l.csv", "--overwrite") == 0
        frame = pd.read_csv(tmp_path / "l.csv")
        assert list(frame) == ["node", "name", "cluster"]
        assert (frame["cluster"].groupby(frame["name"].str[0]).nunique() == 1).all()
        assert frame["cluster"].nunique() == 2
    assert run("convert", out, tmp_path / "g.tsv") == 0  # the graph in it
    assert formats.load(f"{tmp_path}/g.tsv").kind == "graph"


@pytest.mark.thorough
def test_names_and_classes_of_a_table_come_back_through_anndata(tmp_path):
    """The table of a result is the same whether it went to .h5 or to .h5ad."""
    rows = [f"{g}{i},{at + i / 10},{i % 3}" for g, at in (("a", 0), ("b", 50)) for i in range(20)]
    (tmp_path / "p.csv").write_text("\n".join(["node,u,v", *rows]))
    (tmp_path / "few.csv").write_text("node,label\na0,cold\na1,cold\nb0,hot\nb1,hot\n")
    source = tmp_path / "p.h5ad"
    assert run("convert", tmp_path / "p.csv", source) == 0
    assert list(anndata.read_h5ad(source).obs_names) == [row.split(",")[0] for row in rows]
    tables = []
    for ending in ("h5", "h5ad"):
        out, table = tmp_path / f"out.{ending}", tmp_path / f"{ending}.csv"
        assert run("cluster", source, "-k", 2, "--labels", tmp_path / "few.csv", "-o", out) == 0
        assert run("convert", out, table) == 0
        tables.append(pd.read_csv(table))
    assert set(tables[0]["class"]) == {"cold", "hot"}
    pd.testing.assert_frame_equal(tables[0], tables[1])


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("cell_1,cell_2x,1", "is named 'cell_2x' .did you mean 'cell_2'"),
        ("p,q,1\nr,s,1\nt,u,1", "'p', 'r', 't', 'q', 's' and 1 more .names are .*leave them out"),
    ],
)
def test_unknown_names_are_told_together(tmp_path, pbmc, rows, told):
    (tmp_path / "p.csv").write_text(f"i,j,belief\n{rows}\n")
    with pytest.raises(InputError, match=told):
        formats.load_pairs(f"{tmp_path}/p.csv", formats.load(str(pbmc)).names)


@pytest.mark.thorough
def test_names_of_nodes_and_classes_in_a_result(tmp_path, pbmc, capsys):
    out, table = tmp_path / "out.h5", tmp_path / "labels.csv"
    line = f"{pbmc}:/obs/few"
    how = ("--labels", line, "--neighbors", 8, "--quiet", "-o", out)
    assert run("propagate", pbmc, "-m", "gfhf", *how) == 0
    content = results.read(formats.parse(str(out)))
    assert list(content["/names"][:2]) == ["cell_0", "cell_1"]
    assert list(content["/class_names"]) == ["T cell", "B cell", "NK"]
    assert content["/classes"].tolist() == [0, 2, 3]  # code 1 is of the category `never`
    capsys.readouterr()
    for truth in (f"{pbmc}:/obs/cell_type", table):
        if truth is table:
            assert run("convert", out, table) == 0
        assert run("score", out, "--truth", truth, "--json") == 0
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["truth"]["right"] == 1
    frame = pd.read_csv(table)
    assert list(frame) == ["node", "name", "class", "confidence"]
    assert (frame["class"].to_numpy() == TYPES[TRUTH]).all()
    assert run("cluster", pbmc, "-k", 3, "-m", "csp", *how) == 0
    assert run("convert", out, table, "--overwrite") == 0
    frame = pd.read_csv(table)
    assert list(frame) == ["node", "name", "cluster", "class"]
    assert (frame["class"].to_numpy() == TYPES[TRUTH]).all()


def test_a_sink_reads_back_what_the_disk_did_not_take(tmp_path):
    """Nothing, or what was in memory by chance, would crash the library."""
    path = tmp_path / "full"
    path.write_bytes(b"abcd")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6, hard))
    try:
        with writing.Sink(path) as sink:
            for at, block in ((2, b"CDEFGH"), (10, b"KL"), (3, b"x")):
                sink.seek(at)
                sink.write(block)
            found = bytearray(b"?" * 14)
            sink.seek(0)
            assert sink.readinto(found) == 12
            assert found == b"abCxEFGH\0\0KL\0\0"
            with pytest.raises(OSError, match="File too large"):
                sink.check()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
