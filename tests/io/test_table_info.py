"""What `info` and `convert` make of tables as people have them: text, empty cells, equal rows."""

import json

import numpy as np
import pandas as pd
import pytest

from mustlink_io import formats

N = 60


@pytest.fixture
def data(tmp_path):
    return tmp_path


@pytest.fixture(params=["csv", "parquet", "npy"])
def messy(request, tmp_path):
    """A file, and its table: of .npy the columns of numbers."""
    frame = pd.DataFrame(
        {
            "size": np.arange(N) % 20 / 4,
            "gaps": np.where(np.arange(N) % 20 == 3, np.nan, 2.0),
            "kind": np.array(["tcp", None, "udp"], dtype=object)[np.arange(N) % 2 * 2],
            "day": pd.date_range("2024", periods=20).repeat(3)[np.arange(N) % 20 * 3],
        }
    )
    path = tmp_path / f"t.{request.param}"
    if request.param == "npy":
        frame = frame[["size", "gaps"]]
        np.save(path, frame.to_numpy())
    elif request.param == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)
    return path, frame


def test_columns_gaps_and_equal_rows_are_told(mustlink, messy):
    path, frame = messy
    code, out, err = mustlink(f"info {path} --json")
    assert code == 0, err
    told = json.loads(out)
    (points,) = told["entries"]
    assert points["shape"] == list(frame.shape)
    equal = int(frame.duplicated().sum())
    missing = int(frame.isna().any(axis=1).sum())
    assert points["meaning"] == (
        f"{missing} rows with missing values, {equal} rows equal to one before"
    )
    assert len(told["columns"]) == frame.shape[1]
    for column, name in zip(told["columns"], frame, strict=True):
        assert column["name"] in (name, str(list(frame).index(name)))
        assert column["missing"] == frame[name].isna().sum()
        if frame[name].dtype.kind == "f":
            assert column["type"] == "number"
            assert (column["low"], column["high"]) == (frame[name].min(), frame[name].max())
        elif frame[name].dtype.kind == "M":
            ends = str(frame[name].min().date()), str(frame[name].max().date())
            assert (column["type"], column["low"], column["high"]) == ("date", *ends)
        else:
            assert column["type"] == "text"
            assert column["different"] == frame[name].nunique()
    code, out, _ = mustlink(f"info {path}")
    assert code == 0
    assert "missing" in out


def test_empty_cells_stay_empty_and_columns_are_prepared(mustlink, messy, tmp_path):
    path, frame = messy
    out = tmp_path / "out.npy"
    steps = "" if path.suffix == ".npy" else "--drop kind,day"
    code, _, err = mustlink(f"convert {path} {out} {steps} --impute")
    assert code == 0, err
    wanted = frame[["size", "gaps"]]
    np.testing.assert_array_equal(np.load(out), wanted.fillna(wanted.mean()).to_numpy("f4"))
    plain = tmp_path / "plain.csv"
    wanted.to_csv(plain, index=False)
    for ending in ("npy", "h5", "csv", "parquet"):
        code, _, err = mustlink(f"convert {plain} {tmp_path / f'kept.{ending}'}")
        assert code == 0, err
        again = formats.load(str(tmp_path / f"kept.{ending}"), gaps=True)
        np.testing.assert_array_equal(again.value, wanted.to_numpy("f4"))


def test_infinite_values_are_refused_all_the_same(mustlink, tmp_path):
    np.savetxt(tmp_path / "t.csv", [[1, np.inf], [np.nan, 2]], delimiter=",")
    code, _, err = mustlink(f"convert {tmp_path / 't.csv'} {tmp_path / 'out.h5'}")
    assert code == 2
    assert "1 row with NaN, Inf" in err
    assert not (tmp_path / "out.h5").exists()
