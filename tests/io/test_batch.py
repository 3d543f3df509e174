"""Batches: jobs files, grids, admission, what a kill leaves behind, and locks."""

import csv
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mustlink
from mustlink.context.fit_plan import Plan, PlannedStage
from mustlink.core.resources import Allowed
from mustlink.errors import InputError
from mustlink_io.batch import children
from mustlink_io.batch import run as batch_run
from mustlink_io.batch.arguments import check, check_keys, fits
from mustlink_io.batch.jobs_file import JobsFile, Where, expand, fill, load, safe
from mustlink_io.batch.state import State
from mustlink_io.commands import batch as batch_command
from mustlink_io.commands import cli
from mustlink_io.hdf5 import store, writing
from mustlink_io.hdf5.locks import lock_file, locked

ROOT = Path(__file__).parents[2]

# Stands in for a job: copies a small HDF5 file to its output, and tells when it began and ended.
CHILD = """
import json, os, shutil, sys, time
from mustlink_io.commands.batch_child import _die_with
_die_with(int(sys.argv[1]))
words = sys.argv[2:]
out, option = words[words.index("-o") + 1], dict(w.split("=", 1) for w in words if "=" in w)
seed = int(option.get("--seed", 0))
def tell(what):
    with open("events.txt", "a") as file:
        file.write(json.dumps([what, out, os.getpid(), words]) + chr(10))
tell("began")
print("  neighbours: 50%", file=sys.stderr, flush=True)
if seed == 666:
    print("mustlink: seed: 666 is refused", file=sys.stderr)
    sys.exit(2)
time.sleep(float(os.environ.get("CHILD_SECONDS", "0.05")))
shutil.copyfile("points.h5", out + ".tmp")
os.replace(out + ".tmp", out)
print(json.dumps({"n_nodes": 6, "sizes": [3, 3], "seconds": 0.1, "peak_bytes": 10**6}))
sys.stdout.flush()
tell("ended")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with points of three sizes, labels, and pairs; the working directory."""
    writing.write(
        tmp_path / "points.h5",
        {"/points": np.arange(12.0).reshape(6, 2), "/labels": np.repeat([0, 1], 3)},
    )
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.h5").write_bytes((tmp_path / "points.h5").read_bytes())
    (tmp_path / "few.txt").write_text("0\n-1\n-1\n1\n-1\n-1\n")
    (tmp_path / "pairs.csv").write_text("i,j,belief\n0,1,1\n")
    (tmp_path / "child.py").write_text(CHILD)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def fake(folder, monkeypatch):
    """The folder, with jobs replaced by CHILD."""
    monkeypatch.setattr(children, "PROGRAM", ("child.py",))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "engine"), str(ROOT / "io")]))
    return folder


@pytest.fixture
def run(capsys):
    """Run `mustlink batch` in this process: (exit code, stdout, stderr)."""

    def call(line):
        capsys.readouterr()
        code = cli.run(["batch", *line.split()])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def jobs_file(text, name="jobs.toml"):
    Path(name).write_text(text)
    return Where(Path(name))


def ready(text):
    """Jobs of a file, checked as the command checks them."""
    where = jobs_file(text)
    commands = cli.cli.commands
    file = load(where)
    check_keys(file, where, commands)
    specs = expand(file, where, lambda c, values, key: fits(commands, c, values, key))
    return [check(spec, where, commands) for spec in specs]


def events(what=None):
    if not Path("events.txt").exists():
        return []
    found = [json.loads(line) for line in Path("events.txt").read_text().splitlines()]
    return [(e, out) for e, out, *_ in found if what in (None, e)]


# ---------------------------------------------------------------- the file

GOOD = """
[defaults]
k = 2
labels = "few.txt"
output = "out/{name}.h5"
beta = [0.1, 0.5]
[[job]]
name = "cut"
data = ["a.h5", "b.h5:/points"]
method = ["ncut", "csp"]
[[job]]
name = "spread"
command = "propagate"
data = "c.h5"
class_shares = "equal"
[[job]]
name = "graph-{data}"
command = "graph"
data = "*.h5"
"""


