"""Memory budgets: what is counted, what is changed to fit, and that results stay what they are."""

from __future__ import annotations

import json
import resource
from dataclasses import replace

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import mustlink as ml
from cases import blobs, planted_graph, random_graph
from mustlink.context import method_cost
from mustlink.context.method_cost import RESERVE, Size, adjusted_cut, eigenvectors, propagation
from mustlink.core.observe import recorded
from mustlink.core.resources import PROGRAM, Budget, parse_size, peak_bytes, resident_bytes
from mustlink.eigen.lobpcg import Lobpcg, lobpcg
from mustlink.eigen.plain_solve import default_tolerance
from mustlink.errors import InputError
from mustlink.estimators.fit_input import bytes_of
from mustlink.kernels.spmm import scaled_permutation
from mustlink.linear.multigrid.hierarchy import build_hierarchy
from mustlink.neighbors import knn_graph
from mustlink.neighbors.points_by_rows import is_rows
from mustlink.operators.laplacian import normalized_laplacian
from mustlink_io import formats
from mustlink_io.commands.cli import run as cli
from mustlink_io.formats import points as point_files

sizes = {
    "n": st.integers(10, 10**8),
    "nnz": st.integers(10, 10**10),
    "columns": st.integers(1, 500),
    "single": st.booleans(),
}


COSTS = {"eigenvectors": eigenvectors, "propagation": propagation, "adjusted cut": adjusted_cut}


@given(**sizes, kind=st.sampled_from(sorted(COSTS)))
def test_bytes_grow_with_everything(n, nnz, columns, single, kind):
    def peak(n, nnz, columns, single):
        return COSTS[kind](columns).peak(Size(n, nnz), single=single)

    here = peak(n, nnz, columns, single)
    assert here > PROGRAM + Size(n, nnz).graph
    assert here < peak(2 * n, nnz, columns, single)
    assert here < peak(n, 2 * nnz, columns, single)
    assert here <= peak(n, nnz, columns + 1, single)
    assert peak(n, nnz, columns, True) <= here
    cost = COSTS[kind](columns)
    assert cost.peak(Size(n, nnz), single=single, usual=True) <= here


@pytest.mark.thorough
@given(**sizes, share=st.floats(0, 1))
def test_fewer_equations_are_solved_at_a_time_only_where_memory_is_short(
    n, nnz, columns, single, share
):
    cost, size = propagation(columns), Size(n, nnz)
    assert cost.within(size, None, single=single) == cost
    least = cost.least_memory(size, single=single)
    most = cost.peak(size, single=single) + RESERVE
    assert cost.within(size, most, single=single) == cost
    memory = int(least + share * (most - least))
    found = cost.within(size, memory, single=single)
    if memory < most:
        assert found.peak(size, single=single) + RESERVE <= memory
        assert 2 * found.together == cost.together or (
            replace(found, together=2 * found.together).peak(size, single=single) + RESERVE > memory
        )


@given(**sizes, memory=st.integers(10**6, 10**12), kind=st.sampled_from(sorted(COSTS)))
def test_what_is_said_to_fit_fits(n, nnz, columns, single, memory, kind):
    size = Size(n, nnz)
    most = COSTS[kind](columns).most_columns(size, memory, single=single)
    if most >= 1:
        fits = COSTS[kind](most)
        assert fits.least_memory(size, single=single) <= memory * (1 + 1e-9)
        fits.check(size, int(memory * 1.001), single=single)
    beyond = COSTS[kind](max(most, 0) + 2)
    assert beyond.least_memory(size, single=single) > memory * (1 - 1e-9)
    with pytest.raises(InputError, match=r"need [\d.]+ (GB|MB)"):
        beyond.check(size, int(memory * 0.999), single=single)


def test_without_a_memory_nothing_changes():
    assert not eigenvectors(1000).wants_single(Size(10**12, 10**12), None)


