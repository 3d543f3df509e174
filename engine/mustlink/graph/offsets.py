"""Neighbours on a grid of any number of axes: the steps to them, and who has whom beside it."""

from __future__ import annotations

from itertools import product

import numpy as np

from mustlink.check import numeric_array
from mustlink.errors import InputError

Step = tuple[int, ...]
Slices = tuple[slice, ...]


def steps(shape: tuple[int, ...], radius: float) -> list[Step]:
    """List steps of at most `radius` to later places, in row-major order, that fit into a shape."""
    r = int(radius)
    found = product(*(range(-min(r, size - 1), min(r, size - 1) + 1) for size in shape))
    origin = (0,) * len(shape)
    return [o for o in found if o > origin and sum(part * part for part in o) <= radius**2]


def beside(step: Step, shape: tuple[int, ...]) -> tuple[Slices, Slices]:
    """The places that have another one a step away, and these others."""
    here = tuple(slice(max(0, -o), s - max(0, o)) for o, s in zip(step, shape, strict=True))
    there = tuple(slice(max(0, o), s + min(0, o)) for o, s in zip(step, shape, strict=True))
    return here, there


def squared_length(step: Step, spacing: tuple[float, ...]) -> float:
    """Square of how long a step is, where pixels are `spacing` apart along the axes."""
    return float(sum((o * s) ** 2 for o, s in zip(step, spacing, strict=True)))


def pixel_spacing(spacing: object, axes: int) -> tuple[float, ...]:
    """How far pixels are apart along the axes, the least 1; None is 1 everywhere.

    Raises InputError.
    """
    if spacing is None:
        return (1.0,) * axes
    given = numeric_array(spacing, "spacing").astype(np.float64)
    if given.shape != (axes,) or not (np.isfinite(given) & (given > 0)).all():
        raise InputError(
            f"spacing: {spacing}; give {axes} positive numbers, the size of a pixel along each axis"
        )
    return tuple(float(part) for part in given / given.min())