def test_a_grid_and_defaults_that_fit(folder):
    jobs = {one.spec.name: one for one in ready(GOOD)}
    assert list(jobs) == [
        "cut-a-ncut", "cut-a-csp-0.1", "cut-a-csp-0.5",
        "cut-b-ncut", "cut-b-csp-0.1", "cut-b-csp-0.5",
        "spread", "graph-a", "graph-b", "graph-c", "graph-points",
    ]  # fmt: skip
    cut, csp = jobs["cut-b-ncut"].job, jobs["cut-b-csp-0.5"].job
    assert (cut.labels, cut.params, cut.data) == (None, {}, "b.h5:/points")
    assert (csp.labels, csp.params, csp.n_clusters) == ("few.txt", {"beta": 0.5}, 2)
    assert jobs["spread"].job.params == {"class_shares": "equal"}
    assert jobs["spread"].job.output == "out/spread.h5"


def test_paths_start_at_the_file(folder, monkeypatch):
    jobs_file(GOOD)
    monkeypatch.chdir(folder.parent)
    where = Where(Path(folder.name) / "jobs.toml")
    specs = expand(load(where), where, lambda _, values, key: key == "output")
    assert {spec.values["data"] for spec in specs} >= {"a.h5", "points.h5"}
    assert where.path("a.h5") == f"{folder.name}/a.h5"
    assert where.path("/a.h5") == "/a.h5"


def test_the_documented_example(folder):
    text = re.search(r"```toml\n(.*?)```", (ROOT / "docs" / "batch.md").read_text(), re.DOTALL)[1]
    Path("in").mkdir()
    Path("few").mkdir()
    for name in ("a", "b"):
        Path(f"{name}.h5").rename(f"in/{name}.h5")
        Path(f"few/{name}.csv").write_text("node,label\n0,0\n")
    assert [one.spec.name for one in ready(text)] == [
        "cut-a-ncut", "cut-a-csp", "cut-b-ncut", "cut-b-csp",
        "csp-a-0.1", "csp-a-0.5", "csp-b-0.1", "csp-b-0.5", "spread",
    ]  # fmt: skip