def test_estimators_state_what_their_parameters_ask_for():
    """A given subspace is counted as it is, and cannot give way; so are the starts of SSKK."""
    for p in (7, 500):
        stated = ml.CSP(10, subspace=p).cost()
        assert (stated.columns, stated.least) == (p, p)
    assert (ml.CSP(10).cost().columns, ml.CSP(10).cost().least) == (40, 10)
    assert ml.CSP(10, subspace="exact").cost().columns > 10
    assert ml.SSKK(10).cost().least == 40
    assert ml.SSKK(10, init="spectral").cost().columns == 10
    assert ml.LLGC().cost(37).columns == 37
    assert ml.ClusterKernel(n_components=99).cost(3).columns == 99
    assert ml.NCut(n_clusters="ten").cost().columns > 0  # what is no number is told by fit


def test_a_subspace_that_does_not_fit_is_refused(planted):
    W, y = planted
    memory = just_too_small(ml.CSP(4, subspace=6), ml.Graph.from_affinity(W))
    wide = ml.CSP(4, affinity="precomputed", subspace=400, memory=memory)
    with pytest.raises(InputError, match="400 vectors of 1100 nodes"):
        wide.fit(W, np.where(np.arange(y.size) % 40 == 0, y, -1))


def test_resident_is_below_the_peak():
    assert 0 < resident_bytes() <= peak_bytes()


# ----------------------------------------------------------------------------------- kernels


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["random", "hub", "isolated"])
def test_scaled_permutation_is_the_dense_one(dtype, kind):
    rng = np.random.default_rng(5)
    W = random_graph(rng, 90).toarray()
    if kind == "hub":
        W[0, 1:] = W[1:, 0] = rng.random(89)  # a row long enough for the general sort
    if kind == "isolated":
        W[:, ::7] = W[::7, :] = 0.0
    A = sp.csr_matrix(W)
    nodes = rng.permutation(np.flatnonzero(W.sum(axis=1) > 0)).astype(np.int64)
    root = rng.random(nodes.size) + 0.5
    S = scaled_permutation(A, nodes, root, np.dtype(dtype))
    expected = W[np.ix_(nodes, nodes)] / np.outer(root, root)
    assert S.dtype == dtype
    assert S.has_canonical_format or S.copy().has_canonical_format
    assert np.allclose(S.toarray(), expected, rtol=1e-6 if dtype == np.float32 else 1e-15, atol=0)
    S.check_format(full_check=True)
    assert np.array_equal(A.toarray(), W)


def test_lobpcg_in_single_precision_finds_the_same_pairs():
    """Blocks of singles: eigenvalues to 1e-6, vectors orthonormal to 1e-6, residual 1e-5."""
    rng = np.random.default_rng(0)
    values = np.sort(rng.random(300)) * 2
    Q, _ = np.linalg.qr(rng.standard_normal((300, 300)))
    A = ((Q * values) @ Q.T).astype(np.float32)
    X = rng.standard_normal((300, 8)).astype(np.float32)
    start = X.copy()
    found = lobpcg(lambda B: A @ B, X, Lobpcg(4, 1e-5, 500))
    assert found.vectors.dtype == np.float32
    assert found.convergence.converged.all()
    assert np.allclose(found.values, values[:4], rtol=0, atol=2e-6)
    V = found.vectors.astype(float)
    assert np.allclose(V.T @ V, np.eye(4), rtol=0, atol=1e-6)
    assert np.linalg.norm(A.astype(float) @ V - V * found.values, axis=0).max() < 2e-5
    assert np.array_equal(X, start)


# --------------------------------------------------------------------------------- estimators


def just_too_small(estimator, graph, n_classes=None):
    """A memory in which double precision does not fit and single does."""
    cost, size = estimator.cost(n_classes), Size(graph.n_nodes, graph.affinity.nnz)
    return (cost.peak(size, single=False) + cost.peak(size, single=True)) // 2 + RESERVE


