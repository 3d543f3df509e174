"""How long a person at the page waits: strokes on a picture, answers on a map, in Chromium.

    .venv-ui/bin/python bench/page_speed.py [--picture 1000] [--nodes 1000000] [--keys Auto CSP]
    .venv-ui/bin/python bench/page_speed.py --draw      the pictures in docs/start, nothing measured

In the environment of `make test-ui`. Seconds are the browser's own: from the pointer's release to
the frame that shows the changed picture. A node's answers are the truth. Memory is the peak of the
process that fits and serves. By keys alone 200 questions are answered, each as soon as it is seen:
seconds from a key to the next question, from Enter, pressed after the tenth, to ten more, and from
the last key to the map with all answers.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import data
import render
import runner

K, D, TIMES, WAIT = 10, 8, 5, 240_000
# When the pointer was released, and when the picture that changed after it was drawn.
WATCH = """name => {
    const all = [...Bokeh.documents[0]._all_models.values()];
    const source = all.find(one => one.name == name).renderers[0].data_source;
    window.waited = {released: 0, shown: 0};
    document.addEventListener('pointerup', () => { waited.released = performance.now(); }, true);
    source.properties.data.change.connect(() => requestAnimationFrame(() =>
        requestAnimationFrame(() => { waited.shown = performance.now(); })));
}"""
STROKES = (  # round the pagoda, in shares of the photograph
    [(0.5, 0.12), (0.75, 0.2), (0.93, 0.1)], [(0.6, 0.88), (0.8, 0.8), (0.95, 0.9)],
    [(0.56, 0.68), (0.7, 0.7), (0.78, 0.7)], [(0.02, 0.75), (0.06, 0.85), (0.22, 0.96)],
    [(0.02, 0.55), (0.09, 0.6)],
)  # fmt: skip
LASSOS = (
    ([(0.74, 0.24), (0.83, 0.24), (0.84, 0.33), (0.75, 0.36)], "6"),
    ([(0.47, 0.84), (0.55, 0.86), (0.53, 0.93), (0.46, 0.92)], "4"),
    ([(0.84, 0.52), (0.92, 0.5), (0.94, 0.6), (0.86, 0.62)], ""),
)
SHOWN = "() => waited.shown > waited.released"
KEYS, TEN, SMALL = 200, 10, 11_000
# Keys of the question that is shown, by its row; when one was pressed, and another question seen.
WATCH_KEYS = """() => {
    const all = [...Bokeh.documents[0]._all_models.values()];
    const text = all.find(one => (one.css_classes || []).includes("question"));
    window.asks = {pressed: 0, seen: 0, node: -1, keys: () => {
        const asked = all.map(one => one.value).find(one => /^.{2}questions/.test(one));
        return Object.fromEntries(JSON.parse(asked).choices.map(one => [one.value, one.key]));
    }};
    document.addEventListener('keydown', () => { asks.pressed = performance.now(); }, true);
    const drawn = (then) => requestAnimationFrame(() => requestAnimationFrame(then));
    text.properties.text.change.connect(() => drawn(() => {
        const row = (/<b>node ([\\d,]+)/.exec(text.text) || [0, "-1"])[1];
        const now = Number(row.replaceAll(",", ""));
        if (now != asks.node) Object.assign(asks, {seen: performance.now(), node: now});
    }));
}"""
SEEN = "before => asks.node >= 0 && asks.node != before"
PLACE = """([name, x, y]) => {
    const all = [...Bokeh.documents[0]._all_models.values()];
    const view = Bokeh.index.find_one(all.find(one => one.name == name));
    const box = view.el.getBoundingClientRect();
    return [box.left + view.frame.x_scale.compute(x), box.top + view.frame.y_scale.compute(y)];
}"""


def truth(n: int) -> tuple[Any, Any]:
    """Points (n, D) in K clusters, round a circle as the map has them, and which each is of."""
    import numpy as np

    rng = np.random.default_rng(0)
    y = rng.integers(0, K, n)
    centres = rng.normal(size=(K, D))
    angle = 2 * np.pi * np.arange(K) / K
    centres[:, :2] = 7.0 * np.column_stack([np.cos(angle), np.sin(angle)])
    return (centres[y] + rng.normal(size=(n, D))).astype(np.float32), y


def serve(method: str, n: int, folder: Path, threads: int) -> None:
    """Fit n points to ten labels a class, and serve their page."""
    import numpy as np

    import mustlink as ml
    from mustlink_io.ui.map_view import flat

    warnings.simplefilter("ignore")
    X, y = truth(n)
    given = data.labels_per_class(y, 10, np.random.default_rng(1))
    options: dict[str, Any] = {"n_clusters": K} if method == "CSP" else {}
    est = getattr(ml, method)(random_state=0, n_jobs=threads, **options).fit(X, given)
    np.save(folder / "where.npy", flat(est))
    page = ml.ui(est)
    page.serve(opened=False, tell=lambda words: print(words, flush=True))


class Waits:
    """How long a tab waited for its server, by what was done: seconds, and the server's CPU's."""

    def __init__(self, tab: Any, pid: int) -> None:
        self.tab, self._process = tab, Path(f"/proc/{pid}")
        self.seconds: dict[str, list[float]] = {}
        self.cpu: dict[str, list[float]] = {}

    def during(self, kind: str, act: Callable[[], None]) -> None:
        """Do something, and wait for the picture that follows its last release."""
        before = self.used()
        act()
        self.tab.wait_for_function(SHOWN)
        took = self.tab.evaluate("() => (waited.shown - waited.released) / 1000")
        self.seconds.setdefault(kind, []).append(float(took))
        self.cpu.setdefault(kind, []).append(self.used() - before)

    def figures(self) -> dict[str, Any]:
        """What was measured, with the server's peak memory."""
        status = (self._process / "status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        peak = int(found[1]) * 1024 / 1e9
        return {"seconds": self.seconds, "cpu_seconds": self.cpu, "peak_gb": peak}

    def used(self) -> float:
        """CPU seconds of the server so far."""
        ticks = (self._process / "stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def page(browser: Any, command: list[Any], name: str) -> Iterator[Waits]:
    """A tab that shows what the command serves."""
    command = [sys.executable, *map(str, command)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            tab.set_default_timeout(WAIT)
            tab.goto(server.stdout.readline().strip())
            tab.wait_for_selector("canvas")
            tab.wait_for_function("() => Bokeh.documents.length && Bokeh.documents[0].is_idle")
            tab.evaluate(WATCH, name)
            yield Waits(tab, server.pid)
            tab.close()
        finally:
            server.kill()


def drag(tab: Any, name: str, places: list[tuple[float, float]]) -> None:
    """Press at the first place of a figure, move along the others, release."""
    at = [tab.evaluate(PLACE, [name, *map(float, one)]) for one in places]
    tab.mouse.move(*at[0])
    tab.mouse.down()
    for one in at[1:]:
        tab.mouse.move(*one, steps=8)
    tab.mouse.up()


def press(tab: Any, name: str) -> None:
    tab.get_by_role("button", name=name, exact=True).click()


def says(tab: Any, words: str) -> str:
    """Wait for words on the page; the text that has them."""
    found = tab.get_by_text(re.compile(words)).first
    found.wait_for()
    return str(found.inner_text())


def strokes(browser: Any, side: int, folder: Path) -> dict[str, Any]:
    """Seconds of a first cut, and of strokes, a third class, undo, on side x side pixels."""
    from PIL import Image
    from sklearn.datasets import load_sample_image

    photo = Image.fromarray(load_sample_image("china.jpg")).resize((side, side))
    photo.save(folder / "photo.png")
    command = ["-m", "mustlink_io", "ui", folder / "photo.png", "--no-open"]
    with page(browser, command, "picture") as waits:
        tab = waits.tab

        def stroke(kind: str, *places: tuple[float, float]) -> None:
            where = [(x * side, y * side) for x, y in places]
            waits.during(kind, lambda: drag(tab, "picture", where))

        stroke("first colour", (0.32, 0.27), (0.31, 0.5), (0.33, 0.7))
        press(tab, "class 2")
        stroke("first cut", *STROKES[0])
        for way in (*STROKES[1:], [(0.6, 0.5), (0.62, 0.45)]):
            stroke("stroke", *way)
        press(tab, "+ class")
        press(tab, "class 3")
        stroke("third colour", (0.1, 0.1), (0.2, 0.15))
        for _ in range(2):
            waits.during("undo", lambda: press(tab, "undo"))
        return waits.figures()


def answers(browser: Any, method: str, n: int, folder: Path, threads: int) -> dict[str, Any]:
    """Seconds of lassos, answered questions, pairs and undo on the map of n nodes."""
    import numpy as np

    command = [__file__, "--serve", method, n, folder, threads]
    with page(browser, command, "map") as waits:
        tab = waits.tab
        y, where = truth(n)[1], np.load(folder / "where.npy")
        middles = [np.median(where[y == one], axis=0) for one in range(K)]
        radius = 0.01 * np.ptp(where[::97], axis=0)

        def answer(kind: str, name: str) -> None:
            waits.during(kind, lambda: press(tab, name))

        for group in range(TIMES):
            ring = [middles[group] + radius * corner for corner in
                    np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])]  # fmt: skip
            drag(tab, "map", ring)
            says(tab, "nodes chosen")
            tab.get_by_role("textbox").first.fill(str(group))
            answer("lasso", "label")
            says(tab, f"class {group}; ")
        press(tab, "ask me")
        for left in range(10, 10 - TIMES, -1):
            node = re.search(r"node ([\d,]+)", says(tab, f", {left} to go"))
            assert node is not None
            answer("question", str(y[int(node[1].replace(",", ""))]))
        for first in range(TIMES if method == "CSP" else 0):
            for group in (first, first + 1):
                drag(tab, "map", [middles[group] + radius])
                says(tab, r"^node [\d,]+ \(" if group == first else r"^node .* and ")
            line = says(tab, r"^node .* and ")
            nodes = [int(one.replace(",", "")) for one in re.findall(r"node ([\d,]+)", line)]
            answer("pair", "together" if y[nodes[0]] == y[nodes[1]] else "apart")
            says(tab, "no node chosen")
        answer("undo", "undo")
        for colours in ("confidence", "cluster"):
            answer(f"coloured by {colours}", colours)
        return waits.figures()


def by_keys(browser: Any, method: str, n: int, folder: Path, threads: int) -> dict[str, Any]:
    """Seconds of 200 answers by keys alone, each as soon as its question is seen."""
    command = [__file__, "--serve", method, n, folder, threads]
    with page(browser, command, "map") as waits:
        tab, y, before = waits.tab, truth(n)[1], -1
        tab.evaluate(WATCH_KEYS)
        found: dict[str, list[float]] = {"question": [], "ten questions": []}

        def wait(kind: str) -> None:
            tab.wait_for_function(SEEN, arg=before)
            found[kind].append(tab.evaluate("() => (asks.seen - asks.pressed) / 1000"))

        cpu, began = waits.used(), perf_counter()
        for count in range(KEYS):
            if count % TEN == 0:
                tab.keyboard.press("Enter")
                wait("ten questions")
            before = tab.evaluate("() => asks.node")
            tab.keyboard.press(tab.evaluate("() => asks.keys()")[str(y[before])])
            if count % TEN < TEN - 1:
                wait("question")
        seconds, status = perf_counter() - began, tab.get_by_text("clustering …").first
        status.wait_for(state="hidden", timeout=4 * WAIT)
        last = tab.evaluate("() => (performance.now() - asks.pressed) / 1000")
        found["map of all"] = [last]
        cpu = (waits.used() - cpu) / KEYS
        return {"seconds": found, "a_minute": 60 * KEYS / seconds, "cpu_seconds_an_answer": cpu}


# ---------------------------------------------------------------- pictures in docs/start


def bent_clusters(n: int) -> Any:
    """Points (n, 2) in nine clusters, some long, some bent."""
    import numpy as np

    rng = np.random.default_rng(1)
    group = rng.integers(0, 9, n)
    angle = group * np.pi / 4
    along, across = rng.normal(size=(2, n))
    x, y = along * (0.6 + 0.15 * (group % 3)), 0.45 * across + 0.25 * along**2 * (group % 2)
    c, s = np.cos(angle + 1.1), np.sin(angle + 1.1)
    centre = np.column_stack([np.cos(angle), 0.8 * np.sin(angle)]) * 6.0
    centre[group == 8] = 0
    return (np.column_stack([x * c - y * s, x * s + y * c]) + centre).astype(np.float32)


def draw(browser: Any, folder: Path) -> None:
    """The pages of a picture and of a map, with some answers, as docs/start shows them."""
    import io

    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_sample_image

    def along(tab: Any, where: list[tuple[float, float]]) -> None:  # in shares of the figure
        box = tab.locator("canvas").first.bounding_box()
        at = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in where]
        tab.mouse.move(*at[0])
        tab.mouse.down()
        for one in at[1:]:
            tab.mouse.move(*one, steps=12)
        tab.mouse.up()

    def picture(tab: Any) -> None:
        along(tab, [(0.32, 0.27), (0.31, 0.5), (0.33, 0.7)])
        says(tab, "not cut yet")
        press(tab, "class 2")
        for count, way in enumerate(STROKES):
            along(tab, way)
            tab.get_by_text("pixels painted").nth(count).wait_for()

    def answered(tab: Any) -> None:
        for way, name in LASSOS:
            along(tab, way)
            says(tab, "nodes chosen")
            if name:
                tab.get_by_role("textbox").first.fill(name)
                press(tab, "label")
                says(tab, f"class {name}; ")

    Image.fromarray(load_sample_image("china.jpg")).save(folder / "photo.png")
    np.save(folder / "data.npy", bent_clusters(300_000))
    for name, shown, given, act in (
        ("page-picture", "picture", ["photo.png"], picture),
        ("page-map", "map", ["data.npy", "-k", "9", "--threads", "2"], answered),
    ):
        command = ["-m", "mustlink_io", "ui", folder / given[0], *given[1:], "--no-open", "--quiet"]
        with page(browser, command, shown) as waits:
            waits.tab.set_viewport_size({"width": 1180, "height": 745})
            waits.tab.wait_for_timeout(2000)
            act(waits.tab)
            waits.tab.wait_for_timeout(1000)
            seen = Image.open(io.BytesIO(waits.tab.screenshot())).convert("RGB")
            seen.save(runner.ROOT / "docs" / "start" / f"{name}.webp", quality=82, method=6)


