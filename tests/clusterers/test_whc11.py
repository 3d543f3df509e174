"""Rules of Wacquet et al. 2011 (WHC11) against dense twins."""

import numpy as np
import pytest
from sklearn.metrics import rand_score

import mustlink as ml
import oracles
from cases import KINDS, planted_graph, random_constraints, random_graph
from mustlink.context.stage_cache import Workspace
from mustlink.discretize.assign import cut_vector
from mustlink.discretize.satisfaction import satisfaction
from mustlink.eigen.memory_work import laplacian_of
from mustlink.errors import InfeasibleError, InputError

CASES = 100
pytestmark = pytest.mark.usefixtures("few_runs")
EXACT = {"affinity": "precomputed", "random_state": 0, "subspace": "exact"}


def case(seed, k=2):
    """A graph of one part, some nodes without an edge, and constraints of every kind by turns."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(14, 30))
    W = random_graph(rng, n, isolated=seed % 3)
    known = random_constraints(rng, n, KINDS[seed % 4], k)
    if seed % 8 == 0:
        many = rng.choice([0.04, 1.0, 25.0], len(known.pairs))
        known = ml.Constraints.from_pairs(known.pairs, known.belief * many, n_nodes=n)
    return W, known


# --- SSSC: K = 2, §3.4


@pytest.mark.thorough
def test_two_clusters_are_cut_from_the_first_vector_with_both_signs():
    columns = []
    for seed in range(CASES):
        W, known = case(seed)
        gamma = (0.02, 0.2, 0.5, 0.9)[seed // 4 % 4]
        theta, Z = oracles.sssc(W.toarray(), *oracles.links(known), gamma)
        expected = oracles.cut_of_one_sign_rejected(Z[:, :2], 1e-6)
        if expected is None or np.diff(theta[:3]).min() < 1e-6:
            continue
        est = ml.SSSC(2, gamma=gamma, assign="sign", **EXACT).fit(W, constraints=known)
        linked = np.asarray(W.sum(axis=1)).ravel() > 0
        found = est.labels_[linked]
        assert (found == expected).all() or (found == ~expected).all(), seed
        assert (est.labels_[~linked] == -1).all()
        columns.append(int((Z[:, 0] > 0).all() or (Z[:, 0] < 0).all()))
    assert len(columns) > 0.8 * CASES
    assert 0.1 < np.mean(columns) < 0.9  # both kinds of case


def test_the_vector_that_is_cut():
    one = np.array([[0.3], [0.2], [0.0]])
    assert cut_vector(one) is not None
    np.testing.assert_array_equal(cut_vector(one), one)  # nothing else to cut
    both = np.array([[0.3, 1.0], [0.2, -1.0], [-1e-9, 1.0]])
    np.testing.assert_array_equal(cut_vector(both), both[:, 1:])  # rounding is no second side
    both[2, 0] = -0.1
    np.testing.assert_array_equal(cut_vector(both), both[:, :1])
    assert cut_vector(np.empty((3, 0))).shape == (3, 0)


@pytest.mark.thorough(but=3)
@pytest.mark.parametrize("way", ["auto", "sign", "split", "sphere"])
@pytest.mark.parametrize("subspace", ["auto", "exact", 4])
def test_every_way_of_sssc_finds_two_planted_clusters(way, subspace):
    rng = np.random.default_rng(0)
    W, y = planted_graph(rng, 80, 2)
    given = np.where(np.arange(80) % 3 == 0, y, -1)
    options = EXACT | {"subspace": subspace}
    labels = ml.SSSC(2, assign=way, **options).fit(W, given).labels_
    assert (labels == y).all() or (labels == 1 - y).all()


# --- SSSC: eq. 11


def test_weights_of_must_and_cannot_links_are_those_of_the_paper():
    """Beliefs count between the kinds, and α and β do."""
    for seed in range(CASES):
        W, known = case(seed, 3)
        alpha, beta = ((1.0, 1.0), (25.0, 1.0), (0.1, 2.0), (1.0, 0.0))[seed // 4 % 4]
        gamma = (0.1, 0.5)[seed % 2]
        theta, Z = oracles.sssc(W.toarray(), *oracles.links(known), gamma, alpha, beta)
        est = ml.SSSC(3, gamma=gamma, assign="sphere", **EXACT)
        est.fit(W, constraints=known.weighted(must=beta, cannot=alpha))
        np.testing.assert_allclose(est.eigenvalues_, theta[:3], atol=1e-10, err_msg=f"{seed}")
        if theta[3] - theta[2] > 1e-4:
            linked = np.asarray(W.sum(axis=1)).ravel() > 0
            assert oracles.angle(est.embedding_[linked], Z[:, :3]) < 1e-7, seed


@pytest.mark.thorough
def test_links_that_weigh_alike():
    """Eq. 11 without the numbers of links: α = |CL|, β = |ML|."""
    for seed in range(CASES):
        W, known = case(seed, 3)
        must, cannot = oracles.links(known)
        counts = [np.count_nonzero(oracles.acting(P, W.toarray())) / 2 for P in (cannot, must)]
        gamma = (0.1, 0.5)[seed % 2]
        theta, Z = oracles.sssc(W.toarray(), must, cannot, gamma, *counts)
        est = ml.SSSC(3, gamma=gamma, balanced=False, assign="sphere", **EXACT)
        est.fit(W, constraints=known)
        np.testing.assert_allclose(est.eigenvalues_, theta[:3], atol=1e-10, err_msg=f"{seed}")
        if theta[3] - theta[2] > 1e-4:
            linked = np.asarray(W.sum(axis=1)).ravel() > 0
            assert oracles.angle(est.embedding_[linked], Z[:, :3]) < 1e-7, seed


@pytest.mark.thorough
def test_how_links_are_weighed():
    """In a subspace alike; the full problem, a search and weights of one's own as by eq. 11."""
    rng = np.random.default_rng(3)
    W, y = planted_graph(rng, 120, 3)
    options = {"affinity": "precomputed", "random_state": 0}
    given = np.where(rng.permutation(120) < 60, y, -1)
    for more, weighing in (
        ({"subspace": "exact"}, "balanced"),
        ({"gamma": "search"}, "balanced"),
        ({"balanced": False}, "alike"),
        ({"balanced": True}, "balanced"),
        ({}, "alike"),
    ):
        choices = ml.SSSC(3, **options, **more).fit(W, given).report_.choices
        assert choices["weighing"] == weighing, more
    with pytest.raises(InputError, match="balanced"):
        ml.SSSC(3, balanced="always", **options).fit(W, given)


