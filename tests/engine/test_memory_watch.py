"""The memory that a fit is given holds while it runs: blocks stay narrow, too much is told."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tracemalloc

import h5py
import numpy as np
import pytest

import mustlink as ml
from cases import blobs
from mustlink.context.method_cost import TOGETHER, Size, eigenvectors, full_problem, propagation
from mustlink.core.observe import Recorder
from mustlink.core.resources import Budget, parse_size, peak_bytes
from mustlink.errors import InputError, OutOfMemoryError
from mustlink.kernels import blocks
from mustlink.linear.cg import cg_by_columns
from mustlink.space import LocalSpace
from mustlink_io.commands.cli import run as cli


def most_beside(task) -> int:
    """Bytes that a task allocates at its peak."""
    tracemalloc.start()
    try:
        task()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# ------------------------------------------------------------------------------- narrow blocks


@pytest.mark.parametrize(("n", "width"), [(1, 1), (70_000, 3), (70_000, 900), (5_000, 10**5)])
def test_row_slices_are_every_row_once(n, width):
    parts = blocks.row_slices(n, width)
    assert np.array_equal(np.concatenate([np.arange(n)[rows] for rows in parts]), np.arange(n))
    sizes = [rows.stop - rows.start for rows in parts]
    assert max(sizes) <= max(blocks._NUMBERS // width, blocks._LEAST)


def test_wide_blocks_are_multiplied_without_copies_as_large():
    """Three blocks of 60,000 x 100 singles are 72 MB, as doubles 144, on both sides 288."""
    rng = np.random.default_rng(0)
    V = [rng.standard_normal((60_000, 100), dtype=np.float32) for _ in range(3)]
    C = rng.standard_normal((300, 100))
    assert most_beside(lambda: blocks.gram_of(V, V)) < 72e6
    assert most_beside(lambda: blocks.combination(V, C)) < 24e6 + 36e6
    V = [X[:2000] for X in V]
    joined = np.hstack(V).astype(np.float64)
    assert np.allclose(blocks.gram_of(V, V), joined.T @ joined, rtol=1e-10, atol=1e-6)
    assert np.allclose(blocks.combination(V, C), joined @ C, rtol=1e-3, atol=1e-3)


def test_rows_are_worked_on_in_parts_with_the_same_result():
    rng = np.random.default_rng(1)
    X, v = rng.standard_normal((50_000, 200)), rng.standard_normal(50_000)
    space = LocalSpace(len(X))

    def gaps(E, u):
        return ((E - u[:, None]) ** 2).sum(axis=1, keepdims=True)

    assert np.array_equal(space.rowwise(gaps, X, v), gaps(X, v))
    assert most_beside(lambda: space.rowwise(gaps, X, v)) < X.nbytes
    assert space.rowwise(lambda E: E, X) is X  # rows as they are: no copy


def test_equations_solved_some_at_a_time_are_the_same():
    rng = np.random.default_rng(3)
    A = np.diag(rng.random(90) + 1.0) + 0.01 * np.ones((90, 90))
    B = rng.standard_normal((90, 2 * TOGETHER + 5))
    heard: list[float] = []
    X, convergence = cg_by_columns(lambda X: A @ X, B, tol=1e-9, max_iter=90, advance=heard.append)
    assert np.allclose(A @ X, B, rtol=0, atol=1e-7)
    assert convergence.residuals.shape == (B.shape[1],)
    assert convergence.converged.all()
    assert heard == sorted(heard)
    assert heard[-1] == 1.0
    assert {32 / 69, 64 / 69} < set(heard)


# ------------------------------------------------------------------------------------- watching


@pytest.mark.thorough
def test_a_stage_that_takes_more_than_the_budget_ends_in_one_line():
    recorder = Recorder()
    recorder.keep_within(parse_size("400MB"))
    told = pytest.raises(OutOfMemoryError, match=r"400 MB given, but huge needs more; give \d")
    with told, recorder.stage("huge"):
        filled = np.ones(10**8)
        del filled
    with recorder.stage("small"):  # what was told once is over
        assert np.ones(10).sum() == 10


@pytest.mark.thorough
def test_what_a_process_held_before_is_not_the_fits():
    held = np.ones(6 * 10**7)
    budget = Budget(parse_size("450MB"))
    budget.check("nothing yet")
    budget.ask(10**6, "a little")
    with pytest.raises(OutOfMemoryError, match="450 MB given, but a lot would take it to"):
        budget.ask(5 * 10**8, "a lot")
    assert held.sum() == held.size


def test_memory_errors_are_told_with_the_stage():
    told = pytest.raises(OutOfMemoryError, match=r"no more than .* for dreaming")
    with told as error, Recorder().stage("dreaming"):
        np.empty(1 << 55)
    assert isinstance(error.value, MemoryError)
    with pytest.raises(OutOfMemoryError), Recorder().stage("threads"):
        raise RuntimeError("can't start new thread")
    with pytest.raises(RuntimeError, match="else"), Recorder().stage("threads"):
        raise RuntimeError("something else")


def test_costs_grow_with_the_classes_but_not_as_if_all_were_solved_at_once():
    size = Size(10**5, 10**6)

    def beside(classes):
        return propagation(classes).peak(size, single=False)

    block = 8 * size.n * 100
    assert 3.9 * block < beside(200) - beside(100) < 5 * block
    assert full_problem(100).peak(size, single=True) > eigenvectors(100).peak(size, single=True)


def test_points_that_cannot_fit_are_refused_before_their_graph():
    X, y = blobs(np.random.default_rng(4), 3000, 3, d=4)
    labels = np.full(len(y), -1)
    labels[:1500] = np.arange(1500)  # as many classes
    stages: list[str] = []

    class DataProfile:
        def begin(self, stage):
            stages.append(stage)

        advance = end = note = lambda *_: None

    with pytest.raises(InputError, match=r"500 MB given.* of 3000 nodes"):
        ml.GFHF(memory="500MB").fit(X, labels, observer=DataProfile())
    assert stages == []


# -------------------------------------------------------------------------------------- shell

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[1]),) * 2)
del sys.argv[1]
from mustlink_io.commands.cli import main
main()
"""