ONE = '[[job]]\nname = "b"\ndata = "a.h5"\noutput = "{name}.out.h5"\n'
WRONG = {
    "no option of the method": (
        ONE + 'k = 2\nmethod = "ncut"\nbeta = 0.5',
        "jobs.toml: job \"b\": beta: no option of -m ncut; it belongs to csp",
    ),
    "unknown key": (ONE + "k = 2\nneigbors = 5", 'job "b": neigbors: unknown; did you mean neigh'),
    "data misspelt": (ONE.replace("data", "dta"), 'job "b": dta: unknown; did you mean data'),
    "output misspelt": (ONE.replace("output", "ouput"), "ouput: unknown; did you mean output"),
    "the engine's name": (ONE + "n_clusters = 2", 'job "b": n-clusters: unknown; '),
    "ranks": (ONE + "k = 2\nranks = 2", 'job "b": ranks: unknown'),
    "of another command": (ONE + "k = 2\nsteps = 3", "steps: no option of command cluster; it bel"),
    "no number": (ONE + 'k = "two"', "job \"b\": k: 'two' is neither a whole number"),
    "no choice": (ONE + 'k = 2\nmethod = "cps"', "method: 'cps' is none; did you mean csp"),
    "a flag": (ONE + "k = 2\nstrict = 1", 'job "b": strict: 1 is the value; it must be true'),
    "no flag": (ONE + "k = true", 'job "b": k: true is no value of it; give one'),
    "memory": (ONE + 'k = 2\nmemory = "4XB"', "job \"b\": memory: '4XB' is not a size"),
    "a table": (ONE + "k = {b = 3}", 'job "b": k: its table has no value for a; there are b'),
    "a table of lists": (ONE + "k = {a = [3]}", 'job "b": k: a table has a value for every data'),
    "an empty list": (ONE + "k = []", 'job "b": k: an empty list'),
    "no such file": (ONE.replace("a.h5", "no.h5") + "k = 2", 'job "b": data: no.h5: no such file'),
    "no match": (ONE.replace("a.h5", "x*.h5") + "k = 2", r'job "b": data: x\*.h5: no file match'),
    "no labels": (ONE + 'k = 2\nlabels = "{data}.no"', 'job "b": labels: a.no: no such file'),
    "unknown field": (ONE.replace("{name}", "{seed}") + "k = 2", r"output: {seed} is not known"),
    "half a brace": (ONE.replace("{name}", "{name") + "k = 2", "job \"b\": output: '{name.out.h5'"),
    "a format": (ONE.replace("{name}", "{name:d}") + "k = 2", "write {key}, and a brace twice"),
    "the input": (ONE.replace("{name}.out", "a") + "k = 2", 'is the output of job "b"'),
    "a folder": (ONE.replace('"b"', '"../b"') + "k = 2", r"name: '../b' names a folder"),
    "a long name": (ONE.replace('"b"', f'"{"b" * 200}"') + "k = 2", "longer than 150 bytes"),
    "one output": (
        ONE.replace("{name}", "x") + "k = [2, 3]",
        'job "b-3": output: x.out.h5 is written by job "b-2" too',
    ),
    "one name": (
        ONE.replace('"b"', '"b{data}"').replace("{name}", "{k}") + "k = [2, 3]",
        'job "ba": name: two jobs have it',
    ),
    "an output as data": (
        ONE.replace('"a.h5"', '"*.h5"') + "k = 2",
        r'job "b-a": output: b-a.out.h5 matches the data \*.h5',
    ),
    "outputs in a list": (ONE.replace('"{name}.out.h5"', '["x", "y"]'), "output: is a list"),
    "two spellings": (ONE + "k = 2\nmax-iter = 3\nmax_iter = 3", "max-iter: is there twice"),
    "unknown default": ("[defaults]\nkk = 2\n" + ONE, r"jobs.toml: \[defaults\]: kk: unknown"),
    "unknown section": ("[default]\nk = 2\n" + ONE, "default: unknown; did you mean defaults"),
    "unknown setting": ('[batch]\nworker = 2\n' + ONE, "batch: worker: unknown; .* workers"),
    "no workers": ("[batch]\nworkers = 0\n" + ONE, "batch: workers: .*greater than or equal"),
    "no such memory": ('[batch]\nmemory = "a lot"\n' + ONE, "batch: memory: 'a lot' is not"),
    "no jobs": ("[defaults]\nk = 2\n", "jobs.toml: job: is missing"),
    "nameless": ('[[job]]\ndata = "a.h5"', "jobs.toml: job \"number 1\": name: is missing"),
    "not TOML": ("[[job]\n", "jobs.toml: not TOML: .*line 1"),
    "another command": (ONE + 'command = "score"', 'job "b": command: must be .cluster., .propag'),
    "too many": (ONE + f"k = {list(range(2, 203))}\nseed = {list(range(51))}", "make 10,251 jobs"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_errors_name_file_job_and_key(folder, run, case):
    text, wanted = WRONG[case]
    jobs_file(text)
    code, out, err = run("jobs.toml")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert re.search(wanted, err), err
    assert err.startswith("mustlink: jobs.toml: ")
    assert not Path("jobs.toml.state").exists()


words = st.text(min_size=1, max_size=8)


@pytest.mark.thorough
@given(value=st.one_of(words, st.floats(), st.integers(), st.booleans()))
def test_what_templates_fill_in_is_one_safe_part_of_a_path(value):
    part = safe(value)
    assert part
    assert part[0] != "."
    assert not set("/\\:\0\n\x1b") & set(part)
    assert Path("out", f"{part}.h5").parent == Path("out")
    assert fill("x{a}y{{z}}", {"a": part}) == f"x{part}y{{z}}"


scalars = st.one_of(st.integers(0, 9), st.sampled_from(["x", "y z", "../q", "1"]), st.booleans())
grids = st.dictionaries(
    st.sampled_from(["k", "seed", "method", "tol"]),
    st.one_of(scalars, st.lists(scalars, min_size=1, max_size=4)),
)


@given(grid=grids)
def test_a_grid_is_the_product_of_its_lists(grid):
    entry = {"name": "n", "data": ["p.h5", "q.h5"], "output": "{data}", **grid}
    lists = [v if isinstance(v, list) else [v] for v in grid.values()]
    wanted = {tuple(map(repr, combo)) for combo in itertools.product(["p.h5", "q.h5"], *lists)}
    fields = "-".join("{" + key + "}" for key in ("data", *grid))
    entry.update(name=fields, output="out/" + fields)
    file = JobsFile.model_validate({"job": [entry]})
    parts = [[safe(value) for value in values] for values in lists]
    if any(
        len(set(one)) < len({*map(repr, values)}) for one, values in zip(parts, lists, strict=True)
    ):
        with pytest.raises(InputError, match="two jobs have it"):  # 1 and "1", say
            expand(file, Where(Path("jobs.toml")), lambda *_: False)
        return
    jobs = expand(file, Where(Path("jobs.toml")), lambda *_: False)
    found = [tuple(repr(job.values[key]) for key in ("data", *grid)) for job in jobs]
    assert set(found) == wanted
    assert len(found) == len(wanted)
    assert len({job.values["output"] for job in jobs}) == len(jobs)


# ---------------------------------------------------------------- admission


def test_jobs_start_while_they_fit():
    limits = batch_run.Limits(memory=10, workers=2, cores=4)
    assert limits.admit(10, [])
    assert limits.admit(4, [6])
    assert not limits.admit(5, [6])
    assert not limits.admit(1, [1, 1])
    assert batch_run.Limits(workers=2).admit(0, [0])


def plans(monkeypatch, peaks):
    def estimate(job, *, speed, here=None):
        peak = peaks.get(Path(job.output).stem, 10**9)
        return planned(peak, peak)

    monkeypatch.setattr(batch_run, "plan_job", estimate)


def planned(peak, least):
    return Plan((PlannedStage("all", peak, 2.0),), (), None, least)


MANY = """
[defaults]
k = 2
output = "out/{name}.h5"
data = "a.h5"
[[job]]
name = "j{seed}"
seed = %s
"""


@pytest.mark.thorough
def test_jobs_share_the_budget_and_one_that_is_too_large_fails_alone(fake, run, monkeypatch):
    plans(monkeypatch, {"j2": 9 * 10**9, "j3": 4 * 10**9})
    monkeypatch.setenv("CHILD_SECONDS", "0.4")
    jobs_file(MANY % "[1, 2, 3, 4]")
    code, out, err = run("jobs.toml --memory 5GB --workers 2 --json")
    assert code == 1, err
    found = {row["job"]: row for row in json.loads(out)["jobs"]}
    assert [found[f"j{n}"]["status"] for n in (1, 2, 3, 4)] == ["done", "failed", "done", "done"]
    assert found["j2"]["error"] == (
        "memory: needs at least 9.00 GB by its plan, but at most 5.00 GB are allowed; raise "
        "--memory or the job's own memory"
    )
    assert found["j2"]["attempts"] == 0
    # j3 does not fit beside j1 (4.8 + 1.2 GB), and j4 fits beside j1, but not beside j3
    assert [out for _, out in events("began")] == ["out/j1.h5", "out/j3.h5", "out/j4.h5"]
    status = State(Path("jobs.toml.state")).read("j3")
    assert status.memory == 48 * 10**8
    assert "--memory=4800000000" in status.arguments
    assert f"--threads={max(1, len(os.sched_getaffinity(0)) // 2)}" in status.arguments
    # more memory: what had not been begun is begun, what is done is left alone
    code, out, err = run("jobs.toml --memory 12GB --resume --json")
    assert code == 0, err
    assert [out for _, out in events("ended")][-1] == "out/j2.h5"
    assert len(events("began")) == 4


def test_a_share_is_the_plan_and_a_fifth_within_what_was_planned_for(folder, monkeypatch):
    (job,) = ready(ONE + "k = 2")
    plan = planned(5 * 10**9, 3 * 10**9)
    monkeypatch.setattr(batch_run, "plan_job", lambda *_, **__: plan)

    def share(most):
        return batch_run.admission(job, most, 1.0).share

    assert share(8 * 10**9) == 6 * 10**9
    assert share(55 * 10**8) == 55 * 10**8
    assert share(4 * 10**9) == 4 * 10**9  # tight, but the plan says that it works
    refused = batch_run.admission(job, 2 * 10**9, 1.0).refused
    assert "needs at least 3.00 GB by its plan" in refused
    plan = planned(10**8, 436 * 10**6 + 1)
    assert share(2 * 10**9) >= plan.least, "with less the job would refuse"


def test_what_there_is_is_shared_by_jobs_that_name_no_memory(folder, monkeypatch):
    (job,) = ready(ONE + "k = 2")
    here = Allowed(8 * 10**9, "left by a test")
    plan = planned(5 * 10**9, 3 * 10**9)
    monkeypatch.setattr(batch_run, "plan_job", lambda *_, **__: plan)
    found = batch_run.admission(job, here.limit, 1.0, here)
    assert (found.share, found.named) == (6 * 10**9, False)  # as without a limit
    plan = replace(plan, memory=here.limit)
    assert batch_run.admission(job, here.limit, 1.0, here).named
    (own,) = ready(ONE + 'k = 2\nmemory = "7GB"')
    assert batch_run.admission(own, here.limit, 1.0, here).named

    def refuse(*_, **__):
        raise InputError("memory: too little")

    monkeypatch.setattr(batch_run, "plan_job", refuse)
    alone = batch_run.admission(job, here.limit, 1.0, here)
    assert (alone.share, alone.named, alone.refused) == (here.limit, False, None)
    assert batch_run.admission(own, here.limit, 1.0, here).refused


@pytest.mark.thorough
def test_the_least_that_works_is_told_by_the_plan(fake, run, monkeypatch):
    def estimate(job, *, speed, here=None):
        if job.params["random_state"] == 1:
            raise InputError("--memory: 1.0 GB given; the least that works is 1.7 GB")
        raise ZeroDivisionError("a hostile file")

    monkeypatch.setattr(batch_run, "plan_job", estimate)
    jobs_file(MANY % "[1, 2]")
    code, out, err = run("jobs.toml --memory 1GB")
    assert code == 1
    assert "j1: failed: --memory: 1.0 GB given; the least that works is 1.7 GB" in err
    assert "j2: failed: plan: ZeroDivisionError: a hostile file" in err
    assert not events()
    code, out, err = run("jobs.toml --memory 1GB --dry-run")
    assert code == 1
    assert "least that works" in out


def test_dry_run_shows_jobs_and_plans(fake, run, monkeypatch):
    plans(monkeypatch, {})
    jobs_file(MANY % "[1, 2]")
    code, out, err = run("jobs.toml --dry-run --json --memory 1100MB")
    assert code == 0, err
    rows = json.loads(out)["jobs"]
    assert [(row["job"], row["planned_bytes"], row["seed"]) for row in rows] == [
        ("j1", 10**9, 1),
        ("j2", 10**9, 2),
    ]
    assert rows[0]["memory"] == 11 * 10**8
    assert not Path("out").exists()
    assert not Path("jobs.toml.state").exists()


# ---------------------------------------------------------------- runs and what they leave


@pytest.mark.thorough
def test_resume_leaves_alone_what_ended_unless_something_changed(fake, run):
    jobs_file(MANY % "[1, 666, 3]")
    code, out, err = run("jobs.toml --summary sum.csv")
    assert code == 1, err
    assert "j666: failed: seed: 666 is refused" in err
    assert re.search(r"j1 +done +6 +2 ", out)
    last = " ".join(out.split("2 done, ")[1].split())
    assert last == (
        "1 failed; logs in jobs.toml.state; --resume --retry-failed runs those that failed again"
    )
    rows = list(csv.DictReader(Path("sum.csv").read_text().splitlines()))
    assert [row["status"] for row in rows] == ["done", "failed", "done"]
    assert rows[1]["error"] == "seed: 666 is refused"
    assert "neighbours: 50%" in Path(rows[0]["log_file"]).read_text()

    code, _, err = run("jobs.toml")
    assert code == 2
    assert "has jobs of an earlier run (2 done, 1 failed); give --resume to go on or --fre" in err

    code, _, err = run("jobs.toml --resume")
    assert code == 1
    assert "3 of 3 jobs have ended in an earlier run" in err
    assert len(events("began")) == 3
    run("jobs.toml --resume --retry-failed")
    assert [out for _, out in events("began")][3:] == ["out/j666.h5"]

    jobs_file((MANY % "[1, 666, 3]").replace("k = 2", 'k = 2\nthreads = 1\nmemory = "4GB"'))
    run("jobs.toml --resume")
    assert len(events("began")) == 4, "what was done within other limits still counts"

    Path("out/j3.h5").write_bytes(b"\x89HDF, and cut off")
    code, _, err = run("jobs.toml --resume")
    assert "j3: is run again: out/j3.h5 is not as it was written" in err
    assert [out for _, out in events("began")][4:] == ["out/j3.h5"]

    Path("out/j1.h5").unlink()
    code, _, err = run("jobs.toml --resume")
    assert "j1: is run again: out/j1.h5 is gone" in err

    with h5py.File("a.h5", "a") as file:
        file["more"] = 1
    code, _, err = run("jobs.toml --resume")
    assert err.count("is run again: its data changed") == 3
    assert len(events("began")) == 9

    jobs_file((MANY % "[1, 3, 4]").replace("k = 2", "k = 3"))
    code, _, err = run("jobs.toml --resume")
    assert code == 0
    assert "1 jobs of earlier runs are no longer in jobs.toml" in err
    assert err.count("its options in the jobs file are others now") == 2
    assert len(events("began")) == 12

    code, _, err = run("jobs.toml --fresh --quiet")
    assert (code, err) == (0, "")
    assert len(events("began")) == 15
    assert not Path("jobs.toml.state/j666").exists()


@pytest.mark.thorough
def test_what_another_version_did_is_done_again(fake, run, monkeypatch):
    jobs_file(MANY % "[1, 3]")
    assert run("jobs.toml")[0] == 0
    assert run("jobs.toml --resume")[0] == 0
    assert len(events("began")) == 2
    monkeypatch.setattr(mustlink, "__version__", "0.0.7")
    _, _, err = run("jobs.toml --resume")
    assert err.count("is run again: another version of mustlink did it") == 2
    assert len(events("began")) == 4


def test_a_damaged_status_is_told(fake, run):
    jobs_file(MANY % "[1]")
    run("jobs.toml")
    Path("jobs.toml.state/j1/status.json").write_text("{")
    code, _, err = run("jobs.toml --resume")
    assert code == 0
    assert "j1: is run again: its status.json cannot be read" in err


def test_only_files_of_the_batch_are_removed(fake, run):
    jobs_file(MANY % "[1]")
    for state in ("few.txt", "no/such"):
        code, _, err = run(f"jobs.toml --fresh --state {state}")
        assert code == 2
        assert err.splitlines()[-1].startswith("mustlink: ")
    assert run("jobs.toml --state other")[0] == 0
    Path("other/j1/mine.txt").write_text("x")
    assert run("jobs.toml --state other --fresh")[0] == 0
    assert Path("other/j1/mine.txt").exists()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--resume --fresh", "give one of them"),
        ("--retry-failed", "give --resume as well"),
        ("--summary x.txt", "x.txt: unknown ending"),
        ("--summary out", "out: unknown ending"),
        ("--summary a.h5", "a.h5: unknown ending"),
        ("--memory much", "is not a size"),
        ("--workers 0", "0 is not in the range"),
    ],
)
def test_options_of_the_batch_are_checked_first(fake, run, line, words):
    jobs_file(MANY % "[1]")
    code, out, err = run("jobs.toml " + line)
    assert (code, out) == (2, "")
    assert words in err
    assert not events()


