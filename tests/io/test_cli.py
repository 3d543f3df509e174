"""The command line: what users type, what they get, and one clear line when it cannot be."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from PIL import Image

import mustlink as ml
from mustlink.context.fit_plan import Plan, PlannedStage
from mustlink_io import formats
from mustlink_io.batch.arguments import keys
from mustlink_io.commands import cli
from mustlink_io.formats import matrices
from mustlink_io.hdf5 import schema, store, writing
from mustlink_io.jobs.diagnostics import command_line
from mustlink_io.jobs.methods import METHODS, PROPAGATORS, flag
from mustlink_io.jobs.planning import beyond
from mustlink_io.terminal import console

ROOT = Path(__file__).parents[2]
K = 3


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Three round groups of 40 points, their graph, and side information, in every format."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(K), 40)
    points = rng.normal(size=(120, 4)) + 6 * np.eye(4)[truth]
    few = np.full(120, -1)
    few[[0, 1, 40, 41, 80, 81]] = truth[[0, 1, 40, 41, 80, 81]]
    writing.write(folder / "points.h5", {"/points": points.astype("f4"), "/labels": truth})
    np.save(folder / "points.npy", points)
    np.savetxt(folder / "few.txt", few, fmt="%d")
    (folder / "pairs.csv").write_text("i,j,belief\n0,1,1\n0,40,-1\n40,80,-1\n0,80,-1\n80,81,1\n")
    distance = np.square(points[:, None] - points[None]).sum(axis=2)
    weights = np.exp(-distance / 8) * (distance < 30)
    np.fill_diagonal(weights, 0)
    graph = sp.csr_matrix(weights)
    writing.write(folder / "graph.h5", matrices.graph_content(graph))
    sp.save_npz(folder / "graph.npz", graph)
    upper = sp.triu(graph).tocoo()
    lines = [f"{i} {j} {w:.9g}" for i, j, w in zip(upper.row, upper.col, upper.data, strict=True)]
    (folder / "graph.edges").write_text("\n".join(lines))
    broken_points = points.copy()
    broken_points[[7, 9]] = np.nan
    np.save(folder / "nan.npy", broken_points)
    np.save(folder / "cube.npy", points.reshape(60, 2, 4))
    lopsided = graph.copy()
    lopsided.data[0] += 1
    sp.save_npz(folder / "lopsided.npz", lopsided)
    negative = graph.copy()
    negative.data *= -1
    sp.save_npz(folder / "negative.npz", negative)
    sp.save_npz(folder / "empty.npz", sp.csr_matrix((5, 5)))
    (folder / "nothing.edges").write_text("# no edges\n")
    (folder / "words.txt").write_text("cat\ndog\n-1\n")
    (folder / "short.txt").write_text("0\n1\n-1\n")
    (folder / "far.csv").write_text("i,j,belief\n0,1,1\n3,120,1\n")
    (folder / "self.csv").write_text("i,j,belief\n5,5,1\n")
    (folder / "zero.csv").write_text("i,j,belief\n5,6,0\n")
    (folder / "clash.csv").write_text("i,j,belief\n0,1,1\n1,2,1\n0,2,-1\n")
    rows = [f"n{i},n{j},{w:.9g}" for i, j, w in zip(upper.row, upper.col, upper.data, strict=True)]
    (folder / "named.csv").write_text("\n".join(["source,target,weight", *rows]))
    (folder / "named_pairs.csv").write_text(
        "i,j,belief\nn0,n1,1\nn2,n3,1\n# from a friend\nn3,n4,1\nn1,n0,-1\nn4,n2,-1\n"
    )
    (folder / "named_few.csv").write_text("node,label\nn0,left\nn40,mid\nn80,right\n")
    (folder / "named_one.csv").write_text("node,label\nn0,left\nn1,left\n")
    picture = np.full((12, 20, 3), (200, 30, 30), dtype=np.uint8)
    picture[3:9, 5:15] = (20, 40, 220)
    Image.fromarray(picture).save(folder / "photo.png")
    Image.fromarray(picture).save(folder / "stack.tif")
    strokes = np.full((12, 20), -1)
    strokes[1, 2:18], strokes[6, 7:13] = 0, 1
    np.save(folder / "strokes.npy", strokes)
    np.save(folder / "turned.npy", strokes.T)
    writing.write(folder / "x.h5ad", {"/labels": truth})
    whole = (folder / "points.h5").read_bytes()
    (folder / "truncated.h5").write_bytes(whole[: len(whole) - 100])
    return folder


def as_process(line, folder, **options):
    paths = [str(ROOT / "engine"), str(ROOT / "io"), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, "-m", "mustlink_io", *line.split()],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def accuracy(truth, labels):
    from mustlink_io.jobs.score import agreement

    return agreement(np.asarray(labels), truth)["accuracy"]


def test_points_to_clusters(mustlink, tmp_path, data):
    out = tmp_path / "out.h5"
    code, said, err = mustlink(f"cluster points.h5 -k 3 -o {out}")
    assert code == 0, err
    assert "cluster sizes" in said
    assert "40, 40, 40" in said
    labels = formats.load_classes(str(out), 120).codes
    assert accuracy(np.repeat(np.arange(K), 40), labels) == 1
    with store.open_h5(out) as file:
        for item in (*schema.PARTS["clusters"][1], *schema.PARTS["run"][1]):
            place, _, attribute = item.path.partition("@")
            assert (attribute in file[place].attrs) if attribute else (place in file), item.path
        assert file["embedding"].shape[0] == 120
        names = [store.text(name) for name in file["stages/name"][()]]
        assert names[:2] == ["reading", "checksums"]
        inputs = json.loads(store.text(file.attrs["inputs"]))
        assert json.loads(store.text(file.attrs["parameters"]))["method"] == "ncut"
    import hashlib

    assert inputs[0]["sha256"] == hashlib.sha256((data / "points.h5").read_bytes()).hexdigest()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "source", ["points.h5:/points", "points.npy", "graph.h5", "graph.npz", "graph.edges"]
)
def test_side_information_from_every_source(mustlink, tmp_path, source):
    out = tmp_path / "out.h5"
    side = "--labels few.txt --constraints pairs.csv"
    code, said, err = mustlink(f"cluster {source} -k 3 {side} --json --quiet -o {out}")
    assert code == 0, err
    assert err == ""
    result = json.loads(said)
    assert result["sizes"] == [40, 40, 40]
    assert result["satisfaction"]["kept"] == 1
    assert result["parameters"]["method"] == "auto"
    assert [item["role"] for item in result["inputs"]] == ["data", "labels", "constraints"]
    code, said, err = mustlink(f"score {out} --truth points.h5 --constraints pairs.csv --json")
    assert code == 0, err
    assert json.loads(said)["truth"]["ari"] == 1


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "side",
    ["--labels few.txt --hierarchy", "--constraints pairs.csv", ""],
)
def test_the_method_is_chosen(mustlink, tmp_path, side):
    """Whatever is known, clusters are answered; the model chooses again where more is known."""
    import mustlink as engine

    out = tmp_path / "out.h5"
    line = f"cluster points.h5 -k 3 -m auto {side} --membership -o {out}"
    code, said, err = mustlink(line)
    assert code == 0, err
    chosen, why = re.search(r"^ *auto  +(.+?): (.+)$", said, flags=re.MULTILINE).groups()
    loaded = engine.load(out)
    assert loaded.method_ == chosen
    with h5py.File(out) as file:
        n, k = 40 * K, loaded.embedding_.shape[1]
        assert file["embedding"].shape == (n, k)
        assert file["membership"].shape == (n, K)
        assert ("hierarchy" in file) == ("--hierarchy" in side)
    assert loaded.report_.choices["auto"][0] == chosen
    assert why
    assert accuracy(np.repeat(np.arange(K), 40), loaded.labels_) == 1
    code, said, err = mustlink(f"{line} --json --quiet")
    assert code == 0, err
    found = json.loads(said)
    assert found["parameters"]["method"] == "auto"
    assert mustlink(f"info {out}")[0] == 0
    assert mustlink(f"ask {out} -n 3 -o {tmp_path}/ask.csv")[0] == 0


def test_options_of_another_method_are_the_choice(mustlink, tmp_path):
    line = f"cluster points.h5 -k 3 --labels few.txt --beta 0.5 -o {tmp_path}/out.h5"
    code, said, err = mustlink(line)
    assert code == 0, err
    assert "method: csp, as --beta: no option of -m auto" in said + err


def test_a_coordinate_that_numbers_the_rows_is_a_warning(mustlink, tmp_path):
    rows = [f"{7 + i},{i % 2 * 9 + i / 100},{i % 3}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["id,a,b", *rows]))
    code, said, err = mustlink(f"cluster {tmp_path}/t.csv -k 2 --json -o {tmp_path}/o.h5")
    assert code == 0
    (warning,) = (one for one in json.loads(said)["warnings"] if "column 'id'" in one)
    assert f"  warning: {warning}\n" in err


def test_json_is_one_object_and_numbers_add_up(mustlink, tmp_path):
    code, said, _ = mustlink(f"cluster points.h5 -k 3 --json -o {tmp_path}/out.h5")
    assert code == 0
    assert said.count("\n") == 1
    result = json.loads(said)
    assert sum(result["sizes"]) + result["unassigned"] == result["n_nodes"] == 120
    assert result["seconds"] >= sum(stage["seconds"] for stage in result["stages"])
    assert {"mustlink", "numpy", "scipy", "h5py", "python"} <= set(result["versions"])


@pytest.mark.thorough
def test_same_seed_same_labels_whatever_the_threads(mustlink, tmp_path):
    found = []
    for run, threads in enumerate((1, 1, 2)):
        line = f"cluster points.npy -k 3 --labels few.txt --seed 3 --threads {threads} --quiet"
        code, _, err = mustlink(f"{line} -o {tmp_path}/{run}.h5")
        assert code == 0, err
        found.append(formats.load_classes(f"{tmp_path}/{run}.h5").codes)
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


def test_a_second_graph_is_side_information(mustlink, tmp_path):
    out = tmp_path / "out.h5"
    line = f"cluster points.npy -k 3 --constraints graph.h5:/graph --json -o {out}"
    code, _, err = mustlink(line)
    assert code == 0, err
    assert accuracy(np.repeat(np.arange(K), 40), formats.load_classes(str(out)).codes) == 1


def test_contradictions_are_told_or_refused(mustlink, tmp_path):
    line = f"cluster points.npy -k 3 --constraints clash.csv -o {tmp_path}/o.h5"
    code, _, err = mustlink(line)
    assert code == 0
    assert "1 contradiction" in err
    code, _, err = mustlink(line + " --strict")
    assert code == 2
    assert "clash.csv: 1 contradiction: cannot-link (0, 2) of line 4 parts two of" in err
    assert err.rstrip().endswith("or leave out --strict to keep them as soft")


@pytest.mark.thorough
def test_contradictions_are_told_by_name(mustlink, tmp_path):
    line = f"cluster named.csv -k 3 --constraints named_pairs.csv -o {tmp_path}/o.h5"
    both = r"pair \(n0, n1\) is must-link in line 2, cannot-link in line 6"
    chain = r"cannot-link \(n2, n4\) of line 7 parts two of 3 nodes that are must-linked by n2 - n3"
    for more, code in (("", 0), (" --strict", 2)):
        found, _, err = mustlink(line + more)
        assert found == code, err
        assert re.search(f"{both}; {chain}", err), err
    code, told, _ = mustlink("suggest named.csv -k 3 --constraints named_pairs.csv --json --quiet")
    assert re.search(both, told)


def test_names_of_classes_in_the_summary(mustlink, tmp_path, monkeypatch):
    monkeypatch.setattr(console, "_WORTH_A_LINE", 60.0)  # seconds: also on a busy machine
    code, told, err = mustlink(f"cluster named.csv -k 3 --labels named_few.csv -o {tmp_path}/o.h5")
    assert code == 0, err
    assert re.search(r"cluster sizes +(\d \((left|mid|right)\): 40(, )?){3}", told), told
    assert "keeping" not in told
    sizes = re.search(r"cluster sizes +(.+)", told)[1].strip()
    code, told, _ = mustlink(f"score {tmp_path}/o.h5")
    assert (code, re.search(r"cluster sizes +(.+)", told)[1].strip()) == (0, sizes)
    code, told, _ = mustlink("info named.csv")
    assert re.search(r"names +120 +text +of the nodes; the first is n0", told)
    for command in ("cluster named.csv -k 3 -m csc-gfhf", "propagate named.csv"):
        code, _, err = mustlink(f"{command} --labels named_one.csv -o {tmp_path}/x.h5")
        assert code == 2
        assert "labels of 1 class only (left)" in err


@pytest.mark.thorough
def test_a_picture_to_its_segments(mustlink, tmp_path):
    graph, out = tmp_path / "photo.h5", tmp_path / "out.h5"
    assert mustlink(f"graph photo.png -o {graph} --quiet")[0] == 0
    picture = np.full((12, 20, 3), (200, 30, 30), dtype=np.uint8)
    picture[3:9, 5:15] = (20, 40, 220)
    same = abs(formats.load(str(graph)).value - ml.image_graph(picture).affinity)
    assert same.max() < 1e-6
    code, _, err = mustlink(f"cluster {graph} -k 2 --labels strokes.npy -o {out}")
    assert code == 0, err
    assert "shape (12, 20), taken row by row" in err
    labels = formats.load_classes(str(out)).codes.reshape(12, 20)
    inside = np.zeros((12, 20), dtype=bool)
    inside[3:9, 5:15] = True
    assert accuracy(inside.ravel().astype(int), labels.ravel()) == 1
    code, told, err = mustlink(f"report {out} --pictures {tmp_path}/pictures")
    assert code == 0, err
    assert "segmentation.png" in told
    code, _, err = mustlink(f"cluster {graph} -k 2 --labels turned.npy -o {out}")
    assert code == 2
    assert "turned.npy: shape (20, 12), but the picture has 12 rows of 20 pixels" in err


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("method", ["srcp --mu 0.1", "e2cp --alpha 0.5", "srcp --no-normalize"])
def test_pairs_are_spread(mustlink, tmp_path, method):
    out = tmp_path / "out.h5"
    line = f"cluster points.npy -k 3 -m {method} --constraints pairs.csv -o {out}"
    code, told, err = mustlink(line)
    assert code == 0, err
    assert re.search(r"edges +[\d,]+ strengthened, [\d,]+ weakened, [\d,]+ added", told)
    assert accuracy(np.repeat(np.arange(K), 40), formats.load_classes(str(out)).codes) == 1
    code, told, err = mustlink(line + " --json --memory 4GB")
    assert code == 0, err
    found = json.loads(told)
    assert found["adjustment"]["strengthened"] > 0
    assert (
        found["propagation_quality"]["residual"] < 1e-10
    )  # a graph of this size is solved by LAPACK
    assert found["parameters"]["memory"] == 4 * 10**9


BAD = {
    "mu of zero": (
        "cluster points.npy -k 3 -m srcp --mu 0 --constraints pairs.csv -o {out}",
        "mu: 0.0 given; it must be finite and above 0",
    ),
    "alpha of one": (
        "cluster points.npy -k 3 -m e2cp --alpha 1 --constraints pairs.csv -o {out}",
        "alpha: 1.0 is not between 0 and 1",
    ),
    "no krylov for e2cp": (
        "cluster points.npy -k 3 -m e2cp --solver krylov --constraints pairs.csv -o {out}",
        "krylov.* is for SRCP",
    ),
    "an eigensolver is no propagation": (
        "cluster points.npy -k 3 -m srcp --solver lobpcg --constraints pairs.csv -o {out}",
        "solver: 'lobpcg' is unknown; choose auto . dense . diffusion . krylov",
    ),
    "missing file": ("cluster nope.h5 -k 3 -o {out}", r"nope\.h5: no such file"),
    "missing labels": ("cluster points.h5 -k 3 --labels no.txt -o {out}", "no.txt: no such file"),
    "missing dataset": (
        "cluster points.h5:nope -k 3 -o {out}",
        "points.h5:nope: no such dataset; the file has /labels, /points",
    ),
    "wrong dimensions": ("cluster cube.npy -k 3 -o {out}", r"cube.npy: 3 dimensions .* \(n, d\)"),
    "labels as points": ("cluster points.h5:labels -k 3 -o {out}", "labels: 1 dimensions"),
    "NaN": (
        "cluster nan.npy -k 3 -o {out}",
        r"nan.npy: 2 rows have missing values .* row 7, column 0; .*--impute",
    ),
    "not symmetric": ("cluster lopsided.npz -k 3 -o {out}", "not symmetric"),
    "negative": ("cluster negative.npz -k 3 -o {out}", "negative"),
    "not square": ("cluster points.npy --affinity precomputed -k 3 -o {out}", "is square"),
    "graph as points": ("cluster graph.npz --affinity knn -k 3 -o {out}", "is a graph; leave out"),
    "pair out of range": (
        "cluster points.h5 -k 3 --constraints far.csv -o {out}",
        r"far.csv: line 3: pair \(3, 120\), but the data has 120 nodes, numbered from 0",
    ),
    "pair with itself": (
        "cluster points.h5 -k 3 --constraints self.csv -o {out}",
        r"self.csv: line 2: pair \(5, 5\) is of a node with itself",
    ),
    "no belief": (
        "cluster points.h5 -k 3 --constraints zero.csv -o {out}",
        r"zero.csv: line 2: pair \(5, 6\) has belief 0",
    ),
    "a stack": (
        "cluster stack.tif -k 3 -o {out}",
        "stack.tif: a TIFF; cut it: mustlink cut stack.tif",
    ),
    "a picture": ("cluster photo.png -k 3 -o {out}", "photo.png: a picture; cut it"),
    "neighbours of pixels": ("graph photo.png --neighbors 5 -o {out}", "it takes no --neighbors"),
    "report of AnnData": ("report x.h5ad", "run the same command with -o out.h5"),
    "labels too short": (
        "cluster points.h5 -k 3 --labels short.txt -o {out}",
        "short.txt: 3 labels, but the data has 120 nodes",
    ),
    "text labels": (
        "cluster points.h5 -k 3 --labels words.txt -o {out}",
        "words.txt: 3 labels, but the data has 120 nodes",
    ),
    "neighbours of a graph": (
        "cluster graph.h5 -k 3 --neighbors 5 -o {out}",
        "graph.h5:/graph: is a graph; leave out --neighbors 5",
    ),
    "K above n": ("cluster points.h5 -k 121 -o {out}", "-k 121: more clusters than the 120 nodes"),
    "K below 2": ("cluster points.h5 -k 1 -o {out}", "-k 1: ask for at least 2"),
    "infeasible beta": (
        "cluster points.h5 -k 3 --labels few.txt --beta 5 --subspace exact -o {out}",
        "beta",
    ),
    "graph without edges": ("cluster empty.npz -k 2 -o {out}", "no edge"),
    "graph without nodes": ("cluster nothing.edges -k 2 -o {out}", "nothing.edges: empty"),
    "truncated": ("cluster truncated.h5 -k 3 -o {out}", "truncated"),
    "output below a file": ("cluster points.h5 -k 3 -o points.h5/x.h5", "cannot be written"),
    "output is a folder": ("cluster points.h5 -k 3 -o .", "is a directory"),
    "output in no folder": (
        "cluster points.h5 -k 3 -o no/where.h5",
        "no folder .*no; make it first",
    ),
    "output is input": ("cluster points.h5 -k 3 -o ./points.h5", "is the input itself"),
    "output is labels": (
        "cluster points.npy -k 3 --labels points.h5 -o points.h5",
        "is the input itself",
    ),
    "no such method": ("cluster points.h5 -k 3 -m kmeans -o {out}", "'kmeans' is not one of"),
    "no such option": ("cluster points.h5 -k 3 --foo -o {out}", "No such option"),
    "no such command": ("frobnicate", "No such command 'frobnicate'"),
    "method without side": ("cluster points.h5 -k 3 -m ncut --labels few.txt -o {out}", "-m csp"),
    "option of another": ("cluster points.h5 -k 3 --beta 0.5 -o {out}", "--beta: no option of"),
    "beta is a word": (
        "cluster points.h5 -k 3 -m csp --beta big -o {out}",
        "--beta: 'big' is unknown; choose auto",
    ),
    "memory is a word": ("cluster points.h5 -k 3 --memory much -o {out}", "is not a size"),
    "memory too small": ("cluster points.h5 -k 3 --memory 1MB -o {out}", "at least"),
    "neighbours": ("cluster points.h5 -k 3 --neighbors 0 -o {out}", "--neighbors: 0 given"),
    "graph: no file": ("graph nope.csv -o {out}", "nope.csv: no such file"),
    "graph: options": ("graph graph.npz --metric cosine -o {out}", "a graph already"),
    "graph: input": ("graph points.h5 -o points.h5", "is the input itself"),
    "plan: half a size": ("plan 1000x", "1000x: no size and no such file; write points x coord"),
    "no unit": ("cluster points.h5 -k 3 --memory 2 -o {out}", "'2' has no unit; write it as 2GB"),
    "info: no file": ("info nope.h5", "no such file"),
    "info: no dataset": ("info points.h5:nope", "no such dataset"),
    "info: truncated": ("info truncated.h5", "truncated"),
    "score: lengths": ("score points.h5 --truth short.txt", "3 labels, but the data has 120"),
    "score: no labels": ("score graph.h5", "/labels: no such dataset"),
    "score: graph": ("score short.txt --graph graph.npz", "120 nodes, but 3 labels"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_code_2(mustlink, tmp_path, data, case):
    line, words = BAD[case]
    before = {path: path.read_bytes() for path in data.iterdir()}
    code, said, err = mustlink(line.format(out=tmp_path / "out.h5") + " ")
    errors = [text for text in err.splitlines() if not text.startswith("  ")]  # progress, notes
    assert code == 2
    assert said == ""
    assert len(errors) == 1, err
    assert errors[0].startswith("mustlink: ")
    assert re.search(words, errors[0]), errors[0]
    assert list(tmp_path.iterdir()) == []
    assert {path: path.read_bytes() for path in data.iterdir()} == before


def test_infeasible_beta_says_what_is_admissible(mustlink, tmp_path):
    line = "cluster points.h5 -k 3 --labels few.txt --beta 5 --subspace exact --quiet"
    code, _, err = mustlink(f"{line} -o {tmp_path}/o.h5")
    assert code == 2
    assert re.search(r"below|less|<|at most", err), err


def test_graph_file_and_its_health(mustlink, tmp_path):
    out = tmp_path / "g.h5"
    code, said, err = mustlink(f"graph points.h5 -o {out} --neighbors 7")
    assert code == 0, err
    for words in ("neighbours", "degree", "components", "recall"):
        assert words in said
    loaded = formats.load(str(out))
    assert loaded.kind == "graph"
    assert (loaded.value != loaded.value.T).nnz == 0
    with store.open_h5(out) as file:
        assert json.loads(store.text(file["graph"].attrs["info"]))["n_neighbors"] == 7
    code, said, _ = mustlink(f"graph graph.edges -o {tmp_path}/h.h5 --json")
    assert code == 0
    result = json.loads(said)
    reference = formats.load("graph.npz").value
    assert result["n_nodes"] == 120
    assert result["n_edges"] == reference.nnz // 2
    assert result["degree"]["most"] == pytest.approx(reference.sum(axis=1).max(), rel=1e-6)


def test_isolated_nodes_are_counted(mustlink, tmp_path, data):
    path = tmp_path / "lonely.edges"
    path.write_text("0 1\n1 2\n2 0\n5 6\n")
    code, said, _ = mustlink(f"graph {path} -o {tmp_path}/g.h5 --json")
    assert code == 0
    result = json.loads(said)
    assert result["isolated"] == 2
    assert result["n_components"] == 4
    assert result["largest_components"] == [3, 2, 1, 1]


@pytest.mark.thorough
def test_info_of_every_kind_of_file(mustlink, tmp_path):
    out = tmp_path / "out.h5"
    mustlink(f"cluster points.h5 -k 3 --labels few.txt -o {out}")
    _, said, _ = mustlink(f"info {out}")
    for words in ("/labels", "/embedding", "sha256", "random_state=0", "numpy", "reading"):
        assert words in said
    _, said, _ = mustlink(f"info {out} --json")
    result = json.loads(said)
    assert {"entries", "parameters", "versions", "inputs", "report", "stages"} <= set(result)
    for name in ("points.h5", "graph.h5", "points.npy", "graph.npz", "graph.edges", "few.txt"):
        code, said, err = mustlink(f"info {name} --json")
        if name == "few.txt":  # one column: no edge list
            assert code == 2
            continue
        assert code == 0, err
        assert json.loads(said)["entries"]


def test_info_does_not_follow_links(mustlink, tmp_path):
    path = tmp_path / "links.h5"
    with h5py.File(path, "w") as file:
        file["away"] = h5py.ExternalLink("secret.h5", "/x")
        file["soft"] = h5py.SoftLink("/nowhere")
        file["loop"] = file["/"]
    code, said, _ = mustlink(f"info {path} --json")
    assert code == 0
    kinds = {entry["path"]: entry["type"] for entry in json.loads(said)["entries"]}
    assert kinds["/away"] == "link to another file"
    assert kinds["/soft"] == "link"


def test_scores_against_hand_computed_values(mustlink, tmp_path):
    (tmp_path / "labels.txt").write_text("1\n1\n1\n0\n0\n-1\n0\n")
    (tmp_path / "truth.txt").write_text("0\n0\n1\n1\n1\n1\n-1\n")
    line = f"score {tmp_path}/labels.txt --truth {tmp_path}/truth.txt"
    code, said, err = mustlink(line + " --json")
    assert code == 0, err
    result = json.loads(said)
    assert result["sizes"] == [3, 3]
    assert result["unassigned"] == 1
    assert result["truth"]["n_known"] == 6
    assert result["truth"]["accuracy"] == pytest.approx(4 / 6)
    code, said, _ = mustlink(line)
    assert "accuracy" in said


def test_help_teaches_by_examples_that_parse(mustlink):
    code, said, _ = mustlink("")
    assert code == 0
    for name in cli.cli.commands:
        assert name in said
    texts = [mustlink(f"{name} --help")[1] for name in cli.cli.commands] + [said]
    examples = re.findall(r"^ +mustlink (.+?)(?:  .*)?$", "\n".join(texts), re.MULTILINE)
    assert len(examples) >= 10
    for example in examples:
        words = example.split(" | ")[0].split()
        command = cli.cli.commands[words[0]]
        with command.make_context(words[0], words[1:]):
            pass
    for command, methods in (("cluster", METHODS), ("propagate", PROPAGATORS)):
        for name in methods:
            assert name in mustlink(f"{command} --help")[1]


def test_every_option_is_a_parameter_of_its_estimator():
    import mustlink as engine

    known = {word for option in cli.cluster.params for word in option.opts}
    for method in METHODS.values():
        if not hasattr(engine, method.estimator):
            continue
        parameters = getattr(engine, method.estimator)().get_params()
        taken = method.options
        assert {flag(name) for name in taken} <= known
        renamed = {"class_shares"} if "class_mass" in taken else set()
        assert taken - renamed <= set(parameters)
        untold = set(parameters) - taken - {"n_clusters", "n_jobs", "memory", "time_limit"}
        untold -= {"answers", "preprocessing"}  # an object; the shell has options of its own
        assert untold == set(), "parameters that the command line cannot set"


@pytest.mark.thorough
def test_as_a_process(data, tmp_path):
    process = as_process(f"cluster points.h5 -k 3 --json -o {tmp_path}/out.h5", data)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert json.loads(out)["sizes"] == [40, 40, 40]
    process = as_process(f"cluster nan.npy -k 3 -o {tmp_path}/no.h5", data)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert out == ""
    assert err.startswith("mustlink: nan.npy")
    assert "Traceback" not in err


def opened_for_reading(fifo, process):
    """Our end of a FIFO once the process waits at the other: not before it has started up."""
    for _ in range(600):
        assert process.poll() is None
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.1)
    raise AssertionError("nobody reads")


def listen_to_interrupts():
    """As from a terminal: tests started in the background pass on that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.thorough
