"""Tables with columns of text, as people have them: the shell reads them, or names the column."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest

import mustlink as ml
from mustlink.errors import InputError
from mustlink.preprocessing.mixed import points_of_table
from mustlink.preprocessing.request import Preparation
from mustlink_io import formats
from mustlink_io.jobs.on_disk import shape_of

N = 240
ENDINGS = ("csv", "parquet")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The folder in which commands run."""
    return tmp_path_factory.mktemp("data")


def table(path, **more):
    """Three groups, told apart by a number and a word; written as the ending of `path` says."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], N // 3)
    columns = {
        "size": truth + rng.normal(scale=0.1, size=N),
        "kind": np.array(["tcp", "udp", "icmp"])[truth],
        **more,
    }
    frame = pd.DataFrame(columns)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)
    return str(path)


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_column_that_is_still_text_is_named(tmp_path, ending):
    path = table(tmp_path / f"t.{ending}", sort=np.where(np.arange(N) % 2, "a", "b"))
    with pytest.raises(InputError, match=r"column 'kind' is text.*\(so is 1 more\)"):
        formats.load(path, steps=Preparation(standardize="standard"))
    with pytest.raises(
        InputError, match=r"column 'sort' is text, where coordinates are numbers; l"
    ):
        formats.load(path, steps=Preparation(one_hot=("kind",)))


@pytest.mark.parametrize("ending", ENDINGS)
def test_true_and_false_are_1_and_0(tmp_path, ending):
    flag = np.arange(N) % 3 == 0
    path = table(tmp_path / f"t.{ending}", flag=flag)
    found = formats.load(path, steps=Preparation(one_hot=("kind",)))
    np.testing.assert_array_equal(found.value[:, -1], flag)
    holes = pd.Series(flag, dtype="boolean").mask(np.arange(N) == 5)
    path = table(tmp_path / f"h.{ending}", flag=holes)
    steps = Preparation(one_hot=("kind",), impute="most_frequent")
    flag[5] = False
    np.testing.assert_array_equal(formats.load(path, steps=steps).value[:, -1], flag)


def test_ids_that_are_words_become_columns_if_asked(tmp_path):
    path = table(tmp_path / "t.csv", user_id=np.array(list("abcd"))[np.arange(N) % 4])
    found = formats.load(path, steps=Preparation(one_hot=("kind", "user_id")))
    assert found.value.shape == (N, 8)
    assert not found.warnings


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("ending", ENDINGS)
def test_from_a_table_as_it_is_to_new_rows(mustlink, tmp_path, ending):
    """Ids, words, dates and empty cells: suggest, cluster, and the model, without an option."""
    size = np.repeat([0, 1, 2], N // 3) + np.random.default_rng(1).normal(0, 0.1, N)
    size[7] = np.nan
    day = pd.date_range("2024", periods=3).repeat(N // 3)
    path = table(tmp_path / f"t.{ending}", size=size, day=day, id=[f"r{row}" for row in range(N)])
    code, out, err = mustlink(f"suggest {path} -k 3 --json")
    assert code == 0, err
    told = json.loads(out)
    words = shlex.split(told["command"])
    assert not [word for word in words if word.startswith(("--one-hot", "--drop", "--impute"))]
    assert any("left out are id (text, all different)" in note for note in told["notes"])
    assert told["seconds"] is not None
    words[words.index("-o") + 1] = str(tmp_path / "out.h5")
    code, _, err = mustlink(" ".join(words[1:]))
    assert code == 0, err
    assert "1 empty cells in size" in err
    frame = (pd.read_csv if ending == "csv" else pd.read_parquet)(path)
    made, same = ml.load(tmp_path / "out.h5"), ml.NCut(3, random_state=0).fit(frame)
    np.testing.assert_array_equal(made.labels_, same.labels_)
    np.testing.assert_array_equal(made.predict(frame), made.labels_)
    assert made.predict(frame[:2].assign(kind="new", size=np.nan)).tolist() == [made.labels_[0]] * 2
    shape = shape_of(path)
    assert (shape.n, shape.d) == made._points.shape


def test_the_table_of_an_annotated_file(tmp_path):
    anndata = pytest.importorskip("anndata")
    frame = pd.read_csv(table(tmp_path / "t.csv", day=["2024-01-01", "2024-03-01"] * (N // 2)))
    frame.index = [f"cell {row}" for row in range(N)]
    anndata.AnnData(np.zeros((N, 1)), obs=frame).write_h5ad(tmp_path / "t.h5ad")
    found = formats.load(f"{tmp_path}/t.h5ad:obs")
    np.testing.assert_array_equal(found.value, points_of_table(frame)[0])
    assert found.names.texts.tolist() == list(frame.index)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("day", ["day", 2])
def test_columns_that_are_left_out_are_as_if_they_were_not_there(tmp_path, ending, day):
    more = {"day": pd.date_range("2024", periods=N), "none": np.full(N, np.nan), "id": np.arange(N)}
    path = table(tmp_path / f"t.{ending}", **more, size_too=np.arange(N) % 7)
    steps = Preparation(one_hot=("kind",), drop=(day, "none", "id"), drop_missing=True)
    found = formats.load(path, steps=steps)
    plain = table(tmp_path / f"p.{ending}", size_too=np.arange(N) % 7)
    wanted = formats.load(plain, steps=Preparation(one_hot=("kind",)))
    np.testing.assert_array_equal(found.value, wanted.value)
    assert not found.warnings
    assert found.left_out == 0
    shape = shape_of(path, steps)
    assert (shape.n, shape.d) == found.value.shape


def test_empty_columns_are_named_with_the_cure(tmp_path):
    path = table(
        tmp_path / "t.csv", none=np.full(N, np.nan), some=np.where(np.arange(N), 1, np.nan)
    )
    one_hot = ("kind",)
    for steps in ({}, {"standardize": "standard"}, {"drop_missing": True}):
        asked = Preparation(one_hot=one_hot, **steps)
        with pytest.raises(InputError, match=r"none is empty, leave it out: --drop none$"):
            formats.load(path, steps=asked)
    with pytest.raises(InputError, match=r"1 row has missing values .*--drop-missing$"):
        formats.load(path, steps=Preparation(one_hot=one_hot, drop=("none",)))
    np.savetxt(tmp_path / "n.csv", [[1, np.nan], [2, np.nan]], delimiter=",")
    found = formats.load(str(tmp_path / "n.csv"))
    assert found.fitted.left_out == ("1",)