def test_a_missing_child_and_a_silent_one_are_failures(fake, run, monkeypatch):
    jobs_file(MANY % "[1]")
    monkeypatch.setattr(children, "PROGRAM", ("-c", "import os; os.kill(os.getpid(), 9)"))
    code, _, err = run("jobs.toml")
    assert code == 1
    assert "j1: failed: killed by signal 9 (Killed); was the memory of the machine used up?" in err
    monkeypatch.setattr(children, "PROGRAM", ("-c", "pass"))
    _, _, err = run("jobs.toml --fresh")
    assert "j1: failed: ended without a result" in err
    monkeypatch.setattr(children, "PROGRAM", ("-c", "1/0"))
    _, _, err = run("jobs.toml --fresh")
    assert "j1: failed: exit code 1: ZeroDivisionError: division by zero" in err
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    _, _, err = run("jobs.toml --fresh")
    assert "j1: failed: could not be run: FileNotFoundError" in err


@pytest.mark.thorough
def test_summaries(fake, run):
    jobs_file('[batch]\nsummary = "sum.csv"\nworkers = 3\n' + MANY % "[1, 666, 3]")
    assert run("jobs.toml")[0] == 1
    rows = list(csv.DictReader(Path("sum.csv").read_text().splitlines()))
    assert [row["job"] for row in rows] == ["j1", "j666", "j3"]
    assert [row["exit_code"] for row in rows] == ["0", "2", "0"]
    _, out, _ = run("jobs.toml --resume --summary sum.json --json")
    assert json.loads(Path("sum.json").read_text())["jobs"] == json.loads(out)["jobs"]
    assert json.loads(out)["ended_before"] == 3


