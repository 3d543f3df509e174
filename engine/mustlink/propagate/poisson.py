"""Poisson learning (Calder, Cook, Thorpe & Slepčev, ICML 2020): label propagation for few labels.

Labels are sources and sinks instead of boundary values: harmonic values of a handful of labels are
nearly constant with spikes at the labels, which this equation does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mustlink.check import check_choice
from mustlink.graph import Graph
from mustlink.propagate.distribution import class_shares
from mustlink.propagate.propagator import Propagator
from mustlink.propagate.task import Solution, Task

CENTERS = ("auto", "rows", "degrees")
_OF_POINTS = ("knn", "kneighbors", "rbf")  # kinds of graphs


@dataclass(eq=False, repr=False)
class Poisson(Propagator):
    """(D − W)f = Σ_labelled (y_j − ȳ)δ_j with Σ_i c_i f_i = 0, ȳ the mean label (Calder eq. 2.6).

    * `center`: where 0 is, which decides between the classes. "rows": c_i is 1, or the rows that
      a node stands for. "degrees": c_i = d_i, Calder's; of points with many equal rows, 1 % of the
      nodes may have 90 % of the degrees, and 0 is where they are. "auto": rows where the graph is
      one of points, degrees where it was given.
    * `class_mass`: shares (K,) of the classes, or "equal": values are multiplied by share/ȳ_c
      (Calder §2.3). False and True take the shares of the labels for those of the classes.

    In every component the mean is that of its own labels, so that the charges sum to zero. Cost:
    about 15 multigrid cycles.
    """

    center: str = "auto"

    _counts_labels: ClassVar[bool] = True

    def _check_parameters(self) -> None:
        check_choice(self.center, CENTERS, "center")

    def _are_masses(self) -> bool:
        return False

    def _scales_classes(self) -> bool:
        return True

    def _center(self, graph: Graph) -> str:
        """What is centred, "auto" decided."""
        if self.center != "auto":
            return self.center
        return "rows" if graph.info.get("kind") in _OF_POINTS else "degrees"

    def _minimises(self) -> bool:
        return False

    def _solve(self, task: Task) -> Solution:
        root = task.laplacian.root_degree[:, None]
        component = task.laplacian.null.component[task.labelled]
        held = task.labels_held[task.labelled]
        count = np.bincount(component, held)
        charge = task.Y.copy()
        for c in range(task.n_classes):  # the mean label of every component
            of_class = task.codes == c
            own = np.bincount(component[of_class], held[of_class], count.size)
            charge[task.labelled, c] -= (own / np.maximum(count, 1e-300))[component]
        charge[task.labelled] *= held[:, None]
        X, convergence = task.potential(charge / root)
        F = X / root
        center = self._center(task.graph)
        if center == "rows":
            F -= task.mean_over_components(task.copies[:, None] * F)
        shares = class_shares(self.class_mass, task.codes, task.n_classes, held)
        if shares is not None and self.class_mass is not True:
            F = F * (shares / (np.bincount(task.codes, held, task.n_classes) / held.sum()))
        return Solution(F, convergence, {"center": center})
