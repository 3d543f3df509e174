"""Columns prepared by blocks of rows: what scikit-learn's transformers make of the whole array."""

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, RobustScaler, StandardScaler

import mustlink as ml
from mustlink.errors import InputError
from mustlink.neighbors.points_by_rows import is_rows
from mustlink.preprocessing import fitted
from mustlink.preprocessing.fitted import Fitted, prepared
from mustlink.preprocessing.request import Preparation

N, CODES, WIDE = 211, 2, 4


class Rows:
    """An array of which only blocks of rows can be read; remembers the largest one."""

    chunks = None

    def __init__(self, X):
        self.X, self.shape, self.most = X, X.shape, 0

    def __getitem__(self, rows):
        found = self.X[rows]
        self.most = max(self.most, len(found))
        return found


@pytest.fixture(params=[1, 7, N])
def block_rows(request, monkeypatch):
    """Rows of a block."""
    monkeypatch.setattr(fitted.blocks, "__defaults__", (8 * 6 * request.param,))
    return request.param


@pytest.fixture
def table():
    """Six columns: two plain, codes, one constant, one over many orders, one far from 0."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 6)) * [1, 50, 1, 0, 1, 0.5] + [0, 3, 0, 4, 0, 1e6]
    X[:, CODES] = rng.integers(0, 5, N) * 2
    X[:, WIDE] = np.exp(rng.normal(2, 3, N))
    return X


def with_gaps(X):
    X = X.copy()
    rng = np.random.default_rng(4)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def encoder():
    return make_column_transformer(
        (OneHotEncoder(sparse_output=False), [CODES]), remainder="passthrough"
    )


CASES = {
    "standard": (Preparation("standard"), StandardScaler()),
    "robust": (Preparation("robust"), RobustScaler()),
    "one-hot": (Preparation(one_hot=(CODES,)), encoder()),
    "all": (
        Preparation("standard", (CODES,)),
        make_pipeline(encoder(), StandardScaler()),
    ),
}


@pytest.mark.parametrize("impute", [None, "mean"])
@pytest.mark.parametrize("standardize", [None, "robust"])
def test_the_points_of_the_caller_stay(table, impute, standardize):
    X = table if impute is None else with_gaps(table)
    before, steps = X.copy(), Preparation(standardize, (CODES,), impute, drop=(1,))
    prepared(X, steps).fitted.transform(X)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("case", CASES)
def test_blocks_of_rows_are_prepared_as_the_whole_array(table, block_rows, case):
    asked, whole = CASES[case]
    rows = Rows(table)
    found = prepared(rows, asked)
    wanted = whole.fit_transform(table)
    assert found.shape == wanted.shape
    assert is_rows(found)
    assert rows.most <= block_rows
    scale = np.abs(wanted).max(axis=0) + 1
    np.testing.assert_allclose(found.fitted.transform(table) / scale, wanted / scale, atol=1e-12)
    np.testing.assert_array_equal(np.asarray(found), found.fitted.transform(table).astype("f4"))
    np.testing.assert_array_equal(found[5:9], np.asarray(found)[5:9])


@pytest.mark.parametrize("how", ["mean", "median", "most_frequent"])
def test_missing_cells_are_filled_as_by_simple_imputer(table, block_rows, how):
    X = with_gaps(table)
    found = prepared(Rows(X), Preparation(impute=how))
    wanted = SimpleImputer(strategy=how).fit_transform(X)
    np.testing.assert_allclose(found.fitted.transform(X), wanted, rtol=1e-12)
    assert f"{np.isnan(X).sum()} missing cells" in found.fitted.notes[0]


def test_missing_codes_become_the_most_frequent_one(table):
    X = with_gaps(table)
    found = prepared(X, Preparation(one_hot=(CODES,), impute="mean"))
    often = SimpleImputer(strategy="most_frequent").fit_transform(X[:, [CODES]])
    wanted = OneHotEncoder(sparse_output=False).fit_transform(often)
    np.testing.assert_array_equal(found[:][:, :5], wanted)


def test_rows_that_are_left_out_are_as_if_they_were_not_there(table, block_rows):
    X = with_gaps(table)
    kept = np.flatnonzero(~np.isnan(X).any(axis=1))
    asked = Preparation("standard", one_hot=(CODES,), drop_missing=True)
    found = prepared(Rows(X), asked)
    np.testing.assert_array_equal(found.kept, kept)
    wanted = prepared(X[kept], Preparation("standard", one_hot=(CODES,)))
    np.testing.assert_allclose(found[3:20], wanted[3:20], rtol=1e-5, atol=1e-6)
    assert f"{N - kept.size} rows" in found.fitted.notes[0]


def test_columns_that_are_left_out_are_not_looked_at(table, block_rows):
    X = np.insert(with_gaps(table), [0, 3], np.nan, axis=1)
    X[::2, 0] = np.inf
    for more in ({"impute": "median"}, {"drop_missing": True}):
        asked = Preparation("standard", (CODES + 1,), drop=(0, 4), **more)
        found = prepared(Rows(X), asked)
        plain = Preparation("standard", (CODES,), **more)
        wanted = prepared(np.delete(X, [0, 4], axis=1), plain)
        # blocks of other sizes: means are summed in another order
        np.testing.assert_allclose(found[:], wanted[:], rtol=1e-6, atol=1e-7)
        assert found.fitted.n_features_out == wanted.shape[1]
        assert not np.isin(found.fitted.sources, [0, 4]).any()
        again = Fitted.of(found.fitted.to_dict())
        rows = np.nan_to_num(X, nan=1, posinf=np.nan)
        np.testing.assert_array_equal(again.transform(rows), found.fitted.transform(rows))
    with pytest.raises(InputError, match=r"drop: all 8 columns are left out"):
        prepared(X, Preparation(drop=tuple(range(8))))
    with pytest.raises(InputError, match=r"one_hot: column 3 is also in drop"):
        Preparation(one_hot=(3,), drop=(3,))


def test_new_points_are_prepared_by_the_figures_of_the_old(table):
    asked = Preparation("standard", (CODES,), "median")
    X = with_gaps(table)
    found = prepared(X, asked).fitted
    again = Fitted.of(found.to_dict())
    new = np.abs(table[:4]) + 1
    new[0, 0] = np.nan
    new[1, CODES] = 77  # never seen
    np.testing.assert_array_equal(again.transform(new), found.transform(new))
    by_hand = found.fill.copy()
    by_hand[1:] = new[0, 1:]
    np.testing.assert_allclose(found.transform(by_hand[None]), found.transform(new[:1]))
    codes = found.transform(new)[1, :5] * found.scale[:5] + found.centre[:5]
    np.testing.assert_allclose(codes, 0, atol=1e-12)
    assert Preparation.of(asked.to_dict()) == asked


def test_constant_and_empty_columns_become_0_with_a_note(table):
    X = table.copy()
    X[:, 0] = np.nan
    found = prepared(X, Preparation("standard", impute="mean"))
    np.testing.assert_array_equal(found[:][:, [0, 3]], 0)
    assert any("2 of 6 columns are constant" in note for note in found.fitted.notes)
    assert any("columns 0 are empty" in note for note in found.fitted.notes)


def test_quantiles_of_many_rows_are_those_of_a_sample(monkeypatch, table):
    many = np.tile(table, (30, 1))
    monkeypatch.setattr(fitted, "SAMPLE", 3000)
    found = prepared(many, Preparation("robust"))
    assert any("3,000 rows by chance" in note for note in found.fitted.notes)
    whole = RobustScaler().fit(many)
    ranks = (many < found.fitted.centre).mean(axis=0)[[0, 1, 5]]
    assert (np.abs(ranks - 0.5) < 0.05).all()
    assert (np.abs(np.log(found.fitted.scale / whole.scale_))[[0, 1, 5]] < 0.2).all()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("how", ["median", "most_frequent", "mean"])
def test_a_column_that_the_sample_misses_is_filled_by_its_values(monkeypatch, block_rows, how):
    monkeypatch.setattr(fitted, "SAMPLE", 20)
    monkeypatch.setattr(fitted, "_SAMPLE_ENTRIES", 0)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=3000), np.full((3000, 2), np.nan)])
    chosen = np.random.default_rng(0).choice(3000, 20, replace=False)
    there = np.setdiff1d(np.arange(3000), chosen)[:1500:300]
    X[there] = [[1, 7, 4]] * 4 + [[1, 8, 6]]
    found = prepared(X, Preparation(impute=how, one_hot=(2,)))
    assert found.fitted.fill[1:].tolist() == [7.2 if how == "mean" else 7, 4]
    robust = prepared(X, Preparation("robust", impute="median"))
    assert robust.fitted.centre[1] == 7


def test_digits_far_from_0_survive_single_precision(table):
    found = prepared(table, Preparation("standard"))[:][:, 5]
    wanted = StandardScaler().fit_transform(table)[:, 5]
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"one_hot": ("bb",)}, "one_hot: no column is called 'bb'; did you mean"),
        ({"one_hot": (17,)}, "one_hot: column 17 is not there; columns are numbered from 0 to 5"),
        ({"impute": "zero"}, "impute: 'zero' is unknown; choose mean"),
        ({"impute": "mean", "drop_missing": True}, "drop_missing: .* give one"),
        ({"standardize": "yes"}, "standardize: 'yes' is unknown; choose standard"),
    ],
)
def test_what_cannot_be_done_is_one_line(table, asked, words):
    with pytest.raises(InputError, match=words) as error:
        prepared(table, Preparation(**asked), list("abcdef"))
    assert "\n" not in str(error.value)


def test_gaps_and_infinite_values_are_named(table):
    X = table.copy()
    X[7, 3] = X[9, 3] = np.nan
    with pytest.raises(InputError, match=r"f.h5: 2 rows have missing .* in 1 column, .* row 7"):
        prepared(X, Preparation("standard"), where="f.h5")
    X[8, 1] = np.inf
    with pytest.raises(InputError, match=r"f.h5: Inf in row 8, column 1"):
        prepared(X, Preparation("standard", impute="mean"), where="f.h5")
    with pytest.raises(InputError, match=r"missing value; 0, 1 are empty, .* --drop 0,1$"):
        prepared(np.full((3, 2), np.nan), Preparation(drop_missing=True))
    with pytest.raises(InputError, match=r"missing value; fill them: --impute$"):
        prepared(np.where(np.eye(3) > 0, np.nan, 1.0), Preparation(drop_missing=True))
    X = np.column_stack([np.arange(3.0), np.full(3, np.nan)])
    with pytest.raises(InputError, match=r"missing value; b is empty, leave it out: --drop b$"):
        prepared(X, Preparation(drop_missing=True), "ab")
    with pytest.raises(InputError, match="more than 1,000 different values"):
        prepared(np.arange(3000.0).reshape(-1, 2), Preparation(one_hot=(1,)))
    with pytest.raises(InputError, match="beyond single precision"):
        prepared(np.array([[1e200], [2.0]]), Preparation(impute="mean"))


def test_a_pipeline_of_scikit_learn_gives_the_same_clusters(table):
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 60)
    X = rng.normal(size=(180, 3)) + 7 * np.eye(3)[truth]
    X *= [1, 1000, 0.01]
    y = np.full(180, -1)
    y[[0, 1, 60, 61, 120, 121]] = [0, 0, 1, 1, 2, 2]
    csp = ml.CSP(n_clusters=3, random_state=0)
    by_pipeline = make_pipeline(StandardScaler(), csp).fit(X, y)[-1].labels_
    points = np.asarray(prepared(X, Preparation("standard")))
    np.testing.assert_array_equal(
        ml.CSP(n_clusters=3, random_state=0).fit(points, y).labels_, by_pipeline
    )
    assert len(set(zip(by_pipeline.tolist(), truth.tolist(), strict=True))) == 3