@pytest.fixture(scope="module")
def planted():
    rng = np.random.default_rng(1)
    W, y = planted_graph(rng, 1100, 4, inside=0.11, across=0.004)
    return sp.csr_matrix(W), y


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["NCut", "CSP", "SSSC", "SpectralLearning", "SSKK", "SRCP"])
def test_single_precision_gives_the_same_clusters(planted, method):
    W, y = planted
    made = getattr(ml, method)
    known = np.where(np.arange(y.size) % 40 == 0, y, -1)
    side = {} if method == "NCut" else {"y": known}
    memory = just_too_small(made(n_clusters=4), ml.Graph.from_affinity(W))
    whole = made(n_clusters=4, affinity="precomputed", random_state=0).fit(W, **side)
    tight = made(n_clusters=4, affinity="precomputed", random_state=0, memory=memory)
    tight.fit(W, **side)
    assert any("in single precision" in note for note in tight.report_.notes)
    assert not any("in single precision" in note for note in whole.report_.notes)
    pairs = np.stack([whole.labels_, tight.labels_])
    table = np.unique(pairs, axis=1, return_counts=True)[1]
    assert np.sort(table)[-4:].sum() >= 0.995 * y.size  # the same clusters under other numbers


def test_eigenpairs_in_single_precision_solve_the_problem(planted):
    """‖L̄v − λv‖ <= 1e-4 with the exact L̄, as asked for; λ to 1e-6: residual² by a gap of 1e-2."""
    W, _ = planted
    graph = ml.Graph.from_affinity(W)
    memory = just_too_small(ml.NCut(4), graph)
    found = ml.NCut(4, affinity="precomputed", random_state=0, tol=1e-4, memory=memory).fit(graph)
    exact = ml.NCut(4, affinity="precomputed", random_state=0, solver="dense").fit(W)
    assert np.allclose(found.eigenvalues_, exact.eigenvalues_, rtol=0, atol=1e-6)
    L = normalized_laplacian(ml.Graph.from_affinity(W))
    V = L.to_working_order(found.embedding_.astype(float)) * L.root_degree[:, None]
    R = L.apply(V) - V * found.eigenvalues_
    assert np.linalg.norm(R, axis=0).max() <= 1.1e-4 * np.linalg.norm(V, axis=0).max()


@pytest.mark.thorough
def test_single_precision_is_asked_for_what_it_can_reach(planted):
    graph = ml.Graph.from_affinity(planted[0])
    ncut = ml.NCut(
        4, affinity="precomputed", random_state=0, memory=just_too_small(ml.NCut(4), graph)
    )
    found = ncut.fit(graph).report_
    assert found.convergence.tolerance == default_tolerance(1100, single=True) > 1e-8
    assert found.convergence.converged.all()
    assert not any("raise max_iter" in told for told in found.warnings)
    found = ncut.set_params(tol=1e-10, max_iter=30).fit(graph).report_  # the caller's stays
    assert found.convergence.tolerance == 1e-10
    assert any("raise max_iter or tol, or give more memory" in told for told in found.warnings)
    found = ncut.set_params(max_iter=200).fit(graph).report_  # ends at the floor of the precision
    assert found.convergence.reason == "stagnated"
    assert found.convergence.iterations < 150
    assert any("no longer lower the residual" in told for told in found.warnings)


def test_too_small_a_memory_names_the_least_that_works(planted):
    W, _ = planted
    with pytest.raises(InputError, match="need") as error:
        ml.NCut(4, affinity="precomputed", memory="200MB").fit(W)
    least = str(error.value).split("need ")[1]
    ml.NCut(4, affinity="precomputed", memory=parse_size(least)).fit(W)


@pytest.mark.parametrize("memory", ["abc", "-3GB", 0, -5, 0.5, np.inf, True])
def test_bad_memory_is_refused(planted, memory):
    with pytest.raises(InputError, match="memory"):
        ml.NCut(4, affinity="precomputed", memory=memory).fit(planted[0])


