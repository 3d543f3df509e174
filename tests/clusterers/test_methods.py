"""Every constrained method: what must be the same as something else, and bad input."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
import oracles
from cases import KINDS, blobs, odd_constraints, planted_graph, random_constraints, random_graph
from mustlink.discretize.cuts import e_of, mncut
from mustlink.errors import InfeasibleError

pytestmark = pytest.mark.usefixtures("few_runs")

seeds = st.integers(0, 2**31)
METHODS = {
    "CSP": (ml.CSP, {}),
    "FCSC": (ml.CSP, {"balanced": True}),
    "SSSC": (ml.SSSC, {}),
    "SL": (ml.SpectralLearning, {}),
    "SL-L": (ml.SpectralLearning, {"normalized": True}),
    "AP": (ml.ConstrainedAP, {}),
    "FastGE": (ml.FastGE, {}),
}
FIXED = {"CSP": {"beta": 0.3}, "FCSC": {"beta": 0.3}, "SSSC": {"gamma": 0.3}, "AP": {"noise": 0.3}}
everywhere = pytest.mark.parametrize("name", METHODS)
anyhow = pytest.mark.parametrize("subspace", ["auto", "exact", 8])


def method(name, k, **options):
    kind, own = METHODS[name]
    return kind(k, **{"affinity": "precomputed", "random_state": 0} | own | options)


def fixed(name, k, **options):
    """The method with its parameter given, on all nodes."""
    return method(name, k, **{"subspace": "exact"} | FIXED.get(name, {}) | options)


def planted(seed=0, n=60, k=3, pairs=24):
    rng = np.random.default_rng(seed)
    W, y = planted_graph(rng, n, k)
    chosen = np.array([rng.choice(n, 2, replace=False) for _ in range(pairs)])
    belief = np.where(y[chosen[:, 0]] == y[chosen[:, 1]], 1.0, -1.0)
    return W, y, ml.Constraints.from_pairs(chosen, belief, n_nodes=n)


def spelled_out(label):
    """Labels as all their pairs."""
    nodes = np.flatnonzero(label >= 0)
    i, j = (nodes[at] for at in np.triu_indices(nodes.size, 1))
    belief = np.where(label[i] == label[j], 1.0, -1.0)
    return ml.Constraints.from_pairs(np.column_stack([i, j]), belief, n_nodes=label.size)


def assert_same_vectors(one, other, tol=1e-7):
    np.testing.assert_allclose(one.eigenvalues_, other.eigenvalues_, rtol=1e-8, atol=1e-10)
    assert one.embedding_.shape == other.embedding_.shape
    assert oracles.angle(one.embedding_, other.embedding_) < tol


# --- identities


@pytest.mark.parametrize("name", ["SSSC", "SL-L", "AP"])
@anyhow
@pytest.mark.parametrize("known", [None, ml.Constraints.none(60)])
def test_without_constraints_it_is_the_normalised_cut(name, subspace, known):
    W, y, _ = planted()
    ncut = ml.NCut(3, affinity="precomputed", random_state=0).fit(W)
    est = method(name, 3, subspace=subspace).fit(W, constraints=known)
    root = np.sqrt(W.sum(axis=1))
    assert oracles.angle(est.embedding_, np.asarray(root) * ncut.embedding_) < 1e-7
    assert adjusted_rand_score(est.labels_, y) == 1.0
    assert any("no constraints act" in note for note in est.report_.notes)
    scale = 0.9 if name == "SSSC" else 1.0  # (1 − γ)L̄
    np.testing.assert_allclose(est.eigenvalues_, scale * ncut.eigenvalues_, atol=1e-12)


def test_sl_without_constraints_has_the_laplacians_vectors():
    W, _, _ = planted()
    est = method("SL", 3).fit(W)
    A = W.toarray()
    theta, X = np.linalg.eigh(np.diag(A.sum(axis=1)) - A)
    np.testing.assert_allclose(est.eigenvalues_, theta[:3], atol=1e-12)
    assert oracles.angle(est.embedding_, X[:, :3]) < 1e-7


def test_fast_ge_without_constraints_is_the_normalised_cut():
    W, _, _ = planted()
    est = method("FastGE", 4, mu=0.01).fit(W)
    L, root, _ = oracles.laplacian(W.toarray())
    values, V = np.linalg.eigh(L)
    np.testing.assert_allclose(est.eigenvalues_, -1 / (60 * values[1:4] + 0.01), rtol=1e-8)
    assert oracles.angle(root[:, None] * est.embedding_, V[:, 1:4]) < 1e-7


@given(seeds, st.sampled_from(["pairs", "labels", "soft"]))
@settings(max_examples=15, deadline=None)
def test_sl_l_is_the_normalised_cut_of_the_overwritten_affinity(seed, kind):
    rng = np.random.default_rng(seed)
    W = random_graph(rng, 40)
    known = random_constraints(rng, 40, kind)
    W2 = oracles.overwritten(W.toarray(), *oracles.links(known))
    if not W2.sum(axis=1).all():
        return  # a node without an edge is left out by one and a cluster for the other
    est = fixed("SL-L", 4).fit(W, constraints=known)
    values, _ = np.linalg.eigh(oracles.laplacian(W2)[0])
    np.testing.assert_allclose(est.eigenvalues_, values[:4], atol=1e-9)
    if values[4] - values[3] > 1e-3:
        ncut = ml.NCut(4, affinity="precomputed", random_state=0).fit(W2)
        root = np.sqrt(W2.sum(axis=1))
        assert oracles.angle(est.embedding_, root[:, None] * ncut.embedding_) < 1e-6


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["FCSC", "SSSC", "SL", "SL-L", "AP", "FastGE"])
@pytest.mark.parametrize("subspace", ["exact", 8])
def test_labels_are_their_pairs(name, subspace):
    """Cliques as low rank and written out."""
    for seed in range(6):
        W, y, _ = planted(seed)
        label = np.where(np.random.default_rng(seed).random(60) < 0.2, y, -1)
        low_rank = fixed(name, 3, subspace=subspace, assign="kmeans")
        low_rank.fit(W, constraints=ml.Constraints.from_labels(label))
        written = fixed(name, 3, subspace=subspace, assign="kmeans")
        written.fit(W, constraints=spelled_out(label))
        assert_same_vectors(low_rank, written)
        by_y = fixed(name, 3, subspace=subspace, assign="kmeans").fit(W, label)
        assert np.array_equal(by_y.embedding_, low_rank.embedding_)


@pytest.mark.parametrize("name", ["SL", "SL-L"])
def test_pairs_that_restate_labels_overwrite_nothing_more(name):
    W, y, _ = planted()
    label = np.where(np.arange(60) % 5 == 0, y, -1)
    once = fixed(name, 3).fit(W, label)
    twice = fixed(name, 3).fit(W, label, spelled_out(label))
    assert_same_vectors(once, twice)


@pytest.mark.parametrize("solver", ["dense", "lobpcg"])
def test_mu_of_fast_ge_changes_no_vector(solver):
    W, _, known = planted()
    small, large = (
        fixed("FastGE", 3, mu=mu, solver=solver, tol=1e-11).fit(W, constraints=known)
        for mu in (1e-3, 0.5)
    )
    assert oracles.angle(small.embedding_, large.embedding_) < 1e-7
    rho = -1 / small.eigenvalues_ - 1e-3
    np.testing.assert_allclose(-1 / large.eigenvalues_ - 0.5, rho, rtol=1e-8)
    assert (small.labels_ == large.labels_).all()
    # ρ is the quotient of the two forms.
    LG, LH, _ = oracles.two_laplacians(W.toarray(), *oracles.links(known))
    X = small.embedding_
    quotient = np.einsum("ij,ij->j", X, LG @ X) / np.einsum("ij,ij->j", X, LH @ X)
    np.testing.assert_allclose(quotient, rho, rtol=1e-8)


@pytest.mark.parametrize("beta", [0.4, -0.2])
@pytest.mark.parametrize("kind", KINDS)
def test_balanced_csp_is_csp_with_the_balanced_matrix(kind, beta):
    rng = np.random.default_rng(3)
    W = random_graph(rng, 60, 2)
    known = random_constraints(rng, 60, kind)
    Q = oracles.balanced(*oracles.links(known))
    options = {"beta": beta, "assign": "kmeans"}
    est = fixed("FCSC", 3, **options).fit(W, constraints=known)
    other = fixed("CSP", 3, **options).fit(W, constraints=ml.Constraints.from_matrix(Q))
    assert_same_vectors(est, other)
    np.testing.assert_allclose(est.costs_, other.costs_, rtol=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_tight_beta_leaves_just_as_many_vectors_as_wanted(seed):
    rng = np.random.default_rng(seed)
    k = 2 + seed % 3
    W = random_graph(rng, 60, 1 + seed % 2)
    known = random_constraints(rng, 60, ("pairs", "soft")[seed // 4])
    est = fixed("CSP", k, beta="tight").fit(W, constraints=known)
    beta = est.report_.choices["beta"] * est.report_.choices["unit"]
    L, _, _ = oracles.laplacian(W.toarray())
    Q = oracles.normalized_constraints(known.to_dense(), W.toarray())
    assert (np.linalg.eigvalsh(Q) > beta).sum() == k - 1
    # The trivial vector may be one of them (WD14 Alg. 2, footnote).
    feasible = oracles.pencil(L, Q, beta, W.sum())[0].size
    assert est.embedding_.shape[1] == feasible
    assert k - 2 <= feasible <= k - 1


@pytest.mark.parametrize("what", ["equal eigenvalues", "fewer than wanted"])
def test_tight_beta_gives_what_there_is(what):
    """Two must-links on a ring have equal eigenvalues; labels of 2 classes give one for K = 4."""
    ring = sp.csr_matrix(np.roll(np.eye(8), 1, axis=0) + np.roll(np.eye(8), -1, axis=0))
    known, k = {
        "equal eigenvalues": (ml.Constraints.from_pairs([[0, 1], [4, 5]], n_nodes=8), 2),
        "fewer than wanted": (ml.Constraints.from_labels([0, 0, -1, -1, 1, 1, -1, -1]), 4),
    }[what]
    est = fixed("CSP", k, beta="tight").fit(ring, constraints=known)
    assert est.embedding_.shape[1] >= 1


def test_tight_beta_in_a_subspace():
    for seed in range(10):
        W, _, known = planted(seed)
        est = fixed("CSP", 4, beta="tight", subspace=4).fit(W, constraints=known)
        beta = est.report_.choices["beta"] * est.report_.choices["unit"]
        L, root, _ = oracles.laplacian(W.toarray())
        U = np.linalg.eigh(L)[1][:, :5]
        values = np.linalg.eigvalsh(U.T @ (known.to_dense() / np.outer(root, root)) @ U)
        assert (values > beta).sum() == 3


def criterion(W, labels, known):
    return e_of(mncut(W, labels) / np.unique(labels).size, labels, known, 1.0)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("CSP", {"beta": "search"}),
        ("FCSC", {"beta": "search", "assign": "sphere"}),
        ("FCSC", {"beta": "wide", "assign": "sphere"}),
        ("FCSC", {"beta": "wide-printed", "assign": "sphere"}),
        ("SSSC", {"gamma": "search"}),
        ("SSSC", {"gamma": "search", "subspace": 6}),
    ],
)
def test_search_takes_the_largest_criterion_of_its_candidates(name, options):
    W, y, known = planted(1, n=45, pairs=12)
    est = method(name, 3, **{"subspace": "exact"} | options).fit(W, constraints=known)
    rows = est.report_.to_dict()["candidates"]
    parameter = "gamma" if name == "SSSC" else "beta"
    chosen = est.report_.choices[parameter]
    scores = {row[1]: row[3] for row in rows}
    assert len(scores) == len(rows) > 20
    assert scores[chosen] == max(scores.values())
    assert criterion(W, est.labels_, known) == pytest.approx(scores[chosen])
    assert adjusted_rand_score(est.labels_, y) == 1.0
    # Scored as a fit with that value alone would be.
    for value in (rows[0][1], rows[len(rows) // 2][1]):
        alone = method(name, 3, **{"subspace": "exact"} | options | {parameter: value})
        alone.fit(W, constraints=known)
        assert criterion(W, alone.labels_, known) == pytest.approx(scores[value])
    values = np.array([row[1] for row in rows])
    unit = est.report_.choices["unit"]
    if name == "SSSC":
        np.testing.assert_allclose(values, np.arange(1, 101) / 101)
        return
    np.testing.assert_allclose(np.diff(values), values[1] - values[0])  # equidistant
    Q = known.to_dense() if name == "CSP" else oracles.balanced(*oracles.links(known))
    spectrum = np.linalg.eigvalsh(oracles.normalized_constraints(Q, W.toarray()))
    low, high, steps = spectrum[0], spectrum[-1], 101
    if options["beta"] != "search":
        low = -100 * np.abs(spectrum).max()
    ends = options["beta"] == "wide-printed"  # count, and β/vol is what is subtracted
    if ends:
        high, steps = high / W.sum(), 99
    step = (high - low) / steps
    first = low if ends else low + step
    np.testing.assert_allclose(values[0] * unit, first, rtol=1e-8)
    np.testing.assert_allclose((values[1] - values[0]) * unit, step, rtol=1e-8)
    assert (values * unit < spectrum[-2]).all()


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_transfer_takes_beta_below_the_next_eigenvalue(seed, k):
    """WD14 eq. 18: λ_1 of the source belongs to a trivial cut, so that β < λ_K."""
    rng = np.random.default_rng(seed)
    W, y = planted_graph(rng, 60, k, inside=0.2, across=0.08)
    A, _ = planted_graph(np.random.default_rng(seed + 50), 60, k, inside=0.4, across=0.02)
    A = A.toarray()
    order = np.argsort(np.argsort(y, kind="stable"))
    _, y2 = planted_graph(np.random.default_rng(seed + 50), 60, k, inside=0.4, across=0.02)
    A = A[np.ix_(np.argsort(y2, kind="stable"), np.argsort(y2, kind="stable"))]
    A = A[np.ix_(order, order)]
    known = ml.Constraints.from_graph(A)
    est = fixed("CSP", k, beta="paper").fit(W, constraints=known)
    L, root, _ = oracles.laplacian(W.toarray())
    Q = A / np.outer(root, root)
    values = np.linalg.eigvalsh(Q)[::-1]
    beta = est.report_.choices["beta"]
    assert 0 < beta < 1
    assert est.report_.choices["unit"] == pytest.approx(values[k - 1])
    lam, V, cost = oracles.pencil(L, Q, beta * values[k - 1], W.sum())
    r = np.argsort(cost)[: k - 1]
    np.testing.assert_allclose(est.eigenvalues_, lam[r], rtol=1e-6)  # QZ
    assert oracles.angle(root[:, None] * est.embedding_, V[:, r]) < 1e-5
    assert adjusted_rand_score(est.labels_, y) > 0.9
    given = fixed("CSP", k, beta=0.5).fit(W, constraints=known)
    assert given.report_.choices["unit"] == pytest.approx(values[k - 2])


@pytest.mark.thorough(but=1)
@everywhere
@pytest.mark.parametrize("subspace", ["auto", "exact", 8])
def test_refit_is_a_fit_with_the_same_choices(name, subspace):
    W, _, known = planted(2, pairs=40)
    more = known + ml.Constraints.from_pairs([[0, 1], [2, 3]], [1.0, -1.0], n_nodes=60)
    graph = ml.Graph.from_affinity(W)
    est = method(name, 3, subspace=subspace).fit(graph, constraints=known)
    before = est.report_.choices
    est.refit(constraints=more)
    chosen = est.report_.choices
    same = ("subspace", "beta", "gamma", "noise", "assign")
    assert [chosen.get(key) for key in same] == [before.get(key) for key in same]
    value = {key: chosen[key] for key in ("beta", "gamma", "noise") if key in chosen}
    fresh = method(name, 3, subspace=chosen["subspace"], assign=chosen["assign"], **value)
    fresh.fit(ml.Graph.from_affinity(W), constraints=more)
    assert_same_vectors(est, fresh)
    assert adjusted_rand_score(est.labels_, fresh.labels_) == 1.0
    est.refit(constraints=known)
    again = method(name, 3, subspace=subspace).fit(W, constraints=known)
    assert_same_vectors(est, again)


@pytest.mark.parametrize("name", ["CSP", "SSSC", "FastGE"])
def test_refit_after_a_fit_without_constraints_chooses_anew(name):
    W, _, _ = planted()
    one = ml.Constraints.from_pairs([[0, 1]], -1.0, n_nodes=60)
    est = method(name, 3, subspace=8).fit(W).refit(one)
    assert est.report_.choices["subspace"] == 8
    assert est.report_.choices["why"] != "no constraints"


@pytest.mark.parametrize(
    "name",
    [
        "CSP",
        "FCSC",
        "SSSC",
        "SL",
        "AP",
        "FastGE",
    ],
)
def test_the_last_constraint_can_be_taken_back(name):
    W, y, _ = planted()
    one = ml.Constraints.from_pairs([[0, 1]], -1.0, n_nodes=60)
    est = method(name, 3).fit(W, constraints=one).refit(None)
    assert adjusted_rand_score(est.labels_, y) == 1.0


# --- bad and odd input


def sound(est, n, k):
    """n labels below K, finite vectors, a report that says what was kept."""
    assert est.labels_.shape == (n,)
    assert est.labels_.min() >= -1
    assert est.labels_.max() < k
    assert est.embedding_.shape[0] == n
    assert np.isfinite(est.embedding_).all()
    assert np.isfinite(est.eigenvalues_).all()
    assert 0 <= est.report_.satisfaction["kept"] <= 1
    assert est.report_.choices["why"]


# One eigenvalue of Q̄ above 0, or none: too few for three clusters.
FEW_FEASIBLE = ("both signs", "all on one node", "one node, all cannot", "one pair", "one label")


@pytest.mark.thorough(but=1)
@everywhere
@pytest.mark.parametrize(("k", "subspace"), [(2, "auto"), (2, "exact"), (3, "auto"), (3, 8)])
def test_odd_constraints_give_a_sound_clustering(name, subspace, k):
    W, y, _ = planted(5, k=k)
    graph = ml.Graph.from_affinity(W)
    for what, known in odd_constraints(y).items():
        est = method(name, k, subspace=subspace)
        if (name, subspace, what) == ("FCSC", 8, "one label"):  # nothing in it is feasible
            with pytest.raises(InfeasibleError, match="leaves no feasible vector"):
                est.fit(graph, constraints=known)
            continue
        sound(est.fit(graph, constraints=known), 60, k)


@pytest.mark.thorough(but=3)
@everywhere
@pytest.mark.parametrize("solver", ["dense", "lobpcg"])
def test_odd_constraints_in_the_given_form(name, solver):
    """With the parameter given: a clustering, or for CSP the range of β that is feasible."""
    W, y, _ = planted(6)
    graph = ml.Graph.from_affinity(W)
    for what, known in odd_constraints(y).items():
        est = fixed(name, 3, solver=solver)
        if name in ("CSP", "FCSC") and what in FEW_FEASIBLE:
            with pytest.raises(InfeasibleError, match=r"beta: 0\.3 leaves") as caught:
                est.fit(graph, constraints=known)
            assert "\n" not in str(caught.value)
            continue
        sound(est.fit(graph, constraints=known), 60, 3)
        assert est.report_.convergence.converged.all(), what


@pytest.mark.thorough(but=5)
@everywhere
@pytest.mark.parametrize("form", ["float32", "int64 indices", "dense", "integers", "coo"])
def test_forms_of_the_affinity(name, form):
    W, _, known = planted(3)
    wide = W.copy()
    wide.indices, wide.indptr = W.indices.astype(np.int64), W.indptr.astype(np.int64)
    if form == "integers":
        W = sp.csr_matrix(W > 0, dtype=np.float64)
    X = {
        "float32": W.astype(np.float32),
        "int64 indices": wide,
        "dense": W.toarray(),
        "integers": W.astype(np.int64),
        "coo": sp.coo_array(W),
    }[form]
    reference = fixed(name, 3).fit(W, constraints=known)
    for solver in ("dense", "lobpcg"):
        est = fixed(name, 3, solver=solver).fit(X, constraints=known)
        # Single precision rounds the weights to 1e-7.
        np.testing.assert_allclose(est.eigenvalues_, reference.eigenvalues_, rtol=1e-5, atol=1e-6)
        assert adjusted_rand_score(est.labels_, reference.labels_) == 1.0


@pytest.mark.thorough(but=2)
@everywhere
@pytest.mark.parametrize("affinity", ["knn", "rbf"])
def test_duplicate_points(name, affinity):
    X, y = blobs(np.random.default_rng(1), 90, 3, separation=10.0, duplicates=30)
    label = np.where(np.arange(90) % 4 == 0, y, -1)
    est = method(name, 3, affinity=affinity).fit(X, label)
    sound(est, 90, 3)
    near = method(name, 3, affinity=affinity, subspace=3).fit(X, label)
    assert adjusted_rand_score(near.labels_, y) > 0.95


@pytest.mark.thorough(but=2)
@everywhere
@anyhow
def test_more_components_than_clusters(name, subspace):
    rng = np.random.default_rng(4)
    W = random_graph(rng, 60, 6, isolated=2)
    for kind in KINDS:
        known = random_constraints(rng, 60, kind, k=2)
        est = method(name, 2, subspace=subspace).fit(W, constraints=known)
        sound(est, 60, 2)
        assert ((est.labels_ < 0) == (np.asarray(W.sum(axis=1)).ravel() == 0)).all()
        assert any("2 nodes have no edge" in note for note in est.report_.notes)


@pytest.mark.thorough(but=7)
@everywhere
@pytest.mark.parametrize("solver", ["auto", "lobpcg"])
@pytest.mark.parametrize("k", [8, 9, 10])
def test_nearly_as_many_clusters_as_nodes(name, solver, k):
    W = random_graph(np.random.default_rng(2), 10, density=0.4)
    pairs = [[i, j] for i in range(10) for j in range(i)]
    rng = np.random.default_rng(0)
    known = ml.Constraints.from_pairs(pairs, rng.choice([-1.0, 1.0], 45), n_nodes=10)
    if name in ("CSP", "FCSC"):  # half the eigenvalues of Q̄ are negative
        with pytest.raises(InfeasibleError, match="give a negative fraction"):
            fixed(name, k, solver=solver).fit(W, constraints=known)
        est = fixed(name, k, solver=solver, beta=-2.0).fit(W, constraints=known)
    else:
        est = fixed(name, k, solver=solver).fit(W, constraints=known)
        assert est.embedding_.shape[1] == k - (name == "FastGE")
    sound(est, 10, k)


@pytest.mark.thorough(but=1)
@everywhere
def test_two_nodes(name):
    W = np.array([[0, 1.0], [1.0, 0]])
    for belief in (1.0, -1.0):
        known = ml.Constraints.from_pairs([[0, 1]], belief, n_nodes=2)
        if belief > 0 and name in ("CSP", "FCSC"):  # only the trivial vector keeps it
            with pytest.raises(InfeasibleError, match="leaves no feasible vector"):
                method(name, 2, beta=0.5).fit(W, constraints=known)
        sound(method(name, 2).fit(W, constraints=known), 2, 2)


@pytest.mark.parametrize("solver", ["dense", "lobpcg"])
@pytest.mark.parametrize("name", ["SL", "SL-L"])
def test_a_node_whose_only_edge_is_cut(name, solver):
    """Node 60 hangs on node 0 by one edge, which a cannot-link overwrites with 0."""
    W, y, _ = planted(8)
    W = sp.block_diag([W, [[0.0]]], format="lil")
    W[0, 60] = W[60, 0] = 0.3
    known = ml.Constraints.from_pairs([[0, 60], [1, 2]], [-1.0, 1.0], n_nodes=61)
    est = fixed(name, 4, solver=solver).fit(W.tocsr(), constraints=known)
    sound(est, 61, 4)
    assert est.report_.convergence.converged.all()
    dense = W.toarray()
    links = oracles.links(known)
    if name == "SL":  # a component of its own, whose indicator is a null vector
        theta, X = oracles.spectral_learning(dense, *links)
        assert np.count_nonzero(est.labels_ == est.labels_[60]) == 1
        assert adjusted_rand_score(est.labels_[:60], y) == 1.0
    else:  # the eigenvalue 1: not among the smooth ones
        theta, X = oracles.spectral_learning_normalized(dense, *links)
        np.testing.assert_allclose(est.embedding_[60], 0, atol=1e-6)
    np.testing.assert_allclose(est.eigenvalues_, theta[:4], atol=1e-8)
    assert oracles.angle(est.embedding_, X[:, :4]) < 1e-5


@everywhere
def test_constraints_with_an_isolated_end_cannot_act(name):
    W = sp.block_diag([planted(9)[0], sp.csr_matrix((2, 2))], format="csr")
    _, _, known = planted(9)
    kept = ml.Constraints.from_pairs(known.pairs, known.belief, n_nodes=62)
    dead = ml.Constraints.from_pairs([[0, 60], [60, 61], [1, 61]], [1, 1, -1], n_nodes=62)
    reference = fixed(name, 3).fit(W, constraints=kept)
    est = fixed(name, 3).fit(W, constraints=kept + dead)
    assert any("2 constrained nodes have no edge" in note for note in est.report_.notes)
    assert (est.labels_[60:] == -1).all()
    if name in ("SSSC", "FCSC"):
        return  # they count in |ML| and |CL|, see below
    assert_same_vectors(est, reference)


@pytest.mark.parametrize("name", ["SSSC", "FCSC"])
def test_constraints_with_an_isolated_end_do_not_shift_the_balance(name):
    W = sp.block_diag([planted(9)[0], sp.csr_matrix((2, 2))], format="csr")
    _, _, known = planted(9)
    kept = ml.Constraints.from_pairs(known.pairs, known.belief, n_nodes=62)
    dead = ml.Constraints.from_pairs([[i, 60] for i in range(30)], n_nodes=62)
    reference = fixed(name, 3).fit(W, constraints=kept)
    assert_same_vectors(fixed(name, 3).fit(W, constraints=kept + dead), reference)
