"""A photograph cut along a few strokes: `python docs/examples/image.py --out FOLDER`."""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
from mustlink_io import pictures

STEP = 3  # every third pixel of every third row: 30,000 nodes in place of 273,000
# What a person would paint with a mouse, as rectangles: rows, then columns of the photograph.
STROKES = {
    "temple": [((84, 320), (200, 212)), ((300, 308), (90, 300)), ((120, 128), (120, 290))],
    "sky and lake": [((20, 28), (280, 600)), ((280, 288), (380, 520)), ((60, 68), (10, 90))],
    "trees": [((380, 388), (20, 180)), ((370, 378), (380, 600)), ((180, 260), (600, 608))],
}
# Painted as well, but not shown to mustlink: whether it found what was meant.
HELD_OUT = {
    "temple": [((180, 210), (120, 280)), ((344, 356), (220, 300))],
    "sky and lake": [((100, 160), (360, 500)), ((216, 236), (360, 400))],
    "trees": [((396, 416), (360, 620)), ((220, 250), (10, 40))],
}


def paint(strokes, shape):
    """Class of every pixel, -1 where nothing was painted."""
    labels = np.full(shape, -1)
    for number, rectangles in enumerate(strokes.values()):
        for rows, columns in rectangles:
            labels[slice(*rows), slice(*columns)] = number
    return labels


def main(out):
    photograph = load_sample_image("china.jpg")  # ships with scikit-learn
    strokes, held_out = (
        paint(one, photograph.shape[:2])[::STEP, ::STEP] for one in (STROKES, HELD_OUT)
    )
    image = photograph[::STEP, ::STEP]
    shape = image.shape[:2]

    graph = ml.image_graph(image, n_similar=8)  # a node a pixel: near ones, and ones alike
    common = {"n_clusters": 3, "affinity": "precomputed", "random_state": 0}
    without = ml.NCut(**common).fit(graph)
    with_strokes = ml.CSP(**common).fit(graph, strokes.ravel())

    figures = {"nodes": graph.n_nodes, "kept": with_strokes.report_.satisfaction["kept"]}
    known = held_out >= 0
    for name, est in (("without", without), ("with", with_strokes)):
        found = est.labels_.reshape(shape)
        figures[name] = adjusted_rand_score(held_out[known], found[known])
        print(f"ARI on held-out strokes, {name} strokes: {figures[name]:.3f}")
    print(f"constraints kept: {figures['kept']:.1%}; how: {with_strokes.report_.choices['why']}")

    figure = pictures.segmentation(
        image, strokes, without.labels_.reshape(shape), with_strokes.labels_.reshape(shape)
    )
    pictures.save(figure, out / "image.png")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=None, help="folder for the picture")
    folder = parser.parse_args().out or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
    print(f"picture: {folder / 'image.png'}")
