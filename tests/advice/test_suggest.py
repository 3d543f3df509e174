"""Suggestions: what is named can be fitted, and has reasons; doubts fire rightly."""

import json
import shlex
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mustlink as ml
from cases import blobs, labelled
from mustlink.advice.observations import (
    MOST,
    Coordinates,
    Count,
    DataProfile,
    GraphProfile,
    Known,
    data_warnings,
    is_pixels,
    sampled_rows,
    take,
)
from mustlink.errors import InputError
from mustlink.preprocessing.request import Preparation
from mustlink_io.commands import cli
from mustlink_io.hdf5 import writing
from mustlink_io.jobs.suggest import job_of, method_of

pytestmark = pytest.mark.usefixtures("few_runs", "few_trees")

N, K = 160, 4


@pytest.fixture
def few_trees(monkeypatch):
    """The comparison with other answers has tests of its own; its trees take most of the time."""
    monkeypatch.setattr("mustlink.advice.baseline._TREES", 5)


@pytest.fixture(scope="module")
def points():
    """Points of four round groups, and the groups."""
    return blobs(np.random.default_rng(0), N, K, d=5, separation=9.0)


@pytest.fixture(scope="module")
def picture():
    """The graph of a picture of two halves."""
    image = np.zeros((21, 30))
    image[:, 15:] = 1.0
    return ml.image_graph(image + 0.05 * np.random.default_rng(0).random(image.shape), n_similar=0)


def pairs_of(y, m, seed=0):
    """Random right pairs."""
    i, j = np.random.default_rng(seed).integers(y.size, size=(2, 4 * m))
    apart = np.flatnonzero(i != j)[:m]
    i, j = i[apart], j[apart]
    belief = np.where(y[i] == y[j], 1.0, -1.0)
    return ml.Constraints.from_pairs(np.column_stack([i, j]), belief, n_nodes=y.size)


def contradictory(y):
    """Right pairs, and a cannot-link between two nodes of a chain of must-links."""
    a, b, c = np.flatnonzero(y == 0)[:3]
    wrong = ml.Constraints.from_pairs([[a, b], [b, c], [a, c]], [1, 1, -1], n_nodes=y.size)
    return pairs_of(y, 40) + wrong


def shuffled(y):
    """Labels of a dozen nodes a class that have nothing to do with the points."""
    known = labelled(y, 12)
    at = np.flatnonzero(known >= 0)
    known[at] = np.random.default_rng(1).permutation(known[at])
    return known


