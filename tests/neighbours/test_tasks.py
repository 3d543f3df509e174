"""Neighbours by tasks: the same for every executor, close to the truth, and safe to do twice."""

from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from dataclasses import replace

import h5py
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from test_partition import check_lists

from mustlink.cost.neighbour_graph import layout
from mustlink.deadline import Deadline
from mustlink.errors import InputError, MustlinkError
from mustlink.kernels import local_joins
from mustlink.neighbours import by_tasks, knn_graph, search
from mustlink.neighbours.by_tasks import task_lists
from mustlink.neighbours.exact import exact_neighbours
from mustlink.neighbours.partition import partition_lists
from mustlink.neighbours.points_by_rows import prepare


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


def found(source, executor, k=7, seed=0, **options):
    rows = prepare(source, options.pop("metric", "euclidean"))
    sizes = replace(layout(*rows.shape, k), parts=24, mean=125, block_bytes=1 << 14)
    rng = np.random.default_rng(seed)
    return task_lists(rows, k, rng, sizes, executor=executor, sample=100, **options)


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch):
    """Ranges so small that there are several."""
    monkeypatch.setattr(by_tasks, "_STEP", 700)


@pytest.fixture
def one():
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.mark.parametrize("seed", [0, 1])
def test_any_executor_finds_the_same(seed, one, tmp_path):
    X = points(seed=seed)
    indices, lengths, info = found(X, one, seed=seed, folder=tmp_path)
    check_lists(X, indices, lengths)
    with ThreadPoolExecutor(3) as three:
        for other in (three, Twice()):
            again = found(X, other, seed=seed, n_jobs=2, folder=tmp_path)
            assert_array_equal(again[0], indices)
            assert_array_equal(again[1], lengths)
            assert again[2] == info
    assert list(tmp_path.iterdir()) == []


def test_nearly_all_neighbours_are_found_and_the_recall_is_told(one):
    X = points()
    _, lengths, info = found(X, one)
    _, true = exact_neighbours(X, np.arange(len(X)), 7)
    recall = np.mean(lengths <= true[:, -1:] * (1 + 1e-5) + 1e-12)
    assert recall > 0.97
    assert abs(recall - info["recall"]) < 0.03


def test_before_joins_parts_find_what_they_find_in_one_process(one):
    """At a deadline that is over no sweep begins: what the parts have is the same either way."""
    X, over = points(), Deadline(0.0)
    rows = prepare(X, "euclidean")
    sizes = replace(layout(*rows.shape, 7), parts=24, mean=125)
    how = {"sample": 100, "deadline": over}
    some = task_lists(rows, 7, np.random.default_rng(0), sizes, executor=one, **how)
    rng = np.random.default_rng(0)
    others = partition_lists(rows, 7, rng, sizes, **how)
    assert some[2]["sweeps"] == others[2]["sweeps"] == 0
    assert_array_equal(some[0], others[0])
    assert_array_equal(some[1], others[1])


def test_files_and_arrays_give_the_same(one, tmp_path):
    X = points()
    with h5py.File(tmp_path / "points.h5", "w") as file:
        file["deep/points"] = X
    with h5py.File(tmp_path / "points.h5", "r") as file:
        for metric in ("euclidean", "cosine"):
            stored = found(file["deep/points"], one, metric=metric)
            held = found(X, one, metric=metric)
            assert_array_equal(stored[0], held[0])
            assert_array_equal(stored[1], held[1])


def test_take_in_is_putting_in_one_by_one():
    rng = np.random.default_rng(3)
    n, k, u = 40, 5, 600
    owner, node = (rng.integers(n, size=u).astype(np.int32) for _ in range(2))
    squared = ((owner - node) ** 2).astype(np.float32)
    lists = np.full((n, k), -1, np.int32), np.full((n, k), np.inf, np.float32)
    local_joins.take_in(owner, node, squared, *lists, np.zeros((n, k), np.uint8))
    for i in range(n):
        known = sorted({(s, j) for o, j, s in zip(owner, node, squared, strict=True) if o == i})
        assert [j for _, j in known[:k]] == [j for j in lists[0][i] if j >= 0]


def test_graphs_by_an_executor(one, monkeypatch, tmp_path):
    monkeypatch.setattr(search, "BRUTE_WORK", 1.0)
    X = points()
    graph = knn_graph(X, 7, executor=one, random_state=0, scratch=tmp_path)
    assert graph.info["method"] == "tasks"
    assert graph.info["recall"] > 0.97
    again = knn_graph(X, 7, executor=Twice(), random_state=0, memory="2GB")
    assert_array_equal(again.affinity.indices, graph.affinity.indices)
    assert_array_equal(again.affinity.data, graph.affinity.data)
    with pytest.raises(InputError, match="leave executor"):
        knn_graph(X, 7, executor=one, search="descent")


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
