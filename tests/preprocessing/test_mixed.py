"""Tables of words, dates and empty cells as points: what scikit-learn's parts make of a column."""

import datetime

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, RobustScaler, StandardScaler

import mustlink as ml
from mustlink.errors import InputError
from mustlink.preprocessing.cells import numbers_with_comma, read_cells
from mustlink.preprocessing.mixed import columns_of, points_of_table

N = 240


@pytest.fixture
def frame():
    """Three groups told by a number, a word and a date together; with ids, gaps and a constant."""
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], N // 3)
    number = rng.normal(size=N) + 6 * group
    word = np.where(rng.random(N) < 0.97, np.array(["ash", "beech", "oak"])[group], "rare")
    return pd.DataFrame(
        {
            "id": [f"row {row}" for row in range(N)],
            "number": np.where(rng.random(N) < 0.02, np.nan, number),
            "word": np.where(rng.random(N) < 0.02, None, word),
            "day": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(group * 30 + rng.integers(9, size=N), "D"),
            "sold": np.where(group == 1, "yes", "no"),
            "one": "same",
            "nothing": np.nan,
        }
    ), group


def column(values, name="x"):
    points, fitted = points_of_table([(name, values), ("w", np.tile(["a", "b"], len(values) // 2))])
    return points[:, : fitted.columns[0].width], fitted.columns[0]


def test_numbers_are_scaled_robustly_and_clipped():
    x = np.random.default_rng(0).normal(5, 3, 100)
    x[0] = 1e6
    expected = np.clip(RobustScaler().fit_transform(x[:, None]) * 1.349, -3, 3)
    np.testing.assert_allclose(column(x)[0], expected, rtol=1e-5)  # single precision


def test_words_are_one_hot_with_rare_ones_together():
    x = np.random.default_rng(0).choice(["a", "b", "c"], 100).astype(object)
    x[[3, 50]] = "once", "also once"
    found, how = column(x)
    encoder = OneHotEncoder(min_frequency=2, handle_unknown="infrequent_if_exist")
    np.testing.assert_array_equal(found, encoder.fit_transform(x[:, None]).toarray())
    new = np.array([["a"], ["new"]], dtype=object)
    expected = encoder.transform(new).toarray()
    np.testing.assert_array_equal(how.transform(new[:, 0], "points"), expected)


def test_empty_cells_are_medians_and_told():
    x = np.random.default_rng(0).normal(size=100)
    x[:10] = np.nan
    found, _ = column(x)
    assert (found[:10] == [0, 1]).all()
    assert (found[10:, 1] == 0).all()
    assert abs(np.median(found[:, 0])) < 0.05


@pytest.mark.parametrize("no_yes", [("no", "yes"), ("Nein", "Ja"), (False, True), (0, 1), (2, 7)])
def test_two_values_are_as_far_apart_as_two_words(no_yes):
    found, _ = column(np.array([*no_yes, None, *no_yes, no_yes[1]], dtype=object))
    np.testing.assert_allclose(np.ptp(found[[0, 1], 0]), np.sqrt(2), rtol=1e-6)
    assert found[2].tolist() == [found[1, 0], 1.0]  # the more frequent one


@pytest.mark.parametrize(
    "cells",
    [
        np.array(["2020-01-01", "2020-01-03"], dtype="datetime64[s]"),
        ["2020-01-01", "2020-01-03"],
        ["01.01.2020", "3.1.2020"],
        [datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 3)],
        pd.Series(pd.to_datetime(["2020-01-01", "2020-01-03"]), name="x"),
    ],
)
def test_dates_are_days(cells):
    found = read_cells(cells, "x", "points")
    assert found.kind == "date"
    assert found.values.tolist() == [18262.0, 18264.0]


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["1,5", "-2", "1.234,25"], [1.5, -2, 1234.25]),
        (["1,234", "5,678"], None),  # a comma of thousands, perhaps
        (["1,5", "x"], None),
        (["1,5", "1.5"], None),
        (["1,2,3"], None),
    ],
)
def test_decimal_commas(texts, numbers):
    assert numbers_with_comma(texts) == numbers


