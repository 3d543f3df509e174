"""CSP end to end: the paper's example, every path, choices, refit, and what goes wrong."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
import oracles
from cases import KINDS, planted_graph, random_constraints, random_graph, six_nodes
from mustlink.core.observe import Recorder
from mustlink.errors import InfeasibleError, InputError
from on_disk import stored

pytestmark = pytest.mark.usefixtures("few_runs")

seeds = st.integers(0, 2**31)
SOLVERS = ("dense", "lobpcg", "shift-invert")


def csp(k, **options):
    return ml.CSP(n_clusters=k, **{"affinity": "precomputed", "random_state": 0} | options)


def planted(seed=0, n=120, k=3, pairs=60):
    """Planted graph, its classes, and correct pairs."""
    rng = np.random.default_rng(seed)
    W, y = planted_graph(rng, n, k)
    chosen = np.array([rng.choice(n, 2, replace=False) for _ in range(pairs)])
    belief = np.where(y[chosen[:, 0]] == y[chosen[:, 1]], 1.0, -1.0)
    return W, y, ml.Constraints.from_pairs(chosen, belief, n_nodes=n)


# --- WD14 §4.4


@pytest.mark.thorough(but=5)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("side", ["matrix", "labels", "y"])
@pytest.mark.parametrize(
    ("beta", "lam", "vector"),
    [
        (3 / 8, 0.138987, [1.491, 1.491, 1.206, 0.438, -0.205, -0.205]),  # β = vol
        (3 / 4, 0.586383, [1.336, 1.336, 1.004, 0.405, -0.915, -0.915]),  # β = 2 vol
    ],
)
def test_the_illustrative_example(beta, lam, vector, side, solver):
    W, Q, y = six_nodes()
    known = {
        "matrix": {"constraints": ml.Constraints.from_matrix(Q)},
        "labels": {"constraints": ml.Constraints.from_labels(y)},
        "y": {"y": y},
    }[side]
    est = csp(2, beta=beta, subspace="exact", solver=solver).fit(W, **known)
    assert est.report_.choices["unit"] == pytest.approx(8 / 3)
    assert est.eigenvalues_ == pytest.approx([lam], abs=1e-6)  # λ is given to six digits
    assert est.embedding_.shape == (6, 1)
    u = est.embedding_[:, 0]
    np.testing.assert_allclose(u * np.sign(u[0]), vector, atol=5e-4)  # u* is given to three
    L, root, _ = oracles.laplacian(W.toarray())
    b = beta * 8 / 3
    reference, V, _ = oracles.pencil(L, Q / np.outer(root, root), b, 14.0)
    assert reference.size == 1
    # The issue asks for 1e-5; the iterative paths stop at 1e-8.
    np.testing.assert_allclose(est.eigenvalues_, reference, rtol=1e-7)
    expected = V[:, 0] / root
    np.testing.assert_allclose(u, expected * np.sign(expected @ u), atol=1e-6)
    assert np.dot(root * u, root * u) == pytest.approx(14.0)
    assert len(set(est.labels_[:4])) == 1
    assert len(set(est.labels_)) == 2


# --- the paper's identities through the estimator


@given(seeds, st.sampled_from(KINDS), st.sampled_from([-1.0, -0.2, 0.1, 0.5, 0.9]))
@settings(max_examples=40, deadline=None)
def test_embedding_is_that_of_the_paper(seed, kind, beta):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(20, 60)), int(rng.integers(2, 5))
    W = random_graph(rng, n, int(rng.integers(1, 4)), int(rng.integers(0, 2)))
    known = random_constraints(rng, n, kind, k)
    try:
        est = csp(k, beta=beta, subspace="exact").fit(W, constraints=known)
    except InfeasibleError:
        est = None
    L, root, nodes = oracles.laplacian(W.toarray())
    Q = oracles.normalized_constraints(known.to_dense(), W.toarray())
    if est is None:
        values = np.sort(np.linalg.eigvalsh(Q))[::-1]
        feasible = oracles.pencil(L, Q, beta * values[k - 2], W.sum())[0]
        assert values[k - 2] < 1e-9 or feasible.size == 0
        return
    volume, unit = W.sum(), est.report_.choices["unit"]
    lam, _, cost = oracles.pencil(L, Q, beta * unit, volume)
    V = root[:, None] * est.embedding_[nodes]
    r = min(k - 1, lam.size)
    assert V.shape[1] == r
    np.testing.assert_allclose((V**2).sum(axis=0), volume, rtol=1e-10)
    np.testing.assert_allclose(np.einsum("ij,ij->j", V, L @ V), est.costs_, rtol=1e-8)
    assert (np.diff(est.costs_) >= 0).all()
    # QZ's error is relative to the whole spectrum.
    np.testing.assert_allclose(est.costs_, np.sort(cost)[:r], rtol=1e-6)
    alpha = np.einsum("ij,ij->j", V, Q @ V)
    assert (alpha > beta * unit * volume).all()  # Lemma 1
    residual = L @ V - (Q @ V - beta * unit * V) * est.eigenvalues_
    assert np.linalg.norm(residual) <= 1e-8 * np.linalg.norm(L @ V)
    assert est.report_.convergence.converged.all()
    alone = np.setdiff1d(np.arange(n), nodes)
    assert (est.labels_[alone] == -1).all()
    assert (est.labels_[nodes] >= 0).all()
    assert est.labels_.max() < k


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("beta", [0.5, 0.0, -0.5])
def test_solvers_agree_through_the_estimator(solver, beta):
    W, _, known = planted(3, n=150, k=4)
    reference = csp(4, beta=beta, subspace="exact", solver="dense").fit(W, constraints=known)
    est = csp(4, beta=beta, subspace="exact", solver=solver).fit(W, constraints=known)
    if any("more feasible vectors" in note for note in est.report_.notes):
        # Leading ones only: the cheapest may lie beyond, so costs can but be larger.
        assert (est.costs_ >= reference.costs_ * (1 - 1e-9)).all()
        return
    np.testing.assert_allclose(est.eigenvalues_, reference.eigenvalues_, rtol=1e-7)  # tol 1e-8
    assert adjusted_rand_score(est.labels_, reference.labels_) == 1.0


def test_transfer_from_a_second_graph():
    rng = np.random.default_rng(0)
    target, y = planted_graph(rng, 100, 2, inside=0.15, across=0.1)
    source = np.where(y[:, None] == y, rng.random((100, 100)) < 0.4, rng.random((100, 100)) < 0.02)
    source = np.triu(source, 1) * 1.0
    known = ml.Constraints.from_graph(source + source.T)
    plain = ml.NCut(2, affinity="precomputed", random_state=0).fit(target)
    est = csp(2).fit(target, constraints=known)
    assert adjusted_rand_score(est.labels_, y) > adjusted_rand_score(plain.labels_, y) + 0.2


# --- choices


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("subspace", ["auto", "exact", 8])
@pytest.mark.parametrize("way", ["auto", "kmeans", "sign-kmeans", "cost-weighted", "sphere"])
def test_every_subspace_and_discretisation_recovers_planted_clusters(subspace, way):
    W, y, known = planted(1)
    est = csp(3, subspace=subspace, assign=way).fit(W, constraints=known)
    assert adjusted_rand_score(est.labels_, y) > 0.9
    assert est.report_.satisfaction["kept"] > 0.9
    if way != "auto":
        assert est.report_.choices["assign"] == way
    chosen = est.report_.choices["subspace"]
    assert chosen in (3, 6, 12, 24, 36) if subspace == "auto" else chosen == subspace
    assert est.report_.choices["why"]


@pytest.mark.thorough
def test_large_graphs_choose_a_smooth_subspace():
    W, y, known = planted(2, n=1100, k=3, pairs=200)
    est = csp(3).fit(W, constraints=known)
    assert isinstance(est.report_.choices["subspace"], int)
    assert adjusted_rand_score(est.labels_, y) > 0.95
    assert est.report_.to_dict()["candidates"]


def test_two_clusters_are_cut_at_zero_by_default():
    W, y, known = planted(4, k=2)
    est = csp(2, beta=0.5).fit(W, constraints=known)
    assert est.report_.choices["assign"] == "sign"
    assert np.array_equal(est.labels_, (est.embedding_[:, 0] > 0).astype(int))
    assert adjusted_rand_score(est.labels_, y) == 1.0
    W, y, known = planted(4, k=3)
    with pytest.raises(InputError, match='"sign" makes 2 clusters, not 3'):
        csp(3, assign="sign", beta=0.5, subspace="exact").fit(W, constraints=known)


@pytest.mark.parametrize(
    ("k", "way"), [(2, "sign"), (2, "auto"), (3, "cost-weighted"), (3, "sphere")]
)
def test_every_way_can_be_chosen_by_held_out_constraints(k, way):
    W, y, known = planted(4, k=k, pairs=300)
    est = csp(k, subspace=8, assign=way).fit(W, constraints=known)
    assert "held-out" in est.report_.choices["why"]
    assert adjusted_rand_score(est.labels_, y) > 0.9


def test_one_class_only_is_infeasible_for_positive_beta():
    """Q = 11ᵀ on the labelled nodes: the trivial vector takes the only positive eigenvalue."""
    W, y, _ = planted(4, k=2)
    label = np.where((y == 0) & (np.arange(120) % 5 == 0), 0, -1)
    with pytest.raises(InfeasibleError, match=r"leaves no feasible vector .* example -0.1"):
        csp(2, beta=0.1, subspace="exact").fit(W, label)
    assert csp(2).fit(W, label).embedding_.shape == (120, 1)


@pytest.mark.parametrize("beta", ["auto", "tight", 0.5])
def test_constraints_that_cancel_in_the_subspace_count_as_none(beta):
    """A must-link and a cannot-link in every component: its indicator sees their sum, 0."""
    W = random_graph(np.random.default_rng(5), 80, 4)
    parts = oracles.components(W.toarray())
    pairs = [np.flatnonzero(parts == c)[[0, 3, 1, 4]].reshape(2, 2) for c in range(4)]
    known = ml.Constraints.from_pairs(np.vstack(pairs), np.tile([1.0, -1.0], 4), n_nodes=80)
    est = csp(3, beta=beta, subspace=3).fit(W, constraints=known)
    assert any("cancel one another" in note for note in est.report_.notes)
    alone = csp(3).fit(W)
    assert adjusted_rand_score(est.labels_, alone.labels_) == 1
    assert est.embedding_.shape == alone.embedding_.shape


def test_beta_of_the_paper():
    W, _, known = planted(4)
    est = csp(3, beta="paper", subspace="exact").fit(W, constraints=known)
    share = 2 * known.n_constraints / 120**2
    assert est.report_.choices["beta"] == pytest.approx(0.5 + 0.4 * share)


# --- odd side information


# --- infeasible


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("subspace", ["exact", 6])
@pytest.mark.parametrize("beta", [1.0, 1.5])
def test_beta_of_one_or_more_names_the_range(beta, subspace, k):
    W, _, known = planted(7)
    message = (
        rf"beta: {beta:g} leaves no feasible vector; give a fraction below 1 of λ_{k - 1}\(Q̄\) ="
    )
    with pytest.raises(InfeasibleError, match=message) as caught:
        csp(k, beta=beta, subspace=subspace).fit(W, constraints=known)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


# --- refit, repetition, scikit-learn


def test_refit_keeps_numbers_and_reports_what_changed():
    W, y, _ = planted(8, n=150)
    rng = np.random.default_rng(0)
    labels = np.full(150, -1)
    labels[rng.permutation(150)[:30]] = 0
    labels = np.where(labels == 0, y, -1)
    known = ml.Constraints.from_labels(labels)
    est = csp(3, subspace=8).fit(W, constraints=known)
    before, graph, choice = est.labels_.copy(), est.graph_, est.report_.choices
    assert est.refit(constraints=known) is est
    assert np.array_equal(est.labels_, before)
    assert est.report_.to_dict()["changed"] == 0.0
    assert est.graph_ is graph
    assert est.report_.choices["beta"] == choice["beta"]
    names = [stage.name for stage in est.report_.stages]
    assert "eigenvectors" not in names
    # Two classes told to be one: numbers stay, the share that moved is reported.
    pairs = np.column_stack([np.flatnonzero(y == 0)[:30], np.flatnonzero(y == 1)[:30]])
    more = ml.Constraints.from_pairs(pairs, 1.0, n_nodes=150)
    est.refit(constraints=more)
    assert est.report_.to_dict()["changed"] == pytest.approx(np.mean(est.labels_ != before))
    same = np.mean(est.labels_ == before)
    for numbers in itertools.permutations(range(3)):
        assert np.mean(np.array(numbers)[est.labels_] == before) <= same
    assert any(note.startswith("refit: ") for note in est.report_.notes)


@pytest.mark.thorough
@pytest.mark.parametrize("on_disk", [False, True])
def test_choices_are_made_anew_when_twice_as_much_is_known_in_small_steps(on_disk):
    W, y, _ = planted(8, n=150)
    X = stored(W) if on_disk else W
    rng = np.random.default_rng(0)
    pairs = np.array([rng.choice(150, 2, replace=False) for _ in range(96)])
    belief = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0)
    est, chosen_at, told = csp(3).fit(X), 0, []
    for m in range(8, 97, 8):
        known = ml.Constraints.from_pairs(pairs[:m], belief[:m], n_nodes=150)
        if not chosen_at or known.n_constraints + 1 > 2 * (chosen_at + 1):
            chosen_at, expected = known.n_constraints, csp(3).fit(X, constraints=known)
        est.refit(constraints=known)
        told.append(est.report_.choices["why"])
        assert told[-1] == expected.report_.choices["why"]
        assert est.report_.choices["subspace"] == expected.report_.choices["subspace"]
    assert len(set(told)) > 2
    assert "held-out" in told[-1]


def test_report_is_complete():
    W, _, known = planted(12)
    recorder = Recorder()
    est = csp(3, solver="lobpcg", subspace="exact", beta=0.5).fit(
        W, constraints=known, observer=recorder
    )
    report = est.report_.to_dict()
    names = [stage["name"] for stage in report["stages"]]
    assert names == [s.name for s in recorder.stages]
    assert {"Laplacian", "multigrid set-up", "pencil", "clusters"} <= set(names)
    assert report["satisfaction"]["n_must"] + report["satisfaction"]["n_cannot"] == len(
        np.unique(np.sort(known.pairs, axis=1), axis=0)
    )
    assert report["choices"]["solver"] == "lobpcg"
    assert max(report["convergence"]["residuals"]) <= report["convergence"]["tolerance"]
