"""Networks with known classes: ours beside Louvain, Leiden, scikit-network and graphlearning.

    python bench/networks.py [FILE or FOLDER of npz ...] [--settings none 5 20 pairs] [--draws 5]
    python bench/networks.py --only polblogs amazon_photo --methods NCut Leiden
    python bench/networks.py --large       # a million nodes; K = 44 and 585: seconds, memory

Told are nothing, 5 or 20 labels a class (at most half of a class), or n/10 pairs, and the number
of classes, but for Louvain and Leiden, which count themselves. ARI and NMI are over nodes whose
class is known and was not given. Every fit is a line of `out/networks.jsonl`; those that are there
are not run again (`--again METHOD …` does). Peers that are not installed are named and left out
(leidenalg, igraph, scikit-network, graphlearning). Needs the data folder.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import signal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import common
import network_models
import network_tables
from network_methods import METHODS, Method, Setting

ASKED = {"com_dblp": 20, "notredame_actors_bipartite": 20}  # clusters where classes say no number
Cell = dict[str, str]  # graph, setting, method
LARGE = {  # 10 labels a class are 200 in the million
    "sbm_50000": ("none",),
    "LFR_N100000_ad5_mc50_mu0.3": ("none",),
    "dcsbm_1000000": ("none", "10"),
}


def sources(asked: argparse.Namespace) -> list[Path]:
    """The npz files that are measured, small ones first."""
    if asked.large:
        return [file for name in LARGE if (file := _large(name, asked.out)) is not None]
    if not asked.graphs:
        folder = common.data_file("graphs")
        files = [] if folder is None else [f for f in folder.glob("*.npz") if f.stem not in LARGE]
    else:
        both = (path.glob("*.npz") if path.is_dir() else [path] for path in asked.graphs)
        files = [f for found in both for f in found]
    return sorted(files, key=lambda f: f.stat().st_size)


def _large(name: str, out: Path) -> Path | None:
    if name not in network_models.MODELS["large"]:
        return common.data_file(f"graphs/{name}.npz")
    file = out / f"{name}.npz"
    if not file.exists():
        common.say(f"generating {name}")
        network_models.write(file, *network_models.planted(network_models.MODELS["large"][name]))
    return file


def lines(done: Path) -> list[dict[str, Any]]:
    """Every fit until now."""
    return [json.loads(line) for line in done.open(encoding="utf-8")] if done.exists() else []


def forget(done: Path, methods: list[str], graphs: set[str]) -> None:
    """Drop the fits of methods to graphs, so that they are run again."""
    kept = [f for f in lines(done) if f["method"] not in methods or f["graph"] not in graphs]
    temporary = done.with_suffix(".tmp")
    temporary.write_text("".join(json.dumps(f) + "\n" for f in kept), encoding="utf-8")
    temporary.replace(done)


def left(done: Path, cells: list[Cell], draws: int) -> list[tuple[Cell, list[int]]]:
    """Cells with the draws that are not done; one that was too slow or failed stays so."""
    found = []
    for cell in cells:
        known = [f for f in lines(done) if cell.items() <= f.items()]
        todo = sorted(set(range(draws)) - {f.get("draw") for f in known})
        if todo and not any("error" in f for f in known):
            found.append((cell, todo))
    return found


def run(
    file: Path, classes: int, setting: Setting, methods: list[Method], asked: argparse.Namespace
) -> None:
    """Methods one after the other in one process, or in one each where memory is asked.

    A process that fails or is late ends with its method; the next one goes on with the rest.
    """
    done = asked.out / "networks.jsonl"
    base = {"graph": file.stem, "setting": str(setting)}
    cells = [{**base, "method": m.name} for m in methods if setting.kind in m.told]
    k, truth = ASKED.get(file.stem, classes), classes > 0 and file.stem not in ASKED
    while todo := left(done, cells, asked.draws):
        now = todo[:1] if asked.large else todo
        common.say(f"{file.stem}, {setting}: {', '.join(cell['method'] for cell, _ in now)}")
        try:
            common.call(
                "network_fits:fits", path=file, cells=now, k=k, truth=truth, limit=asked.limit,
                out=done,
            )  # fmt: skip
        except common.ChildError as error:
            late = f"exit code {-signal.SIGPROF}\n" in f"{error}\n"
            why = f"> {asked.limit} CPU s" if late else str(error).splitlines()[-1]
            failed = left(done, cells, asked.draws)[0][0]
            common.say(f"{failed['method']}: {why}")
            with done.open("a", encoding="utf-8") as target:
                target.write(json.dumps({**failed, "error": why}) + "\n")


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("graphs", nargs="*", type=Path, help="npz files or folders of them")
    parser.add_argument("--only", nargs="+", help="names of graphs")
    parser.add_argument("--methods", nargs="+", choices=[m.name for m in METHODS])
    parser.add_argument("--settings", nargs="+", default=["none", "5", "20", "pairs"])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--limit", type=int, default=600, help="CPU seconds of a fit")
    parser.add_argument("--again", nargs="+", default=[], help="methods to be run again")
    parser.add_argument("--large", action="store_true")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    files = [f for f in sources(asked) if not asked.only or f.stem in asked.only]
    missing = {m.name for m in METHODS if importlib.util.find_spec(m.package) is None}
    if missing:
        print(f"not installed, left out: {', '.join(sorted(missing))}")
    methods = [m for m in METHODS if m.name not in missing]
    chosen = [m for m in methods if not asked.methods or m.name in asked.methods]
    if asked.again:
        forget(asked.out / "networks.jsonl", asked.again, {f.stem for f in files})
    about = {f.stem: common.call("network_fits:about", path=f) for f in files}
    for file in files:
        classes = about[file.stem]["classes"]
        for spelled in LARGE[file.stem] if asked.large else asked.settings:
            setting = Setting.parse(spelled)
            if setting.kind != "none" and (classes == 0 or file.stem in ASKED):
                continue
            run(file, classes, setting, chosen, asked)
    fits = [f for f in lines(asked.out / "networks.jsonl") if f["graph"] in about]
    found = network_tables.means(fits)
    name = "networks_large" if asked.large else "networks"
    peers = {m.package: version(m.distribution) for m in methods if not m.ours}
    common.write_json(asked.out, name, {"networks": about, "peers": peers, "fits": fits})
    network_tables.show(found, about, methods)
    common.record(name, {"peers": peers, **network_tables.figures(found, about)})


if __name__ == "__main__":
    main()
