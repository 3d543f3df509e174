"""1 and 3 ranks against each other, bit by bit, and against the space of one process."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg as la
from graphs import (
    CLUSTERS,
    CONSTRAINED,
    FAR,
    REGIONS,
    SPREAD,
    constrained,
    graphs,
    hardly_anything,
    sources,
    told,
)
from sklearn.metrics import adjusted_rand_score

import oracles
from cases import solve_krylov
from mustlink import E2CP, SRCP, NCut
from mustlink.context.stage_cache import Workspace
from mustlink.eigen.memory_work import smallest_pairs
from mustlink.graph import Graph
from mustlink.kernels.blocks import normals
from mustlink.lyapunov import pair_propagation
from mustlink.lyapunov.fields import LyapunovProblem
from mustlink.operators.laplacian import normalized_laplacian
from mustlink.space import Dots, Gram, GroupSums
from mustlink_io.jobs.on_ranks import environment, launcher

pytest.importorskip("petsc4py", reason="PETSc for Python is not installed: make test-scale")
HERE = Path(__file__).parent
RANKS = (1, 3)
WEIGHTS = dict(graphs())
each_graph = pytest.mark.parametrize("name", CLUSTERS)


@cache
def at_home(name):
    """The normalised cut in one process."""
    usual = {"affinity": "precomputed", "regularization": 0, "tol": 1e-8, "random_state": 3}
    usual["variant"] = "luxburg"  # as the worker's
    return NCut(CLUSTERS[name], **usual).fit(WEIGHTS[name])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What the worker found, by number of ranks."""
    folder, found = tmp_path_factory.mktemp("ranks"), {}
    groups = folder / "groups.npz"
    np.savez(groups, **{name: at_home(name).labels_ for name in CLUSTERS})
    for ranks in RANKS:
        out = folder / f"{ranks}.npz"
        command = [*launcher(ranks), sys.executable, str(HERE / "worker.py"), out, groups]
        subprocess.run(command, env=environment(ranks), check=True, timeout=300)
        found[ranks] = dict(np.load(out))
    return found


@pytest.fixture
def there(runs, name):
    """What three ranks found of a graph."""
    ours = {key.split(" ", 1)[1]: value for key, value in runs[3].items() if key.startswith(name)}
    return ours


@pytest.fixture
def home(name):
    return normalized_laplacian(Graph.from_affinity(WEIGHTS[name]))


def test_the_same_bits_on_any_number_of_ranks(runs):
    for ranks in RANKS[1:]:
        assert runs[ranks].keys() == runs[1].keys()
        for key, value in runs[1].items():
            assert np.array_equal(runs[ranks][key], value), (ranks, key)


@each_graph
def test_verbs(there, home):
    space, m = home.space, home.size
    X, y = normals(np.arange(m), 4, 7), normals(np.arange(m), 1, 8)
    groups = (np.abs(y[:, 0]) * 3).astype(np.int64).clip(0, 4)
    assert np.array_equal(there["normals"], X)
    sums = space.sums(Gram([X, y], X), Dots(X, X), GroupSums(X, groups, 5, y[:, 0]))
    for at, expected in enumerate(sums):
        np.testing.assert_allclose(there[f"sum {at}"], expected, atol=1e-10)
    np.testing.assert_allclose(there["gram"], X.T @ X, atol=1e-10)
    assert np.array_equal(there["peaks"], space.peaks(X))
    assert np.array_equal(there["largest"], space.largest(np.round(y), 30))
    nodes = np.arange(m)[::-7]
    assert np.array_equal(there["take"], X[nodes])
    rest = X.copy()
    rest[nodes] += 1
    rest -= X * [0.5, 1.0, -1.0, 2.0]
    np.testing.assert_allclose(there["added"], rest, atol=1e-14)
    np.testing.assert_allclose(there["lessen"], (rest**2).sum(axis=0), rtol=1e-12)
    assert np.array_equal(there["placed"], np.arange(m))


@each_graph
def test_the_laplacian_is_the_one_at_home(there, home):
    assert np.array_equal(there["nodes"], home.nodes)
    assert np.array_equal(there["component"], home.null.component)
    np.testing.assert_allclose(there["weight"], home.null.weight, rtol=1e-12)
    np.testing.assert_allclose(there["root"], home.root_degree, rtol=1e-12)
    assert there["volume"] == pytest.approx(home.volume, rel=1e-12)
    X, old = normals(np.arange(home.size), 5, 1), normals(np.arange(home.size), 5, 2)
    np.testing.assert_allclose(there["product"], home.apply(X), atol=1e-12)
    np.testing.assert_allclose(there["smoothed"], home.smooth(X, 3), atol=1e-5)  # single precision
    out = np.zeros_like(X)
    terms = home.three_terms(X, old, (0.5, -1.0, 2.0), out)
    np.testing.assert_allclose(there["three"], out, atol=1e-12)
    np.testing.assert_allclose(there["terms"], terms, rtol=1e-11)


