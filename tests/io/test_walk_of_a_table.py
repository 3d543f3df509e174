"""A table as a spreadsheet writes it, from `suggest` to `report`, without Python or preparation."""

import json
import shlex

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from mustlink.errors import InputError
from mustlink_io import formats

CLASSES = np.repeat([0, 1, 2], 60)


def table(encoding="utf-8", ending="\n"):
    """Ids, words, German decimals with points of thousands, yes/no, dates, empty cells."""
    rng = np.random.default_rng(5)
    towns, jobs = ["Köln", "Jena", "Bremen"], ["Bäcker", "Lehrer", "Arzt", "Maler"]
    lines = ["Kundennr;Ort;Beruf;Umsatz;Größe;Aktiv;Seit"]
    for row, c in enumerate(CLASSES):
        town = towns[c] if rng.random() < 0.75 else rng.choice(towns)
        job = jobs[c] if rng.random() < 0.6 else rng.choice(jobs)
        sales = f"{1200 + 900 * c + 250 * rng.normal():,.2f}".translate({44: 46, 46: 44})
        height = f"{165 + 6 * c + 4 * rng.normal():.1f}".replace(".", ",")
        active = "ja" if rng.random() < 0.2 + 0.3 * c else "nein"
        day = f"{rng.integers(1, 28):02d}.{rng.integers(1, 12):02d}.{2015 + 2 * c}"
        cells = [f"K{10_000 + row}", town, job, sales, height, active, day]
        for at, share in ((2, 0.06), (3, 0.08)):
            cells[at] = "" if rng.random() < share else cells[at]
        lines.append(";".join(cells))
    return ending.join([*lines, ""]).encode(encoding)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "kunden.csv").write_bytes(table())
    (tmp_path / "excel.csv").write_bytes(table("utf-8-sig", "\r\n"))
    (tmp_path / "old.csv").write_bytes(table("cp1252"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_is_read(folder):
    """Ids are names, no coordinates; a spreadsheet's mark and ends of lines change nothing."""
    read = formats.load("kunden.csv")
    assert list(read.names.texts[:2]) == ["K10000", "K10001"]
    kinds = {column.name: column.kind for column in read.fitted.columns}
    assert kinds == {
        **{"Ort": "words", "Beruf": "words", "Umsatz": "number", "Größe": "number"},
        **{"Aktiv": "yes/no", "Seit": "date"},
    }
    assert 900 < next(one.centre for one in read.fitted.columns if one.name == "Umsatz") < 4000
    again = formats.load("excel.csv")
    np.testing.assert_array_equal(read.value, again.value)
    with pytest.raises(InputError, match=r"old.csv: not a text file in UTF-8; save it anew"):
        formats.load("old.csv")


@pytest.mark.parametrize(
    "first", ["a note that is far too long to be what a row is called: {}", ""]
)
def test_text_that_is_no_id(folder, first):
    """Long text, or an empty cell, names no row; nor does a column that says something."""
    lines = (folder / "kunden.csv").read_text(encoding="utf-8").splitlines()
    rest = [line.split(";", 1)[1] for line in lines[1:]]
    names = [first.format(row) for row in range(len(rest))]
    (folder / "t.csv").write_text(
        "\n".join([lines[0], *map(";".join, zip(names, rest, strict=True))]), encoding="utf-8"
    )
    assert formats.load("t.csv").names is None
    (folder / "t.csv").write_text("\n".join(line.split(";", 1)[1] for line in lines), "utf-8")
    assert formats.load("t.csv").names is None


@pytest.mark.thorough
def test_the_walk(folder, shell):
    code, said, err = shell("suggest kunden.csv --json")
    assert code == 0, err
    assert "; separates cells, and , is the decimal sign" in err
    command = json.loads(said)["command"]
    assert shlex.split(command)[:3] == ["mustlink", "cluster", "kunden.csv"]
    code, _, err = shell(f"{command.removeprefix('mustlink ')} --quiet".replace("out.h5", "s.h5"))
    assert code == 0, err
    code, said, err = shell("cluster kunden.csv -k 3 --json -o out.h5")
    assert code == 0, err
    for words in (
        "its column 'Kundennr' is taken as names of points",
        "6 columns (2 of numbers, 1 of yes/no, 1 of dates, 2 of words)",
        "empty cells in Beruf, Umsatz",
    ):
        assert words in err
    code, _, err = shell("report out.h5")
    assert code == 0, err
    page = (folder / "out.html").read_text(encoding="utf-8")
    assert "Kundennr" in page
    code, _, err = shell("convert out.h5 clusters.csv")
    assert code == 0, err
    lines = (folder / "clusters.csv").read_text().splitlines()
    assert lines[0] == "node,name,cluster"
    assert lines[1].startswith("0,K10000,")
    assert adjusted_rand_score(CLASSES, [line.rsplit(",", 1)[1] for line in lines[1:]]) > 0.5
    (folder / "pairs.csv").write_text("i,j,belief\nK10000,K10001,1\nK10000,K10170,-1\n")
    code, _, err = shell("cluster kunden.csv -k 3 --constraints pairs.csv --quiet -o p.h5")
    assert code == 0, err
