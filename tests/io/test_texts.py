"""`--text`: columns, lines of JSON and folders of texts become sparse points."""

from __future__ import annotations

import csv
import json

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
from mustlink_io import formats
from printed import run

TOPICS = (
    "ship harbour captain sail anchor wind deck mast tide crew",
    "flour oven bread yeast dough butter crust salt loaf baker",
    "goal referee striker penalty league coach stadium keeper pass team",
)
N = 90
Y = np.arange(N) % 3
NAMES = [f"text_{row:02d}" for row in range(N)]


def _texts():
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(TOPICS[y].split(), 8)) + ",\n# and Thé end" for y in Y]


def test_a_column_of_texts_is_pointed_out(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open("mails.csv", "w", newline="") as file:
        csv.writer(file).writerows([["mail", "body"], *zip(NAMES, _texts(), strict=True)])
    code, _, err = shell("cluster mails.csv -k 3 -o out.h5 --quiet")
    assert code == 2
    assert err.endswith("; if 'body' are texts, give --text body\n")
    assert shell("cluster mails.csv -k 3 --text body -o out.h5 --quiet")[0] == 0


@pytest.fixture(scope="module")
def texts():
    """Texts of three topics, of several lines, with an accent."""
    return _texts()


def write_csv(path, texts, labels=Y):
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["node", "year", "Body", "topic"])
        for name, text, label in zip(NAMES, texts, labels, strict=True):
            table.writerow([name, 1990, text, "" if label < 0 else f"t{label}"])


@pytest.fixture(scope="module")
def folder(texts, tmp_path_factory):
    """The texts in every form."""
    found = tmp_path_factory.mktemp("texts")
    write_csv(found / "texts.csv", texts, np.where(np.arange(N) < 9, Y, -1))
    lines = [json.dumps({"name": n, "Body": t}) for n, t in zip(NAMES, texts, strict=True)]
    (found / "texts.jsonl").write_text("\n".join(lines) + "\n")
    (found / "files" / "below").mkdir(parents=True)
    for name, text in zip(NAMES, texts, strict=True):
        (found / "files" / name).write_text(text)
    (found / "files" / ".hidden").write_bytes(b"\xff")
    np.savetxt(found / "numbers.csv", np.eye(4), delimiter=",", header="a,b,c,d", comments="")
    with h5py.File(found / "points.h5", "w") as file:
        file["points"] = np.eye(4)
    scipy.io.mmwrite(found / "links.mtx", sp.eye(4))
    (found / "empty").mkdir()
    (found / "latin").mkdir()
    (found / "latin" / "a.txt").write_bytes("Thé".encode("latin-1"))
    (found / "bare.jsonl").write_text('{"Body": "one two"}\n[1]\n')
    (found / "count.jsonl").write_text('{"Body": 3}\n')
    (found / "signs.jsonl").write_text('{"Body": "?"}\n{"Body": "!"}\n')
    return found


def read(path):
    with h5py.File(path) as file:
        return file["labels"][()], [name.decode() for name in file["names"][()]]


