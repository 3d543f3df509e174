"""What a process is allowed where it is put: files of cgroups, variables, limits, made on purpose.

The trees are those of kernels: `proc/self/cgroup`, `proc/self/mountinfo` and what is mounted.
"""

import os
import platform
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mustlink as ml
from cases import blobs
from mustlink.core import resources
from mustlink.core.observe import Recorder
from mustlink.core.resources import (
    Allowed,
    Budget,
    allowed_memory,
    automatic_memory,
    cores,
    most_memory,
    resident_bytes,
)
from mustlink.errors import InputError, OutOfMemoryError
from mustlink.kernels import threads

GB, MB = 10**9, 10**6
ENDLESS = 9223372036854771712  # what version 1 writes without a limit


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch):
    """No scheduler, and nothing that whoever set up this machine names."""
    for name in list(os.environ):
        if name.startswith(("SLURM_", "LSB_", "MUSTLINK_")):
            monkeypatch.delenv(name)


def tree(root, groups, own, mounts, available=64 * GB):
    """Files by folder below `root`; `own` lines of /proc/self/cgroup, `mounts` (root, place, type).

    Types are as "cgroup2 rw" or "cgroup rw,memory".
    """
    proc = root / "proc" / "self"
    proc.mkdir(parents=True)
    (proc / "cgroup").write_text("".join(f"{line}\n" for line in own))
    lines = []
    for mounted, place, kind in mounts:
        name, options = kind.split()
        lines.append(f"30 20 0:25 {mounted} {place} rw,nosuid - {name} none {options}")
    (proc / "mountinfo").write_text("\n".join(["22 1 8:1 / / rw - ext4 /dev/sda1 rw", *lines]))
    (root / "proc" / "meminfo").write_text(
        f"MemTotal: 1 kB\nMemAvailable: {available // 1024} kB\n"
    )
    for folder, files in groups.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (root / folder / name).write_text(f"{text}\n")
    return root


V2 = [("/", "/sys/fs/cgroup", "cgroup2 rw")]
V1 = [
    ("/", "/sys/fs/cgroup/memory", "cgroup rw,memory"),
    ("/", "/sys/fs/cgroup/cpu", "cgroup rw,cpu,cpuacct"),
]


def of_version_2(most, current=0, **stat):
    text = "\n".join(f"{name} {value}" for name, value in stat.items())
    return {"memory.max": most, "memory.current": current, "memory.stat": text}


def of_version_1(most, usage=0, **stat):
    text = "\n".join(f"{name} {value}" for name, value in stat.items())
    return {"memory.limit_in_bytes": most, "memory.usage_in_bytes": usage, "memory.stat": text}


def left_by_cgroups(root):
    """Bytes that are left by each group; the machine, and limits of this process, are no groups."""
    return [room.left for room in resources.rooms(root) if "cgroup" in room.source]