@each_graph
def test_aggregates_and_the_coarse_matrix(there, home):
    group, coarse = there["group"], there["coarse"]
    count = len(coarse)
    assert np.array_equal(np.unique(group), np.arange(count))
    assert count < 0.6 * home.size
    P = np.zeros((home.size, count))
    P[np.arange(home.size), group] = home.root_degree
    P /= np.linalg.norm(P, axis=0)
    np.testing.assert_allclose(coarse, P.T @ home.apply(P), atol=1e-12)
    np.testing.assert_allclose(coarse @ (P.T @ home.root_degree), 0, atol=1e-9)
    np.testing.assert_allclose(there["up"], P[:, :50], atol=1e-12)
    inside = home.edges.tocoo()
    linked = np.zeros(count, dtype=bool)
    linked[group[inside.row[group[inside.row] == group[inside.col]]]] = True
    assert (linked | (np.bincount(group) == 1)).all()


@each_graph
def test_the_cycle_is_a_symmetric_positive_inverse(there, home):
    X = home.null.project(normals(np.arange(home.size), 5, 1))
    Y = there["cycle"]
    forms = X.T @ Y
    np.testing.assert_allclose(forms, forms.T, atol=1e-4 * np.abs(forms).max())
    assert np.linalg.eigvalsh((forms + forms.T) / 2)[0] > 0


@each_graph
def test_messages_of_a_cycle_are_those_of_the_model(runs, name):
    for ranks in RANKS:
        assert not runs[ranks][f"messages {name}"].any()


@each_graph
def test_block_cg_solves(there, home):
    X = home.null.project(normals(np.arange(home.size), 5, 1))
    assert there["cg"][0]
    residual = home.apply(there["solved"]) - X
    assert (np.linalg.norm(residual, axis=0) < 1e-10 * np.linalg.norm(X, axis=0)).all()


@each_graph
def test_a_diagonal_added_and_nodes_taken_out(there, home):
    nodes, degree = np.arange(home.size), home.root_degree**2
    kept, ground = nodes % 40 != 1, np.where(nodes % 50 == 3, 0.5, 1e-4)
    root = np.where(kept, np.sqrt(degree + ground), 0.0)
    np.testing.assert_allclose(there["grounded root"], root, rtol=1e-12)
    ratio = np.divide(home.root_degree, root, out=np.zeros_like(root), where=kept)
    X = normals(nodes, 5, 1)

    def product(X):
        return X - ratio[:, None] * home.neighbours(ratio[:, None] * X)

    np.testing.assert_allclose(there["grounded product"], product(X), atol=1e-12)
    assert there["grounded cg"][0]
    residual = product(there["grounded solved"]) - X * kept[:, None]
    assert (np.linalg.norm(residual, axis=0) < 1e-10 * np.linalg.norm(X, axis=0)).all()
    assert not there["grounded solved"][~kept].any()


@each_graph
def test_eigenvalues_agree_to_eight_digits(there, home, name):
    k = CLUSTERS[name]
    work = Workspace(Graph.from_affinity(WEIGHTS[name]))
    here = smallest_pairs(work, k, tol=1e-10, max_iter=1000)
    np.testing.assert_allclose(there["values"], here.values, rtol=0, atol=1e-8)
    V = there["vectors"]
    np.testing.assert_allclose(V.T @ V, np.eye(k), atol=1e-8)
    residuals = np.linalg.norm(home.apply(V) - V * there["values"], axis=0)
    assert (residuals < 1e-8).all()
    for group in oracles.groups(here.values, 1e-4):
        if group.stop < k:  # the last may have a twin beyond
            assert oracles.angle(here.vectors[:, group], V[:, group]) < 1e-3


@pytest.mark.parametrize("name", ["network", "many_parts", "uneven"])  # small: by dense algebra
def test_the_other_end_by_lobpcg(there, home):
    top = [home.size - 3, home.size - 1]
    expected = la.eigvalsh(home.to_dense(), subset_by_index=top)
    np.testing.assert_allclose(there["highest"], expected[::-1], atol=1e-8)


@each_graph
def test_global_lanczos(there, home, name):
    spread, ended = solve_krylov(
        LyapunovProblem(home, 0.2, sources(WEIGHTS[name])), memory=None, tol=1e-8
    )
    assert there["lanczos"].tolist() == [ended.converged.all(), ended.iterations]
    for at, (Z, theta) in enumerate(spread.terms):
        few = slice(0, 40)
        F = (Z[:, few] * theta[few]) @ Z[:200, few].T
        W, t = there[f"Z{at}"], there[f"theta{at}"]
        np.testing.assert_allclose((W * t) @ W[:200].T, F, atol=1e-9)