def test_subspaces_are_as_large_as_the_memory_allows(planted):
    W, y = planted
    graph = ml.Graph.from_affinity(W)
    known = np.where(np.arange(y.size) % 20 == 0, y, -1)
    size = Size(graph.n_nodes, W.nnz)
    memory = eigenvectors(6).least_memory(size) + 10**5
    found = ml.CSP(4, affinity="precomputed", random_state=0, memory=memory).fit(W, known)
    assert any("larger subspaces are not tried" in note for note in found.report_.notes)
    most = eigenvectors(1).most_columns(size, memory, single=True)
    assert 6 <= most < 16
    assert max(row[0] for row in found.report_.to_dict()["candidates"]) == most


@pytest.mark.parametrize("propagator", [ml.GFHF, ml.LLGC, ml.Poisson])
def test_fewer_equations_at_a_time_answer_the_same(propagator):
    X, y = blobs(np.random.default_rng(3), 1500, 9, d=4)
    graph, known = knn_graph(X, random_state=0), np.where(np.arange(1500) % 20 == 0, y, -1)
    whole = propagator(solver="cg", random_state=0).fit(graph, known)
    W = graph.affinity
    room = propagator().cost(9).least_memory(Size(graph.n_nodes, W.nnz))
    tight = propagator(solver="cg", random_state=0, memory=room).fit(graph, known)
    notes = "".join(tight.report_.notes)
    assert "4 classes are solved at a time" in notes
    assert np.array_equal(tight.labels_, whole.labels_)


def test_the_memory_is_no_part_of_the_answer(planted):
    W, _ = planted
    a = ml.NCut(4, affinity="precomputed", random_state=0, memory="20GB").fit(W)
    b = ml.NCut(4, affinity="precomputed", random_state=0).fit(W)
    assert np.array_equal(a.labels_, b.labels_)
    assert np.array_equal(a.embedding_, b.embedding_)


# ------------------------------------------------------------------------------- command line


@pytest.fixture
def data(tmp_path, monkeypatch):
    X, y = blobs(np.random.default_rng(0), 400, 3, d=6)
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["points"], file["labels"] = X.astype("f4"), y
    monkeypatch.chdir(tmp_path)
    return X


