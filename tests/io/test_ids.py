"""`--id COLUMN`: what names the rows of a table, in every verb, and found by itself."""

import csv
import json

import h5py
import numpy as np
import pytest

from mustlink_io import formats
from mustlink_io.formats.points import columns_apart

N = 60
Y = np.arange(N) % 3
IDS = [f"ship {row:02d}" for row in range(N)]
CLASSES = ("brig", "sloop", "yawl")
TOPICS = ("harbour captain sail anchor", "flour oven bread yeast", "goal referee penalty league")


def write(path, header, *columns):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *zip(*columns, strict=True)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with ids as text first, and one with ids that are numbers last."""
    found = tmp_path_factory.mktemp("ids")
    rng = np.random.default_rng(0)
    a, b = (6 * np.eye(3)[Y][:, :2] + rng.normal(size=(N, 2))).T.round(3)
    numbers = rng.permutation(N) + 1000
    body = [" ".join(rng.choice(TOPICS[y].split(), 6)) for y in Y]
    few = np.arange(12)
    write(found / "text.csv", ["Vessel", "a", "b"], IDS, a, b)
    write(found / "numbers.csv", ["a", "b", "hull"], a, b, numbers)
    write(found / "mails.csv", ["a", "body", "Vessel"], a, body, IDS)
    write(found / "few.csv", ["kind", "vessel"], [CLASSES[Y[i]] for i in few], np.take(IDS, few))
    hulls = numbers[few]
    write(found / "hulls.csv", ["Hull", "kind"], hulls, [CLASSES[Y[i]] for i in few])
    write(found / "pairs.csv", ["i", "j", "belief"], IDS[:9], IDS[3:12], [1] * 9)
    write(found / "twice.csv", ["a", "b", "kind"], a, b, ["x", *IDS[1:-1], "x"])
    with h5py.File(found / "data.h5", "w") as file:
        file["points"], file["vessel"] = np.column_stack([a, b]), IDS
    lines = [{"body": text, "Vessel": one} for text, one in zip(body, IDS, strict=True)]
    (found / "mails.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return found


def names(path):
    with h5py.File(path) as file:
        return [one.decode() for one in file["names"][:]]


def numbers_of(folder):
    with (folder / "numbers.csv").open() as file:
        return [row["hull"] for row in csv.DictReader(file)]


def load(text, ids=None, **more):
    return formats.load(str(text), apart=columns_apart(str(text), ids=ids), **more)


@pytest.mark.parametrize(
    ("file", "ids"),
    [("text.csv", None), ("text.csv", "vessel"), ("numbers.csv", "hull"), ("data.h5", "/vessel")],
)
def test_the_column_names_rows_and_is_no_coordinate(folder, file, ids):
    data = load(folder / file, ids)
    assert data.value.shape == (N, 2)
    assert data.names.texts.tolist() == (numbers_of(folder) if ids == "hull" else IDS)
    if file != "data.h5":
        assert any("is taken as names of points" in note for note in data.notes)
        assert data.columns == ("a", "b")


@pytest.mark.parametrize(("file", "key"), [("mails.csv", "vessel"), ("mails.jsonl", "Vessel")])
def test_texts_have_ids(folder, file, key):
    data = load(folder / file, key, want=formats.TextColumn("body"))
    assert data.names.texts.tolist() == IDS


def test_dates_words_that_repeat_and_columns_by_number_are_no_ids(tmp_path):
    days = [f"2024-01-{day:02d}" for day in range(1, 21)]
    x = np.arange(20.0) ** 1.5
    write(tmp_path / "days.csv", ["day", "x", "z"], days, x, x[::-1])
    assert load(tmp_path / "days.csv").value.shape == (20, 3)
    write(tmp_path / "again.csv", ["kind", "x", "z"], ["a", "b"] * 10, x, x[::-1])
    assert load(tmp_path / "again.csv").names is None


@pytest.mark.parametrize(("line", "words"), [
    ("text.csv --id nope", "--id nope: no such column; text.csv has Vessel, a, b"),
    ("twice.csv --id kind", "--id kind: 'x' is in rows 0 and 59 of twice.csv; name a column"),
    ("data.h5 --id nope", "--id nope: no such dataset; data.h5 has"),
    ("few.npy --id vessel", "--id vessel: few.npy has no columns with titles"),
])  # fmt: skip
def test_what_is_no_id_is_an_error(told, folder, line, words):
    np.save(folder / "few.npy", np.eye(9))
    code, _, err = told("cluster", *line.split(), "-k", 2, "-m", "ncut", "-o", "no.h5")
    assert (code, words in err) == (2, True), err
    assert not (folder / "no.h5").exists()


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("verb", ["cluster", "propagate", "graph", "plan", "suggest"])
def test_every_verb_takes_ids(told, folder, tmp_path, verb):
    out = tmp_path / "out.h5"
    line = [verb, "numbers.csv", "--id", "hull"]
    line += [] if verb == "graph" else ["--labels", "hulls.csv"]
    line += {"cluster": ["-m", "csp"], "propagate": ["-m", "llgc"]}.get(verb, [])
    line += [] if verb in ("plan", "suggest") else ["-o", out]
    code, shown, err = told(*line, "--json")
    assert code == 0, err
    if verb in ("cluster", "propagate", "graph"):
        assert names(out) == numbers_of(folder)
    if verb == "suggest":
        assert "--id hull" in json.loads(shown)["command"]
    if verb == "cluster":
        assert told("convert", out, tmp_path / "out.csv")[0] == 0
        with (tmp_path / "out.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert [row["name"] for row in rows] == numbers_of(folder)
        assert np.mean([row["class"] == CLASSES[y] for row, y in zip(rows, Y, strict=True)]) > 0.9
        assert told("ask", out, "-n", 2)[1].splitlines()[1].split(",")[1] in numbers_of(folder)


@pytest.mark.thorough
def test_labels_pairs_and_batches_call_rows_by_their_ids(told, folder, tmp_path):
    out = tmp_path / "out.h5"
    line = ["cluster", "text.csv", "--labels", "few.csv", "--constraints", "pairs.csv"]
    code, shown, err = told(*line, "-m", "csp", "-o", out, "--json")
    assert code == 0, err
    assert json.loads(shown)["n_clusters"] == 3  # without -k as many as classes
    keys = {
        "name": "one",
        "data": "numbers.csv",
        "id": "hull",
        "k": "3",
        "method": "ncut",
        "output": str(out),
    }
    jobs = "[[job]]\n" + "".join(f"{key} = {value!r}\n" for key, value in keys.items())
    (folder / "jobs.toml").write_text(jobs.replace("'3'", "3"))
    code, _, err = told("batch", "jobs.toml")
    assert code == 0, err
    assert names(out) == numbers_of(folder)
