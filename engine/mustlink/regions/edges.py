"""Where a picture has edges: colours that jump, and histograms that differ on two sides."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from mustlink.regions.words import N_COLOURS, N_TEXTURES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_STEP = 1.0  # pixels: width of the derivative of colours
_FINE, _BROAD, _TEXTURE = 2.0, 8.0, 4.0  # pixels: of the windows of histograms
_FAINT = 0.01
# Log-odds of an edge that people see, by logistic regression on 40 pictures of BSDS500: of the
# constant, of the logarithms of the jump and of the differences of histograms.
_ODDS = (12.1, 2.16, 2.13, 2.57, 1.88)


def edge_strengths(colours: Floats, hues: Ints, textures: Ints) -> Floats:
    """Chance (h, w) that a pixel of (h, w, c) lies on an edge, by jumps of four kinds.

    Log-odds are linear in log(s + 0.01) of the strengths s: of the colours' gradient, of colour
    words within 2 and 8 pixels and of texture words within 4. Cost: about 300 filters of a plane.
    """
    parts = (
        jump(colours, _STEP),
        histogram_jump(hues, N_COLOURS, _FINE),
        histogram_jump(hues, N_COLOURS, _BROAD),
        histogram_jump(textures, N_TEXTURES, _TEXTURE),
    )
    found = np.full(hues.shape, _ODDS[0])
    for weight, part in zip(_ODDS[1:], parts, strict=True):
        found += weight * np.log(part + _FAINT)
    return 1.0 / (1.0 + np.exp(-found))


def jump(colours: Floats, width: float) -> Floats:
    """Largest slope (h, w) of colours (h, w, c) over all directions, per `width` pixels.

    The root of the first eigenvalue of Σ_c g_c g_cᵀ, g_c the gradient of a channel blurred by a
    Gaussian (Di Zenzo 1986).
    """
    tensor = np.zeros((3, *colours.shape[:2]))
    for plane in np.moveaxis(colours, -1, 0):
        blurred = ndimage.gaussian_filter(plane, width, mode="nearest", truncate=3.0)
        _add_slopes(blurred, tensor)
    return width * _steepest(tensor)


def histogram_jump(words: Ints, k: int, width: float) -> Floats:
    """How fast the histogram of words (h, w) round a pixel changes, over all directions, (h, w).

    With p_c the share of word c in a Gaussian window, the root of the first eigenvalue of
    Σ_c g_c g_cᵀ, g_c = ∇√p_c, per `width` pixels: the Hellinger distance of windows on two sides
    where these are near to one another. All directions cost what one does, unlike half discs
    (Martin, Fowlkes & Malik 2004).
    """
    tensor = np.zeros((3, *words.shape))
    for word in range(k):
        here = (words == word).astype(np.float64)
        if here.any():
            share = ndimage.gaussian_filter(here, width, mode="nearest", truncate=3.0)
            _add_slopes(np.sqrt(share), tensor)
    return width * _steepest(tensor)


def _add_slopes(plane: Floats, tensor: Floats) -> None:
    """Add g gᵀ of the gradient by central differences, as (yy, xy, xx); 0 across the frame."""
    down, right = np.zeros_like(plane), np.zeros_like(plane)
    down[1:-1] = 0.5 * (plane[2:] - plane[:-2])
    right[:, 1:-1] = 0.5 * (plane[:, 2:] - plane[:, :-2])
    tensor[0] += down * down
    tensor[1] += down * right
    tensor[2] += right * right


def _steepest(tensor: Floats) -> Floats:
    """Root of the larger eigenvalue of [[yy, xy], [xy, xx]]."""
    yy, xy, xx = tensor
    found: Floats = np.sqrt(0.5 * (yy + xx) + np.sqrt(0.25 * (yy - xx) ** 2 + xy**2))
    return found
