"""The pictures of `mustlink ui` in docs/start, by Chromium; in the environment of `make test-ui`.

.venv-ui/bin/python bench/page_pictures.py
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from sklearn.datasets import load_sample_image

DOCS = Path(__file__).resolve().parents[1] / "docs" / "start"
WIDTH, HEIGHT, WAIT = 1180, 745, 120_000
N, K = 300_000, 9


def points() -> np.ndarray:
    """N points (n, 2) in nine clusters, some long, some bent."""
    rng = np.random.default_rng(1)
    group = rng.integers(0, K, N)
    angle = group * 2 * np.pi / (K - 1)
    along, across = rng.normal(size=(2, N))
    bent = 0.25 * along**2 * (group % 2)
    X = np.column_stack([along * (0.6 + 0.15 * (group % 3)), 0.45 * across + bent])
    turn = angle + 1.1
    turned = np.column_stack(
        [X[:, 0] * np.cos(turn) - X[:, 1] * np.sin(turn),
         X[:, 0] * np.sin(turn) + X[:, 1] * np.cos(turn)]
    )  # fmt: skip
    centre = np.column_stack([np.cos(angle), 0.8 * np.sin(angle)]) * 6.0
    centre[group == K - 1] = 0
    return (turned + centre).astype(np.float32)


def drag(tab: Page, where: list[tuple[float, float]]) -> None:
    """Move over the figure along points, in shares of its size."""
    box = tab.locator("canvas").first.bounding_box()
    assert box is not None
    at = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in where]
    tab.mouse.move(*at[0])
    tab.mouse.down()
    for one in at[1:]:
        tab.mouse.move(*one, steps=12)
    tab.mouse.up()


def picture(tab: Page) -> None:
    """Strokes on the pagoda, and on sky and trees."""
    drag(tab, [(0.32, 0.27), (0.31, 0.5), (0.33, 0.7)])
    tab.get_by_text("not cut yet").wait_for(timeout=WAIT)
    tab.get_by_role("button", name="class 2").click()
    for count, way in enumerate(
        ([(0.5, 0.12), (0.75, 0.2), (0.93, 0.1)], [(0.6, 0.88), (0.8, 0.8), (0.95, 0.9)],
         [(0.56, 0.68), (0.7, 0.7), (0.78, 0.7)], [(0.02, 0.75), (0.06, 0.85), (0.22, 0.96)],
         [(0.02, 0.55), (0.09, 0.6)]), 1
    ):  # fmt: skip
        drag(tab, way)
        tab.get_by_text("pixels painted").nth(count - 1).wait_for(timeout=WAIT)


def labels(tab: Page) -> None:
    """Two lassos with their labels, and one that waits for its label."""
    ways = [
        ([(0.74, 0.24), (0.83, 0.24), (0.84, 0.33), (0.75, 0.36)], "6"),
        ([(0.47, 0.84), (0.55, 0.86), (0.53, 0.93), (0.46, 0.92)], "4"),
        ([(0.84, 0.52), (0.92, 0.5), (0.94, 0.6), (0.86, 0.62)], ""),
    ]
    for way, name in ways[:-1]:
        drag(tab, way)
        tab.get_by_text("nodes chosen").wait_for(timeout=WAIT)
        tab.get_by_role("textbox").first.fill(name)
        tab.get_by_role("button", name="label").click()
        tab.get_by_text(f"class {name}; ").wait_for(timeout=WAIT)
    drag(tab, ways[-1][0])
    tab.get_by_text("nodes chosen").wait_for(timeout=WAIT)


def main() -> None:
    """Draw both."""
    chromium = shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        Image.fromarray(load_sample_image("china.jpg")).save(f"{folder}/photo.png")
        np.save(f"{folder}/data.npy", points())
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, given, act in (
            ("page-picture", ["photo.png"], picture),
            ("page-map", ["data.npy", "-k", str(K), "--threads", "2"], labels),
        ):
            command = [sys.executable, "-m", "mustlink_io", "ui", *given, "--no-open", "--quiet"]
            with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
                try:
                    assert server.stdout is not None
                    tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
                    tab.goto(server.stdout.readline().strip())
                    tab.wait_for_selector("canvas", timeout=WAIT)
                    tab.wait_for_timeout(2000)
                    act(tab)
                    tab.wait_for_timeout(1000)
                    seen = Image.open(io.BytesIO(tab.screenshot()))
                    seen.convert("RGB").save(DOCS / f"{name}.webp", quality=82, method=6)
                finally:
                    server.kill()
        browser.close()


if __name__ == "__main__":
    main()