def test_columns_that_say_nothing_are_left_out(frame):
    X, _ = frame
    _, fitted = points_of_table(X)
    assert fitted.left_out == ("id", "one", "nothing")
    told = " ".join(fitted.notes)
    assert "id (text, all different), one (constant), nothing (empty)" in told
    many = pd.DataFrame({"w": [f"w{row // 2}" for row in range(100_000)], "x": ["a", "b"] * 50_000})
    assert points_of_table(many)[1].left_out == ("w",)
    numbered = pd.DataFrame({"n": np.arange(30), "x": ["a", "b", "c"] * 10})
    assert points_of_table(numbered)[1].left_out == ("n",)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            [*map(float, range(9)), "x"],
            "'x' in row 9, counted from 0, column 'c' is no number, while",
        ),
        ([1.5, [2], "x"], "row 1, column 'c' holds a list"),
        ([1.5, np.inf, 2], "Inf in row 1, column 'c'"),
        ([None, None, ""], "no column says anything of the rows (c: empty; d: empty)"),
        (["a", "b", "c"], "no column says anything of the rows (c: text, all different; d: empty)"),
    ],
)
def test_wrong_cells_are_named(cells, message):
    with pytest.raises(InputError) as error:
        points_of_table(pd.DataFrame({"c": pd.Series(cells, dtype=object), "d": np.nan}))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_numbers_alone_stay_as_they_are():
    X = pd.DataFrame(
        {"a": [1.0, 2.0], "b": [1, 2], "c": [True, False], "d": ["1", "2"], "e": ["true", "False"]}
    )
    assert points_of_table(X) is None
    assert points_of_table(np.array([["a", 1]], dtype=object)) is None
    assert columns_of(X.to_numpy()) is None


def test_a_fit_takes_new_rows_as_they_are(frame, tmp_path):
    X, group = frame
    found = ml.NCut(3, random_state=0).fit(X)
    assert adjusted_rand_score(group, found.labels_) > 0.9
    assert any("left out are id" in note for note in found.report_.notes)
    assert list(found.feature_names_in_) == list(X)
    labels = found.labels_
    found.save(tmp_path / "model.h5")
    new = X.iloc[::7].copy()
    new["word"] = "never seen"
    for model in (found, ml.load(tmp_path / "model.h5")):
        np.testing.assert_array_equal(model.predict(X), labels)
        np.testing.assert_array_equal(model.predict(X.drop(columns=["id", "one"])), labels)
        assert adjusted_rand_score(group[::7], model.predict(new)) > 0.9
        assert model.add(new).labels_.size == N + len(new)
    with pytest.raises(InputError, match="column 'word' is not there"):
        found.predict(X.drop(columns="word"))
    with pytest.raises(InputError, match="'x' in row 0, column 'number' is a word"):
        found.predict(X.iloc[:1].assign(number="x"))
    assert found.fit(np.arange(40.0).reshape(20, 2))._preparation is None  # nothing is left of it


@pytest.mark.thorough
def test_every_way_in_prepares_alike(frame):
    X, group = frame
    points, _ = points_of_table(X)
    graph = ml.knn_graph(X, random_state=0)
    assert (graph.affinity != ml.knn_graph(points, random_state=0).affinity).nnz == 0
    y = np.where(np.arange(N) % 20 == 0, group, -1)
    for kind in (ml.GFHF, ml.CSP, ml.CSCGFHF, ml.Auto):
        found, same = kind(random_state=0).fit(X, y), kind(random_state=0).fit(points, y)
        np.testing.assert_array_equal(found.labels_, same.labels_)
        np.testing.assert_array_equal(found.predict(X.iloc[:5]), found.labels_[:5])
    advice = ml.suggest(X, y)
    assert "left out are id" in str(advice)
    assert advice.preparation.is_nothing


@pytest.mark.parametrize("is_fitted", [False, True])
def test_a_transformer_of_scikit_learn_is_taken_as_it_is(frame, is_fitted):
    X = frame[0].fillna({"number": 0, "word": "none"})
    how = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["word", "sold"]), (StandardScaler(), ["number"]))
    )
    how = how.fit(X) if is_fitted else how
    found = ml.NCut(3, random_state=0, preprocessing=how).fit(X)
    points = how.fit_transform(X).astype(np.float32)
    np.testing.assert_array_equal(found.labels_, ml.NCut(3, random_state=0).fit(points).labels_)
    np.testing.assert_array_equal(found.predict(X), found.labels_)
    with pytest.raises(InputError, match="preprocessing is a Pipeline"):
        found.save("model.h5")
    for wrong, given in (("scale", X), (how, ml.knn_graph(points)), (None, X)):
        with pytest.raises(InputError):
            ml.NCut(3, preprocessing=wrong).fit(given)
