"""Neighbours by tasks: the same for every executor, those of one process, and safe to do twice."""

from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from dataclasses import replace

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from test_partition import check_lists

import mustlink as ml
from mustlink.context.neighbor_cost import cell_layout, knn_plan, task_layout
from mustlink.core.observe import Deadline
from mustlink.errors import InputError, MustlinkError
from mustlink.graph import shares
from mustlink.neighbors import knn_graph, representatives
from mustlink.neighbors.cell_search import cell_lists
from mustlink.neighbors.exact import exact_neighbours
from mustlink.neighbors.points_by_rows import prepare
from mustlink.neighbors.representatives import representative_graph
from mustlink.neighbors.tasks import WorkerRows, leave_workers, on_workers


class Twice(Executor):
    """Does every task twice, one after the other, as when a worker is lost after its work."""

    def submit(self, task, /, *given):
        done = Future()
        task(*given)
        done.set_result(task(*given))
        return done


class Fails(Executor):
    """Fails as a worker that sees no files does, or otherwise."""

    def __init__(self, error):
        self.error = error

    def submit(self, task, /, *given):
        done = Future()
        done.set_exception(self.error)
        return done


def points(n=3000, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 3 * rng.integers(3, size=(n, 1))
    X[: n // 20] = X[n // 20 : 2 * (n // 20)]  # copies
    return X.astype(np.float32)


def sizes_of(rows, k, block=700):
    return replace(cell_layout(*rows.shape, k), block=block, chunk=400, rows=1000)


def found(source, executor, k=7, seed=0, block=700, **options):
    rows = prepare(source, options.pop("metric", "euclidean"))
    rng = np.random.default_rng(seed)
    options = {"executor": executor, "sample": 100, **options}
    return cell_lists(rows, k, rng, sizes_of(rows, k, block), **options)


def by_disk(source, k=7, seed=0, block=700, **options):
    """The same search on disk in one process."""
    rows = prepare(source, "euclidean")
    rng = np.random.default_rng(seed)
    return cell_lists(rows, k, rng, sizes_of(rows, k, block), sample=100, **options)


def assert_same(one, other):
    assert_array_equal(one[0], other[0])
    assert_array_equal(one[1], other[1])
    assert one[2] == other[2]


@pytest.fixture
def one():
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("seed", [0, 1])
def test_any_executor_finds_the_same(seed, one, tmp_path):
    X = points(seed=seed)
    lists = found(X, one, seed=seed, folder=tmp_path)
    check_lists(X, *lists[:2])
    with ThreadPoolExecutor(3) as three:
        for other in (three, Twice()):
            assert_same(found(X, other, seed=seed, n_jobs=2, folder=tmp_path), lists)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
@settings(max_examples=8, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(30, 3000),
    st.sampled_from([2, 9, 70]),
    st.integers(1, 12),
    st.sampled_from([1, 500, 10**6]),
    st.booleans(),
)
def test_tasks_find_what_one_process_does(seed, n, d, k, block, whole):
    X = points(n, d, seed)
    X = np.round(X) if whole else X
    with ThreadPoolExecutor(2) as pool:
        lists = found(X, pool, k, block=block)
    assert_same(lists, by_disk(X, k, block=block))


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("scale", [1.0, 1e-14, 1e14])
def test_one_kind_of_row_one_cell_and_sizes_far_from_one(scale, one):
    for X in (np.ones((600, 3), np.float32), points(40, 3), points(1500, 3) * np.float32(scale)):
        assert_same(found(X, one), by_disk(X))


def test_nearly_all_neighbours_are_found_and_the_recall_is_told(one):
    X = points()
    _, lengths, info = found(X, one)
    _, true = exact_neighbours(X, np.arange(len(X)), 7)
    recall = np.mean(lengths <= true[:, -1:] * (1 + 1e-5) + 1e-12)
    assert recall > 0.96
    assert abs(recall - info["recall"]) < 0.03


@pytest.mark.thorough
def test_at_a_deadline_lists_stay_as_their_cells_have_filled_them(one):
    X, over = points(), Deadline(0.0)
    assert_same(found(X, one, deadline=over), found(X, Twice(), deadline=over))
    indices, lengths, info = found(X, one, deadline=over)
    check_lists(X, indices, lengths)
    assert info["recall"] < found(X, one)[2]["recall"]


@pytest.mark.thorough
def test_files_and_arrays_give_the_same(one, tmp_path):
    X = points()
    with h5py.File(tmp_path / "points.h5", "w") as file:
        file["deep/points"] = X
        file.create_dataset("chunked", data=X, chunks=(100, 6))
    with h5py.File(tmp_path / "points.h5", "r") as file:
        for metric in ("euclidean", "cosine"):
            held = found(X, one, metric=metric)
            assert_same(found(file["deep/points"], one, metric=metric), held)
            assert_same(found(file["chunked"], one, metric=metric), held)


def test_graphs_by_an_executor(one, monkeypatch, tmp_path):
    monkeypatch.setattr("mustlink.context.neighbor_cost.compares_all", lambda *_, **__: False)
    X = points()
    graph = knn_graph(X, 7, executor=one, random_state=0, scratch=tmp_path)
    assert graph.info["method"] == "tasks"
    assert graph.info["recall"] > 0.96
    again = knn_graph(X, 7, executor=Twice(), random_state=0, memory="8GB")
    assert_array_equal(again.affinity.indices, graph.affinity.indices)
    assert_array_equal(again.affinity.data, graph.affinity.data)


@settings(max_examples=60, deadline=None)
@given(st.integers(30_000, 10**8), st.integers(1, 1000), st.integers(1, 99), st.floats(0.0, 12.0))
def test_plans_keep_the_budget(n, d, k, over):
    least = knn_plan(n, d, k, None, by_tasks=True).least
    budget = int(least * (1 + over))
    plan = knn_plan(n, d, k, budget, by_tasks=True)
    assert plan.peak_bytes <= budget
    assert plan.lean
    assert plan.layout == knn_plan(n, d, k, budget, by_tasks=True, threads=64).layout
    assert 1 <= plan.layout.block <= n
    with pytest.raises(InputError, match="need at least"):
        knn_plan(n, d, k, least - 1, by_tasks=True)


def test_many_points_are_work_for_many_workers():
    for n in (10**6, 10**7, 10**8):
        assert n // task_layout(None, n, 16, 15).block >= 15


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(2, "No such file", "points.h5"), "does not find points.h5"),
        (CancelledError(), "was cancelled, as when the scheduler ends"),
        (RuntimeError("lost\nworker"), "RuntimeError: lost worker"),
    ],
)
def test_a_failing_worker_is_one_line(error, words, tmp_path):
    with pytest.raises(MustlinkError, match=words) as told:
        found(points(), Fails(error), folder=tmp_path)
    assert "\n" not in str(told.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("nearest", [1, 5])
def test_passes_of_representatives_by_an_executor(one, tmp_path, metric, nearest, monkeypatch):
    monkeypatch.setattr(representatives, "BLOCK", 700)
    monkeypatch.setattr(shares, "BLOCK", 700)
    X = points().astype(np.float64)
    X[5:25] += 40  # far from all others
    with h5py.File(tmp_path / "points.h5", "w") as file:
        file["points"] = X
        how = {"metric": metric, "nearest": nearest, "held": 0}
        here = representative_graph(file["points"], 60, **how)
        rows = on_workers(file["points"], one)
        assert isinstance(rows, WorkerRows)
        there = representative_graph(rows, 60, **how)
        assert (here.affinity != there.affinity).nnz == 0
        assert_array_equal(here.weights, there.weights)
        assert_array_equal(here.rows, there.rows)
        assert_array_equal(here.shares.first, there.shares.first)
        labels = np.arange(here.n_nodes) % 7
        assert_array_equal(here.shares.vote(labels), there.shares.vote(labels))
        leave_workers(there)
        one.shutdown()
        assert_array_equal(here.shares.vote(labels), there.shares.vote(labels))


def test_a_fit_with_representatives_by_an_executor(one, tmp_path, monkeypatch):
    monkeypatch.setattr(representatives.representative_graph, "__kwdefaults__", {
        **representatives.representative_graph.__kwdefaults__, "held": 0
    })  # fmt: skip
    with h5py.File(tmp_path / "points.h5", "w") as file:
        file["points"] = points(2000)
        how = {"n_clusters": 3, "representatives": 100, "random_state": 0}
        here = ml.NCut(**how).fit(file["points"])
        there = ml.NCut(**how).search_on(one).fit(file["points"])
        one.shutdown()
        assert here.graph_.shares.near is None
        assert_array_equal(here.labels_, there.labels_)
        assert_array_equal(here.predict(points(50)), there.predict(points(50)))


def test_a_pass_submits_few_parts_at_a_time(tmp_path):
    class Counts(Executor):
        submitted = taken = most = 0

        def submit(self, task, /, *given):
            self.submitted += 1
            self.most = max(self.most, self.submitted - self.taken)
            done = Future()
            done.set_result(task(*given))
            return done

    with h5py.File(tmp_path / "points.h5", "w") as file:
        file["points"] = points(400)
        counts = Counts()
        for _ in on_workers(file["points"], counts).each(
            lambda rows, part: rows[part].shape, (slice(a, a + 2) for a in range(0, 400, 2))
        ):
            counts.taken += 1
    assert (counts.submitted, counts.most) == (200, 32)


@pytest.mark.parametrize("X", [np.ones((20, 3)), [[1.0]]])
def test_points_in_memory_are_gone_through_here(X, one):
    assert on_workers(X, one) is X


def test_a_pass_that_fails_says_so_in_one_line(tmp_path):
    with h5py.File(tmp_path / "points.h5", "w") as file:
        file["points"] = points(400)
        rows = on_workers(file["points"], Fails(FileNotFoundError(2, "no", "points.h5")))
        with pytest.raises(MustlinkError, match=r"a worker does not find points\.h5"):
            representative_graph(rows, 20)
        X = points(400)
        X[7, 1] = np.nan
        file["bad"] = X
        with ThreadPoolExecutor(1) as pool, pytest.raises(InputError, match="NaN or Inf in row 7"):
            representative_graph(on_workers(file["bad"], pool), 20)
