"""Basins, borders and the merging of regions, pixel by pixel and from the labels each time."""

from __future__ import annotations

import heapq

import numpy as np

SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1))


def beside(shape, y, x):
    """Pixels beside one, along rows and columns."""
    for dy, dx in SIDES:
        if 0 <= y + dy < shape[0] and 0 <= x + dx < shape[1]:
            yield y + dy, x + dx


def piece(mask, start):
    """The connected piece of a mask in which a pixel lies."""
    found, front = {start}, [start]
    while front:
        for near in beside(mask.shape, *front.pop()):
            if mask[near] and near not in found:
                found.add(near)
                front.append(near)
    return found


def plateau_minima(heights):
    """Numbers of plateaus without a lower neighbour, -1 elsewhere."""
    found, count = np.full(heights.shape, -1), 0
    done = set()
    for p in np.ndindex(heights.shape):
        if p in done:
            continue
        plateau = piece(heights == heights[p], p)
        done |= plateau
        if all(heights[q] >= heights[p] for one in plateau for q in beside(heights.shape, *one)):
            for one in plateau:
                found[one] = count
            count += 1
    return found, count


def flooded(heights, markers):
    """Meyer's flooding with one queue: by level, then by when a pixel was met."""
    found, queue, met = markers.copy(), [], 0
    for p in np.ndindex(heights.shape):
        if markers[p] >= 0:
            heapq.heappush(queue, (heights[p], met, p))
            met += 1
    while queue:
        level, _, p = heapq.heappop(queue)
        for q in beside(heights.shape, *p):
            if found[q] < 0:
                found[q] = found[p]
                heapq.heappush(queue, (max(level, heights[q]), met, q))
                met += 1
    return found


def pair_odds(labels, a, b, edges, hues, textures, weights):
    """Log-odds that regions a and b are different things; None where they have no border."""
    border, rims = [], {a: 0, b: 0}
    for p in np.ndindex(labels.shape):
        for q in beside(labels.shape, *p):
            if labels[p] in rims and labels[q] != labels[p]:
                rims[labels[p]] += 1
                if (labels[p], labels[q]) == (a, b):
                    border.append(max(edges[p], edges[q]))
    if not border:
        return None
    shares = sorted(np.mean(labels == one) for one in (a, b))
    terms = [1.0, np.log(np.mean(border) + 0.01)]
    for words in (hues, textures):
        n = words.max() + 1
        p, q = (np.bincount(words[labels == one], minlength=n) for one in (a, b))
        terms.append(np.linalg.norm(np.sqrt(p / p.sum()) - np.sqrt(q / q.sum())) / np.sqrt(2))
    terms += [np.log(shares[0]), np.log(shares[1]), np.log(len(border) / min(rims.values()))]
    is_speck = shares[0] * labels.size < max(16, labels.size / 2000)
    return float(np.dot(weights, terms)) - 100.0 * is_speck


def merging(labels, edges, hues, textures, weights):
    """Every pair, its odds, as they are joined: all odds again from the labels at each step."""
    labels, steps = labels.copy(), []
    while np.unique(labels).size > 1:
        there = np.unique(labels)
        found = [
            (odds, a, b)
            for a in there
            for b in there[there > a]
            if (odds := pair_odds(labels, a, b, edges, hues, textures, weights)) is not None
        ]
        odds, a, b = min(found)
        steps.append((a, b, odds))
        labels[labels == b] = a
    return steps


def steepest(words, k, width, blur):
    """Root of the first eigenvalue of the summed products of gradients of √shares."""
    shares = np.stack([np.sqrt(blur((words == c) * 1.0, width)) for c in range(k)])
    h, w = words.shape
    found = np.zeros((h, w))
    for y, x in np.ndindex(h, w):
        down = (shares[:, y + 1, x] - shares[:, y - 1, x]) / 2 if 0 < y < h - 1 else np.zeros(k)
        right = (shares[:, y, x + 1] - shares[:, y, x - 1]) / 2 if 0 < x < w - 1 else np.zeros(k)
        slopes = np.column_stack([down, right])
        found[y, x] = width * np.linalg.norm(slopes, 2)
    return found
