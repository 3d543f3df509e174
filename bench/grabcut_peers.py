"""Cuts along strokes without a graph of ours: `StrokeCut`, scikit-image, OpenCV, colours alone.

Every function takes an image (h, w, 3) and strokes (h, w), codes from 0, -1 unknown, and returns
labels (h, w). Of two codes 1 is the foreground; OpenCV takes two only. Peers run with their
defaults, but where they need a choice.
"""

from __future__ import annotations

import importlib.util
from functools import partial
from typing import Any

_ROUNDS = 5  # of OpenCV's grabCut, as in its tutorial


def stroke_cut(image: Any, strokes: Any) -> Any:
    """Ours."""
    import mustlink as ml

    return ml.StrokeCut(random_state=0).fit(image, strokes).labels_


def colours(image: Any, strokes: Any) -> Any:
    """A mixture of five Gaussians in Lab for each label, and the likeliest."""
    import numpy as np
    from sklearn.mixture import GaussianMixture

    from mustlink.graph.image import rgb_to_lab

    X = rgb_to_lab(image / 255.0).reshape(-1, 3)
    found = [
        GaussianMixture(5, reg_covar=1.0, random_state=0).fit(X[(strokes == c).ravel()])
        for c in range(strokes.max() + 1)
    ]
    likeliest = np.column_stack([model.score_samples(X) for model in found]).argmax(axis=1)
    return np.where(strokes >= 0, strokes, likeliest.reshape(strokes.shape))


def random_walker(image: Any, strokes: Any) -> Any:
    """Grady 2006, by scikit-image."""
    import warnings

    from skimage.segmentation import random_walker

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return random_walker(image, strokes + 1, mode="cg_j", channel_axis=-1) - 1


def watershed(image: Any, strokes: Any) -> Any:
    """On the gradient of the grey picture, by scikit-image."""
    from skimage.color import rgb2gray
    from skimage.filters import sobel
    from skimage.segmentation import watershed

    return watershed(sobel(rgb2gray(image)), strokes + 1) - 1


def grab_cut(image: Any, strokes: Any, by_colours: bool = False) -> Any:
    """Rother et al. 2004, by OpenCV: unknown pixels begin as ground, or by the strokes' colours."""
    import cv2
    import numpy as np

    likely = colours(image, strokes) if by_colours else np.zeros(strokes.shape, dtype=int)
    mask = np.where(likely == 1, cv2.GC_PR_FGD, cv2.GC_PR_BGD).astype(np.uint8)
    mask[strokes == 1], mask[strokes == 0] = cv2.GC_FGD, cv2.GC_BGD
    cv2.setNumThreads(1)
    cv2.setRNGSeed(0)
    rest = np.zeros((1, 65)), np.zeros((1, 65)), _ROUNDS, cv2.GC_INIT_WITH_MASK
    cv2.grabCut(np.ascontiguousarray(image[..., ::-1]), mask, None, *rest)
    return ((mask == cv2.GC_FGD) | (mask == cv2.GC_PR_FGD)) * 1


METHODS = {
    "StrokeCut": stroke_cut,
    "colours": colours,
    "random_walker": random_walker,
    "watershed": watershed,
    "grabCut": grab_cut,
    "grabCut by colours": partial(grab_cut, by_colours=True),
}
_NEEDS = {
    "random_walker": "skimage",
    "watershed": "skimage",
    "grabCut": "cv2",
    "grabCut by colours": "cv2",
}


def installed() -> list[str]:
    """Those whose library is there."""
    return [
        name
        for name in METHODS
        if name not in _NEEDS or importlib.util.find_spec(_NEEDS[name]) is not None
    ]