def told(capsys, *arguments):
    assert cli([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_plan_tells_every_stage_and_runs_nothing(data, capsys, tmp_path):
    plan = told(capsys, "plan", "data.h5", "-k", "3")
    assert (plan["n"], plan["d"]) == (400, 6)
    assert plan["peak_bytes"] == max(stage["peak_bytes"] for stage in plan["stages"])
    assert plan["seconds"] == pytest.approx(sum(stage["seconds"] for stage in plan["stages"]))
    assert [path.name for path in tmp_path.iterdir()] == ["data.h5"]
    result = told(capsys, "cluster", "data.h5", "-k", "3", "-o", "out.h5", "--quiet")
    names = {stage["name"] for stage in result["stages"]} - {"keeping", "multigrid set-up"}
    ran = {name for name in names if not name.startswith("keeping")}
    assert ran <= {stage["name"] for stage in plan["stages"]}


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("even", [True, False])
def test_regularisations_are_planned_where_they_are_tried(tmp_path, monkeypatch, capsys, even):
    monkeypatch.chdir(tmp_path)
    ring, crowd = np.arange(3000), np.repeat(np.arange(2000), 0 if even else 5)
    chords = np.random.default_rng(0).integers(0, 2000, crowd.size)  # of two nodes in three
    ends = np.concatenate([ring, crowd]), np.concatenate([(ring + 1) % 3000, chords])
    A = sp.csr_matrix((np.ones(ends[0].size), ends), (3000, 3000))
    A.setdiag(0)
    W = sp.csr_matrix(A + A.T)
    with h5py.File("net.h5", "w") as file:
        for part in ("data", "indices", "indptr"):
            file[f"graph/{part}"] = getattr(W, part)
        file["graph"].attrs["shape"] = W.shape
    planned = told(capsys, "plan", "net.h5", "-k", "3")["stages"]
    assert ("candidate regularisations" in {stage["name"] for stage in planned}) == (not even)


@pytest.mark.thorough
@pytest.mark.parametrize("n", [10**4, 10**6, 10**8])
def test_the_least_memory_of_a_plan_is_accepted_and_less_is_not(capsys, n):
    size = f"{n}x16"
    least = told(capsys, "plan", size, "-k", "10")["least_memory"]
    tight = told(capsys, "plan", size, "-k", "10", "--memory", str(least))
    assert tight["peak_bytes"] <= 1.02 * least
    assert cli(["plan", size, "-k", "10", "--memory", str(int(0.99 * least) - 10**6)]) == 2
    said = capsys.readouterr().err
    assert "at least" in said
    assert said.count("\n") == 1


@pytest.mark.thorough
def test_plans_grow_with_the_points_and_shrink_with_the_memory(capsys):
    peaks = [told(capsys, "plan", f"{10**p}x32", "-k", "10")["peak_bytes"] for p in (4, 5, 6, 7)]
    assert peaks == sorted(peaks)
    free = told(capsys, "plan", "1000000x128", "-m", "csp")
    tight = told(capsys, "plan", "1000000x128", "-m", "csp", "--memory", "2GB")
    assert tight["peak_bytes"] <= 2 * 10**9 < free["peak_bytes"]
    assert tight["changes"]
    assert not free["changes"]


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["missing.h5"], "no such file"),
        (["data.h5", "-m", "nonsense"], "no method"),
        (["data.h5", "--for", "propagate", "-m", "csp"], "no method"),
        (["data.h5", "--memory", "10MB"], "at least"),
        (["data.h5", "-m", "ncut", "--beta", "0.5"], "no option of -m ncut"),
        (["data.h5", "-k", "401"], "more clusters than the 400 nodes"),
        (["data.h5", "--memory", "much"], "not a size"),
        (["graph.npz", "--for", "propagate", "-m", "lnp"], "graph.npz is a graph"),
    ],
)
def test_bad_plans_are_one_line(data, capsys, options, word):
    sp.save_npz("graph.npz", random_graph(np.random.default_rng(0), 30))
    assert cli(["plan", *options]) == 2
    said = capsys.readouterr().err
    assert word in said
    assert said.count("\n") == 1


@pytest.mark.thorough
@pytest.mark.parametrize("command", ["cluster", "propagate"])
def test_plans_of_every_method(data, capsys, command):
    from mustlink_io.jobs.methods import METHODS, PROPAGATORS

    for method in METHODS if command == "cluster" else PROPAGATORS:
        plan = told(capsys, "plan", "100000x20", "--for", command, "-m", method)
        assert plan["peak_bytes"] > PROGRAM


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["llelp", "ltsalp"])
def test_steps_that_nobody_knows_are_planned_as_the_most_that_are_taken(data, capsys, method):
    how = ("20000x5", "--for", "propagate", "-m", method, "--max-iter")
    few, many = (told(capsys, "plan", *how, steps) for steps in ("10", "1000"))
    assert many["seconds_are"] == "at most"
    assert "up to 1,000 steps" in many["why"][0]
    assert many["seconds"] > few["seconds"]


def test_a_run_refuses_a_memory_that_its_plan_refuses(data, capsys, tmp_path):
    code = cli(["cluster", "data.h5", "-k", "3", "-o", "out.h5", "--memory", "50MB"])
    assert code == 2
    assert "at least" in capsys.readouterr().err
    assert not (tmp_path / "out.h5").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["ncut", "csp", "sssc", "srcp", "sskk", "csc-gfhf"])
