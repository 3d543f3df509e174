"""What `suggest` does to columns of different units, and what it leaves alone."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

import mustlink as ml
from cases import labelled
from mustlink.advice.suggest import has_unlike_columns
from mustlink.errors import InputError
from mustlink.preprocessing.fitted import prepared
from mustlink.preprocessing.request import Preparation
from mustlink_io.hdf5 import writing
from mustlink_io.jobs.suggest import job_of

K, N = 4, 600


def groups(seed=0, n=N):
    """Round groups in six columns of one scale."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    return rng.normal(size=(n, 6)) + 4 * np.eye(K, 6)[y], y


def loud(X, seed=1):
    """The same with a column of noise in small units beside."""
    return np.column_stack([X, 1e4 * np.random.default_rng(seed).normal(size=len(X))])


def steps(X, y=None):
    return ml.suggest(X, y, n_clusters=K if y is None else None).preparation


def power_law(n=500):
    directions = np.linalg.qr(np.random.default_rng(0).normal(size=(n, 20)))[0]
    return directions * 30 * np.arange(1, 21) ** -2.0


ALIKE = {
    "groups": groups()[0],
    "pixels": load_digits().data[:700],
    "measures of one unit": load_iris().data,
    "principal components": PCA(30, random_state=0).fit_transform(load_digits().data)[:700],
    "components of steep spectrum": power_law(),
    "shares of a whole": np.random.default_rng(0).dirichlet(np.r_[50, np.full(30, 0.1)], 500),
    "ones and zeros": (np.random.default_rng(0).random((600, 40)) < np.r_[0.5, np.full(39, 0.004)]),
}
UNLIKE = {
    "a loud column": loud(groups()[0]),
    "three scales": groups()[0] * np.repeat([1, 30, 1000], 2),
    "chemistry": load_wine().data,
    "sizes and ratios": load_breast_cancer().data,
    "two columns": np.random.default_rng(0).normal(size=(300, 2)) * [1, 1e4],
}


@pytest.mark.parametrize("name", ALIKE)
def test_columns_that_are_alike_stay(name):
    assert steps(ALIKE[name].astype(float)).is_nothing


@pytest.mark.parametrize("name", UNLIKE)
def test_columns_of_different_units_are_standardised(name):
    assert steps(UNLIKE[name]).standardize == "standard"
    assert has_unlike_columns(UNLIKE[name])


@pytest.mark.thorough
def test_missing_cells_are_filled():
    X, y = groups()
    X[3, 1] = X[8, 0] = np.nan
    found = ml.suggest(X, labelled(y, 12))
    assert found.preparation == Preparation(impute="mean")
    assert isinstance(found.estimator()[0], SimpleImputer)
    assert "--impute" in job_of(found, "a.h5").command.split()


@pytest.mark.thorough
def test_the_estimator_and_the_command_prepare_the_same():
    X, y = groups()
    X = np.column_stack([np.arange(N), loud(X)])
    few = labelled(y, 12)
    found = ml.suggest(X, few)
    assert found.preparation == Preparation("standard", drop=(0,))
    assert isinstance(found.estimator(), Pipeline)
    assert str(found).startswith(found.method)
    model = found.estimator().fit(X, few)
    one = prepared(X, found.preparation).fitted.transform(X)
    np.testing.assert_allclose(np.sort(model[:-1].transform(X)), np.sort(one), atol=1e-10)
    assert np.mean(model[-1].labels_ == y) > 0.9
    assert {"--drop=0", "--standardize"} <= set(job_of(found, "a.h5").command.split())
    assert not any("standard deviation is" in doubt for doubt in found.warnings)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    X, y = groups()
    X = loud(X)
    X[5, 2] = np.nan
    writing.write(
        folder / "holes.h5", {"/points": X, "/labels": labelled(y, 12), "/classes": np.arange(K)}
    )
    return folder


@pytest.mark.thorough
def test_the_command_of_the_shell_is_followed(mustlink, tmp_path):
    code, said, err = mustlink("suggest holes.h5 --labels holes.h5:/labels --json")
    assert code == 0, err
    told = json.loads(said)
    assert {"--impute", "--standardize"} <= set(told["command"].split())
    assert told["preparation"] == {"standardize": "standard", "impute": "mean"}
    assert "1 missing cells in columns 2 are filled (mean)" in err
    line = told["command"].removeprefix("mustlink ").replace("out.h5", str(tmp_path / "out.h5"))
    code, _, err = mustlink(line)
    assert code == 0, err


@pytest.mark.thorough
def test_columns_are_called_by_their_names():
    X, y = groups()
    frame = pd.DataFrame(loud(X), columns=[*"abcdef", "bytes"])
    assert any(
        "column 'bytes' makes up" in one for one in ml.suggest(frame, labelled(y, 12)).reasons
    )
    named = ml.suggest(loud(X), n_clusters=K, feature_names=frame.columns)
    assert named.reasons == ml.suggest(frame, n_clusters=K).reasons
    with pytest.raises(InputError, match="feature_names: 2 given for 7 columns"):
        ml.suggest(loud(X), feature_names=["a", "b"])


# ---------------------------------------------------------------- numbers of rows


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["rising", "falling", "with gaps", "shuffled", "mostly there"])
def test_a_column_that_numbers_the_rows_is_left_out(kind):
    X, y = groups()
    rng = np.random.default_rng(0)
    numbers = 100_000 + np.arange(len(X))
    column = {
        "rising": numbers,
        "falling": numbers[::-1],
        "with gaps": np.cumsum(rng.integers(1, 9, len(X))),
        "shuffled": rng.permutation(numbers),
        "mostly there": rng.choice(int(1.05 * len(X)), len(X), replace=False),
    }[kind]
    for known in (None, labelled(y, 12)):
        frame = pd.DataFrame(np.column_stack([column, X]), columns=["id", *"abcdef"])
        told = ml.suggest(frame, known, n_clusters=K)
        assert told.preparation.drop == (0,)
        assert "column 'id': only numbers the rows and is left out" in told.reasons
        fitted = told.estimator()
        assert isinstance(fitted, Pipeline)
        np.testing.assert_array_equal(fitted[0].fit_transform(frame), X)


@pytest.mark.thorough
def test_whole_numbers_that_say_something_stay():
    X, y = groups()
    rng = np.random.default_rng(0)
    for column in (rng.integers(0, 10 * N, N), np.sort(rng.poisson(30, N)), rng.normal(size=N)):
        assert steps(np.column_stack([column / column.std(), X]), labelled(y, 12)).drop == ()
    assert steps(np.arange(N)[:, None] * 1.0).drop == ()
