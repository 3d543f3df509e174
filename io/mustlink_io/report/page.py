"""Facts and pictures to one page of HTML that needs nothing else, and to files."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from mustlink.core.result import ncut_in_words
from mustlink.errors import InputError
from mustlink_io import pictures
from mustlink_io.formats.photographs import load_image
from mustlink_io.hdf5 import writing
from mustlink_io.pictures import as_svg, colours
from mustlink_io.report import drawn, facts
from mustlink_io.report.drawn import ReportFigure
from mustlink_io.report.facts import ReadResult
from mustlink_io.system import needed
from mustlink_io.terminal.console import clock, size, value_text

_LONG = 400  # characters of a value, above which the rest is left out


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]} …"


def count(number: float) -> str:
    """A whole number with commas."""
    return f"{number:,.0f}"


def percent(share: float) -> str:
    """A share: 12.3 %, 99.96 % where it is nearly all, and never 100 % of less than all."""
    if 0.999 <= share < 1 or 0 < share < 0.001:
        return f"{min(max(100 * share, 0.01), 99.99):.2f} %"
    return f"{100 * share:.1f} %" if 0 < share < 1 else f"{100 * share:.0f} %"


def small(number: float) -> str:
    """A number between 0 and 1, to three digits."""
    return "0" if number == 0 else f"{number:.3g}" if number >= 1e-4 else f"{number:.1e}"


def colour(label: int) -> str:
    """The colour that pictures give a cluster, as CSS writes it."""
    red, green, blue = (np.round(255 * colours(np.array([label]))[0])).astype(int).tolist()
    return f"#{red:02x}{green:02x}{blue:02x}"


def node(number: int, name: str | None) -> str:
    """A node by its number, and its name if it has one."""
    return f"{number}" if name is None else f"{number} ({_cut(name)})"


def group(number: int, name: str | None) -> str:
    """A cluster or class by its number, and its name if it has one; -1 is none."""
    return "none" if number < 0 else node(number, name)


def label(number: int, name: str | None) -> str:
    """A class by its name, else by its number; -1 is none."""
    return group(number, None) if name is None else _cut(name)


def source(figure: Any) -> str:
    """A figure as the data URI of an SVG."""
    return "data:image/svg+xml;base64," + base64.b64encode(as_svg(figure)).decode("ascii")


FILTERS = {
    "clock": clock,
    "colour": colour,
    "count": count,
    "cut": ncut_in_words,
    "percent": percent,
    "size": size,
    "small": small,
    "value": lambda found: _cut(value_text(found)),
}


KINDS = (".html", ".htm")
_MARK = b": report of a mustlink run</title>"  # as in page.html
_NAMED = 8  # groups in the verdict
_HARDLY = 0.5  # of a cluster is found again
_RAND = "adjusted Rand index: 0 is chance, 1 all"
_ALL_ROWS = 30  # clusters that are all listed; of more, the largest and the worst
_SOME_ROWS = 12
_SHORT, _SHORT_SHARE = (0.05, 0.005)  # seconds, and share of the run, of stages in one row


def render(result: ReadResult, drawn: Mapping[str, ReportFigure]) -> str:
    """The page; raises InputError where jinja2 is missing."""
    facts = result.facts
    shown = {
        name: {"src": source(p.figure), "alt": p.alt, "caption": p.caption}
        for name, p in drawn.items()
    }
    template = _environment().get_template("page.html")
    return template.render(
        f=facts,
        names=result.arrays.names,
        shown=result.show,
        stable=dict(enumerate(facts["stability"]["clusters"] if facts["stability"] else ())),
        verdict=_verdict(facts),
        todo=_next(facts),
        described={one["name"]: one for one in facts["about"]["groups"]},
        tiles=_tiles(facts),
        tables=_tables(facts),
        kept=_kept(facts),
        cuts=_cuts(facts["cuts"]),
        pictures=shown,
        stages=_stages(facts["stages"]),
        most_seconds=max((s["seconds"] for s in facts["stages"]), default=0) or 1,
        most_bytes=max((s["peak_bytes"] for s in facts["stages"]), default=0) or 1,
        style=_shipped("style.css"),
    )


def write(path: str, html: str) -> int:
    """Write the page whole or not at all; returns its bytes. Raises InputError."""
    data = html.encode("utf-8")
    with writing.atomic(path) as temporary:
        temporary.write_bytes(data)
    return len(data)


def beside(path: str) -> str:
    """Where the page of a result goes by default."""
    return str(Path(path).with_suffix(".html"))


def _environment() -> Any:
    jinja2 = needed("jinja2", "report", "plot")
    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(_shipped),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(FILTERS)
    made.globals |= {"node": node, "group": group, "label": label, "amount": amount}
    return made


def _shipped(name: str) -> str:
    return resources.files("mustlink_io.report").joinpath(name).read_text(encoding="utf-8")


def _verdict(facts: Mapping[str, Any]) -> str:
    """What was found, and how far to trust it, a sentence each."""
    kind = facts["kind"]
    rows = sorted(facts[kind], key=lambda row: -row["size"])
    noun = kind if len(rows) != 1 else {"clusters": "cluster", "classes": "class"}[kind]
    shown = [f"{row['label'] or row['name']} ({row['size']:,})" for row in rows[:_NAMED]]
    more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    nodes = "nodes" if (facts["data"] or {}).get("kind") == "graph" else "rows"
    left = facts["unassigned"]
    out = f"; {left:,} {'is' if left == 1 else 'are'} in none" if left else ""
    first = f"{facts['n_nodes']:,} {nodes} are in {len(rows)} {noun}: {', '.join(shown)}{more}{out}"
    return f"{first}. {_trust(facts)}"


def _trust(facts: Mapping[str, Any]) -> str:
    """How far to trust the result, by the best evidence that there is."""
    sure, held = facts.get("confidence"), facts["held_out"]
    n_warnings = len(facts["warnings"])
    doubt = ""
    if n_warnings:
        doubt = f" But read the {'warning' if n_warnings == 1 else f'{n_warnings} warnings'} below."
    if sure is not None and sure["held_out"] and sure["mean"] is not None:
        return (
            f"An answer is right with a chance of {percent(sure['mean'])} on average, "
            f"{sure['calibrated']}.{doubt}"
        )
    if held is not None:
        return f"{_of_hidden(held)}{doubt}"
    known = facts["constraints"] is not None and (facts["constraints"]["n_labels"] or _kept(facts))
    if known or facts["kind"] == "classes":
        option = "--membership" if facts["kind"] == "classes" else "--confidence"
        return (
            "How many of the others are right is not known, as nothing was hidden from the fit; "
            f"{option} tells.{doubt}"
        )
    return (
        f"Nothing was known to compare with{_found_again(facts)}: look at what each is, and label "
        f"a few rows (mustlink ask).{doubt}"
    )


def _found_again(facts: Mapping[str, Any]) -> str:
    """How much is found again without some of the edges, and which clusters hardly, if measured."""
    stable = facts["stability"]
    if stable is None or stable["mean"] is None:
        return ""
    shares = dict(enumerate(stable["clusters"]))
    weak = [row["label"] or str(row["name"]) for row in facts[facts["kind"]]
            if (shares.get(row["name"]) or 0.0) < _HARDLY]  # fmt: skip
    named = ", ".join(weak[:_NAMED]) + (" …" if len(weak) > _NAMED else "")
    hardly = f", but less than half of {named}" if weak else ""
    return (
        f"; without {100 * stable['share']:.0f} % of the edges the clusters are found again by "
        f"{stable['mean']:.2f} ({_RAND}){hardly}"
    )


def _of_hidden(held: Mapping[str, Any]) -> str:
    """How much was right of what choosing a method or a parameter hid from fits."""
    share = percent(held["share"])
    if held["of"] == "labels":
        some = "" if held["n"] is None else f"{held['n']:,} "
        how = ", classes weighed by their sizes," if held["by_size"] else ""
        return f"Of {some}labels that were hidden from fits{how} {share} were answered rightly."
    if held["of"] == "pairs":
        return (
            f"With pairs that were hidden from the fit the clusters agree by {held['share']:.2f} "
            f"({_RAND})."
        )
    return (
        f"Of pairs and labels that were hidden from the fit {share} are kept, where 50 % is chance."
    )


def _next(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What to do now, and the command."""
    file, command = facts["file"], facts["command"] or ""
    found = []
    if facts["has_model"] and " --no-model" not in command:
        found.append(
            ("Answer the questions that help most", f"mustlink ask {file} -n 10 -o ask.csv")
        )
        found.append(("Or answer on a page", f"mustlink ui {file}"))
    found.append(("Compare with classes that you know", f"mustlink score {file} --truth FILE"))
    found.append(("Take the result elsewhere", f"mustlink convert {file} out.csv"))
    return found