def test_the_least_memory_that_is_told_is_enough_for_the_run(data, capsys, method):
    """Not refused half-way; what this process took before counts for nothing."""
    with h5py.File("data.h5", "a") as file:
        file["known"] = np.where(np.arange(400) % 10 == 0, file["labels"][()], -1)
    side = () if method == "ncut" else ("--labels", "data.h5:/known")
    given_ = ("data.h5", "-k", "3", "-m", method, *side)
    least = told(capsys, "plan", *given_)["least_memory"]
    told(capsys, "cluster", *given_, "--memory", str(least), "-o", "out.h5", "--quiet")


@pytest.fixture
def lazy(monkeypatch):
    """Points are large for a memory as soon as they need a millionth of it; blocks are small."""
    monkeypatch.setattr(method_cost, "LAZY", 10**6)
    monkeypatch.setattr(point_files.row_blocks, "__defaults__", (2000,))


def test_points_are_streamed_when_they_are_large_for_the_memory(data, lazy, capsys):
    given_ = ("cluster", "data.h5", "-k", "3", "--quiet")
    whole = told(capsys, *given_, "-o", "a.h5")
    tight = told(capsys, *given_, "-o", "b.h5", "--memory", str(parse_size("1GB")))
    with h5py.File("a.h5") as a, h5py.File("b.h5") as b:
        assert np.array_equal(a["labels"][()], b["labels"][()])
    assert whole["choices"]["graph"]["recall"] == tight["choices"]["graph"]["recall"] == 1.0


def test_bad_rows_of_streamed_points_are_named(data, lazy, capsys):
    with h5py.File("data.h5", "a") as file:
        file["points"][7, 3] = file["points"][390, 0] = np.nan
    assert cli(["cluster", "data.h5", "-k", "3", "-o", "a.h5", "--memory", "1GB"]) == 2
    assert (
        "2 rows have missing values (NaN) in 2 columns, the first is row 7,"
        in capsys.readouterr().err
    )


def test_streamed_points_are_the_rows_of_the_file(data, lazy):
    loaded = formats.load("data.h5", None, lazy_above=1)
    assert isinstance(loaded.value, point_files.PointRows)
    assert is_rows(loaded.value)
    assert loaded.value.shape == data.shape
    assert np.array_equal(loaded.value[17:40], data.astype("f4")[17:40])
    assert np.array_equal(np.asarray(loaded.value), data.astype("f4"))


@pytest.mark.parametrize("seed", range(6))
def test_the_constant_vector_is_null_in_single_precision_too(seed):
    """D^½1 is null to 1e-8 only; its inverse on the coarsest grid would drown every other mode.

    On a million points LOBPCG then took hundreds of steps where it takes three.
    """
    rng = np.random.default_rng(seed)
    X, _ = blobs(rng, 1500, 5, d=3)
    graph = ml.knn_graph(X.astype(np.float32), 10, random_state=0)
    double, single = (
        build_hierarchy(normalized_laplacian(ml.Graph(graph.affinity), dtype)).levels[-1]
        for dtype in (np.float64, np.float32)
    )
    double, single = double.coarse_inverse, single.coarse_inverse
    assert np.abs(single - double).max() <= 1e-2 * np.abs(double).max()


@pytest.mark.parametrize("estimator", [ml.GFHF, ml.CSP])
def test_what_is_held_beside_the_points_is_no_room(estimator):
    """A prior's bytes: the search for neighbours and the solver have as much less."""
    X, prior = np.random.default_rng(0).normal(size=(60, 3)), 40_000_000
    est = estimator(memory="8GB")
    whole, left = (est._work(X, recorded(None), 0, None, None, by).room for by in (0, prior))
    assert whole - left == prior
    with pytest.raises(InputError, match="memory: 100 MB given"):
        est._work(X, recorded(None), 0, None, None, 7_900_000_000)
    P = np.full((60, 2), 0.5)
    assert bytes_of(P, 1.0, None) == P.nbytes


def test_what_the_system_leaves_counts():
    """A limit on data counts what was claimed and never touched."""
    budget = Budget(10**12)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    assert budget.left() > 10**11
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (10**11, hard))
        assert 0 < budget.left() < 10**11
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
