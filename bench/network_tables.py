"""Tables of `networks.py`: agreement, cost and sizes, and how often ours is the best."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import common
from network_methods import Method

CROWDED = 0.9  # a cluster of a larger share is marked, where no class is as large
MEANS = ("ari", "nmi", "seconds", "cpu_seconds", "largest", "modularity", "clusters")

Cell = dict[str, Any]
Cells = Mapping[tuple[str, str, str], Cell]  # by setting, graph and method


def means(fits: Sequence[Cell]) -> Cells:
    """Means over the draws that were done; where none was, the error."""
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for fit in fits:
        groups.setdefault((fit["setting"], fit["graph"], fit["method"]), []).append(fit)
    return {key: _mean(group) for key, group in groups.items()}


def _mean(group: Sequence[Cell]) -> Cell:
    done = [f for f in group if "error" not in f]
    if not done:
        return {"error": group[0]["error"]}
    mean = {key: statistics.fmean(f[key] for f in done) for key in MEANS if key in done[0]}
    peaks = [f["peak_bytes"] for f in done if f["peak_bytes"] is not None]
    return {**mean, "draws": len(done), "peak_bytes": max(peaks, default=None)}


def show(cells: Cells, about: Mapping[str, Cell], methods: Sequence[Method]) -> None:
    """Print what was measured, setting by setting."""
    keys = ("nodes", "edges", "components", "isolated", "classes", "largest")
    rows = [(name, *(facts[key] for key in keys)) for name, facts in about.items()]
    common.table("Networks", ("network", *keys[:-1], "largest class"), rows)
    for setting in dict.fromkeys(key[0] for key in cells):
        columns = [m for m in methods if any(k[::2] == (setting, m.name) for k in cells)]
        graphs = [g for g in about if any(k[:2] == (setting, g) for k in cells)]
        for title, told in VIEWS.items():
            rows = [
                (g, *(_shown(cells.get((setting, g, m.name)), about[g], told) for m in columns))
                for g in graphs
            ]
            common.table(f"{setting}: {title}", ("network", *(m.name for m in columns)), rows)
        _best(setting, cells, graphs, columns)


def _shown(cell: Cell | None, facts: Cell, told: Callable[[Cell, Cell], str]) -> str | None:
    if cell is None:
        return None
    return cell["error"] if "error" in cell else told(cell, facts)


def _agreement(cell: Cell, _: Cell) -> str:
    return f"{cell['ari']:.2f} / {cell['nmi']:.2f}" if "ari" in cell else "–"


def _costs(cell: Cell, _: Cell) -> str:
    peak = cell["peak_bytes"]
    size = f", {common.gigabytes(peak)}" if peak else ""
    return f"{cell['seconds']:.1f} ({cell['cpu_seconds']:.1f}){size}"


def _sizes(cell: Cell, facts: Cell) -> str:
    mark = "!" if crowded(cell, facts) else ""
    return f"{cell['largest']:.1%}{mark}, {cell['clusters']:.0f}, {cell['modularity']:.2f}"


def crowded(cell: Cell, facts: Cell) -> bool:
    """Whether nearly all nodes are in one cluster though no class is as large."""
    return cell["largest"] > CROWDED >= (facts["largest"] or 0)


VIEWS: dict[str, Callable[[Cell, Cell], str]] = {
    "ARI / NMI": _agreement,
    "wall seconds (CPU seconds), peak memory": _costs,
    f"largest cluster (! over {CROWDED:.0%}), clusters, modularity": _sizes,
}


def _best(setting: str, cells: Cells, graphs: Sequence[str], columns: Sequence[Method]) -> None:
    """The best of ours beside the best of theirs, by ARI, and beside each of them."""
    rows: list[tuple[str, ...]] = []
    won: dict[str, list[bool]] = {}
    for graph in graphs:
        sides: dict[bool, list[tuple[float, str]]] = {True: [], False: []}
        for m in columns:
            ari = cells.get((setting, graph, m.name), {}).get("ari")
            if ari is not None:
                sides[m.ours].append((ari, m.name))
        if not (sides[True] and sides[False]):
            continue
        mine, theirs = max(sides[True]), max(sides[False])
        for ari, name in (*sides[False], (theirs[0], "all of them")):
            won.setdefault(name, []).append(mine[0] >= ari)
        told = (f"{ari:.3f} {name}" for ari, name in (mine, theirs))
        rows.append((graph, *told, f"{mine[0] - theirs[0]:+.3f}"))
    if rows:
        common.table(f"{setting}: the best by ARI", ("network", "ours", "theirs", "ahead"), rows)
        counts = (f"{name} on {sum(w)} of {len(w)}" for name, w in won.items())
        print(f"\nours at least as good as {', '.join(counts)}")


def figures(cells: Cells, about: Mapping[str, Cell]) -> dict[str, Any]:
    """What docs may tell, by setting, graph and method."""
    found: dict[str, Any] = {}
    for (setting, graph, method), cell in cells.items():
        told = cell if "error" in cell else {**cell, "crowded": crowded(cell, about[graph])}
        found.setdefault(setting, {}).setdefault(graph, {})[method] = told
    draws = max((cell.get("draws", 0) for cell in cells.values()), default=0)
    return {"networks": dict(about), "settings": found, "draws": draws}