# ---------------------------------------------------------------- kills

DRIVER = """
import sys
from mustlink_io.commands import cli
from mustlink_io.batch import children
children.PROGRAM = ("child.py",)
cli.main(["batch", *sys.argv[1:]])
"""


def start(*arguments, **env):
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
        # As from a terminal: tests started in the background pass on that SIGINT is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )


def wait_for(condition, seconds=120.0):  # only against waiting for ever
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "took too long"
        time.sleep(0.01)


def pids():
    return [json.loads(line)[2] for line in Path("events.txt").read_text().splitlines()]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"


@pytest.mark.thorough
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="children die with the batch")
def test_thirty_jobs_three_failing_and_a_kill_in_the_middle(fake):
    seeds = [666, *range(12), 666, *range(12, 27), 666]
    text = '[defaults]\nk = 2\noutput = "out/{name}.h5"\n' + "".join(
        f'[[job]]\nname = "job{at}"\ndata = "a.h5"\nseed = {seed}\n'
        for at, seed in enumerate(seeds)
    )
    jobs_file(text)
    first = start("jobs.toml", "--workers", "3", CHILD_SECONDS="0.1")
    wait_for(lambda: len(events("ended")) >= 9)
    first.kill()
    first.communicate()
    wait_for(lambda: not any(alive(pid) for pid in pids()))
    ended = events("ended")
    assert 9 <= len(ended) < 27
    early = "out/job0.h5"
    assert State(Path("jobs.toml.state")).read("job0").phase == "failed"
    assert not [p for p in Path("out").iterdir() if p.suffix == ".tmp" and p.stat().st_size == 0]

    second = start("jobs.toml", "--resume", "--workers", "3", "--json")
    out, err = second.communicate(timeout=120)
    assert second.returncode == 1, err
    found = json.loads(out)
    assert found["counts"] == {"done": 27, "failed": 3}
    failures = [row for row in found["jobs"] if row["status"] == "failed"]
    assert {row["error"] for row in failures} == {"seed: 666 is refused"}
    assert len({row["output"] for row in found["jobs"]}) == 30
    outputs = [out for _, out in events("ended")]
    assert len(set(outputs)) == 27
    assert len(outputs) == 27, "what had ended is not run again"
    assert {f"out/{p.name}" for p in Path("out").glob("*.h5")} == set(outputs)
    assert events("began").count(("began", early)) == 1, "nor is what had failed"

    third = start("jobs.toml", "--resume", "--json")
    out, err = third.communicate(timeout=120)
    assert json.loads(out)["counts"] == {"done": 27, "failed": 3}
    assert len(events("ended")) == len(outputs), "nothing is run twice"