def test_rows_are_those_of_scikit_learn(folder, texts):
    data = formats.load(str(folder / "texts.csv"), formats.TextColumn("body"))
    usual = TfidfVectorizer(sublinear_tf=True, strip_accents="unicode").fit_transform(texts)
    assert sp.isspmatrix_csr(data.value)
    assert data.value.dtype == np.float32
    np.testing.assert_allclose(data.value.toarray(), usual.toarray(), atol=1e-6)
    np.testing.assert_allclose(sp.linalg.norm(data.value, axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize("name", ["texts.csv", "texts.parquet", "texts.jsonl", "files"])
def test_topics_are_found_by_every_form(folder, name, texts, capsys, tmp_path):
    if name.endswith(".parquet"):
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        frame = pandas.DataFrame({"name": NAMES, "Body": texts})
        frame.to_parquet(folder / name, index=False)
    out = tmp_path / "out.h5"
    more = ("--json", "--quiet", "-o", out)
    code, _, err = run(capsys, "cluster", folder / name, "--text", "Body", "-k", 3, *more)
    assert code == 0, err
    labels, names = read(out)
    assert names == NAMES
    assert adjusted_rand_score(Y, labels) == 1.0
    kind = formats.TextColumn("Body")
    same = formats.load(str(folder / "texts.csv"), kind).value
    assert (formats.load(str(folder / name), kind).value != same).nnz == 0


@pytest.mark.parametrize("verb", ["cluster", "propagate"])
def test_labels_of_the_same_table(folder, verb, capsys, tmp_path):
    data, out = folder / "texts.csv", tmp_path / "out.h5"
    words = [verb, data, "--text", "body", "--labels", f"{data}:topic", "-o", out, "--json"]
    code, _, err = run(capsys, *words, *(["-k", 3] if verb == "cluster" else []))
    assert code == 0, err
    assert adjusted_rand_score(Y, read(out)[0]) == 1.0
    words = " ".join(map(str, words))
    assert "--text body" in words


def test_a_text_without_words_is_left_out(texts, capsys, tmp_path):
    some = [*texts]
    some[4], some[7] = "", "? !"
    write_csv(tmp_path / "texts.csv", some)
    out = tmp_path / "out.h5"
    where = tmp_path / "texts.csv"
    code, _, err = run(capsys, "cluster", where, "--text", "body", "-k", 3, "-o", out)
    assert code == 0
    assert "2 texts have no word that counts: label -1, such as text_04" in err
    labels, names = read(out)
    left = np.isin(np.arange(N), [4, 7])
    assert names == NAMES
    assert (labels[left] == -1).all()
    assert adjusted_rand_score(Y[~left], labels[~left]) == 1.0


def test_a_model_reads_its_texts_again(folder, capsys, tmp_path):
    for name in ("texts.csv", "files"):
        out = tmp_path / f"{name}.h5"
        assert run(capsys, "cluster", folder / name, "--text", "body", "-k", 3, "-o", out)[0] == 0
        model, kind = ml.load(out), formats.TextColumn("body")
        X = formats.load(str(folder / name), kind).value
        assert (model.predict(X) == model.labels_).all()


def test_plan_and_suggest(folder, capsys):
    data = folder / "texts.csv"
    code, found, _ = run(capsys, "plan", data, "--text", "body", "-k", 3, "--json")
    assert code == 0
    assert found["n"] == N
    more = ("--labels", f"{data}:topic", "--json", "--quiet")
    code, found, err = run(capsys, "suggest", data, "--text", "body", "-k", 3, *more)
    assert code == 0, err
    assert "--text body" in found["command"]


def test_long_tables_with_lines_in_cells(texts, tmp_path):
    """Blocks of the reader end within cells, and lines of these begin as comments do."""
    path, many = tmp_path / "long.csv", [f"{text} w{at}w" for at, text in enumerate(texts * 40)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["body", "at"], *zip(many, range(len(many)), strict=True)])
    assert path.stat().st_size > 2**17
    table = formats.tables.read_table(path)
    assert [str(one) for one in table.text(0)] == many
    assert table.text(1).tolist() == list(range(len(many)))
    data = formats.load(str(path), formats.TextColumn("body"))
    assert data.value.shape[0] == len(many)
    assert data.value.shape[1] == len(" ".join(TOPICS).split()) + 3  # of one text alone: none


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("texts.csv --text words", "no such column; the table has node, year"),
        ("texts.csv --text year", "a column of numbers"),
        ("texts.jsonl --text words", "no such key; the first line has name, Body"),
        ("bare.jsonl --text Body", "line 2 is no object of JSON"),
        ("count.jsonl --text Body", "line 1 has 3, where text is wanted"),
        ("signs.jsonl --text Body", "no words in 2 texts"),
        ("empty --text .", "no files in this folder"),
        ("latin --text .", "a.txt: no text in UTF-8 (byte 2)"),
        ("missing --text .", "no such file"),
        ("points.h5 --text body", "--text reads a column of"),
        ("links.mtx --text body", "--text reads a column of"),
        ("texts.csv:Body --text Body", "--text names the column"),
        ("files", "is a directory"),
        ("texts.csv --text Body --as points", "leave it out"),
        ("texts.csv --text Body --standardize", "no columns to prepare"),
        ("texts.csv --text Body --metric manhattan", "--metric manhattan: --text makes sparse"),
        ("texts.csv --text Body --affinity precomputed", "--affinity precomputed: --text makes"),
        ("texts.csv --text Body --affinity rbf", "--affinity rbf: --text makes sparse"),
        ("texts.csv --text Body -m disim", "-m disim: takes no texts"),
        ("files --text Body -o files/out.h5", "is in the folder of the texts"),
    ],
)
def test_wrong_input(words, told, folder, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    more = [] if "-o" in words else ["-o", tmp_path / "out.h5"]
    code, _, err = run(capsys, "cluster", *words.split(), "-k", 2, *more)
    assert code == 2, err
    assert len(err.strip().splitlines()) == 1, err
    assert told in err
    assert not (tmp_path / "out.h5").exists()
