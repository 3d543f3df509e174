"""`mustlink demo`: the main job on data of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.core.observe import Observer
from mustlink.core.resources import peak_bytes
from mustlink_io import pictures
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.writing import atomic, check_output, create_h5, make_folder
from mustlink_io.jobs.diagnostics import command_line
from mustlink_io.jobs.fits import ClusterJob
from mustlink_io.jobs.graph import GraphJob
from mustlink_io.jobs.planning import plan_job
from mustlink_io.jobs.run import run
from mustlink_io.jobs.score import agreement

WORDS = ("MUST", "LINK")  # one below the other: the clusters that are wanted
N, EXTRA, NOISE = 100_000, 6, 0.02  # points, coordinates beside the plane's, and noise of all
LABELS, PAIRS, MEMORY = 5, 400, 1_000_000_000  # labels of a letter; bytes for the run with pairs
_ACROSS, _DOWN = 1.05, 0.82  # from a letter to the next: lines are nearer than columns


def demo(out_dir: str, observer: Observer) -> dict[str, Any]:
    """Cluster points that spell two words: without help, with labels, with pairs and a memory.

    Neighbours are searched once, for a graph that all three are of. Writes the data, the graph,
    three results and a picture; returns plain values. Raises InputError.
    """
    pictures.require_matplotlib()
    out = Path(out_dir)
    make_folder(out)
    source, graph, picture = out / "points.h5", out / "graph.h5", out / "words.png"
    check_output(picture, mark=pictures.MARKS[picture.suffix])
    plane, word, known = _write(source)
    steps, panels = [], [(known, f"{np.count_nonzero(known >= 0)} labels, {PAIRS} pairs")]
    made = GraphJob(data=f"{source}:/points", output=str(graph))
    neighbours = made.run(observer)
    for knows, job in _jobs(graph):
        planned, began = plan_job(job), time.perf_counter()
        done = run(job, observer)
        with store.open_h5(job.output) as file:
            found = store.dataset(file, "labels")[()]
        step = {
            "knows": knows,
            "command": job.command,
            "planned_seconds": planned.seconds,
            "planned_bytes": planned.peak_bytes,
            "seconds": time.perf_counter() - began,
            "peak_bytes": done.report.peak_bytes,
            "ari": agreement(found, word)["ari"],
            "output": job.output,
        }
        steps.append(step)
        panels.append((found, f"{knows}: ARI {step['ari']:z.3f}"))
    pictures.save(pictures.point_panels(plane, panels), picture)
    return {
        "points": str(source),
        "n_points": N,
        "n_coordinates": 2 + EXTRA,
        "graph": {
            "command": command_line("graph", made.data, {"-o": made.output}),
            "seconds": neighbours["seconds"],
            "output": made.output,
        },
        "steps": steps,
        "picture": str(picture),
        "peak_bytes": peak_bytes(),
    }


def _jobs(graph: Path) -> Iterator[tuple[str, ClusterJob]]:
    """What is known, and the job."""
    out = graph.parent
    labels = {"labels": str(out / "few.csv"), "method": "csp"}
    pairs = {"constraints": str(out / "pairs.csv"), "method": "csp", "memory": MEMORY}
    known: dict[str, tuple[str, dict[str, Any]]] = {
        "alone": ("nothing known", {}),
        "labels": (f"{LABELS * sum(map(len, WORDS))} labels", labels),
        "pairs": (f"{PAIRS} pairs", pairs),
    }
    for name, (knows, given) in known.items():
        files = {"data": str(graph), "output": str(out / f"{name}.h5")}
        yield knows, ClusterJob.of({**files, "n_clusters": 2, "fresh": True, **given})


def _write(source: Path) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Write points, labels and pairs; places in the plane (N, 2), words and known labels (N,)."""
    rng = np.random.default_rng(0)
    letter = rng.integers(sum(map(len, WORDS)), size=N)
    plane, word = np.empty((N, 2)), np.empty(N, dtype=np.int64)
    known = np.full(N, -1)
    for number, (row, column) in enumerate(np.ndindex(len(WORDS), len(WORDS[0]))):
        nodes = np.flatnonzero(letter == number)
        at = np.array([column * _ACROSS, -row * _DOWN])
        plane[nodes], word[nodes] = at + _letter(WORDS[row][column], nodes.size, rng), row
        known[rng.choice(nodes, LABELS, replace=False)] = row
    points = np.hstack([plane, np.zeros((N, EXTRA))]) + NOISE * rng.normal(size=(N, 2 + EXTRA))
    turned = points @ np.linalg.qr(rng.normal(size=(2 + EXTRA, 2 + EXTRA)))[0]
    with create_h5(source) as file:
        file["points"], file["word"] = turned.astype(np.float32), word
    i, j = rng.choice(N, (2, PAIRS), replace=False)
    belief = np.where(word[i] == word[j], 1, -1)
    labelled = np.flatnonzero(known >= 0)
    _write_table(source.with_name("few.csv"), node=labelled, label=known[labelled])
    _write_table(source.with_name("pairs.csv"), i=i, j=j, belief=belief)
    return plane, word, known


def _write_table(path: Path, **columns: NDArray[np.int64]) -> None:
    with atomic(path) as temporary:
        rows, header = np.column_stack(list(columns.values())), ",".join(columns)
        np.savetxt(temporary, rows, "%d", ",", header=header, comments="")


def _letter(letter: str, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Points (n, 2) spread evenly over a letter of height 0.73, round x = 0."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    outline = TextPath((0, 0), letter, 1, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    (left, low), (right, high) = outline.get_extents().get_points()
    found = np.empty((0, 2))
    while len(found) < n:
        tried = rng.uniform((left, low), (right, high), (2 * n, 2))
        found = np.vstack([found, tried[outline.contains_points(tried)]])
    return found[:n] - [(left + right) / 2, 0]