@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_files_intact(tmp_path, sign, code):
    os.mkfifo(tmp_path / "slow.csv")  # reading it waits for a writer that never comes
    (tmp_path / "out.h5").write_bytes(b"\x89HDF precious")
    process = as_process("graph slow.csv -o out.h5", tmp_path, preexec_fn=listen_to_interrupts)
    writer = opened_for_reading(tmp_path / "slow.csv", process)
    process.send_signal(sign)
    with suppress(BrokenPipeError):  # a signal just before a read is seen after it
        for _ in range(1000):
            if process.poll() is None:
                os.write(writer, b"0,1\n")
                time.sleep(0.05)
    out, err = process.communicate(timeout=60)
    os.close(writer)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.h5", "slow.csv"]
    assert (tmp_path / "out.h5").read_bytes() == b"\x89HDF precious"


HELD = """
import signal, time
from collections import deque
from itertools import repeat
from mustlink_io.commands.cli import end_at_second_interrupt
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run where it is ignored
end_at_second_interrupt()
try:
    print("ready", flush=True)
    {work}
except KeyboardInterrupt:
    print("first", flush=True)
    deque(repeat(0), maxlen=0)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="System V's handlers")
@pytest.mark.parametrize(
    ("work", "first"),
    [
        ("deque(repeat(0), maxlen=0)", ""),  # never comes back to Python, as a compiled loop
        ("while True: time.sleep(0.01)", "first"),  # and while it unwinds
    ],
)
def test_a_second_interrupt_ends_at_once(work, first):
    process = subprocess.Popen(
        [sys.executable, "-c", HELD.format(work=work)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    if first:
        assert process.stdout.readline().strip() == first
    for _ in range(500):  # pending signals of one kind are one
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.02)
    process.kill()  # where it has not ended
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT  # what a shell calls 130


def test_interrupted_in_the_computation(mustlink, tmp_path, monkeypatch):
    import mustlink as engine

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(engine.NCut, "fit", stop)
    out = tmp_path / "out.h5"
    out.write_bytes(b"\x89HDF precious")
    code, said, err = mustlink(f"cluster points.h5 -k 3 -o {out}")
    assert code == 130
    assert said == ""
    assert "interrupted" in err
    assert out.read_bytes() == b"\x89HDF precious"
    assert list(tmp_path.iterdir()) == [out]


def test_the_budget_is_compared_with_the_peak(mustlink, tmp_path, monkeypatch):
    from mustlink_io.jobs import run as running

    peaks = iter([3 * 10**9])
    monkeypatch.setattr(running, "peak_bytes", lambda: next(peaks))
    line = f"cluster points.h5 -k 3 --memory 2GB --json -o {tmp_path}/o.h5"
    code, said, err = mustlink(line)
    assert code == 0
    note = "memory: 3.00 GB were taken, more than the 2.00 GB allowed"
    assert note in err
    assert note in json.loads(said)["notes"]


def test_lines_of_progress(monkeypatch):
    now = iter(np.arange(0, 1000, 6.0))
    monkeypatch.setattr(console.time, "perf_counter", lambda: next(now))
    stream = io.StringIO()
    lines = console.LogLines(stream)
    lines.begin("embedding")
    for fraction in (0.1, 0.2, 0.3, 0.4):
        lines.advance("embedding", fraction)
    lines.end("embedding", 24.0)
    lines.begin("short")
    lines.end("short", 0.01)
    lines.note("said once")
    lines.note("said once")
    lines.warn("doubt it")
    assert stream.getvalue().splitlines() == [
        "  embedding: 20%, 12.0 s",
        "  embedding: 40%, 24.0 s",
        "  embedding: 24.0 s",
        "  note: said once",
        "  warning: doubt it",
    ]


def test_a_stage_whose_end_is_unknown_shows_how_long_it_runs(monkeypatch):
    now = iter([0.0, 15.0])
    monkeypatch.setattr(console.time, "perf_counter", lambda: next(now))
    stream = io.StringIO()
    lines = console.LogLines(stream)
    lines.begin("propagating")
    lines.advance("propagating", 0.0)
    assert stream.getvalue() == "  propagating: 15.0 s\n"


def test_lines_of_compiling(monkeypatch):
    now = iter(np.arange(0, 1000, 6.0))
    monkeypatch.setattr(console.time, "perf_counter", lambda: next(now))
    stream = io.StringIO()
    lines, quiet = (console.LogLines(stream, quiet=how) for how in (False, True))
    for done, total, left in ((0, 31, 20.0), (4, 31, 17.0), (11, 31, 75.0), (30, None, None)):
        lines.compiling(done, total, left)
    lines.compiling(40, None, None)
    quiet.compiling(0, 31, 20.0)
    assert stream.getvalue().splitlines() == [
        "  compiling 1 of 31 kernels, 20.0 s left",
        "  compiling 12 of 31 kernels, 1:15 left",
        "  compiling kernel 41",
    ]


def test_bars_of_progress():
    from rich.console import Console

    stream = io.StringIO()
    terminal = Console(file=stream, force_terminal=True, width=80, color_system=None)
    with console.Bars(terminal) as bars:
        bars.begin("embedding")
        bars.compiling(11, 31, 20.0)
        bars.compiling(12, None, None)
        bars.advance("embedding", 0.5)
        bars.end("embedding", 75.0)
        bars.note("look [here]")
        bars.warn("doubt [it]")
    assert "compiling 12 of 31 kernels, 20.0 s left" in stream.getvalue()
    assert "embedding: 1:15" in stream.getvalue()
    assert "note: look [here]" in stream.getvalue()
    assert "warning: doubt [it]" in stream.getvalue()


def test_durations():
    assert console.clock(0.44) == "0.4 s"
    assert console.clock(245) == "4:05"
    assert console.clock(3723) == "1:02:03"


def test_warnings_of_python_are_shown_as_such(capsys):
    import warnings

    with console.observing(quiet=False):
        warnings.warn("the gap\nis tiny", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "  warning: the gap is tiny\n"
    with console.observing(quiet=True):
        warnings.warn("the gap is tiny", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "  warning: the gap is tiny\n"


def test_a_time_limit_is_part_of_the_command(mustlink, tmp_path):
    code, said, _ = mustlink(f"cluster points.h5 -k 3 --time 1h --json -o {tmp_path}/o.h5")
    assert code == 0
    told = json.loads(said)
    assert "--time 3600" in told["command"]
    assert told["warnings"] == []
    again, _, _ = mustlink(f"graph points.h5 --time 5min -o {tmp_path}/g.h5")
    assert again == 0


@pytest.mark.thorough
def test_a_time_limit_counts_from_the_start_of_the_program(data, tmp_path, capsys):
    words = ["cluster", f"{data}/points.h5", "-k", "3", "-m", "csp", "--labels", f"{data}/few.txt"]
    words += ["--time", "1h", "--json", "-o", f"{tmp_path}/o.h5"]
    assert cli.run(words, began=time.perf_counter() - 7200) == 0
    told = json.loads(capsys.readouterr().out)
    assert any("time limit of 1 h" in warning for warning in told["warnings"])
    assert cli.run(words, began=time.perf_counter()) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == []


def test_what_is_no_duration_names_its_option(mustlink, tmp_path):
    code, _, err = mustlink(f"cluster points.h5 -k 3 --time soon -o {tmp_path}/o.h5")
    assert code == 2
    assert "--time: 'soon' is no duration; write it as 20s, 5min or 1h" in err


def test_a_limit_that_cannot_hold_is_told_before_anything_runs():
    def plan(graph, rest):
        stages = [PlannedStage("kNN graph", 0, graph), PlannedStage("rest", 0, rest)]
        return Plan(tuple(stages), (), None, 0)

    assert beyond(plan(4.0, 10.0), 20.0) == []
    (coarser,) = beyond(plan(45.0, 10.0), 20.0)
    assert coarser == "--time 20 s: the graph alone takes about 45 s; a coarser search is used"
    (longer,) = beyond(plan(5.0, 40.0), 20.0)
    assert "about 45 s would be needed" in longer


def test_the_plan_of_a_limit_that_cannot_hold_says_so(mustlink):
    code, said, _ = mustlink("plan 1000000x32 -k 10 --time 5s --json")
    assert code == 0
    assert any("the graph alone takes about" in one for one in json.loads(said)["changes"])


@pytest.mark.parametrize("command", ["cluster", "propagate", "graph"])
def test_a_job_of_a_batch_may_have_a_time(command):
    assert keys(cli.cli.commands[command])["time"].name == "time_limit"


def test_kinds_of_constraints_are_weighed(mustlink, tmp_path):
    out = tmp_path / "o.h5"
    line = f"cluster points.npy -k 3 --labels few.txt --constraints pairs.csv --json -o {out}"
    code, said, err = mustlink(f"{line} --beliefs must=2,labels=0.5 --quiet")
    assert code == 0, err
    assert "--beliefs must=2,labels=0.5" in json.loads(said)["command"]
    for bad, why in (
        (f"{line} --beliefs pairs=2", "'pairs=2' is no weight of a kind"),
        (f"{line} --beliefs must=-1", "'must=-1' is no weight of a kind"),
        (f"{line} --beliefs must=2,must=3", "must is given twice"),
        (f"cluster points.npy -k 3 --beliefs must=2 -o {out}", "--beliefs: weighs kinds"),
        (f"{line} --beliefs graph=2", "--beliefs graph: weighs a second graph"),
        (
            f"cluster points.npy -k 3 --constraints pairs.csv --beliefs labels=2 -o {out}",
            "--beliefs labels: there are no labels",
        ),
        (
            f"cluster points.npy -k 3 -m csc-gfhf --labels few.txt --beliefs must=2 -o {out}",
            "--beliefs: weighs kinds",
        ),
    ):
        code, _, err = mustlink(bad)
        assert code == 2
        assert why in err


@pytest.mark.parametrize(
    ("verb", "needed"), [("cluster", {"-k": 3}), ("propagate", {"--labels": "y.csv"})]
)
def test_flags_are_recorded_as_the_shell_takes_them(verb, needed):
    command = cli.cli.commands[verb]
    switches = [one for one in command.params if getattr(one, "secondary_opts", None)]
    assert switches
    for one in switches:
        for value in (True, False):
            line = command_line(verb, "a.h5", {flag(one.name): value, **needed, "-o": "b.h5"})
            parsed = command.make_context(verb, line.split()[2:])
            assert parsed.params[one.name] is value
