"""`mustlink propagate`: every method from files to a file, and one clear line when it cannot be."""

import json
import re

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

import mustlink as engine
from mustlink_io import formats
from mustlink_io.commands.fits import propagate
from mustlink_io.formats import matrices
from mustlink_io.hdf5 import schema, store, writing
from mustlink_io.jobs.methods import METHODS, PROPAGATORS, flag

N, K = 120, 3
TRUTH = np.repeat(np.arange(K), N // K)
KNOWN = [i for i in range(N) if i % 40 < 10]  # ten a class
PRESENT = [name for name, method in PROPAGATORS.items() if hasattr(engine, method.estimator)]
ON_POINTS = [name for name in PRESENT if "points" in PROPAGATORS[name].needs]
needs_csc = pytest.mark.skipif(not hasattr(engine, "CSCGFHF"), reason="not in the engine yet")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Three round groups of 40 points, a graph of them, and good and bad labels."""
    folder = tmp_path_factory.mktemp("data")
    points = np.random.default_rng(0).normal(size=(N, 4)) + 6 * np.eye(4)[TRUTH]
    few = np.full(N, -1)
    few[KNOWN] = TRUTH[KNOWN]
    writing.write(folder / "points.h5", {"/points": points.astype("f4"), "/labels": TRUTH})
    np.save(folder / "points.npy", points)
    graph = engine.knn_graph(points, 10, random_state=0).affinity
    writing.write(folder / "graph.h5", matrices.graph_content(graph))
    sp.save_npz(folder / "small.npz", graph[:50][:, :50])
    two = sp.block_diag([graph, graph[:40][:, :40]]).tocsr()  # its second part has no label
    sp.save_npz(folder / "two.npz", two)
    np.savetxt(folder / "two.txt", np.append(few, np.full(40, -1)), fmt="%d")
    np.savetxt(folder / "few.txt", few, fmt="%d")
    np.savetxt(folder / "gaps.txt", np.where(few < 0, -1, 10 * few + 7), fmt="%d")
    np.savetxt(folder / "all.txt", TRUTH, fmt="%d")
    np.savetxt(folder / "none.txt", np.full(N, -1), fmt="%d")
    np.savetxt(folder / "one.txt", np.where(few == 1, 1, -1), fmt="%d")
    np.savetxt(folder / "half.txt", np.where(few == 1, 0.5, few), fmt="%.1f")
    np.savetxt(folder / "low.txt", np.where(few == 1, -2, few), fmt="%d")
    (folder / "short.txt").write_text("0\n1\n-1\n")
    (folder / "table.csv").write_text("node,label\n0,0\n41,1\n80,2\n")
    (folder / "pairs.csv").write_text("i,j,belief\n0,1,1\n0,40,-1\n")
    words = np.array(["?", "cat", "dog"])[np.where(few < 0, 0, np.minimum(few, 1) + 1)]
    with h5py.File(folder / "words.h5", "w") as file:
        file.create_dataset("labels", data=words.astype(object), dtype=h5py.string_dtype())
    return folder


@pytest.fixture
def propagated(mustlink, tmp_path):
    """Run `mustlink propagate` to JSON: (result, entries of the file)."""

    def run(line):
        out = tmp_path / "out.h5"
        code, said, err = mustlink(f"propagate {line} --json --quiet -o {out}")
        assert code == 0, err
        assert err.splitlines() == [f"  warning: {one}" for one in json.loads(said)["warnings"]]
        assert said.count("\n") == 1
        with h5py.File(out) as file:
            names = ("labels", "label_distributions", "confidence", "classes")
            return json.loads(said), {name: file[name][()] for name in names}

    return run


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("method", PRESENT)
def test_every_method(propagated, method):
    result, found = propagated(f"points.h5 --labels few.txt -m {method}")
    assert (found["labels"] == TRUTH).mean() > 0.95
    assert result["parameters"]["method"] == method
    assert not [note for note in result["notes"] if "could not be recorded" in note]
    assert result["classes"] == found["classes"].tolist() == [0, 1, 2]
    assert result["sizes"] == np.bincount(found["labels"], minlength=K).tolist()
    P = found["label_distributions"]
    assert P.shape == (N, K)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert (P.argmax(axis=1) == found["labels"]).all()
    top = np.sort(P, axis=1)
    np.testing.assert_allclose(found["confidence"], top[:, -1] - top[:, -2])
    guessed = np.setdiff1d(np.arange(N), KNOWN)
    assert result["mean_confidence"] == pytest.approx(found["confidence"][guessed].mean())


OPTIONS = {
    "gfhf --class-mass": {"class_mass": True},
    "gfhf --class-shares 1,2,1": {"class_mass": [1, 2, 1]},
    "gfhf --class-shares equal": {"class_mass": [1 / 3] * 3},
    "gfhf --class-shares smoothed": {"class_mass": "smoothed"},
    "poisson --class-shares 1,2,1": {"class_mass": [1, 2, 1]},
    "llgc --alpha 0.5": {"alpha": 0.5},
    "tik-reg --gamma 0.1": {"gamma": 0.1},
    "ncut --alpha 3": {"alpha": 3},
    "green --normalized": {"normalized": True},
    "lelp --orthogonal --alpha 2": {"orthogonal": True, "alpha": 2},
    "gwem --steps 3 --variant em --em-steps 9": {"n_steps": 3, "variant": "em", "em_steps": 9},
    "cluster-kernel --components 5 --rows plain": {"n_components": 5, "rows": "plain"},
    "lnp --alpha 0.9 --variant minimizer": {"alpha": 0.9, "variant": "minimizer"},
    "llelp --orthogonal --reg 0.01": {"orthogonal": True, "reg": 0.01},
    "ltsalp --orthogonal --components 2": {"orthogonal": True, "n_components": 2},
    "poisson --center degrees": {"center": "degrees"},
    "poisson --solver cg --tol 1e-4 --max-iter 50": {"solver": "cg", "tol": 1e-4, "max_iter": 50},
    "poisson --neighbors 7 --metric cosine --seed 5": {
        "n_neighbors": 7,
        "metric": "cosine",
        "random_state": 5,
    },
}


@pytest.mark.thorough(but=4)
@pytest.mark.parametrize("line", [line for line in OPTIONS if line.split()[0] in PRESENT])
def test_options_reach_the_estimator(propagated, line):
    result, found = propagated(f"points.npy --labels few.txt -m {line}")
    assert result["parameters"].items() >= OPTIONS[line].items()
    assert (found["labels"][KNOWN] == TRUTH[KNOWN]).all()


@pytest.mark.thorough
def test_default_is_auto_and_the_engine_agrees(propagated, data):
    result, found = propagated("points.npy --labels few.txt --threads 1")
    assert result["method"] == "GFHF"
    assert "auto" in result["choices"]
    few = formats.load_classes(str(data / "few.txt")).codes
    X = np.load(data / "points.npy").astype("f4")
    expected = engine.Auto(answers="classes", random_state=0).fit(X, few)
    np.testing.assert_allclose(found["label_distributions"], expected.label_distributions_)
    again = propagated("points.npy --labels few.txt --threads 2")[1]
    assert (found["labels"] == again["labels"]).all()


@pytest.mark.thorough
def test_keys_for_machines(propagated):
    result, _ = propagated("points.h5 --labels few.txt --memory 40GB")
    assert {
        "method",
        "n_nodes",
        "n_labels",
        "labels_kept",
        "classes",
        "sizes",
        "unanswered",
        "mean_confidence",
        "choices",
        "convergence",
        "parameters",
        "versions",
        "inputs",
        "stages",
        "seconds",
        "peak_bytes",
        "notes",
        "output",
    } <= set(result)
    assert [item["role"] for item in result["inputs"]] == ["data", "labels"]
    assert sum(result["sizes"]) + result["unanswered"] == result["n_nodes"] == N
    assert (result["n_labels"], result["labels_kept"]) == (len(KNOWN), 1)


@pytest.mark.thorough
def test_the_summary_for_people(mustlink, tmp_path):
    code, said, err = mustlink(f"propagate points.h5 -m gfhf --labels gaps.txt -o {tmp_path}/o.h5")
    assert code == 0, err
    assert re.search(r"labels kept +100\.0% of the 30 given", said)
    assert re.search(r"class sizes +7: 40, 17: 40, 27: 40", said)
    for words in ("time, peak memory", "reading", "propagating"):
        assert words in said
    assert "unanswered" not in said
    assert "mean confidence" not in said  # it was compared with nothing


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("method", [name for name in PRESENT if name not in ON_POINTS])
def test_a_part_without_labels_is_not_guessed(propagated, method):
    result, found = propagated(f"two.npz --labels two.txt -m {method}")
    assert result["unanswered"] == 40
    assert (found["labels"][N:] == -1).all()
    assert (found["labels"][:N] == TRUTH).mean() > 0.95
    assert not found["label_distributions"][N:].any()
    assert not found["confidence"][N:].any()
    assert any("not reached by any label" in one for one in result["warnings"])


def test_unanswered_nodes_are_told_to_people(mustlink, tmp_path):
    code, said, err = mustlink(f"propagate two.npz --labels two.txt -o {tmp_path}/o.h5")
    assert code == 0
    assert re.search(r"unanswered +40 nodes \(label -1\)", said)
    assert "warning: 40 nodes are not reached by any label" in err


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("labels", ["points.h5:/labels", "table.csv", "gaps.txt", "all.txt"])
def test_labels_of_every_kind(propagated, labels):
    _, found = propagated(f"points.npy --labels {labels}")
    assert (np.unique(found["labels"], return_inverse=True)[1] == TRUTH).all()


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["gfhf", *ON_POINTS])
def test_a_graph_made_before(propagated, data, method):
    result, found = propagated(f"points.npy --graph graph.h5 --labels few.txt -m {method}")
    assert [item["role"] for item in result["inputs"]] == ["data", "labels", "graph"]
    assert "kNN graph" not in [stage["name"] for stage in result["stages"]]
    assert (found["labels"] == TRUTH).mean() > 0.95
    if method == "gfhf":
        words = "--graph graph.h5 --labels few.txt -m gfhf --class-shares equal"
        _, found = propagated(f"points.npy {words}")
        _, alone = propagated("graph.h5 --labels few.txt -m gfhf")  # nobody knows of the points
        assert (found["label_distributions"] == alone["label_distributions"]).all()


@pytest.mark.thorough
def test_the_file_as_the_format_says(mustlink, tmp_path):
    out = tmp_path / "out.h5"
    mustlink(f"propagate points.h5 --labels few.txt -o {out} --quiet")
    with store.open_h5(out) as file:
        parts = (*schema.PARTS["labels"][1], *schema.PARTS["classes"][1], *schema.PARTS["run"][1])
        dims = {}
        for item in parts:
            place, _, attribute = item.path.partition("@")
            if attribute:
                assert attribute in file[place].attrs
            else:
                schema.bind(item, file[place].shape, dims, item.path)
        assert dims | {"s": 0} == {"n": N, "K": K, "s": 0}
        report = json.loads(store.text(file["report"][()]))
    assert report["labels_kept"] == 1
    assert not {"classes", "parameters", "stages"} & set(report)


@pytest.mark.thorough
def test_info_and_score_of_a_result(mustlink, tmp_path):
    out = tmp_path / "out.h5"
    mustlink(f"propagate points.h5 --labels few.txt -m gfhf -o {out} --quiet")
    code, said, err = mustlink(f"info {out}")
    assert code == 0, err
    for words in ("/label_distributions", "0 is a tie", "method=gfhf", "input labels"):
        assert words in said
    assert "100.0% of the 30 given" in said
    code, said, err = mustlink(f"score {out} --truth points.h5 --json")
    assert code == 0, err
    truth = json.loads(said)["truth"]
    assert (truth["ari"], truth["accuracy"], truth["right"]) == (1, 1, 1)
    assert re.search(r"right class +1.0000", mustlink(f"score {out} --truth points.h5")[1])


@pytest.mark.thorough
def test_scores_of_exchanged_classes(mustlink, tmp_path):
    """Two classes exchanged are a perfect clustering, but wrong answers."""
    out, truth = tmp_path / "out.h5", tmp_path / "truth.txt"
    mustlink(f"propagate points.h5 --labels few.txt -o {out} --quiet")
    np.savetxt(truth, np.array([1, 0, 2])[TRUTH], fmt="%d")
    found = json.loads(mustlink(f"score {out} --truth {truth} --json")[1])
    assert found["truth"]["accuracy"] == 1
    assert found["truth"]["right"] == pytest.approx(1 / 3)
    mustlink(f"cluster points.h5 -k 3 -o {out} --quiet")
    assert "right" not in json.loads(mustlink(f"score {out} --truth {truth} --json")[1])["truth"]


def test_scores_of_large_class_numbers(mustlink, tmp_path):
    (tmp_path / "labels.txt").write_text("1000000000000\n1000000000000\n5\n-1\n")
    code, said, err = mustlink(f"score {tmp_path}/labels.txt --json")
    assert code == 0, err
    result = json.loads(said)
    assert (result["names"], result["sizes"]) == ([5, 10**12], [1, 2])
    assert "5: 1, 1000000000000: 2" in mustlink(f"score {tmp_path}/labels.txt")[1]


BAD = {
    "no labels": ("points.h5", "Missing option '--labels'"),
    "no file": ("nope.h5 --labels few.txt", "nope.h5: no such file"),
    "no label file": ("points.h5 --labels no.txt", "no.txt: no such file"),
    "no graph file": ("points.h5 --labels few.txt --graph no.h5", "no.h5: no such file"),
    "no such dataset": ("points.h5 --labels points.h5:known", "points.h5:known: no such dataset"),
    "nothing known": (
        "points.h5 --labels none.txt",
        "none.txt: all 120 labels are -1; give some nodes their class",
    ),
    "one class": ("points.h5 --labels one.txt", "one.txt: labels of 1 class only"),
    "short": ("points.h5 --labels short.txt", "3 labels, but the data has 120 nodes"),
    "fractions": ("points.h5 --labels half.txt", "half.txt: label 40 is 0.5, not a whole number"),
    "below -1": ("points.h5 --labels low.txt", "label 40 is -2; -1 is unknown"),
    "words in h5": ("points.h5 --labels words.h5", r"words.h5:/labels: labels are text \('cat'\)"),
    "points as labels": ("points.h5 --labels points.h5:points", "is wanted"),
    "option of another": (
        "points.h5 --labels few.txt -m tik-reg --alpha 0.5",
        "--alpha: no option of -m tik-reg; it belongs to llgc, ncut",
    ),
    "class mass of poisson": (
        "points.h5 --labels few.txt --class-mass",
        "--class-mass: no option of -m poisson; it belongs to gfhf",
    ),
    "solver of none": (
        "points.h5 --labels few.txt -m cluster-kernel --solver cg",
        "--solver: no option of -m cluster-kernel",
    ),
    "unknown option": ("points.h5 --labels few.txt --beta 1", "No such option"),
    "unknown method": ("points.h5 --labels few.txt -m csp", "'csp' is not one of"),
    "alpha too large": ("points.h5 --labels few.txt -m llgc --alpha 1", "alpha: 1.0 given"),
    "unknown variant": ("points.h5 --labels few.txt -m gwem --variant x", "'x' is not one of 'em'"),
    "no steps": ("points.h5 --labels few.txt -m gwem --steps 0", "--steps"),
    "shares are words": (
        "points.h5 --labels few.txt -m gfhf --class-shares a,b,c",
        "'a,b,c' is neither equal, smoothed nor a list of shares",
    ),
    "two shares": (
        "points.h5 --labels gaps.txt --class-shares 1,2",
        r"--class-shares: 2 given for 3 classes \(7, 17, 27\)",
    ),
    "points needed": (
        "graph.h5 --labels few.txt -m lnp",
        "-m lnp: fits neighbourhoods of points, but graph.h5:/graph is a graph; give the points",
    ),
    "two graphs": (
        "graph.h5 --labels few.txt --graph graph.h5",
        "graph.h5:/graph: is a graph already; leave out --graph graph.h5",
    ),
    "graph of others": (
        "points.h5 --labels few.txt --graph small.npz",
        "small.npz: 50 nodes, but the data has 120 points",
    ),
    "points as graph": (
        "points.h5 --labels few.txt --graph points.npy",
        r"points.npy: shape \(120, 4\), but an affinity matrix is square",
    ),
    "graph and neighbours": (
        "points.h5 --labels few.txt --graph graph.h5 --neighbors 5",
        "--neighbors: --graph says who neighbours are",
    ),
    "neighbours of a graph": (
        "graph.h5 --labels few.txt --neighbors 5",
        "graph.h5:/graph: is a graph; leave out --neighbors 5",
    ),
    "graph as points": (
        "graph.h5 --labels few.txt --affinity knn",
        "is a graph; leave out --affinity knn",
    ),
    "memory too small": ("points.h5 --labels few.txt --memory 1MB", "at least"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_code_2(mustlink, tmp_path, data, case):
    line, words = BAD[case]
    before = {path: path.read_bytes() for path in data.iterdir()}
    code, said, err = mustlink(f"propagate {line} -o {tmp_path}/out.h5")
    errors = [text for text in err.splitlines() if not text.startswith("  ")]  # progress, notes
    assert code == 2
    assert said == ""
    assert len(errors) == 1, err
    assert errors[0].startswith("mustlink: ")
    assert re.search(words, errors[0]), errors[0]
    assert list(tmp_path.iterdir()) == []
    assert {path: path.read_bytes() for path in data.iterdir()} == before


@pytest.mark.parametrize("output", ["points.h5", "few.txt", "./graph.h5"])
def test_an_input_is_never_overwritten(mustlink, data, output):
    before = (data / output).read_bytes()
    line = f"propagate points.h5 --labels few.txt --graph graph.h5 -o {output}"
    code, _, err = mustlink(line)
    assert code == 2
    assert "is the input itself" in err
    assert (data / output).read_bytes() == before


@pytest.mark.thorough
def test_an_older_output_is_replaced_whole_or_kept(mustlink, tmp_path, monkeypatch):
    out = tmp_path / "out.h5"
    out.write_bytes(b"\x89HDF precious")
    code, _, _ = mustlink(f"propagate points.h5 --labels none.txt -o {out}")
    assert (code, out.read_bytes()) == (2, b"\x89HDF precious")

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(engine.Auto, "fit", stop)
        code, said, _ = mustlink(f"propagate points.h5 --labels few.txt -o {out}")
    assert (code, said, out.read_bytes()) == (130, "", b"\x89HDF precious")
    code, _, err = mustlink(f"propagate points.h5 --labels few.txt -o {out}")
    assert code == 0, err
    assert (formats.load_classes(str(out)).codes == TRUTH).all()
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("name", PRESENT)
def test_every_option_is_a_parameter_of_its_estimator(name):
    method = PROPAGATORS[name]
    estimator = getattr(engine, method.estimator)
    parameters = set(estimator().get_params())
    renamed = {"class_shares"}
    taken = method.options
    known = {word for option in propagate.params for word in option.opts}
    assert {flag(option) for option in taken} <= known
    assert taken - renamed <= parameters
    apart = {"n_jobs", "memory", "time_limit", "answers"}  # limits
    apart |= {"classifier", "preprocessing"}  # objects
    unused = {"solver", "tol", "max_iter"} if name == "cluster-kernel" else set()
    apart |= set() if method.spreads else {"n_clusters"}
    masses = method.spreads and estimator()._are_masses
    signed = set() if masses else {"class_mass"}
    assert parameters - taken - apart - unused - signed == set()
    assert ("class_mass" in method.options) == masses


@pytest.mark.thorough
@needs_csc
def test_clusters_from_propagated_labels(mustlink, tmp_path):
    out = tmp_path / "out.h5"
    line = f"cluster points.h5 -k 3 -m csc-gfhf --labels few.txt --json --quiet -o {out}"
    code, said, err = mustlink(line)
    assert code == 0, err
    assert json.loads(said)["sizes"] == [40, 40, 40]
    found = json.loads(mustlink(f"score {out} --truth points.h5 --json")[1])
    assert found["truth"]["ari"] == 1
    more = "--sigma 2 --assign kmeans --class-shares equal --solver dense --max-rank 50"
    code, said, err = mustlink(f"{line} {more} --kernel-tol 1e-6")
    assert code == 0, err
    expected = {"sigma": 2, "assign": "kmeans", "class_mass": [1 / 3] * 3, "max_rank": 50}
    assert json.loads(said)["parameters"].items() >= expected.items()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--constraints pairs.csv", "-m csc-gfhf: takes --labels only; leave out --constraints"),
        ("--labels few.txt --constraints pairs.csv", "takes --labels only"),
        ("", "-m csc-gfhf: needs labels of some nodes; give --labels"),
        ("--labels one.txt", "one.txt: labels of 1 class only"),
        ("--labels few.txt --beta 0.5", "--beta: no option of -m csc-gfhf"),
    ],
)
def test_csc_gfhf_takes_labels_only(mustlink, tmp_path, line, words):
    assert METHODS["csc-gfhf"].takes == {"labels"}
    code, _, err = mustlink(f"cluster points.h5 -k 3 -m csc-gfhf {line} --quiet -o {tmp_path}/o.h5")
    assert code == 2
    assert err.startswith("mustlink: ")
    assert words in err
    assert list(tmp_path.iterdir()) == []


def test_a_node_with_two_labels(mustlink, tmp_path):
    (tmp_path / "few.csv").write_text("node,label\n0,1\n3,0\n0,2\n")
    np.save(tmp_path / "points.npy", np.random.default_rng(0).standard_normal((20, 2)))
    code, _, err = mustlink(
        f"propagate {tmp_path}/points.npy --labels {tmp_path}/few.csv -o {tmp_path}/o.h5"
    )
    assert code == 2
    assert "node 0 is labelled 1 and 2" in err


@pytest.mark.thorough
def test_without_a_method_the_data_decide(propagated):
    result, _ = propagated("points.npy --labels few.txt")
    assert " -m auto " in result["command"]
    result, found = propagated("graph.h5 --labels few.txt")
    assert " -m auto " in result["command"]
    assert (found["labels"] == TRUTH).mean() > 0.95
    result, _ = propagated("graph.h5 --labels few.txt -m llgc --alpha 0.9 --no-refine")
    assert result["choices"]["alpha"] == 0.9
