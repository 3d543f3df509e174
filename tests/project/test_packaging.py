"""The wheel and the source distribution: complete, and the wheel works by itself."""

from __future__ import annotations

import email
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Wheel and source distribution of the tree; the wheel is built from the latter.

    From a copy: a build writes beside the sources, where another process may be building.
    """
    pytest.importorskip("build")
    out, tree = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("tree")
    left = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for home in ("engine", "io"):
        shutil.copytree(ROOT / home, tree / home, ignore=left)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(tree)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def sources():
    """Every file that an installed mustlink needs, as it is named inside of a wheel."""
    for home in ("engine", "io"):
        for path in (ROOT / home).rglob("*"):
            inside = path.relative_to(ROOT / home)
            if path.is_file() and not any(
                part == "__pycache__" or part.endswith(".egg-info") for part in inside.parts
            ):
                yield inside.as_posix()


def test_the_wheel_holds_every_file_of_both_packages(built):
    names = set(zipfile.ZipFile(built[0]).namelist())
    assert set(sources()) - names == set()
    packages = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert packages == {"mustlink", "mustlink_io"}


def test_the_wheel_says_what_it_is(built):
    with zipfile.ZipFile(built[0]) as wheel:
        inside = {name.split("/")[-1]: name for name in wheel.namelist() if ".dist-info" in name}
        about = email.message_from_bytes(wheel.read(inside["METADATA"]))
        scripts = wheel.read(inside["entry_points.txt"]).decode()
    assert about["Name"] == "mustlink"
    assert about["Requires-Python"] == ">=3.11"
    assert about.get_payload().startswith("# mustlink")
    assert "mustlink = mustlink_io.commands.cli:main" in scripts
    assert "LICENSE" in inside


def test_the_source_distribution_can_be_built_from(built):
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE"} <= names
    assert {f"engine/{name}" for name in sources() if name.startswith("mustlink/")} <= names


def test_the_wheel_runs_by_itself(built, tmp_path):
    zipfile.ZipFile(built[0]).extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "mustlink", "--version"],
        env={"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("mustlink 0.")
