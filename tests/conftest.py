"""Settings of the whole suite, and which part of it is quick.

`make test` runs what is not `thorough`, `make test-all` the rest:

    @pytest.mark.thorough            the test is in the rest
    @pytest.mark.thorough(but=3)     all its cases are but three, spread over their list
"""

import os
from collections import defaultdict

import pytest
from hypothesis import Phase, settings

# The same examples in every run of continuous integration; new ones on a developer's machine.
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=40)
settings.register_profile("developer", deadline=None, max_examples=40)
# Half an hour of `tests/engine/test_states.py` on one core.
found = (Phase.reuse, Phase.generate)  # shrinking takes minutes
settings.register_profile(
    "long", deadline=None, max_examples=40, stateful_step_count=30, phases=found
)
settings.load_profile("ci" if os.environ.get("CI") else "developer")


@pytest.hookimpl(tryfirst=True)  # before cases are chosen by their marks
def pytest_collection_modifyitems(items):
    """Take the mark from the cases that are quick."""
    cases = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("thorough")
        if mark is not None and mark.kwargs.get("but"):
            cases[item.nodeid.split("[")[0]].append(item)
    for found in cases.values():
        count = min(found[0].get_closest_marker("thorough").kwargs["but"], len(found))
        for k in range(count):
            item = found[(2 * k + 1) * len(found) // (2 * count)]
            item.own_markers = [one for one in item.own_markers if one.name != "thorough"]


@pytest.fixture
def few_runs(monkeypatch):
    """Held-out constraints and starting centres with 2 runs of k-means in place of 12."""
    from mustlink.selection import held_out

    monkeypatch.setattr(held_out, "_RUNS", 2)


@pytest.fixture
def few_trees(monkeypatch):
    """Classifiers on columns with 20 trees in place of 200."""
    from mustlink.clusterers import label_clusters

    monkeypatch.setattr(label_clusters, "TREES", 20)


@pytest.fixture
def graphs_on_disk(monkeypatch):
    """Graphs stay on disk, and so do vectors."""
    from mustlink.estimators.graph_estimator import GraphEstimator

    monkeypatch.setattr(GraphEstimator, "_stays_on_disk", lambda *_: True)


@pytest.fixture
def on_disk(graphs_on_disk, monkeypatch):
    """They do, and are read in many small blocks."""
    from mustlink.space import disk

    monkeypatch.setattr(disk, "PASS_BYTES", 20_000)
    monkeypatch.setattr(disk, "_LEAST_ROWS", 50)


@pytest.fixture
def none_held_out(monkeypatch):
    """Runs of the shell without the three fits to samples that its report compares with others'."""
    from mustlink_io.jobs import run

    monkeypatch.setattr(run, "look", lambda *_: None)


@pytest.fixture
def shell(capsys):
    """Run the command on words, or on a line of them: (exit code, stdout, stderr)."""
    from mustlink_io.commands import cli

    def run(*words):
        capsys.readouterr()
        code = cli.run(words[0].split() if len(words) == 1 else [str(word) for word in words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def mustlink(data, monkeypatch, shell):
    """`shell` in the folder of the module's `data`."""
    monkeypatch.chdir(data)
    return shell


@pytest.fixture
def jobs_here(monkeypatch):
    """Jobs of a batch run in this process, for tests of their results, not of how they start."""
    from concurrent.futures import Future
    from contextlib import redirect_stderr, redirect_stdout
    from pathlib import Path

    from mustlink_io.batch import children
    from mustlink_io.commands import batch, cli

    class Here:
        def __init__(self, workers):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def submit(self, _, arguments, place, *__):
            log, result = Path(place, children.LOG), Path(place, children.RESULT)
            with (
                open(log, "a") as err, redirect_stderr(err),
                open(result, "w") as out, redirect_stdout(out),
            ):  # fmt: skip
                code = cli.run(list(arguments))
            ended = Future()
            ended.set_result(children.Ended(code))
            return ended

    monkeypatch.setattr(batch, "ThreadPoolExecutor", Here)