def amount(entry: Mapping[str, Any], which: str) -> str:
    """The mean of a column in a cluster (`here`) or in the `rest`, or the share of a word or 1."""
    value = entry[which]
    return percent(value) if entry["is_share"] else f"{value:.4g}"


def _kept(facts: Mapping[str, Any]) -> list[tuple[str, float, int]]:
    """Name, share kept and number of every kind of constraints that there are."""
    found = facts["constraints"] or {}
    rows = [(f"{kind}-links", found.get(kind)) for kind in ("must", "cannot")]
    return [(name, row["kept"] / row["n"], row["n"]) for name, row in rows if row and row["n"]]


def _cuts(found: Mapping[str, Any] | None) -> list[tuple[float, float, bool]]:
    """Cost, α and whether it was used of the cheapest feasible cuts, and of all that were used."""
    if found is None:
        return []
    rows = list(zip(found["cost"], found["alpha"], found["used"], strict=True))
    return rows[: max(_SOME_ROWS, sum(found["used"]))][:_ALL_ROWS]


def _tiles(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    kind = facts["kind"]
    tiles = [("nodes", count(facts["n_nodes"])), (kind, count(len(facts[kind])))]
    kept = _kept(facts)
    if kept:
        shares = [share for _, share, _ in kept]
        balance = ", on average" if len(kept) > 1 else ""
        tiles.append((f"constraints kept{balance}", percent(sum(shares) / len(shares))))
    if len(kept) > 1:
        tiles += [(f"{name} kept", percent(share)) for name, share, _ in kept]
    if facts["network"] is not None:
        network = facts["network"]
        tiles.append(("modularity", small(network["modularity"])))
        tiles.append(("edges inside", percent(network["coverage"])))
    if facts["feasible"] is not None:
        found = facts["feasible"]
        tiles.append(("vectors feasible", f"{found['found']} of {found['wanted']}"))
    if facts.get("labels_kept") is not None:
        tiles.append(("labels kept", percent(facts["labels_kept"])))
    sure = facts.get("confidence")
    if sure and sure["mean"] is not None and sure["held_out"]:
        tiles.append(("mean confidence", small(facts["confidence"]["mean"])))
    if facts["stability"] is not None:
        tiles.append(("stability", small(facts["stability"]["mean"])))
    if facts["stages"]:
        tiles.append(("time", clock(facts["seconds"])))
        tiles.append(("peak memory", size(facts["peak_bytes"])))
    return tiles


def _stages(stages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the table of stages: those that took next to nothing together, at the end."""
    total = sum(stage["seconds"] for stage in stages)
    least = max(_SHORT_SHARE * total, _SHORT)
    long = [{**stage, "names": []} for stage in stages if stage["seconds"] >= least]
    short = [stage for stage in stages if stage["seconds"] < least]
    if len(short) < 3:
        return [{**stage, "names": []} for stage in stages]
    rest = {
        "name": f"{len(short)} short stages",
        "times": 1,
        "seconds": sum(stage["seconds"] for stage in short),
        "peak_bytes": max(stage["peak_bytes"] for stage in short),
        "names": [stage["name"] for stage in short],
    }
    return [*long, rest]


def _tables(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of clusters: all of them, or the largest and those with the worst border."""
    rows: Sequence[dict[str, Any]] = facts[facts["kind"]]
    if len(rows) <= _ALL_ROWS:
        return [{"title": f"All {len(rows)}, by number", "rows": rows}] if rows else []
    by_size = sorted(rows, key=lambda row: (-row["size"], row["name"]))
    tables = [{"title": f"The {_SOME_ROWS} largest of {len(rows)}", "rows": by_size[:_SOME_ROWS]}]
    if rows[0]["conductance"] is not None:
        worst = sorted(rows, key=lambda row: (-(row["conductance"] or 0), row["name"]))
        title = f"The {_SOME_ROWS} of largest conductance"
        tables.append({"title": title, "rows": worst[:_SOME_ROWS]})
    else:
        title = f"The {_SOME_ROWS} smallest"
        tables.append({"title": title, "rows": by_size[::-1][:_SOME_ROWS]})
    return tables


def make(
    path: str,
    output: str | None = None,
    *,
    folder: str | None = None,
    image: str | None = None,
    show: str | None = None,
    page_wanted: bool = True,
) -> dict[str, Any]:
    """Write the page of a result, by default beside it, and its pictures; returns the facts.

    With `page_wanted` false a page is written only where `output` says. The facts name what was
    `written`. Raises InputError before anything is written.
    """
    result = facts.read(path, show)
    target = output or (beside(path) if page_wanted else None)
    if target is not None:
        if Path(target).suffix.lower() not in KINDS:
            raise InputError(
                f"{target}: a page is written as {' or '.join(KINDS)}; change the ending"
            )
        writing.check_output(target, [path], _MARK)
    if show is not None and target is None:
        raise InputError("--show: nothing is shown without a page; give -o, too")
    if image is not None and target is None and folder is None:
        raise InputError("--image: nothing is drawn without a page; give -o or --pictures, too")
    written: list[str] = []
    if target is not None or folder is not None:
        pictures.require_matplotlib()
        shown = None if image is None else load_image(image, "--image")
        figures = drawn.draw(result, shown)
        html = None if target is None else render(result, figures)
        if folder is not None:
            written += drawn.save(figures, folder)
        if target is not None and html is not None:
            write(target, html)
            written.insert(0, target)
    return {**result.facts, "written": written}
