"""Points by blocks: several sources as one, and clusterers that go on from block to block."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
from every import blobs
from mustlink.errors import DoubtfulResultWarning, InputError
from mustlink.graph.shares import Shares, gram_of
from mustlink.neighbors.streamed_points import StackedRows, as_stream, begun, continued


def test_stacked_blocks_are_their_rows():
    X, _ = blobs(0, 100)
    rows = StackedRows([X[:30], X[30:31], X[31:31], X[31:]])
    assert rows.shape == (100, 4)
    for a, b in ((0, 100), (0, 30), (29, 31), (30, 31), (31, 90), (50, 50), (99, 200)):
        assert np.array_equal(rows[a:b], X[a:b])
    assert as_stream(X) is X
    assert as_stream([[1.0, 2.0], [3.0, 4.0]]) == [[1.0, 2.0], [3.0, 4.0]]
    assert np.array_equal(as_stream(iter([X[:7], X[7:]]))[0:100], X)


@pytest.mark.parametrize("how", [None, 40])
def test_fits_to_blocks_are_those_to_all(how):
    X, _ = blobs(1, 300)
    here = ml.NCut(3, representatives=how, random_state=0).fit(X)
    there = ml.NCut(3, representatives=how, random_state=0).fit([X[:100], X[100:120], X[120:]])
    assert np.array_equal(here.labels_, there.labels_)


def test_blocks_that_do_not_fit_together():
    X, _ = blobs(1, 90)
    with pytest.raises(InputError, match=r"points: block 1 has shape \(45, 3\)"):
        ml.NCut(3).fit([X[:45], X[45:, :3]])


def test_a_stream_counts_as_all_rows_at_once():
    X, _ = blobs(2, 600)
    graph = begun(X[:300], 40, metric="euclidean", random_state=0)
    finder = graph.shares.finder
    for a in (300, 400):
        graph = continued(graph, X[a : a + (100 if a == 300 else 200)])
    assert graph.info["seen"] == 600
    W, mass = gram_of(finder.shares(finder.prepared(X)[0:600]), 40)
    assert np.allclose(graph.weights, mass)
    A, W = graph.affinity.toarray(), W.toarray()
    assert np.allclose(A[W > 0], W[W > 0])
    bridges = graph.info.get("n_bridges", 0)  # of the first block
    assert np.count_nonzero(A) - np.count_nonzero(W) <= 2 * bridges
    assert isinstance(graph.shares, Shares)


def test_clusterers_go_on_from_block_to_block(tmp_path):
    X, y = blobs(3, 900)
    est = ml.NCut(3, representatives=60, random_state=0)
    for a in range(0, 900, 300):
        est.partial_fit(X[a : a + 300])
    assert est.labels_.shape == (60,)
    assert adjusted_rand_score(est.predict(X), y) > 0.95
    est.save(tmp_path / "model.h5")
    loaded = ml.load(tmp_path / "model.h5")
    assert np.array_equal(loaded.predict(X), est.predict(X))
    assert np.array_equal(loaded.partial_fit(X).labels_, est.partial_fit(X).labels_)
    assert est.fit(X).labels_.shape == (900,)
    assert est.partial_fit(X[:300]).graph_.info["seen"] == 300


def test_a_stream_that_drifts_gets_representatives():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2)).astype(np.float32)
    est = ml.NCut(2, representatives=30, random_state=0).partial_fit(X[:1000])
    est.partial_fit(X[1000:] + 200)
    assert len(est.labels_) > 30
    assert any("more for points of this block" in one for one in est.report_.notes)
    found = est.predict(np.concatenate([X[:50], X[1000:1050] + 200]))
    assert adjusted_rand_score(found, np.repeat([0, 1], 50)) == 1


def test_what_a_stream_cannot_begin_with():
    X, _ = blobs(3, 300)
    with pytest.raises(InputError, match="representatives: 400 for 300 points"):
        ml.NCut(3, representatives=400).partial_fit(X)
    assert not hasattr(ml.NCut(3), "partial_fit")  # as scikit-learn asks
    with pytest.raises(AttributeError, match="representatives='auto'; give a number, such as"):
        ml.NCut(3, representatives="auto").partial_fit(X)


def test_labels_of_a_stream_are_not_used_silently():
    X, y = blobs(3, 300)
    with pytest.warns(DoubtfulResultWarning, match="y: labels of a stream are not used"):
        est = ml.NCut(3, representatives=40, random_state=0).partial_fit(X, y)
    assert any("labels of a stream" in one for one in est.report_.warnings)


def test_a_block_that_fails_changes_nothing():
    X, _ = blobs(3, 600)
    est = ml.NCut(3, representatives=40, random_state=0).partial_fit(X)
    before = est.labels_.copy(), est.graph_
    for wrong in (X[:, :3], np.full((5, 4), np.nan)):
        with pytest.raises((InputError, ValueError)):
            est.partial_fit(wrong)
    assert np.array_equal(est.labels_, before[0])
    assert est.graph_ is before[1]


def test_lazy_arrays_and_tables_of_dask():
    dask_array = pytest.importorskip("dask.array")
    X, _ = blobs(4, 300)
    here = ml.NCut(3, representatives=40, random_state=0).fit(X)
    lazy = dask_array.from_array(X, chunks=(70, 4))
    assert np.array_equal(
        ml.NCut(3, representatives=40, random_state=0).fit(lazy).labels_, here.labels_
    )
    frames = pytest.importorskip("dask.dataframe")
    import pandas as pd

    table = frames.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=3)
    found = ml.NCut(3, representatives=40, random_state=0).fit(table)
    assert np.array_equal(found.labels_, here.labels_)
