"""Conversions that keep labels, scores of many files, what is told of an output not yet there."""

import json

import numpy as np
import pytest

from mustlink_io import formats
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.locks import locked

N = 60


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 20)
    X = rng.normal(size=(N, 3)) + 6 * np.eye(3)[truth]
    np.savez(folder / "set.npz", X=X, y=truth)
    names = np.array([f"n{i}" for i in range(N)], dtype=object)
    store.write(folder / "set.h5", {"/points": X.astype("f4"), "/labels": truth, "/names": names})
    np.savetxt(folder / "truth.txt", truth, fmt="%d")
    np.savetxt(folder / "wrong.txt", np.roll(truth, 7), fmt="%d")
    return folder


def test_convert_keeps_labels_and_names(mustlink, data, tmp_path):
    truth = np.loadtxt(data / "truth.txt", dtype=int)
    a, b, c = tmp_path / "a.h5", tmp_path / "b.npz", tmp_path / "c.npy"
    code, _, err = mustlink(f"convert set.npz {a}")
    assert code == 0
    assert "float64 became float32" in err
    np.testing.assert_array_equal(formats.load_labels(str(a)), truth)
    code, _, err = mustlink(f"convert set.h5 {b}")
    assert code == 0
    assert "float64" not in err
    with np.load(b) as archive:
        np.testing.assert_array_equal(archive["y"], truth)
    code, _, err = mustlink(f"convert set.h5 {c}")
    assert code == 0
    assert "no place for the labels" in err
    again = tmp_path / "again.h5"
    assert mustlink(f"convert set.h5 {again}")[0] == 0
    loaded = formats.load(str(again))
    assert loaded.names.texts.tolist() == [f"n{i}" for i in range(N)]
    np.testing.assert_array_equal(formats.load_labels(str(again)), truth)


def test_a_score_of_many_files_is_a_row_each(mustlink):
    code, said, _ = mustlink("score truth.txt wrong.txt --truth set.h5:/labels --json")
    assert code == 0
    told = json.loads(said)["scores"]
    assert [one["labels"] for one in told] == ["truth.txt", "wrong.txt"]
    one = json.loads(mustlink("score wrong.txt --truth set.h5:/labels --json")[1])
    assert told[1] == one
    code, said, _ = mustlink("score truth.txt wrong.txt --truth set.h5:/labels")
    assert code == 0
    rows = [line.split() for line in said.splitlines() if ".txt" in line]
    assert [row[0] for row in rows] == ["wrong.txt", "truth.txt"]
    assert "1.0000" in rows[1]
    assert mustlink("score truth.txt none.txt")[0] == 2


def test_info_of_an_output_that_is_not_there_yet(mustlink, tmp_path):
    out = tmp_path / "out.h5"
    assert mustlink(f"cluster set.h5 -k 3 -m ncut --resume -o {out} --quiet")[0] == 0
    assert "unfinished" not in mustlink(f"info {out}")[1]
    out.unlink()
    code, said, _ = mustlink(f"info {out}")
    assert code == 0
    assert "unfinished; the same command again goes on" in " ".join(said.split())
    told = json.loads(mustlink(f"info {out} --json")[1])
    assert "unfinished" in told["unfinished"]
    assert told["work"]["results"]
    with locked(out):
        assert "a run is writing it" in " ".join(mustlink(f"info {out}")[1].split())
    assert mustlink(f"info {tmp_path / 'other.h5'}")[0] == 2
