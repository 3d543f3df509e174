"""`mustlink report`: a page that stands alone, tells what a file holds, and trusts none of it."""

import base64
import json
import re
import sys
from html.parser import HTMLParser

import h5py
import numpy as np
import pytest

from mustlink_io.formats import matrices
from mustlink_io.hdf5 import writing
from mustlink_io.report import page as pages

pytest.importorskip("jinja2")
Image = pytest.importorskip("PIL.Image")

N, K = 120, 3
VOID = {"meta", "img", "br", "link", "hr", "input"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Results of small runs: pairs of which some are wrong, no side information, labels, …"""
    from mustlink_io.commands import cli

    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(K), N // K)
    points = rng.normal(size=(N, 4)) + 6 * np.eye(4)[truth]
    few = np.full(N, -1)
    few[[0, 1, 40, 41, 80, 81]] = truth[[0, 1, 40, 41, 80, 81]]
    few[2] = 1  # wrong
    writing.write(folder / "points.h5", {"/points": points.astype("f4"), "/labels": truth})
    np.savetxt(folder / "few.txt", few, fmt="%d")
    (folder / "pairs.csv").write_text(
        "i,j,belief\n0,1,1\n0,40,-1\n40,80,-1\n3,50,0.5\n4,90,0.75\n80,81,1\n5,6,-0.25\n"
    )
    blocks = np.kron(np.eye(6), np.ones((20, 20))) - np.eye(N)
    blocks[-1] = blocks[:, -1] = 0
    writing.write(folder / "parts.h5", matrices.graph_content(matrices_of(blocks)))
    for line in (
        "cluster points.h5:/points -k 3 -m csp --constraints pairs.csv -o pairs.h5",
        "cluster points.h5:/points -k 3 -m ncut -o plain.h5",
        "cluster points.h5:/points -k 3 -m csp --labels few.txt -o labelled.h5",
        "cluster points.h5:/points -k 35 -m ncut -o many.h5",
        "cluster parts.h5 -k 4 -m ncut -o apart.h5",
        "propagate points.h5:/points --labels few.txt -m llgc --alpha 0.99 --class-shares equal "
        "-o classes.h5",
    ):
        words = [str(folder / w) if w.partition(":")[0].endswith((".h5", ".csv", ".txt")) else w
                 for w in line.split()]  # fmt: skip
        assert cli.run([*words, "--quiet"]) == 0
    return folder


def matrices_of(dense):
    import scipy.sparse as sp

    return sp.csr_matrix(dense)


class Page(HTMLParser):
    """Checks that tags are balanced; collects text, images and attributes."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.images, self.words, self.tags, self.attributes = [], [], [], [], []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag == "img":
            self.images.append(dict(attrs))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture
def report(mustlink, data):
    """Page and facts of a result."""

    def make(name, more=""):
        code, out, err = mustlink(f"report {name} -o page.html --json {more}")
        assert (code, err) == (0, "")
        return Page((data / "page.html").read_text(encoding="utf-8")), json.loads(out)

    return make


def changed(data, name, change, to="changed.h5"):
    (data / to).write_bytes((data / name).read_bytes())
    with h5py.File(data / to, "r+") as file:
        told = json.loads(file["report"][()])
        change(told, file)
        del file["report"]
        file["report"] = json.dumps(told)
    return to


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["pairs", "plain", "labelled", "many", "apart", "classes"])
def test_page_stands_alone_and_pictures_have_words(report, data, name):
    page, facts = report(f"{name}.h5")
    html = (data / "page.html").read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>")
    assert not re.search(r"https?:|//[a-z]|@import|url\(", re.sub(r'src="data:[^"]*"', "", html))
    assert not {"script", "iframe", "object", "form"} & set(page.tags)
    assert page.images
    for image in page.images:
        kind, _, encoded = image["src"].partition(",")
        assert kind == "data:image/svg+xml;base64"
        assert b"<svg" in base64.b64decode(encoded)[:2000]
        assert len(image["alt"]) > 30
    ids = [value for _, attribute, value in page.attributes if attribute == "id"]
    assert len(ids) == len(set(ids))
    labelled = [value for _, attribute, value in page.attributes if attribute == "aria-labelledby"]
    assert set(labelled) <= set(ids)
    assert facts["written"] == ["page.html"]


