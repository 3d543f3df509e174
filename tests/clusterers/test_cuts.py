"""Every feasible cut in the report of CSP, with its α (WD14 Lemma 1)."""

import json

import numpy as np
import pytest

import mustlink as ml
import oracles
from cases import KINDS, planted_graph, random_constraints, random_graph
from mustlink.errors import InfeasibleError, InputError
from mustlink_io.pictures import joint_range

BETAS = (-1.0, -0.3, -0.05, 0.05, 0.3, 0.6, 0.9)


def csp(k, **options):
    return ml.CSP(k, **{"affinity": "precomputed", "random_state": 0} | options)


def told(est):
    """The report's cuts as arrays."""
    found = est.report_.to_dict()["cuts"]
    json.dumps(found)
    columns = {name: np.array(found[name]) for name in ("cost", "alpha", "eigenvalues", "used")}
    return found | columns


def dense(W, known):
    """L̄, Q̄, D^½ and the nodes with an edge."""
    L, root, nodes = oracles.laplacian(W.toarray())
    return L, oracles.normalized_constraints(known.to_dense(), W.toarray()), root, nodes


@pytest.mark.thorough(but=14)
@pytest.mark.parametrize("seed", range(42))
def test_all_feasible_cuts_are_those_of_qz(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(15, 60)), 2 + seed % 3
    W = random_graph(rng, n, 1 + seed % 2, seed % 3)
    known = random_constraints(rng, n, KINDS[seed // 7 % len(KINDS)], k)
    L, Q, root, nodes = dense(W, known)
    try:
        est = csp(k, beta=BETAS[seed % 7], subspace="exact").fit(W, constraints=known)
    except InfeasibleError:
        return
    found, volume = told(est), W.sum()
    cost, alpha, lam = found["cost"], found["alpha"], found["eigenvalues"]
    b = est.report_.choices["beta"] * est.report_.choices["unit"]
    assert found["volume"] == pytest.approx(volume)
    assert found["beta"] == pytest.approx(b * volume)
    reference, V, _ = oracles.pencil(L, Q, b, volume)
    assert found["complete"]
    np.testing.assert_allclose(np.sort(lam), reference, rtol=1e-6)  # QZ's errors
    order = np.argsort(lam, kind="stable")
    for group in oracles.groups(reference, 1e-6):
        if group.stop - group.start > 1:
            continue  # of equal λ QZ and we may take other vectors
        v, at = V[:, group.start], order[group.start]
        assert cost[at] == pytest.approx(v @ L @ v, rel=1e-5, abs=1e-6 * volume)
        assert alpha[at] == pytest.approx(v @ Q @ v, rel=1e-5, abs=1e-6 * volume)
    assert (alpha > found["beta"]).all()  # Lemma 1
    np.testing.assert_allclose(alpha, found["beta"] + cost / lam, rtol=1e-6, atol=1e-8 * volume)
    assert (np.diff(cost) >= 0).all()
    assert found["used"].tolist() == [at < k - 1 for at in range(cost.size)]
    V = root[:, None] * est.embedding_[nodes]
    np.testing.assert_allclose(cost[: k - 1], est.costs_)
    np.testing.assert_allclose(alpha[: k - 1], np.einsum("ij,ij->j", V, Q @ V), rtol=1e-7,
                               atol=1e-9 * volume)  # fmt: skip
    values, X = np.linalg.eigh(L)
    plain = found["unconstrained"]
    kept = len(plain["cost"])
    np.testing.assert_allclose(plain["cost"], volume * values[-kept:], atol=1e-9 * volume)
    assert kept == len(L) - (values < 1e-9).sum()
    total = volume * np.einsum("ij,ij->j", X, Q @ X)[-kept:].sum()
    assert np.sum(plain["alpha"]) == pytest.approx(total, abs=1e-6 * volume)


@pytest.mark.parametrize("solver", ["lobpcg", "shift-invert"])
def test_solvers_tell_the_same_cuts(solver):
    rng = np.random.default_rng(4)
    W, y = planted_graph(rng, 150, 3)
    known = ml.Constraints.from_labels(np.where(rng.random(150) < 0.1, y, -1))
    one, other = (
        told(csp(3, beta=0.2, subspace="exact", solver=s).fit(W, constraints=known))
        for s in ("dense", solver)
    )
    assert other["complete"]
    assert len(one["cost"]) > 1
    for name in ("cost", "alpha", "eigenvalues"):
        np.testing.assert_allclose(other[name], one[name], rtol=1e-6)


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("seed", range(20))
def test_cuts_of_a_subspace_keep_lemma_1(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(30, 90))
    W = random_graph(rng, n, 1, seed % 3)
    known = random_constraints(rng, n, KINDS[seed % len(KINDS)], 3)
    _, Q, root, nodes = dense(W, known)
    try:
        est = csp(3, subspace=8, beta=BETAS[seed % 7]).fit(W, constraints=known)
    except InfeasibleError:
        return
    found = told(est)
    V = root[:, None] * est.embedding_[nodes]
    mine = found["alpha"][found["used"]]
    np.testing.assert_allclose(mine, np.einsum("ij,ij->j", V, Q @ V), rtol=1e-6,
                               atol=1e-8 * W.sum())  # fmt: skip
    assert (found["alpha"] > found["beta"]).all()
    assert len(found["unconstrained"]["cost"]) == 8


def test_what_is_no_list_of_cuts_is_refused():
    with pytest.raises(InputError, match=r'cuts: no cost, .*; give est.report_.extra\["cuts"\]'):
        joint_range({})