@pytest.fixture(scope="module")
def many_classes(tmp_path_factory):
    """12,000 points of 100 round clusters, three labels each."""
    rng = np.random.default_rng(5)
    truth = np.repeat(np.arange(100), 120)
    X = 4.0 * np.stack([truth % 10, truth // 10], axis=1) + rng.normal(size=(12_000, 2))
    y = np.where(np.arange(12_000) % 120 < 3, truth, -1)
    path = tmp_path_factory.mktemp("memory") / "points.h5"
    with h5py.File(path, "w") as file:
        file["points"], file["labels"] = X.astype(np.float32), y
    return path


def shell(*words, limit=resource.RLIM_INFINITY):
    line = [sys.executable, "-c", LIMITED, str(limit), *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, check=False)


@pytest.mark.thorough
def test_the_least_memory_that_is_named_suffices_and_holds(many_classes, capsys):
    out = many_classes.with_name("out.h5")
    line = ["propagate", many_classes, "-m", "gfhf", "--labels", f"{many_classes}:/labels"]
    assert cli([*map(str, line), "-o", str(out), "--memory", "350MB"]) == 2
    refused = capsys.readouterr().err
    assert refused.count("\n") == 1
    assert not out.exists()
    least = refused.split("at least ")[1].split(",")[0].strip()
    done = shell(*line, "-o", out, "--memory", least.replace(" ", ""), "--quiet", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["peak_bytes"] <= parse_size(least)
    assert not any("were taken" in note for note in json.loads(done.stdout)["notes"])


@pytest.mark.thorough
def test_where_the_system_has_no_more_one_line_says_so(many_classes):
    """Blocks of 72 MB: what fails is one of them, not a library that would end the process."""
    out = many_classes.with_name("limited.h5")
    line = ["cluster", many_classes, "-m", "ncut", "--quiet"]
    assert shell(*line, "-k", 100, "-o", many_classes.with_name("first.h5")).returncode == 0
    line += ["--memory", "none"]  # by itself it would go to disk, or be refused
    done = shell(*line, "-k", 1500, "-o", out, limit=650 * 10**6)  # kernels are compiled by now
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("mustlink: ")
    assert "memory" in done.stderr
    assert not out.exists()
    assert peak_bytes() > 0


@pytest.mark.thorough
def test_new_points_take_no_more_than_their_answer_or_a_few_blocks():
    """40,000 points of 10 neighbours and 300 classes are 960 MB, and 1,200 clusters 384."""
    rng, k = np.random.default_rng(0), 300
    centres = 20 * rng.normal(size=(k, 4)).astype(np.float32)
    truth = np.arange(1200) % k
    X = centres[truth] + rng.normal(size=(1200, 4)).astype(np.float32)
    new = centres[rng.integers(k, size=40_000)]
    answer = 8 * 40_000 * k
    est = ml.Poisson(random_state=0).fit(X, np.where(np.arange(1200) < 600, truth, -1))
    assert most_beside(lambda: est.predict(new)) < answer
    assert most_beside(lambda: est.predict_proba(new)) < 3 * answer
    assert np.array_equal(est.predict(new), est.predict_proba(new).argmax(axis=1))
    est.set_params(memory=answer - 1)
    with pytest.raises(InputError, match="memory: 96 MB given, but 40000 points by 300 columns"):
        est.predict_proba(new)
    cut = ml.NCut(2, random_state=0).fit(X)
    cut.labels_ = np.arange(1200)  # as many clusters, without so many vectors
    assert most_beside(lambda: cut.predict(new)) < answer