def main() -> int:
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]))
        return 0
    args = runner.options(
        __doc__, picture=1000, nodes=1_000_000, methods=["CSP", "Poisson"],
        keys=["Auto", "CSP"], threads=2, draw=False,
    )  # fmt: skip
    from playwright.sync_api import sync_playwright

    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        if args.draw:
            draw(browser, Path(folder))
            return 0
        if args.picture:
            figures["picture"] = strokes(browser, args.picture, Path(folder))
        for method in args.methods:
            figures[method] = answers(browser, method, args.nodes, Path(folder), args.threads)
        keys = {
            f"{method}, {n}": by_keys(browser, method, n, Path(folder), args.threads)
            for method in args.keys for n in sorted({SMALL, args.nodes})
        }  # fmt: skip
        browser.close()
    rows = {
        f"{where}, {kind}": {
            "median": median(each), "longest": max(each), "times": len(each),
            "server's CPU": median(found["cpu_seconds"][kind]),
        }
        for where, found in figures.items() for kind, each in found["seconds"].items()
    }  # fmt: skip
    render.records("Seconds until it shows", rows)
    render.records("By keys alone", {
        where: {"a minute": found["a_minute"], "CPU an answer": found["cpu_seconds_an_answer"],
                **{f"{kind}, median": median(each) for kind, each in found["seconds"].items()},
                "question, longest": max(found["seconds"]["question"])}
        for where, found in keys.items()
    })  # fmt: skip
    runner.record(
        "page_speed", {"pixels": args.picture**2, "nodes": args.nodes, **figures, "keys": keys}
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