@each_graph
def test_labels_agree(there, name):
    here = at_home(name)
    assert np.array_equal(there["labels"] < 0, here.labels_ < 0)
    assert adjusted_rand_score(here.labels_, there["labels"]) >= 0.9999


@pytest.mark.parametrize("name", sorted(CLUSTERS.keys() - {"many_parts"}))  # equal directions
@pytest.mark.parametrize("method", CONSTRAINED)
def test_constraints_in_the_smooth_subspace(there, home, name, method):
    W = WEIGHTS[name]
    here = constrained(method, name).fit(W, constraints=told(W, name, at_home(name).labels_))
    np.testing.assert_allclose(there[f"{method} values"], here.eigenvalues_, rtol=1e-8, atol=1e-8)
    there_rows = there[f"{method} embedding"]
    assert oracles.angle(here.embedding_[home.nodes], there_rows) < 1e-4
    labels = here.labels_[home.nodes]
    assert adjusted_rand_score(labels, there[f"{method} labels"]) >= 0.9999


@each_graph
def test_choices_by_constraints_held_out(there, home, name):
    """The same as at home where that looks at the same candidates: their scores are close."""
    k, group = CLUSTERS[name], at_home(name).labels_[home.nodes]
    p, _ = there["chosen"]
    assert k <= p <= 4 * k
    assert adjusted_rand_score(group, there["chosen labels"]) > 0.3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", CONSTRAINED)
@pytest.mark.parametrize("at", range(3))
def test_hardly_anything_known(runs, at, method):
    W = WEIGHTS["picture"]
    known = hardly_anything(W)[at]
    there = runs[3][f"picture few {method} {at}"]
    assert set(there) == set(range(CLUSTERS["picture"]))
    if not known.is_empty:  # at home the full problem is solved then
        clusterer = constrained(method, "many_parts").set_params(n_clusters=4)
        here = clusterer.fit(W, constraints=known).labels_[
            normalized_laplacian(Graph.from_affinity(W)).nodes
        ]
        assert adjusted_rand_score(here, there) >= 0.9999
    rest = runs[3][f"many_parts few {method} {at}"]
    assert rest.size == np.count_nonzero(np.diff(WEIGHTS["many_parts"].indptr))


@each_graph
@pytest.mark.parametrize("method", [SRCP, E2CP])
def test_pairs_that_are_spread(there, name, method):
    k, W = CLUSTERS[name], WEIGHTS[name]
    known = told(W, name, at_home(name).labels_)
    here = method(k, affinity="precomputed", **SPREAD).fit(W, constraints=known)
    np.testing.assert_allclose(there[f"{method.__name__} values"], here.eigenvalues_, atol=1e-8)
    assert np.array_equal(there[f"{method.__name__} labels"] < 0, here.labels_ < 0)
    assert adjusted_rand_score(here.labels_, there[f"{method.__name__} labels"]) >= 0.9999


@pytest.mark.parametrize("name", REGIONS)
@pytest.mark.parametrize("method", [SRCP, E2CP])
def test_pairs_that_are_spread_in_regions(runs, name, method):
    """In which parts they are changes nothing, nor do they depend on the ranks."""
    k, W = CLUSTERS[name], WEIGHTS[name]
    known = told(W, name, at_home(name).labels_)
    here = method(k, affinity="precomputed", **SPREAD).fit(W, constraints=known)
    assert runs[1][f"regions {name} parts"] > 4
    there = {
        key: runs[3][f"regions {name} {method.__name__} {key}"] for key in ("values", "labels")
    }
    np.testing.assert_allclose(there["values"], here.eigenvalues_, atol=1e-8)
    assert adjusted_rand_score(here.labels_, there["labels"]) >= 0.9999


@pytest.mark.parametrize("name", REGIONS)
def test_pairs_that_are_spread_far(monkeypatch, runs, name):
    """By Lanczos: new edges are looked for as in large graphs."""
    monkeypatch.setattr(pair_propagation, "_ROWS_BELOW", 0)
    k, W = CLUSTERS[name], WEIGHTS[name]
    known = told(W, name, at_home(name).labels_)
    here = SRCP(k, affinity="precomputed", **FAR).fit(W, constraints=known)
    there = {key: runs[3][f"far {name} {key}"] for key in ("values", "labels", "by", "added")}
    assert there["by"] == here.report_.choices["propagation"] == "global Krylov"
    assert there["added"] == here.report_.extra["adjustment"]["added"] > 0
    np.testing.assert_allclose(there["values"], here.eigenvalues_, atol=1e-8)
    assert adjusted_rand_score(here.labels_, there["labels"]) >= 0.9999