@pytest.mark.thorough
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_children_and_leaves_a_state_to_go_on_from(fake, number, code):
    jobs_file(MANY % "[1, 2, 3]")
    batch = start("jobs.toml", "--workers", "2", "--json", CHILD_SECONDS="30")
    wait_for(lambda: len(events("began")) == 2)
    batch.send_signal(number)
    out, err = batch.communicate(timeout=120)
    assert batch.returncode == code, err
    assert "stopping 2 running jobs; --resume goes on" in err
    assert json.loads(out)["counts"] == {"interrupted": 2, "waiting": 1}
    assert not any(alive(pid) for pid in pids())
    again = start("jobs.toml", "--resume", "--json", "--quiet")
    out, err = again.communicate(timeout=120)
    assert (again.returncode, err) == (0, "")
    assert json.loads(out)["counts"] == {"done": 3}
    assert {row["attempts"] for row in json.loads(out)["jobs"]} == {1, 2}


@pytest.mark.thorough
def test_two_batches_do_not_share_a_state(fake, run, monkeypatch):
    monkeypatch.setattr(batch_command, "_WAIT", 0.1)
    jobs_file(MANY % "[1]")
    batch = start("jobs.toml", CHILD_SECONDS="30")
    wait_for(lambda: events("began"))
    code, _, err = run("jobs.toml --resume --quiet")
    assert code == 2
    assert re.search(r"jobs.toml.state: this state of a batch is in use .*process \d+\)", err)
    batch.terminate()
    batch.communicate(timeout=120)