def test_beliefs_of_one_kind_are_its_weight():
    """25 for every must-link is their weight: it used to change nothing."""
    rng = np.random.default_rng(1)
    W = random_graph(rng, 30)
    known = random_constraints(rng, 30, "pairs")
    strong = np.where(known.belief > 0, 25.0, -1.0)
    told = ml.Constraints.from_pairs(known.pairs, strong, n_nodes=30)
    options = {"gamma": 0.3, "assign": "sphere"} | EXACT
    plain, weighted, believed = (
        ml.SSSC(3, **options).fit(W, constraints=said).eigenvalues_
        for said in (known, known.weighted(must=25), told)
    )
    np.testing.assert_allclose(believed, weighted, rtol=1e-10)
    assert np.abs(believed - plain).max() > 1e-3


# --- FCSC: K vectors, and β of eq. 19


@pytest.mark.thorough
def test_fcsc_takes_as_many_vectors_as_asked():
    tried = 0
    for seed in range(CASES):
        W, known = case(seed, 3)
        k, count = 3, 2 + seed % 3
        L, root, nodes = oracles.laplacian(W.toarray())
        said = (oracles.acting(P, W.toarray()) for P in oracles.links(known))
        Q = oracles.normalized_constraints(oracles.balanced(*said), W.toarray())
        beta = (-0.5, -0.05, 0.4)[seed // 4 % 3]
        values = np.linalg.eigvalsh(Q)[::-1]
        unit = values[count - 1] if values[count - 1] > 1e-9 * values[0] else values[0]
        if unit <= 0 or (beta > 0 and unit != values[count - 1]):
            continue
        lam, V, cost = oracles.pencil(L, Q, beta * unit, W.sum())
        if lam.size <= count or np.diff(np.sort(cost)[count - 1 : count + 1]) < 1e-3 * cost.max():
            continue
        options = {"beta": beta, "balanced": True, "n_vectors": count, "assign": "kmeans"}
        est = ml.CSP(k, **options, **EXACT).fit(W, constraints=known)
        best = np.argsort(cost)[:count]
        np.testing.assert_allclose(est.costs_, cost[best], rtol=1e-6, err_msg=f"{seed}")
        assert oracles.angle(root[:, None] * est.embedding_[nodes], V[:, best]) < 1e-5, seed
        assert est.report_.extra["feasible"] == {"found": count, "wanted": count}
        tried += 1
    assert tried > 0.4 * CASES


def test_beta_of_eq_19_is_a_fraction_of_the_largest_eigenvalue():
    """Of λ_{K−1} by name of "paper"; where λ_max asks for too much, that is said."""
    feasible = 0
    for seed in range(30):
        W, known = case(seed, 3)
        Q = oracles.normalized_constraints(known.to_dense(), W.toarray())
        values = np.linalg.eigvalsh(Q)[::-1]
        wanted = values[0] * (0.5 + 0.8 * known.n_constraints / W.shape[0] ** 2)
        est = ml.CSP(3, beta="paper-max", **EXACT)
        if values[1] <= wanted:
            with pytest.raises(InfeasibleError, match="beta"):
                est.fit(W, constraints=known)
            continue
        choices = est.fit(W, constraints=known).report_.choices
        assert choices["beta"] * choices["unit"] == pytest.approx(wanted)
        other = ml.CSP(3, beta="paper", **EXACT).fit(W, constraints=known).report_.choices
        assert other["beta"] * values[0] == pytest.approx(wanted)
        assert other["unit"] == pytest.approx(values[1])
        feasible += 1
    assert 3 < feasible < 27


def five_gaussians(seed):
    """WHC11 Fig. 2, 20 points each: a graph, and pairs against the cut that it shows by itself."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(5), 20)
    centres = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 6.5], [7.0, 7.0], [13.0, 3.0]])
    graph = ml.rbf_graph(centres[y] + 1.2 * rng.standard_normal((100, 2)), sigma=1.0)
    first, second, third, fourth = (int(rng.choice(np.flatnonzero(y == g))) for g in (0, 2, 1, 3))
    apart = rng.choice(np.flatnonzero(y == 4), 2, replace=False).tolist()
    pairs = [[first, second], [third, fourth], apart]
    return graph, ml.Constraints.from_pairs(pairs, belief=[1, 1, -1], n_nodes=100)


@pytest.mark.thorough
def test_the_wider_range_keeps_what_breaks_the_natural_cut():
    """WHC11 Table 1: all three pairs are kept by FCSC-θ2SP, FCSC-θSP and SSSC, none by SC."""
    wide = {"beta": "wide", "balanced": True, "assign": "sphere", "n_vectors": 4} | EXACT
    graph, known = five_gaussians(0)
    alone = ml.NCut(4, variant="ng", affinity="precomputed", random_state=0).fit(graph)
    assert satisfaction(alone.labels_, known)["kept"] == 0
    for est in (ml.CSP(4, **wide), ml.SSSC(4, **EXACT)):
        labels = est.fit(graph, constraints=known).labels_
        assert satisfaction(labels, known)["kept"] == 1, est


@pytest.mark.thorough
def test_the_ranges_of_fcsc():
    """FCSC-θ is within (λ_min, λ_max), θ2 within (−100 max|λ|, λ_max), as printed to λ_max/vol."""
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        W = random_graph(rng, 20)
        known = random_constraints(rng, 20, "pairs")
        Q = oracles.normalized_constraints(oracles.balanced(*oracles.links(known)), W.toarray())
        values = np.linalg.eigvalsh(Q)
        low, high, most = values[0], values[-1], np.abs(values).max()
        steps = np.arange(1, 101) / 101
        graph = ml.Graph.from_affinity(W)
        laplacian = laplacian_of(Workspace(graph))
        for name, expected in (
            ("search", low + steps * (high - low)),
            ("wide", -100 * most + steps * (high + 100 * most)),
            ("wide-printed", np.linspace(-100 * most, high / W.sum(), 100)),
        ):
            est = ml.CSP(2, beta=name, balanced=True, **EXACT)
            stated = est._formulation(graph, laplacian, known, 2)
            found = np.array(stated.grid.exact) * stated.problem.unit
            np.testing.assert_allclose(found, expected, atol=1e-8 * high)


@pytest.mark.parametrize("beta", ["search", "wide", "wide-printed"])
@pytest.mark.parametrize("n_vectors", [None, 3])
def test_a_search_without_constraints_is_the_plain_cut(beta, n_vectors):
    rng = np.random.default_rng(2)
    W, y = planted_graph(rng, 60, 3)
    est = ml.CSP(3, beta=beta, balanced=True, n_vectors=n_vectors, **EXACT).fit(W)
    assert rand_score(y, est.labels_) == 1


@pytest.mark.thorough
def test_values_that_leave_too_few_vectors_are_not_tried():
    """Two pairs give Q̄ two positive eigenvalues: of three vectors none is searched with β > 0."""
    rng = np.random.default_rng(4)
    W, _ = planted_graph(rng, 30, 3)
    known = ml.Constraints.from_pairs([[0, 1], [5, 9]], [1.0, -1.0], n_nodes=30)
    for count, above in ((2, True), (3, False)):
        est = ml.CSP(3, beta="search", n_vectors=count, **EXACT).fit(W, constraints=known)
        tried = [row[1] for row in est.report_.to_dict()["candidates"]]
        assert (max(tried) > 0) == above