# Folders and files, own lines, mounts, and what they leave, from the own group upwards.
TREES = {
    "version 2, every ancestor counts": (
        {
            "sys/fs/cgroup/a": of_version_2(3 * GB, GB),
            "sys/fs/cgroup/a/b": of_version_2("max", GB),
            "sys/fs/cgroup/a/b/c": of_version_2(4 * GB, GB),
        },
        ["0::/a/b/c"],
        V2,
        [3 * GB, 2 * GB],
    ),
    "version 2, pages of files that nobody maps can be taken back": (
        {
            "sys/fs/cgroup/a": of_version_2(
                2 * GB, 1800 * MB, inactive_file=GB, active_file=500 * MB, file_mapped=200 * MB
            )
        },
        ["0::/a"],
        V2,
        [1500 * MB],
    ),
    "version 2, inactive pages can be whatever is mapped": (
        {
            "sys/fs/cgroup/a": of_version_2(
                2 * GB, GB, inactive_file=300 * MB, active_file=0, file_mapped=200 * MB
            )
        },
        ["0::/a"],
        V2,
        [1300 * MB],
    ),
    "version 2, above memory.high a process is slowed down": (
        {"sys/fs/cgroup/a": {**of_version_2("max", 0), "memory.high": GB}},
        ["0::/a"],
        V2,
        [GB],
    ),
    "version 2, max": ({"sys/fs/cgroup/a": of_version_2("max")}, ["0::/a"], V2, []),
    "version 2, nothing left": (
        {"sys/fs/cgroup/a": of_version_2(GB, GB + 5)},
        ["0::/a"],
        V2,
        [0],
    ),
    "version 2, damaged": (
        {"sys/fs/cgroup/a": {"memory.max": "much", "memory.current": "x", "memory.stat": "y z w"}},
        ["0::/a"],
        V2,
        [],
    ),
    "version 2, of a container that sees its own group as the top": (
        {"sys/fs/cgroup": of_version_2(GB, 0)},
        ["0::/"],
        V2,
        [GB],
    ),
    "version 2, outside of what is mounted": (
        {"sys/fs/cgroup": of_version_2(GB, 100 * MB)},
        ["0::/../../other/pod"],
        V2,
        [900 * MB],
    ),
    "version 1, nested": (
        {
            "sys/fs/cgroup/memory": of_version_1(ENDLESS),
            "sys/fs/cgroup/memory/a": of_version_1(GB, 400 * MB, total_inactive_file=100 * MB),
            "sys/fs/cgroup/memory/a/b": of_version_1(ENDLESS),
        },
        ["9:name=systemd:/x", "4:memory:/a/b", "1:cpu,cpuacct:/", "0::/"],
        V1,
        [700 * MB],
    ),
    "version 1, endless": (
        {"sys/fs/cgroup/memory/a": of_version_1(ENDLESS, 10)},
        ["4:memory:/a"],
        V1,
        [],
    ),
    "version 1, limits above a container are in its statistics": (
        {"sys/fs/cgroup/memory": of_version_1(ENDLESS, 0, hierarchical_memory_limit=2 * GB)},
        ["4:memory:/docker/1234"],
        [("/docker/1234", "/sys/fs/cgroup/memory", "cgroup rw,memory")],
        [2 * GB],
    ),
    "version 1, a mount of another group": (
        {"sys/fs/cgroup/memory": of_version_1(GB)},
        ["4:memory:/elsewhere"],
        [("/docker/1234", "/sys/fs/cgroup/memory", "cgroup rw,memory")],
        [GB],
    ),
    "both, as with systemd's hybrid": (
        {"sys/fs/cgroup/memory/a": of_version_1(GB), "sys/fs/cgroup/unified/a": {}},
        ["4:memory:/a", "0::/a"],
        [*V1, ("/", "/sys/fs/cgroup/unified", "cgroup2 rw")],
        [GB],
    ),
    "a blank in the name of the mount": (
        {"cgroups of mine/a": of_version_2(GB)},
        ["0::/a"],
        [("/", "/cgroups\\040of\\040mine", "cgroup2 rw")],
        [GB],
    ),
    "no cgroups": ({}, [], [], []),
    "lines of no use": ({}, ["", "nonsense"], [("/", "/x", "cgroup2 rw")], []),
}


@pytest.mark.parametrize("name", TREES)
def test_limits_of_cgroups(tmp_path, name):
    groups, own, mounts, left = TREES[name]
    assert left_by_cgroups(tree(tmp_path, groups, own, mounts)) == left


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads whatever it likes")
def test_files_that_cannot_be_read_set_no_limit(tmp_path):
    root = tree(tmp_path, {"sys/fs/cgroup/a": of_version_2(GB)}, ["0::/a"], V2)
    (root / "sys/fs/cgroup/a/memory.max").chmod(0)
    assert left_by_cgroups(root) == []


def test_files_that_are_folders_set_no_limit(tmp_path):
    root = tree(tmp_path, {"sys/fs/cgroup/a/memory.max": {}}, ["0::/a"], V2)
    assert left_by_cgroups(root) == []
    assert automatic_memory(root=tmp_path / "nowhere") == Allowed()


def test_the_least_of_all_is_taken_with_its_source(tmp_path, monkeypatch):
    groups = {"sys/fs/cgroup/a": of_version_2(3 * GB, GB)}
    root = tree(tmp_path, groups, ["0::/a"], V2, available=5 * GB)
    here = automatic_memory(root=root)
    own = min(resident_bytes(), resources.PROGRAM)  # the program is counted by every fit
    assert 0.96 * (2 * GB + own) <= here.limit <= 1.01 * (2 * GB + own)
    assert here.limit <= 3 * GB
    assert here.source == "left by a cgroup's limit of 3.00 GB"
    assert here.enforced
    assert most_memory(root) <= 3 * GB
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "1500")
    here = automatic_memory(root=root)
    assert here.limit <= 1500 * 2**20
    assert "Slurm's limit of 1.57 GB" in here.source
    (root / "proc" / "meminfo").write_text(f"MemAvailable: {10**5} kB\n")
    here = automatic_memory(root=root)
    assert here.source == "as four fifths of what the machine has available"
    assert not here.enforced


