"""A photograph cut along a few strokes: `python docs/examples/image.py --out FOLDER`."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
from mustlink_io import pictures

STEP = 3  # of the graph, every third pixel of every third row: 30,000 nodes in place of 273,000
# What a person would paint with a mouse, as rectangles: rows, then columns of the photograph.
STROKES = {
    "temple": [((84, 320), (200, 212)), ((300, 308), (90, 300)), ((120, 128), (120, 290))],
    "sky and lake": [((20, 28), (280, 600)), ((280, 288), (380, 520)), ((60, 68), (10, 90))],
    "trees": [((380, 388), (20, 180)), ((370, 378), (380, 600)), ((180, 260), (600, 608))],
}
MORE = ((285, 292), (8, 68))  # on the lake on the left, once the first cut has been looked at
LAKE = np.s_[296:306, 40:70]  # beside it, not painted
# Painted as well, but not shown to mustlink: whether it found what was meant.
HELD_OUT = {
    "temple": [((180, 210), (120, 280)), ((344, 356), (220, 300))],
    "sky and lake": [((100, 160), (360, 500)), ((216, 236), (360, 400))],
    "trees": [((396, 416), (360, 620)), ((220, 250), (10, 40))],
}
COLOURS = np.array([[0, 114, 178], [230, 159, 0], [0, 158, 115], [0, 0, 0]], np.uint8)


def paint(strokes, shape):
    """Class of every pixel, -1 where nothing was painted."""
    labels = np.full(shape, -1)
    for number, rectangles in enumerate(strokes.values()):
        for rows, columns in rectangles:
            labels[slice(*rows), slice(*columns)] = number
    return labels


def in_the_shell(photograph, strokes, out, name="cut"):
    """`mustlink cut` on the photograph and a transparent layer, as an editor would save it."""
    layer = np.dstack([COLOURS[strokes], np.where(strokes >= 0, 255, 0).astype(np.uint8)])
    Image.fromarray(photograph).save(out / "photo.png")
    Image.fromarray(layer).save(out / "strokes.png")
    command = ["mustlink", "cut", "photo.png", "--strokes", "strokes.png", "-o", f"{name}.png"]
    subprocess.run([sys.executable, "-m", *command], cwd=out, check=True)
    return np.asarray(Image.open(out / f"{name}.png"))  # numbers of classes, as colours are sorted


def on_a_graph(image, strokes):
    """Clusters without and with strokes, of a graph whose nodes are pixels."""
    graph = ml.image_graph(image)  # near pixels are joined, and ones alike
    common = {"n_clusters": 3, "affinity": "precomputed", "random_state": 0}
    return ml.NCut(**common).fit(graph), ml.CSP(**common).fit(graph, strokes.ravel())


def look_and_paint_again(photograph, strokes, first, out):
    """One stroke more, a picture of both cuts; the lake's share of sky and lake in both."""
    sky = list(STROKES).index("sky and lake")
    more = strokes.copy()
    more[slice(*MORE[0]), slice(*MORE[1])] = sky
    again = in_the_shell(photograph, more, out, "again")
    shown = [pictures.painted(photograph, one, COLOURS) for one in (strokes, more)]
    cuts = [np.asarray(Image.open(out / f"{name}-outline.png")) for name in ("cut", "again")]
    titles = ("strokes", "the cut", "one stroke more", "the cut again")
    figure = pictures.side_by_side((shown[0], cuts[0], shown[1], cuts[1]), titles)
    pictures.save(figure, out / "strokes-and-cuts.png")
    meant = again[MORE[0][0], MORE[1][0]]
    return [float((labels[LAKE] == meant).mean()) for labels in (first, again)]


def main(out):
    photograph = load_sample_image("china.jpg")  # ships with scikit-learn
    strokes, held_out = (paint(one, photograph.shape[:2]) for one in (STROKES, HELD_OUT))
    found = {"cut": in_the_shell(photograph, strokes, out)}

    fewer = slice(None, None, STEP), slice(None, None, STEP)
    image, small = photograph[fewer], strokes[fewer]
    for name, est in zip(("without", "with"), on_a_graph(image, small), strict=True):
        found[name] = est.labels_.reshape(small.shape)

    figures = {"kept": est.report_.satisfaction["kept"]}
    words = {"cut": "mustlink cut", "without": "NCut, without strokes", "with": "CSP, with them"}
    for name, labels in found.items():
        truth = held_out if name == "cut" else held_out[fewer]
        figures[name] = adjusted_rand_score(truth[truth >= 0], labels[truth >= 0])
        print(f"ARI on held-out strokes, {words[name]}: {figures[name]:.3f}")

    figures["lake"] = look_and_paint_again(photograph, strokes, found["cut"], out)
    cuts = [pictures.overlay(image, found[name]) for name in ("without", "with")]
    shown = pictures.painted(image, small, COLOURS), *cuts
    figure = pictures.side_by_side(shown, ("strokes", "without strokes", "with strokes"))
    pictures.save(figure, out / "image.png")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=None, help="folder for the pictures")
    folder = parser.parse_args().out or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
    print(f"pictures: {folder}")