@pytest.mark.thorough
def test_page_holds_the_numbers_of_the_facts(report):
    page, facts = report("pairs.h5")
    asked = facts["constraints"]
    assert (asked["must"]["n"], asked["cannot"]["n"]) == (4, 3)
    beliefs = [abs(row["belief"]) for row in asked["worst"]]
    assert beliefs == sorted(beliefs, reverse=True)
    n_broken = sum(asked[kind]["n"] - asked[kind]["kept"] for kind in ("must", "cannot"))
    assert n_broken == len(asked["worst"])
    assert n_broken > 0  # two of the must-links join groups that lie far apart
    for row in asked["worst"]:
        assert f"{row['nodes'][0]}, {row['nodes'][1]}" in page.text
    shares = [asked[kind]["kept"] / asked[kind]["n"] for kind in ("must", "cannot")]
    for name, share in zip(("must-links", "cannot-links"), shares, strict=True):
        n = asked[name.removesuffix("-links")]["n"]
        assert f"{pages.percent(share)} of {n} {name}" in page.text
    assert f"{pages.percent(sum(shares) / 2)} on average" in page.text
    assert "constraints kept" in page.text
    assert sum(row["size"] for row in facts["clusters"]) == N
    for row in facts["clusters"]:
        assert 0 <= row["conductance"] <= 1
        assert f"{row['size']:,}" in page.text
    assert facts["command"].split()[:2] == ["mustlink", "cluster"]
    assert facts["command"] in page.text
    for given in facts["inputs"]:
        assert given["sha256"] in page.text
    assert f"{N} points of 4 coordinates" in page.text
    assert f"{facts['graph']['n_edges']:,}" in page.text
    assert sum(facts["graph"]["histogram"]["counts"]) == N
    assert facts["graph"]["info"]["recall"] == 1
    for name, number in facts["versions"].items():
        assert f"{name} {number}" in page.text


def test_the_cut_is_beside_the_least_there_can_be(report, mustlink, data):
    page, facts = report("plain.h5")
    found = facts["ncut"]
    assert 0 <= found["least"] <= found["found"]
    words = f"{found['found']:.4g}; none into 3 clusters is below {found['least']:.4g}"
    assert f"Normalised cut {words}." in " ".join(page.text.split())
    said = mustlink("cluster points.h5:/points -k 3 -m ncut -o again.h5")[1]
    assert words in " ".join(said.split())
    assert "Normalised cut" not in report("pairs.h5")[0].text


@pytest.mark.thorough
def test_feasible_cuts_are_told(report, data):
    page, facts = report("pairs.h5")
    cuts = facts["cuts"]
    for cost, alpha, value in zip(cuts["cost"], cuts["alpha"], cuts["eigenvalues"], strict=True):
        assert alpha == pytest.approx(cuts["beta"] + cost / value)  # WD14 Lemma 1
        assert alpha > cuts["beta"]
    assert sum(cuts["used"]) == facts["feasible"]["found"]
    assert any("feasible cuts" in image["alt"] for image in page.images)
    _, plain = report("plain.h5")
    assert plain["cuts"] is None

    def damage(told, _):
        told["cuts"]["alpha"].append(1.0)

    page, facts = report(changed(data, "pairs.h5", damage))
    assert facts["cuts"] is None
    assert "Feasible cuts" not in page.text


