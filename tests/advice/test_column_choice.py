"""What `suggest` does to columns of different units, and what it leaves alone."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline

import mustlink as ml
from cases import labelled
from mustlink.advice.baseline import _codes, has_unlike_columns
from mustlink.errors import InputError
from mustlink.preparation.fitted import prepared
from mustlink.preparation.request import Preparation
from mustlink_io.hdf5 import writing

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


def test_labels_overrule_the_scales():
    X, y = groups()
    kept = X.copy()
    kept[:, 4:] *= 3  # noise that is louder, but not by so much that units must differ
    assert steps(kept, labelled(y, 12)).is_nothing
    told = X * [1000, 1000, 1000, 1000, 0.1, 0.1]  # what tells is loud, noise is faint
    told = np.column_stack([told, np.random.default_rng(0).normal(size=(N, 30)) * 1e-3])
    assert has_unlike_columns(told)
    assert steps(told).standardize == "standard"
    assert steps(told, labelled(y, 12)).is_nothing


def test_codes_become_columns_of_their_own_where_labels_agree_better():
    rng = np.random.default_rng(2)
    y = rng.integers(0, K, N)
    codes = np.array([3, 0, 2, 1])[y] * 2 + rng.integers(0, 2, N)  # two codes a class, no order
    X = np.column_stack([rng.normal(size=(N, 3)) * [1, 1, 2000], codes, rng.integers(0, 9, N)])
    found = ml.suggest(X, labelled(y, 25))
    assert found.preparation.one_hot == (3,)
    assert "column 3: codes" in " ".join(found.reasons)
    assert ml.suggest(X, n_clusters=K).preparation.one_hot == ()


def test_columns_over_orders_are_logarithms_only_beside_others():
    rng = np.random.default_rng(5)
    X, _ = groups()
    wide = np.column_stack([np.abs(X), np.exp(rng.normal(0, 3, N))])
    assert steps(wide) == Preparation("standard", log=(6,))
    assert steps(X).log == ()


def test_missing_cells_are_filled():
    X, y = groups()
    X[3, 1] = X[8, 0] = np.nan
    found = ml.suggest(X, labelled(y, 12))
    assert found.preparation == Preparation(impute="mean")
    assert "SimpleImputer" in found.code
    assert "--impute" in found.command("a.h5").split()


def test_the_code_and_the_command_say_the_same():
    X, y = groups()
    X = np.column_stack([loud(X), np.exp(np.random.default_rng(0).normal(0, 3, N))])
    few = labelled(y, 12)
    found = ml.suggest(X, few)
    assert found.preparation.log == (7,)
    assert isinstance(found.estimator(), Pipeline)
    space = {"X": X, "y": few}
    exec(found.code, space)
    model = space["model"]
    assert str(found).endswith(found.code)
    one = prepared(X, found.preparation).fitted.transform(X)
    np.testing.assert_allclose(np.sort(model[:-1].transform(X)), np.sort(one), atol=1e-10)
    for made in (model, found.estimator().fit(X, few)):
        assert np.mean(made[-1].labels_ == y) > 0.9
    assert {"--log=7", "--standardize"} <= set(found.command("a.h5").split())
    assert not any("standard deviation is" in doubt for doubt in found.doubts)


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


def test_logarithms_are_tried_where_scales_alone_do_not_agree_better():
    rng = np.random.default_rng(3)
    y = rng.integers(0, K, N)
    size = np.exp(3.0 * y + rng.normal(0, 1, N))  # classes are orders of magnitude
    X = np.column_stack([size, 0.01 * (y % 2 + rng.normal(0, 0.3, N))])
    found = ml.suggest(X, labelled(y, 25))
    assert found.preparation == Preparation("standard", log=(0,))


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


# ---------------------------------------------------------------- numbers of rows, counts, codes


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


def test_whole_numbers_that_say_something_stay():
    X, y = groups()
    rng = np.random.default_rng(0)
    for column in (rng.integers(0, 10 * N, N), np.sort(rng.poisson(30, N)), rng.normal(size=N)):
        assert steps(np.column_stack([column / column.std(), X]), labelled(y, 12)).drop == ()
    assert steps(np.arange(N)[:, None] * 1.0).drop == ()


def test_reasons_for_standardising_speak_for_it():
    X, y = groups()
    few = labelled(y, 12)
    for seed in range(5):
        told = ml.suggest(loud(X, seed), few)
        assert told.preparation.standardize
        for reason in told.reasons:
            shares = [
                int(word[:-1])
                for word in reason.split()
                if word.strip(",").endswith("%") and word[:-1].isdigit()
            ]
            if reason.startswith("the nearest") and "units decide" not in reason:
                assert shares == sorted(shares, reverse=True)


def test_counts_are_no_codes():
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.array([3, 10, 6, 20])[rng.integers(0, 4, 6000)]).astype(float)
    codes = rng.permutation(40)[np.minimum(rng.geometric(0.1, 6000), 39)].astype(float)
    few = rng.integers(0, 3, 6000).astype(float)
    assert _codes(np.column_stack([counts, codes, few])) == [1, 2]