def situations(X, y, picture):
    """What is given, and the method for such."""
    network = sp.csr_matrix(
        np.random.default_rng(0).random((N, N)) < 0.03 + 0.1 * (y[:, None] == y)
    )
    network = network.maximum(network.T).astype(float)
    strokes = np.full(picture.n_nodes, -1)
    strokes[[0, 1, 30, 31]], strokes[[28, 29, 58]] = 0, 1
    second = ml.Constraints.from_graph(ml.knn_graph(X, 5).affinity)
    return {
        "nothing": (X, {"n_clusters": K}, "NCut"),
        "strokes on a picture": (picture, {"y": strokes}, "GFHF"),
        "labels": (X, {"y": labelled(y, 3)}, "Auto"),
        "labels on a network": (network, {"y": labelled(y, 3)}, "Auto"),
        "pairs": (X, {"constraints": pairs_of(y, N // 5), "n_clusters": K}, "Auto"),
        "labels and pairs": (
            X,
            {"y": labelled(y, 3), "constraints": pairs_of(y, 9), "n_clusters": K},
            "Auto",
        ),
        "a second graph": (X, {"constraints": second, "n_clusters": K}, "CSP"),
    }


NAMES = [
    "nothing", "strokes on a picture", "labels", "labels on a network", "pairs",
    "labels and pairs", "a second graph",
]  # fmt: skip


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_named_can_be_fitted_and_has_reasons(name, points, picture):
    data, known, method = situations(*points, picture)[name]
    told = ml.suggest(data, **known)
    assert told.method == method
    assert str(told.seen.known.nodes or told.seen.known.labelled or N) in told.reasons[0]
    assert all(line and "{" not in line for line in told.reasons + told.warnings)
    assert told.alternatives
    assert all(method_of(method) and when for method, when in told.alternatives)
    est = told.estimator()
    assert type(est).__name__ == told.method
    for parameter, value in told.parameters.items():
        assert est.get_params()[parameter] == value
    if method_of(told.method)[0] == "propagate":
        est.fit(data, known["y"])
    else:
        sides = {key: value for key, value in known.items() if key in ("y", "constraints")}
        est.fit(data, **sides)
    assert est.labels_.size == (picture.n_nodes if data is picture else N)
    assert told.estimator() is not est


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", NAMES)
def test_the_command_is_one_that_the_shell_takes(name, points, picture):
    data, known, _ = situations(*points, picture)[name]
    told = ml.suggest(data, memory=2 * 10**9, **known)
    labels = "few.csv" if "y" in known else None
    pairs = "my pairs.csv" if "constraints" in known else None
    line = job_of(told, "in put.h5:/points", pairs, labels=labels).command
    words = shlex.split(line)
    assert words[:2] == ["mustlink", method_of(told.method)[0]]
    command = cli.cli.commands[words[1]]
    parsed = command.make_context(words[1], words[2:])
    assert parsed.params["data"] == "in put.h5:/points"
    assert parsed.params["memory"] == 2 * 10**9
    for parameter, value in told.parameters.items():
        if parameter != "affinity":
            assert parsed.params[parameter] == value
    if told.method != "NCut":
        assert parsed.params.get("labels") == labels
        assert parsed.params.get("constraints") == pairs


@pytest.mark.thorough
@given(seed=st.integers(0, 2**31), each=st.integers(1, 5))
@settings(max_examples=20)
def test_the_same_seed_gives_the_same_suggestion(seed, each):
    X, y = blobs(np.random.default_rng(seed), 60, 3, d=3)
    known = labelled(y, min(each, np.bincount(y, minlength=3).min()))
    if np.unique(known[known >= 0]).size < 2:
        return
    one = ml.suggest(X, known, random_state=seed)
    assert one == ml.suggest(X, known, random_state=seed)
    assert one.to_dict() == json.loads(json.dumps(one.to_dict()))


def test_suggestions_do_not_change(points):
    told = ml.suggest(points[0])
    with pytest.raises(TypeError):
        told.parameters["n_clusters"] = 3
    with pytest.raises(AttributeError):
        told.method = "CSP"


# ---------------------------------------------------------------- number of clusters


def test_the_number_of_clusters_is_that_of_the_gap(points):
    told = ml.suggest(points[0])
    assert told.seen.count.k == K
    assert told.seen.count.source == "gap"
    assert told.parameters == {"n_clusters": K}
    assert not any("number of clusters" in doubt for doubt in told.warnings)
    assert any(f"behind number {K}" in reason for reason in told.reasons)


def test_no_gap_is_told():
    cloud = np.random.default_rng(0).normal(size=(300, 3))
    assert any("no clear number" in doubt for doubt in ml.suggest(cloud).warnings)


@pytest.mark.thorough
def test_labels_name_the_number_of_clusters(points):
    X, y = points
    told = ml.suggest(X, labelled(y, 12))
    assert told.seen.count == Count(K, "labels")
    told = ml.suggest(X, labelled(y, 12), n_clusters=6)
    assert (told.parameters["n_clusters"], told.method) == (6, "Auto")
    assert any("labels are of 4 classes, but 6 clusters" in doubt for doubt in told.warnings)
    told = ml.suggest(X, labelled(y, 12), n_clusters=2)
    assert len([one for one in told.warnings if "4 classes" in one]) == 1  # and says it once


# ---------------------------------------------------------------- metric, pictures, samples


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("unknown", ["", "-1", None, float("nan")])
def test_classes_have_names_as_in_fit(unknown, points):
    X, y = points
    numbers = labelled(y, 3)
    names = np.array(["fen", "heath", "moor", "wood"], dtype=object)[numbers]
    names[numbers < 0] = unknown
    told, named = (ml.suggest(X, known) for known in (numbers, names))
    assert named.to_dict() == told.to_dict()
    assert set(named.estimator().fit(X, names).classes_) == set(names[numbers >= 0])


def test_a_mixture_of_names_and_numbers_is_one_line(points):
    X, y = points
    with pytest.raises(InputError, match="y: labels are a mixture of text and numbers") as told:
        ml.suggest(X, np.where(y == 0, "fen", y.astype(object)))
    assert "\n" not in str(told.value)


def test_words_are_compared_by_angles():
    rng = np.random.default_rng(0)
    topic = np.repeat(np.arange(3), 50)
    mean = np.full((3, 300), 0.01)
    for c in range(3):
        mean[c, 60 * c : 60 * (c + 1)] = 0.3
    X = rng.poisson(mean[topic] * rng.uniform(0.5, 2, size=150)[:, None])
    X[:, -1] = 1  # no document is empty
    told = ml.suggest(X, n_clusters=3)
    assert told.parameters["metric"] == "cosine"
    assert any("% of the values are 0" in reason for reason in told.reasons)
    assert "--metric cosine" in job_of(told, "words.h5").command
    X[3] = 0
    assert "metric" not in ml.suggest(X, n_clusters=3).parameters  # no direction: cosine fails


@pytest.mark.thorough
def test_angles_are_taken_where_labels_agree_with_them():
    rng = np.random.default_rng(0)
    y = np.arange(160) % 4
    axes = 1 + np.eye(4)[y] + 0.15 * rng.normal(size=(160, 4))
    X = axes * rng.lognormal(0, 1, size=(160, 1))
    told = ml.suggest(X, np.where(rng.random(160) < 0.7, y, -1))
    assert told.parameters["metric"] == "cosine"
    assert "metric" not in ml.suggest(axes, labelled(y, 20)).parameters


def test_pictures_are_known_by_their_steps_and_neighbours_by_their_degrees(picture, points):
    assert is_pixels(ml.Graph.from_affinity(picture.affinity))
    neighbours = ml.knn_graph(points[0])
    assert not is_pixels(neighbours)
    assert ml.suggest(neighbours, n_clusters=K).seen.kind == "graph"
    assert ml.suggest(neighbours.affinity, n_clusters=K).seen.kind == "graph"
    order = np.random.default_rng(0).permutation(picture.n_nodes)
    assert not is_pixels(ml.Graph.from_affinity(picture.affinity[order][:, order]))
    ring = sp.diags([1.0, 1.0], [1, -1], shape=(500, 500))
    assert not is_pixels(ml.Graph.from_affinity(ring))


class Rows:
    """Rows in a file that can be read by blocks only."""

    chunks = None

    def __init__(self, X):
        self.X, self.shape = X, X.shape

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        return self.X[rows]


@pytest.mark.thorough
def test_rows_of_a_file_are_sampled():
    X, y = blobs(np.random.default_rng(0), 9000, 3, d=2, separation=20.0)
    X = X.astype(np.float32)
    rows = sampled_rows(Rows(X), np.random.default_rng(0))
    assert np.all(np.diff(rows) > 0)
    assert rows.size <= MOST
    np.testing.assert_array_equal(take(Rows(X), rows), X[rows])
    told = ml.suggest(Rows(X), labelled(y, 12))
    assert told.seen.sampled == rows.size
    assert told.seen.known.agreement == ml.suggest(X, labelled(y, 12)).seen.known.agreement
    assert told.seen.known.agreement > 0.9


def test_a_graph_of_the_points_is_used(points):
    X, y = points
    graph = ml.knn_graph(X, 6, random_state=0)
    told = ml.suggest(X, labelled(y, 3), graph=graph)
    assert told.seen.links.edges == graph.n_edges
    with pytest.raises(InputError, match="60 nodes for 160 points"):
        ml.suggest(X, graph=ml.knn_graph(X[:60]))
    with pytest.raises(InputError, match="X is a graph itself"):
        ml.suggest(graph, graph=graph)


# ---------------------------------------------------------------- doubts


def clean_seen(**changed):
    """What is seen in flawless data, and something changed."""
    parts = {
        "kind": "points",
        "n": 1000,
        "d": 10,
        "sampled": 1000,
        "metric": "euclidean",
        "metric_reason": "",
        "coordinates": Coordinates(0.0, False, True, 0, 0.2, 1.5, 0, 0.0),
        "links": GraphProfile(1000, 9000, 1, 0.0, 0, 18.0, 40),
        "known": Known(),
        "count": Count(5, "given"),
    }
    return DataProfile(**{**parts, **changed})


def test_no_doubt_about_clean_data(points, picture):
    X, y = points
    assert data_warnings(clean_seen()) == ()
    assert ml.suggest(X, labelled(y, 3)).warnings == ()
    assert ml.suggest(X, constraints=pairs_of(y, N // 5), n_clusters=K).warnings == ()
    assert ml.suggest(picture, n_clusters=2).warnings == ()


def test_doubts_about_points(points):
    X = points[0]
    wild = X.copy()
    wild[:, 2] *= 1000
    twice = np.vstack([X, X[:40]])
    for data, words in (
        (twice, "equal another one"),
        (X[:30], "only 30 nodes"),
        (np.tile(X, (1, 300)), "1,500 columns"),
    ):
        assert any(words in doubt for doubt in ml.suggest(data, n_clusters=K).warnings), words
    mended = ml.suggest(wild, n_clusters=K)
    assert any("column 2 makes up" in reason for reason in mended.reasons)
    as_they_are = replace(mended.seen, preparation=Preparation())
    assert any("column 2 makes up" in doubt for doubt in data_warnings(as_they_are))
    assert not any("column 2 makes up" in doubt for doubt in mended.warnings)
    assert any(
        "all 10 columns are constant" in d
        for d in data_warnings(
            clean_seen(coordinates=Coordinates(0.0, False, True, 0, 0.0, 1.0, 10, 0.0))
        )
    )


def test_doubts_about_graphs(points):
    A = ml.knn_graph(points[0], 8, connect=False).affinity
    lone = sp.block_diag([A, sp.csr_matrix((5, 5))]).tocsr()
    told = ml.suggest(lone, n_clusters=2)
    assert any("falls into 4 components" in doubt for doubt in told.warnings)
    assert any("one of them is a heap of components" in doubt for doubt in told.warnings)
    assert any(doubt.startswith("5 nodes have no edge") for doubt in told.warnings)
    small = sp.block_diag([A, *[np.ones((2, 2)) - np.eye(2)] * 8]).tocsr()
    assert told.parameters["affinity"] == "precomputed"
    hub = sp.lil_matrix(lone)
    hub[0, 1:160] = hub[1:160, 0] = 1.0
    assert any("159 neighbours" in d for d in ml.suggest(hub.tocsr(), n_clusters=2).warnings)
    links = GraphProfile(1000, 900, 1, 0.1, 0, 18.0, 40)
    assert any("10%" in d for d in data_warnings(clean_seen(links=links)))
    assert ml.suggest(small, n_clusters=2).seen.links.parts == 4 + 8  # 2 of 176 are 1 %


def test_doubts_about_side_information(points):
    X, y = points
    one_class = np.where(np.arange(N) < 5, 0, -1)
    rng = np.random.default_rng(3)
    crowd = rng.choice(N, 8, replace=False)
    i, j = np.array([(a, b) for a in crowd for b in crowd if a < b]).T
    belief = np.where(y[i] == y[j], 1.0, -1.0)
    crowded = ml.Constraints.from_pairs(np.column_stack([i, j]), belief, n_nodes=N)
    noise = pairs_of(rng.permutation(y), 300)
    for known, words in (
        ({"constraints": contradictory(y)}, "1 contradiction in the side information"),
        ({"y": one_class}, "of one class"),
        ({"y": labelled(y, [1, 2, 2, 6])}, "a class has 6 labels, another 1"),
        ({"y": shuffled(y)}, "the nearest labelled node is of the same class"),
        ({"constraints": crowded}, "28 pairs are about 8 nodes only"),
        ({"constraints": noise}, "half is chance"),
    ):
        told = ml.suggest(X, n_clusters=K, **known)
        assert any(words in doubt for doubt in told.warnings), (words, told.warnings)
    must = ml.Constraints.from_pairs([[0, 1], [2, 3]], 1.0, n_nodes=N)
    assert any("all 2 pairs are must-links" in d for d in ml.suggest(X, constraints=must).warnings)


def test_memory_is_compared_with_what_is_needed(points):
    X, y = points
    little = ml.suggest(X, labelled(y, 3), memory="50MB")
    assert little.warnings[0].startswith("memory: 50 MB given")
    assert little.parameters["memory"] == "50MB"
    much = ml.suggest(X, labelled(y, 3), memory="4GB")
    assert much.warnings == ()
    assert 10**8 < much.peak_bytes < 10**9


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"X": np.full((5, 2), np.nan)}, "NaN in every cell"),
        ({"X": np.full((5, 2), np.inf)}, "infinite values in 5 rows"),
        ({"X": np.zeros((0, 2))}, "0, 2"),
        ({"X": np.zeros((1, 2))}, "one point"),
        ({"X": sp.random(5, 9, 0.5, random_state=0)}, "TruncatedSVD"),
        ({"X": np.eye(9), "y": [0, 1]}, "2 labels for 9 nodes"),
        ({"X": np.eye(9), "y": ml.Constraints.none(9)}, "pass them as constraints"),
        ({"X": np.eye(9), "constraints": [[0, 1]]}, "list given"),
        ({"X": np.eye(9), "constraints": ml.Constraints.none(5)}, "made for 5 nodes"),
        ({"X": np.eye(9), "n_clusters": 1}, "at least 2"),
        ({"X": np.eye(9), "n_clusters": 10}, "10 clusters asked of 9 nodes"),
        ({"X": np.eye(9), "memory": "much"}, "not a size"),
        ({"X": -sp.eye(9, format="csr")}, "negative"),
    ],
)
def test_bad_input_is_one_line(arguments, words):
    with pytest.raises(InputError, match=words) as caught:
        ml.suggest(**arguments)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- command line


@pytest.fixture(scope="module")
def data(tmp_path_factory, points):
    folder = tmp_path_factory.mktemp("suggest")
    X, y = points
    writing.write(folder / "points.h5", {"/points": X.astype("f4"), "/labels": y})
    np.savetxt(folder / "few.txt", labelled(y, 3), fmt="%d")
    np.savetxt(folder / "short.txt", [0, 1], fmt="%d")
    known = pairs_of(y, 40)
    rows = [f"{i},{j},{b:g}" for (i, j), b in zip(known.pairs, known.belief, strict=True)]
    (folder / "pairs.csv").write_text("i,j,belief\n" + "\n".join(rows) + "\n")
    sp.save_npz(folder / "graph.npz", ml.knn_graph(X).affinity)
    return folder


@pytest.mark.thorough
def test_the_command_tells_and_is_followed(mustlink):
    code, out, err = mustlink("suggest points.h5 --labels few.txt")
    assert code == 0
    assert "160 points of 5 columns" in out
    assert "12 labels of 4 classes, 3 each" in out
    line = out.strip().splitlines()[-1]
    assert line.startswith("mustlink cluster points.h5 -k 4 -m auto ")
    assert "gfhf: no trials" in out.lower()
    assert mustlink(line.removeprefix("mustlink ") + " --quiet")[0] == 0
    assert "Traceback" not in err


@pytest.mark.thorough
def test_json_holds_what_python_tells(mustlink, points):
    code, out, _ = mustlink("suggest points.h5 -k 4 --constraints pairs.csv --memory 2GB --json")
    told = json.loads(out)
    assert code == 0
    assert told["method"] == "Auto"
    assert told["alternatives"][0]["method"] == "SRCP"
    assert told["parameters"] == {"n_clusters": 4, "memory": 2 * 10**9}
    assert told["seen"]["known"]["must"] + told["seen"]["known"]["cannot"] == 39  # one twice
    assert told["seconds"] > 0
    assert told["command"].endswith("--constraints pairs.csv --memory 2GB -o out.h5")
    code, out, err = mustlink("suggest graph.npz --json --quiet")
    told = json.loads(out)
    assert (code, err) == (0, "")
    assert told["seen"]["kind"] == "graph"
    assert told["command"] == "mustlink cluster graph.npz -k 4 -m ncut -o out.h5"


def test_too_little_memory_is_a_doubt(mustlink):
    code, out, _ = mustlink("suggest points.h5 -k 4 --memory 20MB")
    assert code == 0
    assert "memory: 20 MB given, but the method needs at least" in out


@pytest.mark.parametrize(
    "line",
    [
        "suggest nowhere.h5",
        "suggest points.h5 -k 1",
        "suggest points.h5 --labels short.txt",
        "suggest points.h5 --memory lots",
        "suggest points.h5 --constraints few.txt",
    ],
)
def test_bad_files_are_one_line(mustlink, line):
    code, out, err = mustlink(line + " --quiet")
    assert (code, out) == (2, "")
    assert err.startswith("mustlink: ")
    assert len(err.strip().splitlines()) == 1
