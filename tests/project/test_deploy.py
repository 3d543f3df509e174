"""What docs/deploy has to copy: it can be read by what it is for, and its limits are seen."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from mustlink.core.resources import automatic_memory, cores, rooms

DEPLOY = Path(__file__).resolve().parents[2] / "docs" / "deploy"
GIB = 2**30


def text(name):
    return (DEPLOY / name).read_text()


def instructions():
    """Instructions of the Dockerfile with their words, lines joined."""
    lines = re.sub(r"\\\n\s*", " ", text("Dockerfile")).splitlines()
    return [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]


def test_the_image_has_warm_kernels_and_another_user_than_root():
    found = instructions()
    names = [name for name, _ in found]
    env = dict(word.split("=", 1) for name, rest in found if name == "ENV" for word in rest.split())
    user = names.index("USER")
    warm = next(at for at, one in enumerate(found) if one == ["RUN", "mustlink warm"])
    assert names[0] == "FROM"
    assert found[user][1] == "mustlink"
    assert user < warm < names.index("ENTRYPOINT")  # kernels are those of that user
    assert names.count("USER") == 1
    made = next(rest for name, rest in found if name == "RUN" and "chown" in rest)
    assert "$NUMBA_CACHE_DIR" in made.partition("chown")[2]
    assert Path(env["NUMBA_CACHE_DIR"]).is_absolute()
    uid = int(re.search(r"--uid (\d+)", made).group(1))
    job = yaml.safe_load(text("job.yaml"))["spec"]["template"]["spec"]
    assert job["securityContext"]["runAsUser"] == uid
    assert job["securityContext"]["runAsNonRoot"] is True


def test_the_job_of_kubernetes_has_limits_that_the_program_sees(tmp_path, monkeypatch):
    job = yaml.safe_load(text("job.yaml"))
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    assert pod["restartPolicy"] in ("Never", "OnFailure")  # a Job takes no other
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    assert container["resources"]["limits"] == container["resources"]["requests"]
    limits = container["resources"]["limits"]
    n_bytes = int(limits["memory"].removesuffix("Gi")) * GIB
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text(f"{n_bytes}\n")
    (group / "memory.current").write_text("0\n")
    (group / "cpu.max").write_text(f"{int(limits['cpu']) * 100_000} 100000\n")
    proc = tmp_path / "proc/self"
    proc.mkdir(parents=True)
    (proc / "cgroup").write_text("0::/\n")
    (proc / "mountinfo").write_text("30 20 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.delenv("MUSTLINK_MEMORY", raising=False)
    monkeypatch.delenv("MUSTLINK_THREADS", raising=False)
    assert next(room.limit for room in rooms(tmp_path) if "cgroup" in room.source) == n_bytes
    assert automatic_memory(root=tmp_path).limit <= n_bytes + GIB // 2
    assert cores(tmp_path) == int(limits["cpu"])


@pytest.fixture
def on_a_node(tmp_path):
    """Run the script of the array as a task with a `mustlink` that says what it was called with."""
    program = tmp_path / "bin" / "mustlink"
    program.parent.mkdir()
    program.write_text('#!/bin/bash\necho "$NUMBA_CACHE_DIR" "$@"\nexec sleep "${SLEEP:-0}"\n')
    program.chmod(0o755)
    environment = {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}

    def start(task, *files, **more):
        env = environment | more | ({} if task is None else {"SLURM_ARRAY_TASK_ID": str(task)})
        line = ["bash", str(DEPLOY / "array.sbatch"), *files]
        return subprocess.Popen(
            line, cwd=tmp_path, env=env, stdout=-1, stderr=-1, text=True, start_new_session=True
        )

    return start


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_a_task_of_the_array_takes_its_file(on_a_node, tmp_path):
    for task, data, output in ((0, "in/a b.h5", "out/a b.h5"), (1, "c.csv", "out/c.h5")):
        out, err = on_a_node(task, "in/a b.h5", "c.csv").communicate(timeout=60)
        assert out.split(" ", 1)[0] == f"{tmp_path}/.cache/mustlink-kernels", err
        assert f"cluster {data} -k 10" in out
        assert out.endswith(f"-o {output}\n")
    last = on_a_node(2, "a.h5")
    assert "nothing to do" in last.communicate(timeout=60)[1]
    assert last.returncode == 0
    none = on_a_node(None, "a.h5")
    assert "give --array" in none.communicate(timeout=60)[1]
    assert none.returncode != 0
    assert "--memory" not in re.sub("(?m)^#.*", "", text("array.sbatch"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_a_task_whose_time_is_up_ends_its_program(on_a_node):
    task = on_a_node(0, "a.h5", SLEEP="600")
    assert "a.h5" in task.stdout.readline()  # it runs
    task.terminate()
    task.communicate(timeout=60)
    assert task.returncode == 128 + 15


def test_the_unit_of_systemd_is_one(tmp_path):
    unit = text("mustlink.service")
    found = dict(re.findall(r"(?m)^(\w+)=(.*)$", unit))
    assert found["MemoryMax"] == "8G"
    assert found["CPUQuota"] == "400%"
    cache = f"/var/cache/{found['CacheDirectory']}"
    assert found["Environment"] == f"NUMBA_CACHE_DIR={cache}"
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd here to verify it")
    here = tmp_path / "mustlink.service"
    here.write_text(unit.replace("/opt/mustlink/bin/mustlink", shutil.which("true")))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(here)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
