"""What a report says of clusters in the words of the data: columns, rows, terms, hubs, doubts."""

import csv
import json
import re

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

import mustlink as ml
from mustlink_io.formats import sha256
from mustlink_io.hdf5.result import Input
from mustlink_io.jobs.points import RowSource
from mustlink_io.report.page import _verdict, amount
from mustlink_io.report.profiles import Material, described

pytest.importorskip("jinja2")

N = 90
Y = np.arange(N) % 3
KINDS = np.array(["ash", "elm", "oak"])
TOPICS = ("harbour captain sail anchor", "flour oven bread yeast", "goal referee penalty league")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with words and ids, one wrong label; a network with names; texts."""
    from mustlink_io.commands import cli

    found = tmp_path_factory.mktemp("words")
    rng = np.random.default_rng(0)
    X = (5 * np.eye(3)[Y][:, :2] + rng.normal(size=(N, 2))).round(3)
    site = np.where(Y == 2, "bog", np.array(["hill", "dune"])[rng.integers(0, 2, N)])
    with (found / "trees.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["tag", "height", "site", "age"]]
            + [
                [f"tree {i}", *row]
                for i, row in enumerate(zip(X[:, 0], site, X[:, 1], strict=True))
            ]
        )
    labels = KINDS[Y[:24]].copy()
    labels[6] = "elm"  # an ash
    with (found / "few.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["tag", "kind"], *zip(tags(24), labels, strict=True)])
    ends = rng.integers(0, N, (4000, 2))
    ends = ends[(Y[ends[:, 0]] == Y[ends[:, 1]]) & (ends[:, 0] != ends[:, 1])]
    star = [[0, i] for i in range(3, N, 3)]
    name = [f"{('sea', 'city', 'hill')[y]} {i}" for i, y in enumerate(Y)]
    lines = {f"{name[min(a, b)]}\t{name[max(a, b)]}" for a, b in [*ends.tolist(), *star]}
    bridges = [f"{name[i]}\t{name[i + 1]}" for i in range(2)]
    (found / "net.tsv").write_text("\n".join([*sorted(lines), *bridges]) + "\n")
    with (found / "mails.csv").open("w", newline="") as file:
        body = [" ".join(rng.choice(TOPICS[y].split(), 6)) for y in Y]
        csv.writer(file).writerows([["tag", "body"], *zip(tags(N), body, strict=True)])
    for line in (
        "cluster trees.csv --labels few.csv -m csp -o table.h5",
        "propagate trees.csv --labels few.csv -m llgc -o spread.h5",
        "cluster net.tsv -k 3 -m ncut -o net.h5",
        "cluster mails.csv --text body -k 3 -m ncut -o mails.h5",
    ):
        words = [str(found / w) if re.search(r"\.(h5|csv|tsv)$", w) else w for w in line.split()]
        assert cli.run([*words, "--quiet"]) == 0
    return found


def tags(n):
    return [f"tree {i}" for i in range(n)]


@pytest.fixture
def report(told, folder):
    """Facts and text of a page."""

    def make(name):
        code, out, err = told("report", f"{name}.h5", "-o", "page.html", "--json")
        assert (code, err) == (0, "")
        return json.loads(out), (folder / "page.html").read_text(encoding="utf-8")

    return make


def test_columns_that_set_a_cluster_apart_are_those_of_the_obvious_twin(report, folder):
    facts, html = report("table")
    with (folder / "trees.csv").open() as file:
        table = list(csv.DictReader(file))
    labels = ml.load(folder / "table.h5").labels_
    numbers = {name: np.array([float(row[name]) for row in table]) for name in ("height", "age")}
    for word in ("bog", "hill", "dune"):
        numbers["site", word] = np.array([float(row["site"] == word) for row in table])
    for one in facts["about"]["groups"]:
        inside = labels == one["name"]
        apart = {
            key: abs(v[inside].mean() - v[~inside].mean()) / v.std() for key, v in numbers.items()
        }
        for entry in one["columns"]:
            key = (entry["column"], entry["value"]) if entry["value"] else entry["column"]
            assert entry["score"] == pytest.approx(apart[key])
            assert entry["here"] == pytest.approx(numbers[key][inside].mean())
            assert entry["rest"] == pytest.approx(numbers[key][~inside].mean())
        assert one["columns"][0]["score"] == pytest.approx(max(apart.values()))
        assert all(row["name"].startswith("tree") for row in one["typical"])
        assert all(inside[row["row"]] for row in one["typical"])
        for row in one["typical"]:  # the values stand in the order of the columns above them
            cells = [table[row["row"]][entry["column"]] for entry in one["columns"]]
            is_text = [entry["value"] is not None for entry in one["columns"]]
            assert [a if text else float(a) for a, text in zip(cells, is_text, strict=True)] == [
                a if text else float(a) for a, text in zip(row["cells"], is_text, strict=True)
            ]
    assert "= bog" in html
    assert html.index("90 rows are in 3 clusters: ") < html.index("What each cluster is")
    assert html.index("What each cluster is") < html.index("<details>") < html.index("The graph")
    assert "mustlink ask table.h5" in html


def test_a_wrong_label_is_named(report):
    facts, html = report("spread")
    assert [one["name"] for one in facts["about"]["suspects"]] == ["tree 6"]
    assert facts["about"]["suspects"][0]["label"] == "elm"
    assert "Labels that are perhaps wrong" in html
    # propagation has a map, and no confidence that was never compared with anything
    assert 'alt="Scatter plot of 90 nodes in 3 coloured classes' in html
    assert "mean confidence" not in html
    assert "is not known, as nothing was hidden" in html


def test_rows_in_doubt_are_those_of_least_lead(report, folder):
    facts, _ = report("spread")
    P = ml.load(folder / "spread.h5").label_distributions_
    known = np.arange(N) < 24
    lead = np.where(known, np.inf, np.sort(P, axis=1)[:, -1] - np.sort(P, axis=1)[:, -2])
    rows = [one["row"] for one in facts["about"]["doubtful"]]
    assert sorted(lead[rows]) == pytest.approx(np.sort(lead)[: len(rows)])


def test_a_network_has_hubs_and_words_of_names(report):
    facts, html = report("net")
    groups = facts["about"]["groups"]
    words = sorted(word for one in groups for word in one["words"])
    assert words == ["city", "hill", "sea"]
    of_sea = next(one for one in groups if one["words"] == ["sea"])
    assert of_sea["hubs"][0]["name"] == "sea 0"
    assert "Most connected: " in html


def test_texts_have_terms(report):
    facts, _ = report("mails")
    for one in facts["about"]["groups"]:
        assert any(set(one["words"][:4]) == set(topic.split()) for topic in TOPICS)


def test_typical_texts_are_nearest_to_the_mean_of_their_cluster(report, folder):
    facts, _ = report("mails")
    with (folder / "mails.csv").open() as file:
        rows = TfidfVectorizer(sublinear_tf=True).fit_transform(
            row["body"] for row in csv.DictReader(file)
        )
    labels = ml.load(folder / "mails.h5").labels_
    for one in facts["about"]["groups"]:
        inside = np.flatnonzero(labels == one["name"])
        near = rows[inside] @ np.asarray(rows[inside].mean(axis=0)).ravel()
        typical = [inside.tolist().index(row["row"]) for row in one["typical"]]
        assert near[typical] == pytest.approx(np.sort(near)[::-1][:3])


def test_the_mean_of_0_and_1_is_a_share():
    source = RowSource({"milk": np.array([1.0, 1, 0, 0]), "legs": np.array([4.0, 4, 2, 0])})
    found = described(Material(np.array([0, 0, 1, 1]), source, [0, 1]))["groups"][0]["columns"]
    assert [(one["column"], amount(one, "here")) for one in found] == [
        ("milk", "100 %"),
        ("legs", "4"),
    ]


def test_without_the_data_the_page_says_so(tmp_path, told, folder):
    (tmp_path / "table.h5").write_bytes((folder / "table.h5").read_bytes())
    hidden = folder / "trees.csv"
    hidden.rename(folder / "gone.csv")
    try:
        code, out, _ = told("report", tmp_path / "table.h5", "--json")
    finally:
        (folder / "gone.csv").rename(hidden)
    assert code == 0
    assert "is not there" in json.loads(out)["about"]["why"]


def test_of_one_cluster_and_of_constant_columns_nothing_is_said():
    source = RowSource({"a": np.ones(4), "b": np.arange(4.0)})
    found = described(Material(np.zeros(4, dtype=np.int64), source, [0]))
    assert found["groups"][0]["columns"] == []
    assert found["doubtful"] == found["suspects"] == []


@pytest.mark.parametrize("options", ["--text body --id=code", "--text=body --id code"])
def test_rows_are_read_as_the_command_had_them(tmp_path, options):
    path = tmp_path / "mails.csv"
    path.write_text("code,body,length\n7,anchor and sail,3\n4,flour and bread,5\n")
    data = Input(role="data", name=str(path), sha256=sha256(path))
    source = RowSource.of([data], f"mustlink cluster mails.csv {options}", 2, tmp_path)
    assert (source.why, source.text, source.titles) == ("", "body", ["body", "length"])


def test_rows_are_shown_as_pictures(told, folder):
    pytest.importorskip("PIL.Image")
    np.save(folder / "leaves.npy", np.random.default_rng(0).integers(0, 255, (N, 6, 5), np.uint8))
    code, _, err = told("report", "table.h5", "-o", "seen.html", "--show", "leaves.npy")
    assert (code, err) == (0, "")
    html = (folder / "seen.html").read_text(encoding="utf-8")
    facts = json.loads(told("report", "table.h5", "--json")[1])
    doubtful = {one["row"] for one in facts["about"]["doubtful"]}
    seen = [int(row) for row in re.findall(r"<img alt='row (\d+)' src='data:image/png", html)]
    assert doubtful <= set(seen)
    assert len(seen) > len(doubtful) + 3 * 3  # and more typical ones than without
    code, _, err = told("report", "table.h5", "-o", "seen.html", "--show", "trees.csv")
    assert code == 2
    assert "folder of pictures" in err


def test_stability_is_that_of_the_engine(told, folder):
    code, _, _ = told(
        "cluster", "trees.csv", "-k", 3, "-m", "ncut", "--stability", "--quiet", "-o", "again.h5"
    )
    assert code == 0
    code, out, _ = told("report", "again.h5", "-o", "again.html", "--json")
    facts = json.loads(out)
    twin = ml.stability(ml.load(folder / "again.h5"))
    assert facts["stability"]["mean"] == pytest.approx(twin.mean)
    assert facts["stability"]["clusters"] == pytest.approx(twin.clusters.tolist())
    half = {**facts, "stability": {**facts["stability"], "clusters": [0.4, 0.9, 0.3]}}
    assert f"found again by {twin.mean:.2f} (" in _verdict(facts)
    assert "but less than half of 0, 2: look" in _verdict(half)
    html = (folder / "again.html").read_text(encoding="utf-8")
    assert html.count("of it is found again") == 3
    assert "--stability" in facts["command"]
    plain = json.loads(told("report", "net.h5", "--json")[1])
    assert plain["stability"] is None


def test_what_was_hidden_is_a_figure_of_the_result(told, folder):
    _, _, _ = told("propagate", "trees.csv", "--labels", "few.csv", "--quiet", "-o", "auto.h5")
    est = ml.load(folder / "auto.h5")
    facts = json.loads(told("report", "auto.h5", "-o", "auto.html", "--json")[1])
    held = est.report_.extra["held_out"]
    assert facts["held_out"] == held
    assert (held["of"], held["n"], held["by_size"]) == ("labels", 24, True)
    html = " ".join((folder / "auto.html").read_text(encoding="utf-8").split())
    assert "24 labels that were hidden from fits, classes weighed by their sizes," in html
    kept = json.loads(told("report", "table.h5", "--json")[1])["held_out"]
    assert kept["of"] == "constraints"
    best = max(score for *_, score, _ in ml.load(folder / "table.h5").report_.extra["candidates"])
    assert 0.5 < kept["share"] <= best
