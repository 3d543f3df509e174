"""SRCP and E2CP: the estimators against dense twins, and hard input."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
import oracles
from cases import blobs, planted_graph, random_graph
from mustlink.clusterers.ncut import NCut
from mustlink.clusterers.srcp import E2CP, SRCP
from mustlink.errors import InputError
from mustlink.operators.laplacian import normalized_laplacian

BOTH = pytest.mark.parametrize("method", [SRCP, E2CP])


def estimator(method, k=3, **options):
    return method(k, **{"affinity": "precomputed", "random_state": 0} | options)


def exact(method, k=3, **options):
    """The paper as printed: every new edge, F as it is."""
    printed = {"solver": "dense", "new_edges": "all", "normalize": False, "variant": "luxburg"}
    return estimator(method, k, **printed | {"tol": 1e-14} | options)


def separable(seed=0, n=90, k=3, alone=0):
    """Clusters that anyone finds, weights in [0, 1], lone nodes at the end: W, classes."""
    W, y = planted_graph(np.random.default_rng(seed), n, k)
    W = sp.csr_matrix(np.pad(W.toarray() / W.max(), (0, alone)))
    return W, np.append(y, np.full(alone, -1))


def true_pairs(rng, y, count, wrong=0):
    """Pairs of nodes with a class, said as they are; the first `wrong` of them are not."""
    nodes = np.flatnonzero(y >= 0)
    rows = np.array([rng.choice(nodes, 2, replace=False) for _ in range(count)])
    belief = np.where(y[rows[:, 0]] == y[rows[:, 1]], 1.0, -1.0)
    belief[:wrong] *= -1
    return ml.Constraints.from_pairs(rows, belief, n_nodes=y.size)


def field_of(est, W, known):
    A = W.toarray().astype(np.float64)
    Y = oracles.known_pairs(known, A)
    if isinstance(est, SRCP):
        return oracles.bartels_stewart(A, Y, est.mu)
    return oracles.exhaustive(A, Y, est.alpha)


def moons(seed=0, n=300):
    """Two interleaved half moons as a 20-NN graph: NCut cuts them straight across."""
    X, y = make_moons(n, noise=0.18, random_state=seed)
    return ml.knn_graph(X, n_neighbors=20, random_state=0).affinity, y


# --- against dense algebra


@BOTH
@pytest.mark.parametrize("seed", range(5))
def test_as_printed(method, seed):
    """Every F by scipy, eq. 9 on all pairs, dense eigenvectors, k-means."""
    W, y = separable(seed, alone=seed % 3)
    rng = np.random.default_rng(seed)
    known = true_pairs(rng, y, 60)
    if seed == 3:
        known += ml.Constraints.from_labels(np.where(rng.random(y.size) < 0.2, y, -1))
    est = exact(method).fit(W, constraints=known)
    F = field_of(est, W, known)
    moved, labels = oracles.propagated_cut(W.toarray(), F, 3, 0)
    assert np.abs(est.affinity_matrix_.toarray() - moved).max() < 1e-10
    assert adjusted_rand_score(labels, est.labels_) == 1
    assert adjusted_rand_score(y[y >= 0], est.labels_[y >= 0]) == 1
    np.testing.assert_array_equal(est.labels_ < 0, y < 0)
    L, root, nodes = oracles.laplacian(moved)
    np.testing.assert_allclose(est.eigenvalues_, np.linalg.eigvalsh(L)[:3], atol=1e-7)
    V = est.embedding_[nodes] * root[:, None]
    assert np.abs(L @ V - V * est.eigenvalues_).max() < 1e-6
    assert est.embedding_.shape == (y.size, 3)
    assert not est.embedding_[y < 0].any()


@BOTH
def test_strong_and_soft_beliefs(method):
    W, y = separable(1)
    known = true_pairs(np.random.default_rng(0), y, 40)
    loud = ml.Constraints.from_pairs(known.pairs, 7.0 * known.belief, n_nodes=y.size)
    soft = ml.Constraints.from_pairs(known.pairs, 0.3 * known.belief, n_nodes=y.size)
    stars = []
    for said in (known, loud, soft):
        est = exact(method).fit(W, constraints=said)
        stars.append(est.affinity_matrix_.toarray())
        F = field_of(est, W, said)
        assert np.abs(stars[-1] - oracles.propagated_cut(W.toarray(), F, 3, 0)[0]).max() < 1e-10
    np.testing.assert_array_equal(stars[0], stars[1])
    # Scaled by its largest magnitude, F does not know how loud it was.
    scaled = exact(method, normalize=True, power=1.0)
    ours = [scaled.fit(W, constraints=c).affinity_matrix_ for c in (known, soft)]
    assert abs(ours[0] - ours[1]).max() < 1e-10


@pytest.mark.thorough(but=1)
@BOTH
@pytest.mark.parametrize("new_edges", [0, 3, 20])
def test_diffusion_is_dense(method, new_edges):
    W, y = separable(2, alone=2)
    known = true_pairs(np.random.default_rng(1), y, 50)
    found = [
        estimator(method, solver=solver, tol=1e-7, new_edges=new_edges, power=1.0).fit(
            W, constraints=known
        )
        for solver in ("auto", "diffusion")
    ]
    dense, local = (est.affinity_matrix_ for est in found)
    assert abs(dense - local).max() < 1e-6
    assert abs(dense - dense.T).max() < 1e-15
    assert 0 < dense.data.min() <= dense.data.max() <= 1
    assert (found[0].labels_ == found[1].labels_).all()
    assert found[0].report_.choices["propagation"] == "dense"
    assert found[1].report_.choices["propagation"] == "diffusion"
    pattern = dense.astype(bool).toarray() & ~W.astype(bool).toarray()
    assert pattern.any() == (new_edges > 0)


def test_what_new_edges_are():
    """Each node asks for its largest F; W* has those edges and the graph's."""
    W, y = separable(3)
    known = true_pairs(np.random.default_rng(1), y, 50)
    est = estimator(SRCP, new_edges=2, normalize=False, tol=1e-12).fit(W, constraints=known)
    A, F = W.toarray(), field_of(est, W, known)
    kept = np.where(A > 0, F, 0.0)
    new = oracles.strongest_outside(A, F, 2, 1e-12)
    for (i, j), f in new.items():
        kept[i, j] = kept[j, i] = f
    np.testing.assert_allclose(
        est.affinity_matrix_.toarray(), oracles.adjusted(A, kept), atol=1e-11
    )
    told = est.report_.to_dict()["adjustment"]
    upper = F[np.triu(A, 1) > 0]
    assert told["added"] == len(new)
    assert told["strengthened"] == (upper > 0).sum()
    assert told["weakened"] == (upper < 0).sum()
    assert told["strengthened"] + told["weakened"] + told["untouched"] == W.nnz // 2
    assert told["F"]["0"] == pytest.approx(upper.min())
    assert told["F"]["1"] == pytest.approx(upper.max())
    assert est.report_.extra["propagation_quality"]["residual"] < 1e-12