@pytest.mark.thorough
def test_the_command_on_the_page_runs_again(report, mustlink, data):
    import shlex

    before = h5py.File(data / "pairs.h5")["labels"][:]
    words = shlex.split(report("pairs.h5")[1]["command"])[1:]
    words[words.index("-o") + 1] = "again.h5"
    from mustlink_io.commands import cli

    assert cli.run([*words, "--quiet"]) == 0
    assert (h5py.File(data / "again.h5")["labels"][:] == before).all()


@pytest.mark.thorough
def test_constraints_are_kept_in_the_result(data):
    with h5py.File(data / "pairs.h5") as file:
        assert file["constraints/pairs"].shape == (7, 2)
        assert file["constraints/belief"][-1] == -0.25
    for name in ("labelled", "classes"):
        with h5py.File(data / f"{name}.h5") as file:
            assert np.count_nonzero(file["constraints/labels"][:] >= 0) == 7


@pytest.mark.thorough
def test_labels_of_clusters_and_classes(report, data):
    def stray(told, _):
        row = {"node": 2, "class": 1, "cluster": 0, "home": 1}
        told["constraints"] |= {"n_strays": 1, "strays": [row]}

    page, facts = report(changed(data, "labelled.h5", stray))
    assert facts["constraints"]["kind"] == "labels"
    assert facts["constraints"]["n_labels"] == 7
    assert "Labelled nodes away from most of their class" in page.text
    page, facts = report("classes.h5")
    assert facts["kind"] == "classes"
    assert facts["labels_kept"] == pytest.approx(6 / 7)
    assert [row["node"] for row in facts["constraints"]["overruled"]] == [2]
    assert sum(facts["confidence"]["histogram"]["counts"]) == N - 7
    assert "mean confidence" not in page.text  # it was never compared with anything
    assert "85.7 %" in page.text


@pytest.mark.thorough
def test_nodes_away_from_their_class_are_told_by_names(report, mustlink, data):
    words = np.loadtxt(data / "few.txt", dtype=int)
    named = [("left", "mid", "right", "?")[code] for code in words]
    (data / "words.csv").write_text("\n".join(["label", *named]))
    line = "points.h5:/points --labels words.csv --quiet"
    assert mustlink(f"cluster {line} -k 3 --subspace 3 -o words.h5")[0] == 0
    page, facts = report("words.h5")
    for row in facts["constraints"]["strays"]:
        assert row["class_name"] in ("left", "mid", "right")
    assert [row["node"] for row in facts["constraints"]["strays"]] == [2]
    assert re.search(r"2\s+mid\s+\d \(left\)\s+\d \(mid\)", page.text)
    way = "-m llgc --alpha 0.99 --class-shares equal"
    assert mustlink(f"propagate {line} {way} -o named.h5")[0] == 0
    page, facts = report("named.h5")
    assert facts["constraints"]["overruled"][0]["class_name"] == "mid"
    assert re.search(r"2\s+mid\s+left", page.text)


@pytest.mark.thorough
def test_many_clusters_show_the_largest_and_the_worst(report):
    page, facts = report("many.h5")
    assert len(facts["clusters"]) > 30
    assert "The 12 largest of" in page.text
    assert "The 12 of largest conductance" in page.text


@pytest.mark.thorough
def test_a_graph_in_pieces_is_told(report):
    page, facts = report("apart.h5")
    assert facts["graph"]["n_components"] == 7
    assert facts["graph"]["isolated"] == 1
    assert facts["unassigned"] == 1
    assert "the graph has more than 4 components" in page.text
    assert "; 1 is in none" in page.text
    assert {row["conductance"] for row in facts["clusters"]} == {0.0}


@pytest.mark.thorough
def test_warnings_come_first_and_other_remarks_last(report, data):
    def warn(told, _):
        told["notes"] = ["a remark", "do not trust this"]
        told["warnings"] = ["do not trust this"]

    page, facts = report(changed(data, "plain.h5", warn))
    assert facts["warnings"] == ["do not trust this"]
    assert facts["notes"] == ["a remark"]
    text = page.text
    places = [text.index(words) for words in ("do not trust", "What was found", "a remark")]
    assert places == sorted(places)
    assert text.count("do not trust this") == 1
    assert "Look at this before" not in report("plain.h5")[0].text


