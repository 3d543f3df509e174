"""The worked examples of the documentation run as they are and show what their pages claim."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


def run(name, out):
    """Figures of an example, after a look at its picture."""
    pytest.importorskip("matplotlib")
    figures = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"](out)
    picture = out / f"{name}.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000
    return figures


def claimed(page):
    """Numbers in the page's block of output."""
    text = (EXAMPLES / page).read_text(encoding="utf-8")
    output = re.search(r"```text\n(.*?)```", text, re.DOTALL).group(1)
    return [float(one) for one in re.findall(r"\d\.\d{3}", output)]


@pytest.mark.thorough
def test_strokes_show_what_is_meant(tmp_path):
    figures = run("image", tmp_path)
    assert min(figures["cut"], figures["with"]) > 0.9 > 0.7 > figures["without"]
    assert figures["kept"] > 0.95
    assert figures["lake"] == pytest.approx([0, 1], abs=0.05)  # before the stroke, and after it
    shown = [figures[name] for name in ("cut", "without", "with")]
    assert shown == pytest.approx(claimed("image.md"), abs=0.02)
    temple, trees, rest = (np.asarray(Image.open(tmp_path / f"cut-{code}.png")) for code in "012")
    photograph = np.asarray(Image.open(tmp_path / "photo.png"))
    assert temple.shape == trees.shape == rest.shape == (*photograph.shape[:2], 4)
    assert (temple[200:300, 130:270, 3] == 255).all()
    assert (temple[150:, 380:, 3] == 0).all()
    assert (rest[100:160, 360:500, 3] == 255).all()
    outline = np.asarray(Image.open(tmp_path / "cut-outline.png"))
    dimmed = trees[..., 3] == 255
    assert outline[dimmed].mean() < 0.4 * photograph[dimmed].mean()
    np.testing.assert_array_equal(outline[200:300, 130:270], photograph[200:300, 130:270])


@pytest.mark.thorough
def test_few_named_documents_make_topics(tmp_path):
    figures = run("text", tmp_path)
    assert figures["documents"] > 800
    assert figures["with"] > figures["without"] + 0.2  # SciPy's docstrings differ by version
    assert figures["accuracy"] > 0.6


@pytest.mark.thorough
def test_a_second_graph_helps_the_first(tmp_path):
    figures = list(run("transfer", tmp_path).values())
    left, right, added, together = figures
    assert together > left > right
    assert added > max(left, right) + 0.05
    assert figures == pytest.approx(claimed("transfer.md"), abs=0.02)


@pytest.mark.thorough
def test_a_batch_ends_well_and_is_not_run_twice(tmp_path):
    pytest.importorskip("matplotlib")
    command = tmp_path / "bin" / "mustlink"  # whether it is installed or not
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mustlink "$@"\n')
    command.chmod(0o755)
    (command.parent / "python").symlink_to(sys.executable)
    path = os.pathsep.join([str(command.parent), str(Path(sys.executable).parent)])
    source = os.pathsep.join(one for one in sys.path if one)
    done = subprocess.run(
        ["bash", str(EXAMPLES / "batch.sh"), str(tmp_path / "out")],
        env=os.environ | {"PATH": path + os.pathsep + os.environ["PATH"], "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ari = dict(line.split() for line in (tmp_path / "out" / "ari.txt").read_text().splitlines())
    assert float(ari["csp"]) > float(ari["ncut"]) + 0.05
    again = json.loads((tmp_path / "out" / "again.json").read_text())
    assert [job["attempts"] for job in again["jobs"]] == [1, 1, 1, 1]
    assert "<html" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")[:200]


def test_an_expert_tells_cells_apart(tmp_path):
    pytest.importorskip("scanpy.preprocessing", reason="needs scanpy: run make test-scanpy")
    figures = run("single_cell", tmp_path)
    assert figures["with"] > figures["without"] + 0.15


@pytest.mark.thorough
def test_what_a_cluster_is_is_told_in_the_words_of_the_data(tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("networkx")
    example = runpy.run_path(str(EXAMPLES / "clusters.py"))
    page = (EXAMPLES / "clusters.md").read_text(encoding="utf-8")
    example["network"](tmp_path / "names.tsv")
    wine = example["load_wine"]()
    example["table"](tmp_path / "wine.csv", wine.data, wine.feature_names)
    for name, k, options in (("names.tsv", 6, ()), ("wine.csv", 3, ("--standardize",))):
        facts = example["profiles"](tmp_path / name, k, *options)
        claim = re.search(rf"{name.split('.')[0]} \(stability (0\.\d+)\)", page)[1]
        assert facts["stability"]["mean"] == pytest.approx(float(claim), abs=0.05)
        lines = [line.split("found again: ")[1] for line in example["told"](facts)]
        assert sum(line in page for line in lines) >= len(lines) - 1