# ---------------------------------------------------------------- real jobs

REAL = """
[defaults]
output = "out/{name}.h5"
[[job]]
name = "cut"
data = "a.h5:/points"
k = 2
neighbors = 3
[[job]]
name = "large"
data = "a.h5"
k = 7
[[job]]
name = "graph"
command = "graph"
data = "a.h5"
neighbors = 3
"""


@pytest.mark.thorough
def test_real_jobs(folder, monkeypatch):
    jobs_file(REAL)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "engine"), str(ROOT / "io")]))
    line = [sys.executable, "-m", "mustlink_io", "batch", "jobs.toml", "--workers", "2", "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    rows = {row["job"]: row for row in json.loads(done.stdout)["jobs"]}
    assert rows["cut"]["status"] == rows["graph"]["status"] == "done"
    assert (rows["cut"]["n_nodes"], rows["cut"]["n_clusters"], rows["cut"]["method"]) == (
        6, 2, "ncut",
    )  # fmt: skip
    assert rows["large"]["error"] == "-k 7: more clusters than the 6 nodes"
    assert rows["graph"]["output"] == "out/graph.h5"
    with store.open_h5("out/cut.h5") as file:
        assert store.dataset(file, "/labels").shape == (6,)


# ---------------------------------------------------------------- locks

HOLD = """
import sys, time
from mustlink_io.hdf5.locks import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(fake):
    """Another process that holds the lock on out.h5."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, "out.h5"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_lock_is_held_by_one_process_and_dropped_when_it_is_killed(holder):
    Path("link.h5").symlink_to("out.h5")
    for name in ("out.h5", "./out.h5", "link.h5"):
        words = rf"in use by another run \(process {holder.pid}\);"
        with pytest.raises(InputError, match=words), locked(name):
            pass
    with locked("other.h5"):
        pass
    holder.kill()
    holder.wait()
    assert lock_file("out.h5").exists()
    with locked("out.h5") as descriptor:
        assert isinstance(descriptor, int)
        assert lock_file("out.h5").read_text() == f"{os.getpid()}\n"
        with pytest.raises(InputError), locked("out.h5"):
            pass
    assert not lock_file("out.h5").exists()


def test_a_lock_waits(holder):
    started = time.monotonic()
    with pytest.raises(InputError), locked("out.h5", wait=0.2):
        pass
    assert time.monotonic() - started >= 0.2
    holder.kill()
    with locked("out.h5", wait=10):
        pass


CONTEND = """
import os, sys
from mustlink_io.hdf5.locks import locked
for _ in range(150):
    with locked("out.h5", wait=60):
        os.close(os.open("inside", os.O_CREAT | os.O_EXCL))
        os.unlink("inside")
"""


def test_locks_that_come_and_go_never_let_two_in(fake):
    crowd = [subprocess.Popen([sys.executable, "-c", CONTEND]) for _ in range(3)]
    assert [process.wait(120) for process in crowd] == [0, 0, 0]
    assert not list(Path().glob(".*.lock"))


def test_a_child_that_inherits_the_lock_keeps_it(fake):
    script = "import sys; print(1, flush=True); sys.stdin.read()"
    with locked("out.h5") as descriptor:
        child = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(descriptor,),
        )
        child.stdout.readline()
        os.link(lock_file("out.h5"), "kept")  # as if this process were killed: nobody removes it
    os.replace("kept", lock_file("out.h5"))
    with pytest.raises(InputError), locked("out.h5"):
        pass
    child.communicate()
    with locked("out.h5"):
        pass


def test_a_lock_never_follows_a_link_and_says_what_is_wrong(fake):
    Path("precious").write_text("x")
    lock_file("out.h5").symlink_to("precious")
    words = r"out.h5: cannot be locked by .out.h5.lock"
    with pytest.raises(InputError, match=words), locked("out.h5"):
        pass
    assert Path("precious").read_text() == "x"
    with pytest.raises(InputError, match=r"no/out.h5: cannot be locked"), locked("no/out.h5"):
        pass
    with locked("x" * 250), locked("x" * 249 + "y"):
        pass


def test_without_locks_there_is_a_warning(fake, monkeypatch):
    import errno
    import fcntl

    def none(*_):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.warns(UserWarning, match="the file system has no locks"), locked("out.h5") as held:
        assert held is None