@pytest.mark.thorough
def test_everything_from_the_file_is_escaped(report, data):
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7 * 7 }}\x1b[31m"

    def poison(told, file):
        told |= {"method": evil, "command": evil, "finished": evil, "notes": [evil]}
        told |= {"warnings": [evil + "!"], "choices": {evil: [evil, {evil: evil}]}}
        told["data"]["kind"] = evil
        told["constraints"]["kind"] = evil
        file["names"] = np.array([evil] * N, dtype=h5py.string_dtype())
        file["class_names"] = np.array([evil] * K, dtype=h5py.string_dtype())
        for name in ("parameters", "versions"):
            file.attrs[name] = json.dumps({evil: evil})
        rows = [{"role": evil, "name": evil, "bytes": 1, "sha256": evil}]
        file.attrs["inputs"] = json.dumps(rows)
        stage = file["stages/name"]
        stage[...] = np.array([evil] * len(stage), dtype=object)

    page, _ = report(changed(data, "pairs.h5", poison, to="evil&<b>.h5"))
    clean, _ = report("pairs.h5")
    assert set(page.tags) == set(clean.tags)
    assert len(page.images) == len(clean.images)
    assert not [one for one in page.attributes if one[1].startswith("on")]
    assert page.text.count("<script>alert(1)</script>") > 10
    assert "{{ 7 * 7 }}" in page.text
    assert "\x1b" not in page.text


@pytest.mark.thorough
def test_names_of_nodes_and_classes_are_shown(report, data):
    def name(_, file):
        file["names"] = np.array([f"cell {i}" for i in range(N)], dtype=h5py.string_dtype())
        file["class_names"] = np.array(["T cells", "", "B cells"], dtype=h5py.string_dtype())

    page, facts = report(changed(data, "pairs.h5", name))
    node = facts["constraints"]["worst"][0]["nodes"][0]
    assert f"{node} (cell {node})" in page.text
    assert [row["label"] for row in facts["clusters"]] == ["T cells", None, "B cells"]
    assert "T cells" in page.text


@pytest.mark.thorough
def test_a_file_without_parts_of_its_report_has_a_page(report, data):
    new = ("graph", "clusters", "constraints", "spectrum", "command", "data", "finished")

    def age(told, file):
        for key in (*new, "warnings", "next_eigenvalue"):
            told.pop(key, None)
        del file["constraints"]

    _, facts = report(changed(data, "pairs.h5", age))
    assert facts["constraints"]["must"]["n"] == 4  # every version counted them
    assert [row["conductance"] for row in facts["clusters"]] == [None] * K
    assert sum(row["size"] for row in facts["clusters"]) == N
    assert facts["spectrum"]["of"] == "method"


def test_damaged_parts_are_left_out(report, data):
    deep = []
    for _ in range(200):
        deep = [deep]

    def damage(told, _):
        told["graph"]["histogram"]["edges"][0] = 1e9
        told["clusters"]["conductance"] = [2.0] * K
        told["spectrum"] = {"values": ["a"]}
        told["constraints"]["worst"] = [{"nodes": [1]}]
        told["data"] = 17
        told["choices"]["deep"] = deep
        told["next_eigenvalue"] = 10**400
        told["constraints"]["must"]["n"] = 10**400

    page, facts = report(changed(data, "pairs.h5", damage))
    assert facts["graph"] is None
    assert facts["clusters"][0]["conductance"] is None
    assert facts["data"] is None
    assert "…" in page.text


@pytest.mark.parametrize("what", ["pairs", "confidence", "image", "class_names", "labels"])
def test_arrays_that_do_not_fit_are_one_line(mustlink, data, what):
    def damage(_, file):
        if what == "pairs":
            file["constraints/pairs"][0] = [0, N]
        elif what == "image":
            file["image"] = np.zeros((3, 5, 3), dtype=np.uint8)
        elif what == "labels":
            del file["labels"]
            file["labels"] = np.full(N, np.nan)
        elif what == "class_names":
            file["class_names"] = np.array(["a"], dtype=h5py.string_dtype())
        else:
            file["confidence"][0] = np.nan

    source = "pairs.h5" if what == "pairs" else "classes.h5"
    name = changed(data, source, damage)
    (data / "page.html").unlink(missing_ok=True)
    code, out, err = mustlink(f"report {name} -o page.html")
    assert (code, out) == (2, "")
    assert err.startswith("mustlink: ")
    assert len(err.splitlines()) == 1
    assert "damaged" in err
    assert not (data / "page.html").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("points.h5", "no result of a run"),
        ("pairs.csv", "give the .h5 file"),
        ("pairs.h5:/labels", "give the .h5 file"),
        ("nothing.h5", "no such file"),
        ("pairs.h5 -o nowhere/page.html", "cannot be written"),
        ("pairs.h5 -o page.pdf", "page.pdf: a page is written as .html or .htm; change the ending"),
        ("pairs.h5 -o pairs.h5", "change the ending"),
        ("pairs.h5 --image few.txt", "cannot be read as a picture"),
        ("pairs.h5 --image few.txt --json", "nothing is drawn without a page"),
        ("pairs.h5 --image nothing.png", "--image: nothing.png: no such file"),
        ("pairs.h5 --pictures few.txt", "cannot be made a folder"),
    ],
)
def test_wrong_use_is_one_line(mustlink, data, arguments, words):
    before = (data / "pairs.h5").read_bytes()
    code, out, err = mustlink(f"report {arguments}")
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1
    assert (data / "pairs.h5").read_bytes() == before


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_a_missing_extra_is_one_line_and_facts_need_none(mustlink, data, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    code, out, err = mustlink("report pairs.h5 -o none.html")
    assert (code, out) == (2, "")
    assert "pip install 'mustlink[plot]'" in err
    assert len(err.splitlines()) == 1
    assert not (data / "none.html").exists()
    code, out, _ = mustlink("report pairs.h5 --json")
    assert code == 0
    assert json.loads(out)["written"] == []


@pytest.mark.thorough
def test_default_name_pictures_and_image(mustlink, data):
    code, out, _ = mustlink("report plain.h5")
    assert code == 0
    assert "plain.html" in out
    assert (data / "plain.html").exists()
    Image.fromarray(np.zeros((10, 12, 3), dtype=np.uint8)).save(data / "photo.png")
    code, out, _ = mustlink("report pairs.h5 --pictures figures --image photo.png --json")
    assert code == 0
    found = {path.name for path in (data / "figures").iterdir()}
    names = "image", "segmentation", "embedding", "spectrum", "neighbours", "constraints", "cuts"
    assert found == {f"{name}.{kind}" for name in names for kind in ("png", "svg")}
    assert len(json.loads(out)["written"]) == len(found)
    assert not (data / "pairs.html").exists()
    assert mustlink("report pairs.h5 --pictures figures --quiet")[0] == 0  # its own are replaced
    (data / "figures" / "spectrum.png").write_bytes((data / "photo.png").read_bytes())
    drawn = (data / "figures" / "cuts.svg").stat().st_mtime_ns
    code, _, err = mustlink("report pairs.h5 --pictures figures")
    assert code == 2
    assert "spectrum.png: is there, a file that mustlink did not write" in err
    assert (data / "figures" / "cuts.svg").stat().st_mtime_ns == drawn
    Image.fromarray(np.zeros((10, 10, 3), dtype=np.uint8)).save(data / "small.png")
    code, _, err = mustlink("report pairs.h5 --image small.png -o small.html")
    assert code == 2
    assert "10 x 10 pixels, but the result has 120 nodes" in err
