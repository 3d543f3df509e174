"""Refinement by the degree-corrected block model: sums, gains, a likelihood that never falls."""

import numba as nb
import numpy as np
import pytest
import scipy.sparse as sp

import oracles
from cases import planted_graph, random_graph
from mustlink.discretize.cuts import BlockModel, refine
from mustlink.operators.laplacian import NormalizedLaplacian


def model_of(W, blocks, k):
    W = sp.csr_matrix(W)
    unit = W.data[W.data > 0].mean()
    return BlockModel(NormalizedLaplacian.of_weights(W), blocks, k, unit)


def refined(model, held, seed):
    return refine(model, held, np.arange(held.size), seed)


def all_possible(model):
    return np.ones((model.laplacian.null.n_components, model.k), dtype=bool)


def with_loops_and_nothing(rng, W):
    """Some nodes with an edge to themselves, and some stored edges that weigh nothing."""
    W = W.tolil()
    for i in rng.choice(W.shape[0], 3, replace=False):
        W[i, i] = 1.0 + rng.random()
    W = sp.csr_matrix(W)
    i, j = np.argwhere(W.toarray() == 0)[0]
    zeros = sp.coo_matrix(([0.0, 0.0], ([i, j], [j, i])), shape=W.shape)
    W = W.tocoo()
    every = [np.concatenate(pair) for pair in ((W.data, zeros.data), (W.row, zeros.row))]
    return sp.csr_matrix((every[0], (every[1], np.concatenate([W.col, zeros.col]))), shape=W.shape)


@pytest.mark.thorough(but=14)
@pytest.mark.parametrize("seed", range(42))
def test_sums_and_gains_are_those_of_the_dense_twin(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(6, 30)), int(rng.integers(1, 7))
    W = random_graph(rng, n, 1 + seed % 3, weighted=bool(seed % 2))
    if seed % 4 == 0:
        W = with_loops_and_nothing(rng, W)
    blocks = rng.integers(-1 if seed % 5 == 0 else 0, k, n)
    blocks[blocks == k - 2] = max(k - 1, 0)  # a class that is empty
    model, dense = model_of(W.copy(), blocks, k), W.toarray()
    B, size = oracles.block_sums(dense, blocks, k)
    rates = B / np.outer(size, size)
    constant = 0.5 * size @ rates @ size
    expected = oracles.block_likelihood(dense, blocks, k, rates) + constant
    assert model.likelihood == pytest.approx(expected, rel=1e-12)
    gains = oracles.block_gains(dense, blocks, k)
    tolerance = 1e-10 * np.abs(gains).max()
    np.testing.assert_allclose(model.gains(), gains, atol=tolerance)
    held, own = rng.random(n) < 0.1, gains[np.arange(n), np.maximum(blocks, 0)]
    to = model.moves(held, all_possible(model))
    stays = to < 0
    chosen = gains[np.arange(n), to]
    np.testing.assert_allclose(chosen[~stays], gains.max(axis=1)[~stays], atol=tolerance)
    free = (blocks >= 0) & ~held
    assert stays[~free].all()
    assert (gains.max(axis=1) - own <= tolerance)[stays & free].all()
    P = np.exp(gains - gains.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.distributions(all_possible(model)), P, atol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_the_gain_of_a_move_is_what_the_likelihood_gains_at_fixed_rates(seed):
    rng = np.random.default_rng(seed)
    n, k = 20, 4
    W = random_graph(rng, n).toarray()
    blocks = rng.integers(0, k, n)
    B, size = oracles.block_sums(W, blocks, k)
    rates = B / np.outer(size, size)
    before = oracles.block_likelihood(W, blocks, k, rates)
    gains = model_of(W, blocks, k).gains()
    for i in np.flatnonzero(gains.argmax(axis=1) != blocks):
        moved, own, to = blocks.copy(), blocks[i], gains[i].argmax()
        moved[i] = to
        degree = W[i].sum() / W[W != 0].mean()
        # Left out of the gain: what the node would weigh with itself.
        itself = 0.5 * degree**2 * (rates[to, to] + rates[own, own] - 2 * rates[to, own])
        after = oracles.block_likelihood(W, moved, k, rates)
        assert after - before == pytest.approx(
            gains[i, to] - gains[i, own] - itself, rel=1e-9, abs=1e-9
        )


@pytest.mark.parametrize("seed", range(30))
def test_no_sweep_lowers_the_likelihood_and_held_nodes_stay(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    n, k = 60, 1 + seed % 5
    W = random_graph(rng, n, 1 + seed % 2)
    start, held = rng.integers(0, k, n), rng.random(n) < 0.2
    model = model_of(W, start, k)
    seen = [model.likelihood]
    for _ in range(15):
        monkeypatch.setattr("mustlink.discretize.cuts._SWEEPS", 1)
        model = refined(model, held, seed)
        seen.append(model.likelihood)
    assert (np.diff(seen) >= 0).all()
    assert (model.blocks[held] == start[held]).all()
    assert k == 1 or seen[-1] > seen[0]


def test_planted_clusters_come_back_from_a_guess_that_is_half_wrong():
    rng = np.random.default_rng(0)
    W, y = planted_graph(rng, 300, 3, 0.2, 0.03)
    start = np.where(rng.random(y.size) < 0.5, rng.integers(0, 3, y.size), y)
    found = refined(model_of(W, start, 3), np.zeros(y.size, dtype=bool), 0)
    assert np.mean(found.blocks == y) > 0.97


def test_blocks_that_are_linked_across_only_are_found():
    rng = np.random.default_rng(1)
    y = np.arange(200) % 2
    A = np.triu(rng.random((200, 200)) < np.where(y[:, None] == y, 0.02, 0.2), 1)
    W = sp.csr_matrix((A + A.T).astype(float))
    W = W + sp.diags(0.01 + np.zeros(200))  # nobody without an edge
    start = np.where(rng.random(200) < 0.3, 1 - y, y)
    found = refined(model_of(W, start, 2), np.zeros(200, dtype=bool), 0)
    assert np.mean(found.blocks == y) > 0.97


def test_the_unit_of_the_weights_does_not_matter():
    rng = np.random.default_rng(2)
    W = random_graph(rng, 80)
    start, held = rng.integers(0, 4, 80), np.zeros(80, dtype=bool)
    one = refined(model_of(W, start, 4), held, 0)
    other = refined(model_of(1e-6 * W, start, 4), held, 0)
    assert (one.blocks == other.blocks).all()
    np.testing.assert_allclose(
        *(m.distributions(all_possible(m)) for m in (one, other)), rtol=1e-6, atol=1e-12
    )


@pytest.mark.thorough
def test_every_number_of_threads_finds_the_same():
    rng = np.random.default_rng(3)
    W, y = planted_graph(rng, 3000, 30, 0.05, 0.005)
    start = rng.integers(0, 30, y.size)
    found = []
    before = nb.get_num_threads()
    try:
        for threads in (1, min(3, nb.config.NUMBA_NUM_THREADS)):
            nb.set_num_threads(threads)
            found.append(refined(model_of(W, start, 30), np.zeros(y.size, dtype=bool), 0))
    finally:
        nb.set_num_threads(before)
    assert (found[0].blocks == found[1].blocks).all()
    P, Q = (one.distributions(all_possible(one)) for one in found)
    assert (P == Q).all()