@pytest.mark.parametrize(
    ("variables", "limit"),
    [
        ({"SLURM_MEM_PER_NODE": "4096"}, 4 * 2**30),
        ({"SLURM_MEM_PER_CPU": "2048", "SLURM_CPUS_ON_NODE": "4"}, 8 * 2**30),
        ({"SLURM_MEM_PER_CPU": "2048", "SLURM_CPUS_PER_TASK": "2"}, 4 * 2**30),
        ({"SLURM_MEM_PER_CPU": "2048"}, 2 * 2**30),
        ({"SLURM_MEM_PER_NODE": "0"}, None),  # the whole node
        ({"SLURM_MEM_PER_NODE": "much"}, None),
        ({"LSB_CG_MEMLIMIT": "0x100000000"}, 2**32),
        ({"LSB_CG_MEMLIMIT": "100000000"}, 2**32),
        ({"LSB_CG_MEMLIMIT": "?"}, None),
        ({}, None),
    ],
)
def test_limits_of_schedulers(tmp_path, monkeypatch, variables, limit):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = [room.limit for room in resources.rooms(tmp_path) if "RLIMIT" not in room.source]
    assert found == ([] if limit is None else [limit])


@pytest.mark.parametrize("name", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_limits_of_the_process_less_what_it_claimed(tmp_path, name):
    which = getattr(resource, name)
    soft, hard = resource.getrlimit(which)
    resource.setrlimit(which, (2**43, hard))
    try:
        found = {room.source: room for room in resources.rooms(tmp_path) if name in room.source}
        room = found[f"left by {name} of 8796.09 GB"]
    finally:
        resource.setrlimit(which, (soft, hard))
    assert room.limit == 2**43
    assert 0 < room.limit - room.left < 2**42


# ------------------------------------------------------------------------- what is made of it


def test_a_limit_is_named_only_where_a_fit_may_need_more():
    here = Allowed(GB, "left by a test")
    asked = []

    def least(limit):
        asked.append(limit)
        return 500 * MB

    def at_most(enforced):
        return GB + enforced  # a byte less as a rule

    assert allowed_memory("auto", lambda _: GB, least, found=here) == Allowed()
    assert asked == []
    assert allowed_memory("auto", at_most, least, found=here) == here
    assert asked == [GB]
    with pytest.raises(InputError, match=r"1.00 GB, left by a test, but at least 2.00 GB are nee"):
        allowed_memory("auto", lambda _: 3 * GB, lambda _: 2 * GB, found=here)
    soft = Allowed(GB, "as a share", enforced=False)
    assert allowed_memory("auto", at_most, least, found=soft) == Allowed()
    assert allowed_memory("auto", lambda _: 3 * GB, lambda _: 2 * GB, found=soft) == Allowed()
    assert allowed_memory("auto", lambda _: 3 * GB, lambda _: GB, found=soft) == soft
    assert allowed_memory("2GB", at_most, least) == Allowed(2 * GB)
    assert (
        allowed_memory(None, at_most, least) == allowed_memory("none", at_most, least) == Allowed()
    )


def test_a_share_of_the_machine_is_no_error():
    budget = Budget(1, enforced=False)
    budget.check("anything")
    budget.ask(10**15, "anything")
    assert budget.left() is not None
    with pytest.raises(OutOfMemoryError):
        Budget(1).ask(10**15, "anything")


@pytest.mark.parametrize(
    ("named", "wanted"),
    [("2GB", Allowed(2 * GB, "named by MUSTLINK_MEMORY")), ("none", Allowed())],
)
def test_memory_of_the_environment(monkeypatch, named, wanted):
    monkeypatch.setenv("MUSTLINK_MEMORY", named)
    found = automatic_memory()
    assert found.limit == wanted.limit
    assert wanted.limit is None or found == wanted


def test_bad_values_in_the_environment_are_one_line(monkeypatch):
    X, _ = blobs(np.random.default_rng(0), 40, 2)
    monkeypatch.setenv("MUSTLINK_MEMORY", "lots")
    with pytest.raises(InputError, match=r"^MUSTLINK_MEMORY: 'lots' is not a size; write it as 4G"):
        ml.NCut(2).fit(X)
    ml.NCut(2, memory=None).fit(X)  # where it has no say
    monkeypatch.delenv("MUSTLINK_MEMORY")
    threads._cores.cache_clear()
    for bad in ("many", "0", "-1", "2.5"):
        monkeypatch.setenv("MUSTLINK_THREADS", bad)
        with pytest.raises(InputError, match=f"^MUSTLINK_THREADS: '{bad}' is no number of thr"):
            ml.NCut(2).fit(X)


# ------------------------------------------------------------------------- in fits

X, TRUTH = blobs(np.random.default_rng(1), 3000, 3, d=4)
FEW = np.where(np.arange(len(TRUTH)) % 100 == 0, TRUTH, -1)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("kind", [ml.NCut, ml.CSP, ml.GFHF])
def test_with_enough_memory_auto_is_no_limit(kind):
    parameters = {"random_state": 0} | ({} if kind is ml.GFHF else {"n_clusters": 3})
    usual, free = Recorder(), Recorder()
    auto = kind(**parameters).fit(X, FEW, observer=usual)
    none = kind(**parameters, memory=None).fit(X, FEW, observer=free)
    assert auto.memory == "auto"
    assert auto._budget is None
    assert np.array_equal(auto.labels_, none.labels_)
    assert usual.notes == free.notes


@pytest.mark.thorough
def test_short_of_memory_a_fit_keeps_to_what_there_is_and_says_whose_it_is(monkeypatch):
    points = np.random.default_rng(2).normal(size=(30_000, 8)).astype(np.float32)
    recorder = Recorder()
    monkeypatch.setenv("MUSTLINK_MEMORY", "505MB")
    est = ml.NCut(3, random_state=0).fit(points, observer=recorder)
    said = [note for note in recorder.notes if note.startswith("memory: kept to")]
    assert said == ["memory: kept to 505 MB, named by MUSTLINK_MEMORY"]
    assert recorder.budget.limit == est._budget == 505 * MB
    named = ml.NCut(3, random_state=0, memory="505MB").fit(points)
    assert np.array_equal(est.labels_, named.labels_)
    again = est.refit()  # on the same graph, in what was decided
    assert again._budget == 505 * MB
    monkeypatch.delenv("MUSTLINK_MEMORY")
    assert est.fit(points)._budget is None


@pytest.mark.parametrize("fit", [ml.NCut(3).fit, ml.SRCP(3).fit, ml.knn_graph])
def test_too_little_is_refused_in_one_line_with_the_least(monkeypatch, fit):
    monkeypatch.setenv("MUSTLINK_MEMORY", "300MB")
    with pytest.raises(InputError) as error:
        fit(X)
    found = str(error.value)
    assert found.startswith("memory: 300 MB, named by MUSTLINK_MEMORY, but at least ")
    assert "\n" not in found
    least = found.split("at least ")[1].partition(" are")[0]
    monkeypatch.setenv("MUSTLINK_MEMORY", least.replace(" ", ""))
    fit(X)


# ------------------------------------------------------------------------- threads


@pytest.mark.parametrize(
    ("groups", "own", "mounts", "wanted"),
    [
        ({"sys/fs/cgroup/a": {"cpu.max": "250000 100000"}}, ["0::/a"], V2, 2.5),
        ({"sys/fs/cgroup/a": {"cpu.max": "50000 100000"}}, ["0::/a"], V2, 0.5),
        ({"sys/fs/cgroup/a": {"cpu.max": "max 100000"}}, ["0::/a"], V2, 64),
        (
            {
                "sys/fs/cgroup/a": {"cpu.max": "400000 100000"},
                "sys/fs/cgroup/a/b": {"cpu.max": "max"},
            },
            ["0::/a/b"],
            V2,
            4,
        ),
        (
            {"sys/fs/cgroup/cpu/a": {"cpu.cfs_quota_us": "300000", "cpu.cfs_period_us": "100000"}},
            ["1:cpu,cpuacct:/a"],
            V1,
            3,
        ),
        ({"sys/fs/cgroup/cpu/a": {"cpu.cfs_quota_us": "-1"}}, ["1:cpu:/a"], V1, 64),
    ],
)
def test_threads_are_the_cores_of_a_quota(tmp_path, monkeypatch, groups, own, mounts, wanted):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    root = tree(tmp_path, groups, own, mounts)
    assert cores(root) == max(1, int(wanted))
    monkeypatch.setenv("MUSTLINK_THREADS", "7")
    assert cores(root) == 7


PROGRAM = """
import mustlink.kernels.threads as threads
print(threads.workers())
with threads.threads(None):
    print(threads.workers())
with threads.threads(1):
    print(threads.workers())
"""


def test_threads_of_the_environment_hold_in_a_process():
    paths = [str(Path(one.__path__[0]).parent) for one in (ml,)]
    environment = {**os.environ, "MUSTLINK_THREADS": "3", "NUMBA_NUM_THREADS": "4"}
    environment["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
    line = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3", "3", "1"]


BLOCKS = """
import resource, numpy as np
from mustlink.core.resources import resident_bytes, return_large_blocks
return_large_blocks()
taken = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
np.ones(1 << 17)
before = taken()
for _ in range(100):
    np.ones(1 << 17)
print(taken() - before)
np.ones(1 << 20)  # from now on glibc's own rule would keep what is smaller
before = resident_bytes()
blocks = [(np.ones(1 << 19), np.ones(1 << 14)) for _ in range(16)]
small = [few for _, few in blocks]
del blocks
print(resident_bytes() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries have other rules")
def test_a_program_keeps_small_blocks_and_returns_large_ones():
    run = subprocess.run([sys.executable, "-c", BLOCKS], capture_output=True, text=True, check=True)
    pages, held = map(int, run.stdout.split())
    assert pages < 1_000  # of 100 blocks of a megabyte, 25,600 if each is taken anew
    assert held < 8 * MB  # of 16 blocks of four