@pytest.mark.thorough(but=1)
@BOTH
def test_all_new_edges_is_the_paper_on_random_graphs(method):
    """W* of eq. 9 on all pairs, however small F is there: nothing is left out."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(8, 40))
        W = random_graph(rng, n, 1 + seed % 3, density=0.3, isolated=seed % 2)
        W.data /= W.data.max()
        known = true_pairs(rng, rng.integers(0, 3, W.shape[0]), n // 2)
        est = estimator(method, 2, normalize=False, variant="luxburg", new_edges="all", tol=0.5)
        star = est.fit(W, constraints=known).affinity_matrix_.toarray()
        F, nodes = field_of(est, W, known), oracles.laplacian(W.toarray())[2]
        everywhere = np.zeros(W.shape)
        everywhere[np.ix_(nodes, nodes)] = F - np.diag(np.diag(F))
        assert np.abs(star - oracles.adjusted(W.toarray(), everywhere)).max() < 1e-10


def test_all_new_edges_are_for_small_graphs_by_dense_algebra():
    W, y = separable()
    known = true_pairs(np.random.default_rng(0), y, 5)
    with pytest.raises(InputError, match='for "dense", not "diffusion"'):
        estimator(SRCP, new_edges="all", solver="diffusion").fit(W, constraints=known)
    ring = sp.diags_array([np.ones(5999), np.ones(5999)], offsets=[-1, 1]).tocsr()
    few = ml.Constraints.from_pairs([[0, 9]], n_nodes=6000)
    with pytest.raises(InputError, match="6,000 nodes; at most 5,000"):
        estimator(SRCP, new_edges="all").fit(ring, constraints=few)


# --- F of every pair


def whole(est, W, known):
    """F (n, n) by dense algebra, 0 on nodes without an edge."""
    nodes = oracles.laplacian(W.toarray())[2]
    F = np.zeros(W.shape)
    F[np.ix_(nodes, nodes)] = field_of(est, W, known)
    return F


@pytest.mark.thorough
@BOTH
@pytest.mark.parametrize("solver", ["dense", "diffusion", "krylov"])
def test_every_pair_can_be_asked(method, solver):
    if method is E2CP and solver == "krylov":
        pytest.skip("for SRCP only")
    for seed in range(10):
        rng = np.random.default_rng(seed)
        W, y = separable(seed, n=45, alone=seed % 3)
        known = true_pairs(rng, y, 25)
        est = estimator(method, solver=solver, tol=1e-5).fit(W, constraints=known)
        true, F = whole(est, W, known), est.propagated_constraints_
        assert F.shape == W.shape
        assert repr(F).startswith(f"AllPairs({y.size} x {y.size}")
        assert np.abs(F[np.arange(y.size)[:, None], np.arange(y.size)] - true).max() < 1e-5
        i, j = rng.integers(0, y.size, 2)
        assert F[i, j] == pytest.approx(true[i, j], abs=1e-5)
        np.testing.assert_allclose(F.row(i), true[i], atol=1e-5)
        np.testing.assert_allclose(F[i, [0, 3, 3]], true[i, [0, 3, 3]], atol=1e-5)
        for kind, shown in (("must", np.maximum(true, 0)), ("cannot", np.minimum(true, 0))):
            pairs, values = F.top(7, kind)
            best = np.sort(np.abs(shown[np.triu_indices(y.size, 1)]))[::-1][:7]
            np.testing.assert_allclose(np.abs(values), best, atol=1e-5)
            np.testing.assert_allclose(true[pairs[:, 0], pairs[:, 1]], values, atol=1e-5)
            assert (pairs[:, 0] < pairs[:, 1]).all()
        both = np.abs(F.top(5)[1])
        np.testing.assert_allclose(
            both, np.sort(np.abs(true[np.triu_indices(y.size, 1)]))[::-1][:5], atol=1e-5
        )


@pytest.mark.thorough
def test_the_strongest_pairs_of_large_graphs(monkeypatch):
    """Above 20,000 nodes they are looked for around the constraints, and are the same."""
    import mustlink.lyapunov.all_pairs as all_pairs

    W, y = separable(4, n=200)
    known = true_pairs(np.random.default_rng(0), y, 60)
    est = estimator(SRCP, solver="diffusion", tol=1e-4).fit(W, constraints=known)
    F = est.propagated_constraints_
    looked = {kind: F.top(25, kind) for kind in all_pairs.KINDS}
    monkeypatch.setattr(all_pairs, "_WHOLE", 10)
    for kind, (pairs, values) in looked.items():
        near, found = F.top(25, kind)
        np.testing.assert_array_equal(near, pairs)
        np.testing.assert_allclose(found, values, rtol=1e-9)
    small = estimator(SRCP, solver="krylov", mu=0.01).fit(W, constraints=known)
    with pytest.raises(InputError, match="larger mu"):
        small.propagated_constraints_.top()


def test_F_is_of_the_last_fit():
    W, y = separable(1)
    rng = np.random.default_rng(0)
    first, second = true_pairs(rng, y, 20), true_pairs(rng, y, 30)
    est = estimator(SRCP).fit(W, constraints=first)
    assert est.propagated_constraints_ is est.propagated_constraints_
    est.set_params(mu=5.0)  # as it was in the fit
    i, j = first.pairs[0]
    est.mu = 0.2
    true = whole(est, W, first)[i, j]
    est.mu = 5.0
    assert est.propagated_constraints_[i, j] == pytest.approx(true)
    est.refit(constraints=second)
    assert est.propagated_constraints_[i, j] == pytest.approx(whole(est, W, second)[i, j])
    with pytest.raises(NotFittedError):
        _ = SRCP().propagated_constraints_
    for wrong in ((0, 90), (-1, 0), (0.5, 1), 3):
        with pytest.raises(InputError, match="F: "):
            est.propagated_constraints_[wrong]
    silent = estimator(SRCP).fit(W)
    assert silent.propagated_constraints_[0, 1] == 0
    assert silent.propagated_constraints_.top()[0].shape == (0, 2)


def test_F_between_equal_rows():
    """Rows that are one node are asked for as themselves; F is that of distinct copies."""
    X, y = blobs(np.random.default_rng(0), 60, 3)
    X, y = np.repeat(X, 3, axis=0), np.repeat(y, 3)
    graph = ml.knn_graph(X, 8, duplicates="merge", random_state=0)
    assert graph.n_nodes == 60
    known = true_pairs(np.random.default_rng(1), y, 40)
    est = estimator(SRCP, tol=1e-9).fit(graph, constraints=known)
    F = est.propagated_constraints_
    assert F.shape == (180, 180)
    assert F[0, 9] == F[1, 11] == F[9, 2]
    assert F.row(0)[10] == F[0, 9]
    told = est.report_.choices["largest_F"]
    pairs, values = F.top(1)
    assert abs(values[0]) == pytest.approx(told, rel=1e-6)
    assert (pairs % 3 == 0).all()


def test_normalize_divides_by_the_largest():
    W, y = separable(4)
    known = true_pairs(np.random.default_rng(1), y, 12)
    est = exact(SRCP, normalize=True, power=1.0).fit(W, constraints=known)
    F = field_of(est, W, known)
    largest = np.abs(F - np.diag(np.diag(F))).max()
    assert est.report_.choices["largest_F"] == pytest.approx(largest)
    moved, _ = oracles.propagated_cut(W.toarray(), F / largest, 3, 0)
    assert np.abs(est.affinity_matrix_.toarray() - moved).max() < 1e-10


@pytest.mark.thorough
def test_all_solvers_and_threads_give_the_same_labels():
    W, y = moons()
    known = true_pairs(np.random.default_rng(2), y, 300)
    found = [
        estimator(SRCP, 2, solver=solver, n_jobs=jobs, tol=1e-6, power=1.0).fit(
            W, constraints=known
        )
        for solver in ("dense", "diffusion", "krylov")
        for jobs in (1, 2, None)
    ]
    for est in found[1:]:
        assert adjusted_rand_score(found[0].labels_, est.labels_) == 1
    for at in (0, 3, 6):
        for est in found[at + 1 : at + 3]:
            np.testing.assert_array_equal(est.labels_, found[at].labels_)
            assert (est.affinity_matrix_ != found[at].affinity_matrix_).nnz == 0
    again = clone(found[3]).fit(W, constraints=known)
    np.testing.assert_array_equal(again.embedding_, found[3].embedding_)


def test_small_mu_goes_far():
    W, y = separable(5)
    known = true_pairs(np.random.default_rng(1), y, 30)
    for mu in (1.0, 0.01, 0.001):
        est = exact(SRCP, mu=mu, solver="krylov", new_edges=10**4, tol=1e-9).fit(
            W, constraints=known
        )
        moved, labels = oracles.propagated_cut(W.toarray(), field_of(est, W, known), 3, 0)
        assert np.abs(est.affinity_matrix_.toarray() - moved).max() < 1e-7
        assert adjusted_rand_score(labels, est.labels_) == 1


# --- more constraints help


@BOTH
def test_pairs_tell_moons_apart(method):
    W, y = moons()
    alone = adjusted_rand_score(y, estimator(NCut, 2).fit(W).labels_)
    scores = []
    for count in (20, 75, 300):
        known = true_pairs(np.random.default_rng(count), y, count)
        est = estimator(method, 2).fit(W, constraints=known)
        scores.append(adjusted_rand_score(y, est.labels_))
    assert alone < 0.4
    assert scores[1] > alone + 0.4
    assert scores[2] > 0.9
    assert scores[0] <= scores[2]


def test_a_few_wrong_pairs_do_little_harm():
    W, y = moons()
    known = true_pairs(np.random.default_rng(0), y, 300, wrong=15)
    est = estimator(SRCP, 2).fit(W, constraints=known)
    assert adjusted_rand_score(y, est.labels_) > 0.85
    assert 0.8 < est.report_.satisfaction["kept"] < 1


@BOTH
def test_labels_alone(method):
    W, y = moons()
    few = np.where(np.random.default_rng(0).random(y.size) < 0.1, y, -1)
    found = estimator(method, 2).fit_predict(W, few)
    assert adjusted_rand_score(y, found) > 0.85


def test_variant_auto_keeps_more():
    W, y = moons(1)
    known = true_pairs(np.random.default_rng(0), y, 100)
    kept = {}
    for variant in ("luxburg", "ng", "auto"):
        est = estimator(SRCP, 2, variant=variant, power=1.0).fit(W, constraints=known)
        report = est.report_
        kept[variant] = report.satisfaction["kept_weighted"], report.choices["variant"]
    assert kept["auto"] == max(kept["luxburg"], kept["ng"], key=lambda one: one[0])


@pytest.mark.parametrize("power", [1.0, 0.5, 0.25])
def test_powers_raise_far_beliefs(power):
    W, y = separable(2)
    known = true_pairs(np.random.default_rng(0), y, 20)
    est = exact(SRCP, normalize=True, power=power).fit(W, constraints=known)
    F = field_of(est, W, known)
    np.fill_diagonal(F, 0)
    shaped = np.sign(F) * (np.abs(F) / np.abs(F).max()) ** power
    moved, labels = oracles.propagated_cut(W.toarray(), shaped, 3, 0)
    assert np.abs(est.affinity_matrix_.toarray() - moved).max() < 1e-8
    assert adjusted_rand_score(labels, est.labels_) == 1


def test_power_auto_keeps_most():
    W, y = moons(1)
    known = true_pairs(np.random.default_rng(0), y, 60)
    kept = {}
    for power in (1.0, 0.5, 0.25, "auto"):
        est = estimator(SRCP, 2, power=power).fit(W, constraints=known)
        kept[power] = est.report_.satisfaction["kept_weighted"]
    assert kept["auto"] == max(kept.values())
    told = json.loads(json.dumps(est.report_.to_dict()))
    assert len(told["candidates"]) == 6
    assert told["choices"]["power"] in (1.0, 0.5, 0.25)


def test_shi_malik_makes_two():
    W, y = separable(0, k=2)
    known = true_pairs(np.random.default_rng(0), y, 20)
    est = estimator(SRCP, 2, variant="shi-malik").fit(W, constraints=known)
    assert adjusted_rand_score(y, est.labels_) == 1
    with pytest.raises(InputError, match="shi-malik"):
        estimator(SRCP, 3, variant="shi-malik").fit(W, constraints=known)


# --- input


@pytest.mark.thorough
def test_every_kind_of_input():
    X, y = blobs(np.random.default_rng(0), 200, 3, duplicates=5)
    few = np.where(np.arange(200) % 10 == 0, y, -1)
    known = true_pairs(np.random.default_rng(0), y, 30)
    graph = ml.knn_graph(X, n_neighbors=20, random_state=0)
    for options, data in (
        ({"affinity": "knn"}, X),
        ({"affinity": "knn"}, graph),
        ({}, graph),
        ({}, graph.affinity),
        ({}, graph.affinity.toarray()),
        ({"affinity": "rbf"}, X),
    ):
        for side in ({"y": few}, {"constraints": known}, {"y": few, "constraints": known}):
            est = estimator(SRCP, 3, **options).fit(data, **side)
            assert adjusted_rand_score(y, est.labels_) == 1
            assert est.report_.satisfaction["kept"] == 1
            assert est.affinity_matrix_.shape == est.graph_.affinity.shape


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("solver", ["dense", "diffusion", "krylov"])
@pytest.mark.parametrize("new_edges", [0, 5])
def test_arguments_stay_as_they_are(solver, new_edges):
    """One cannot-link on an edge: F, divided by its largest, is −1 there and the edge goes."""
    W, y = separable(0, alone=1)
    i, j = np.argwhere((np.triu(W.toarray()) > 0) & (y[:, None] != y))[0]
    known = ml.Constraints.from_pairs([[i, j]], -1.0, n_nodes=y.size)
    graph = ml.Graph.from_affinity(W)
    S = normalized_laplacian(graph).S
    held = [W, graph.affinity, S, known.matrix]
    arrays = [a for M in held for a in (M.data, M.indices, M.indptr)]
    copies = [a.copy() for a in arrays]
    est = estimator(SRCP, solver=solver, new_edges=new_edges)
    first = est.fit(graph, constraints=known).affinity_matrix_
    second = est.fit(graph, constraints=known).affinity_matrix_
    assert first[i, j] < 1e-12
    assert (first != second).nnz == 0
    for M in held:
        M.check_format(full_check=True)
    now = [a for M in held for a in (M.data, M.indices, M.indptr)]
    for one, two in zip(copies, now, strict=True):
        np.testing.assert_array_equal(one, two)


def test_single_precision():
    W, y = separable(1)
    known = true_pairs(np.random.default_rng(0), y, 40)
    wide, narrow = (exact(SRCP).fit(M, constraints=known) for M in (W, W.astype(np.float32)))
    assert abs(wide.affinity_matrix_ - narrow.affinity_matrix_).max() < 1e-6
    assert adjusted_rand_score(wide.labels_, narrow.labels_) == 1
    assert not any("divided" in note for note in narrow.report_.notes)


def test_weights_above_one():
    W, y = separable(1)
    known = true_pairs(np.random.default_rng(0), y, 40)
    one = exact(SRCP).fit(W, constraints=known)
    large = exact(SRCP).fit(3.5 * W, constraints=known)
    assert abs(one.affinity_matrix_ - large.affinity_matrix_).max() < 1e-12
    assert any("weights were divided by 3.5" in note for note in large.report_.notes)
    assert not any("divided" in note for note in one.report_.notes)


def test_loops_in_the_graph():
    W, y = separable(1)
    W = sp.csr_matrix(W + sp.eye(y.size) * 0.5)
    known = true_pairs(np.random.default_rng(0), y, 40)
    est = exact(SRCP).fit(W, constraints=known)
    A = W.toarray()
    moved = oracles.adjusted(A, field_of(est, W, known))
    assert np.abs(est.affinity_matrix_.toarray() - moved).max() < 1e-10


def test_isolated_nodes():
    W, y = separable(1, alone=4)
    order = np.random.default_rng(5).permutation(y.size)
    W, y = W[order][:, order], y[order]
    lone = np.flatnonzero(y < 0)
    known = true_pairs(np.random.default_rng(0), y, 40) + ml.Constraints.from_pairs(
        [[lone[0], lone[1]], [lone[2], 0 if y[0] >= 0 else 1]], -1.0, n_nodes=y.size
    )
    est = estimator(SRCP).fit(W, constraints=known)
    assert (est.labels_[lone] == -1).all()
    assert adjusted_rand_score(y[y >= 0], est.labels_[y >= 0]) == 1
    star = est.affinity_matrix_
    assert not np.diff(star.indptr)[lone].any()
    assert any("have no edge" in note or "has no edge" in note for note in est.report_.notes)
    assigned = estimator(SRCP, isolated="assign").fit(W, constraints=known)
    assert (assigned.labels_[lone] == np.bincount(est.labels_[y >= 0]).argmax()).all()


def test_nodes_that_lose_all_edges():
    """F = −1 on the only edge of a node leaves it alone in W*."""
    W, y = separable(0)
    A = np.pad(W.toarray(), (0, 1))
    A[0, -1] = A[-1, 0] = 0.4
    known = ml.Constraints.from_pairs([[0, 90]], -1.0, n_nodes=91)
    est = estimator(SRCP, new_edges=0).fit(sp.csr_matrix(A), constraints=known)
    assert est.affinity_matrix_[[90]].nnz == 0
    assert est.labels_[90] == -1
    assert adjusted_rand_score(y, est.labels_[:90]) == 1


def test_pairs_between_components_join_them():
    rng = np.random.default_rng(0)
    W = random_graph(rng, 60, 4, density=0.4)
    W.data /= W.data.max()
    part = oracles.components(W.toarray())
    y = part // 2
    ends = [np.flatnonzero(part == c) for c in range(4)]
    rows = [[a, b] for c in (0, 2) for a, b in zip(ends[c], ends[c + 1], strict=False)]
    known = ml.Constraints.from_pairs(rows, n_nodes=60)
    graph = ml.Graph.from_affinity(W)
    for solver in ("dense", "diffusion", "krylov"):
        est = estimator(SRCP, 2, solver=solver).fit(graph, constraints=known)
        joined = oracles.components(est.affinity_matrix_.toarray())
        assert np.unique(joined).size == 2
        assert adjusted_rand_score(joined, y) == 1
        assert adjusted_rand_score(est.labels_, y) == 1
        assert est.report_.extra["n_components"] == 4


def test_duplicate_and_contradictory_pairs():
    W, y = separable(1)
    known = true_pairs(np.random.default_rng(0), y, 40)
    twice = ml.Constraints.from_pairs(
        np.vstack([known.pairs, known.pairs[:, ::-1]]), np.tile(known.belief, 2), n_nodes=y.size
    )
    one, two = (exact(SRCP).fit(W, constraints=c) for c in (known, twice))
    np.testing.assert_array_equal(one.affinity_matrix_.toarray(), two.affinity_matrix_.toarray())
    assert not any("contradiction" in note for note in two.report_.notes)
    a, b = known.pairs[0]
    against = known + ml.Constraints.from_pairs([[a, b]], -known.belief[0], n_nodes=y.size)
    est = exact(SRCP).fit(W, constraints=against)
    assert sum("1 contradiction in the constraints" in note for note in est.report_.notes) == 1
    rest = known.pairs[1:], known.belief[1:]
    without = exact(SRCP).fit(W, constraints=ml.Constraints.from_pairs(*rest, n_nodes=y.size))
    gone = {tuple(sorted(row)) for row in known.pairs[1:].tolist()}
    assert tuple(sorted((int(a), int(b)))) not in gone
    assert abs(est.affinity_matrix_ - without.affinity_matrix_).max() < 1e-12


@pytest.mark.thorough
@pytest.mark.parametrize("solver", ["auto", "krylov"])
def test_a_node_with_thousands_of_pairs(solver):
    rng = np.random.default_rng(0)
    n = 4000
    y = np.arange(n) % 2
    rows, columns = rng.integers(0, n, (2, 40_000))
    keep = (rows != columns) & ((y[rows] == y[columns]) | (rng.random(40_000) < 0.1))
    A = sp.coo_matrix((rng.uniform(0.1, 0.4, keep.sum()), (rows[keep], columns[keep])), (n, n))
    W = sp.csr_matrix(A + A.T)
    partners = rng.permutation(np.arange(1, n))[:3000]
    pairs = np.column_stack([np.zeros(3000, dtype=int), partners])
    known = ml.Constraints.from_pairs(pairs, np.where(y[partners] == 0, 1.0, -1.0), n_nodes=n)
    est = estimator(SRCP, 2, solver=solver).fit(W, constraints=known)
    assert est.report_.choices["sources"] == 2
    assert est.report_.extra["pairs_with_the_sign_of_F"] > 0.97
    assert adjusted_rand_score(y, est.labels_) > 0.97
    assert est.report_.satisfaction["kept"] > 0.97


# --- the report, refit


@BOTH
@pytest.mark.parametrize("solver", ["dense", "diffusion", "krylov"])
def test_the_report(method, solver):
    if method is E2CP and solver == "krylov":
        pytest.skip("for SRCP only")
    W, y = separable(1, alone=1)
    known = true_pairs(np.random.default_rng(0), y, 40)
    est = estimator(method, solver=solver).fit(W, constraints=known)
    told = json.loads(json.dumps(est.report_.to_dict()))
    assert told["method"] == method.__name__
    assert {"strengthened", "weakened", "added", "untouched", "F"} <= told["adjustment"].keys()
    assert 0 <= told["propagation_quality"]["residual"] < 1e-2
    assert told["choices"]["mu" if method is SRCP else "alpha"] > 0
    F = field_of(est, W, known)
    Y = oracles.known_pairs(known, W.toarray())
    agree = (F * Y > 0)[Y != 0].mean()
    assert told["pairs_with_the_sign_of_F"] == pytest.approx(agree)
    assert {stage["name"] for stage in told["stages"]} >= {"constraint propagation"}
    assert told["satisfaction"]["kept"] == 1
    assert isinstance(told["propagation"], str)
    assert "changed" not in told


@pytest.mark.thorough(but=1)
@BOTH
def test_refit(method):
    W, y = moons()
    graph = ml.Graph.from_affinity(W)
    before, after = (true_pairs(np.random.default_rng(s), y, c) for s, c in ((0, 10), (1, 300)))
    est = estimator(method, 2)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        est.refit(constraints=after)
    old = est.fit(graph, constraints=before).labels_
    est.refit(constraints=after)
    fresh = estimator(method, 2).fit(ml.Graph.from_affinity(W), constraints=after)
    assert adjusted_rand_score(fresh.labels_, est.labels_) == 1
    assert (fresh.affinity_matrix_ != est.affinity_matrix_).nnz == 0
    told = est.report_.to_dict()
    assert told["changed"] == pytest.approx(np.mean(old != est.labels_))
    assert told["changed"] > 0
    labels = est.labels_
    est.refit(constraints=after)
    np.testing.assert_array_equal(labels, est.labels_)
    assert est.report_.extra["changed"] == 0
    est.refit(y=np.where(np.arange(y.size) % 2 == 0, y, -1))
    assert adjusted_rand_score(y, est.labels_) > 0.9
    est.set_params(n_clusters=3).refit(constraints=after)
    assert set(est.labels_) == {0, 1, 2}
    assert est.report_.extra["clusters_changed"] == {"new": [2], "gone": []}
    with pytest.raises(InputError, match="nodes"):
        est.refit(constraints=ml.Constraints.from_pairs([[0, 1]], n_nodes=4))
