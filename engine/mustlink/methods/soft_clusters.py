"""Soft memberships and a confidence for every clusterer, made when they are asked for."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from mustlink.constraints import Constraints
from mustlink.errors import InputError
from mustlink.graph.stored import StoredGraph
from mustlink.kernels.threads import threads
from mustlink.observe import Recorder, Unheard, recorded
from mustlink.rounding.memberships import Evidence, Trust
from mustlink.selection.calibration import Calibration, HeldOut, calibrated, usual
from mustlink.selection.held_out import can_hold_out

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_FITS, _HELD = 3, 1 / 3  # to parts of what is known


class SoftClusters:
    """What a clusterer says of how sure it is, from `labels_`, `embedding_` and `graph_`."""

    graph_: Any
    labels_: Ints
    embedding_: Floats
    report_: Any
    n_jobs: Any

    _calibrated: tuple[Ints, Calibration] | None = None  # and the labels that it is of
    _given: Constraints | None = None  # about rows, of a method that can be fitted to a part of it
    _trusts_edges: ClassVar[bool] = True  # whether nodes of a cluster are linked to each other

    @property
    def membership_(self) -> Floats:
        """Share of every cluster in every node (n, K); rows sum to 1, 0 where `labels_` is -1.

        p_ic ∝ a_ic^α · (‖x_i − μ_c‖² + v_c)^-β: a_ic the share of the node's edges that goes to
        cluster c, with one more edge spread over all clusters, x_i its row of the embedding, μ_c
        and v_c the cluster's mean row and mean squared distance from it; α and β are those of
        `calibration_`. `labels_` has the largest of a row: a node whose edges say otherwise is
        nearly a tie. Nodes without an edge that were put in a cluster (`isolated="assign"`) have
        the clusters' sizes to the power α. Computed anew when asked for, in O(nnz + nKr).
        """
        calibration = self.calibration_
        with threads(self.n_jobs):
            found = self._evidence().all_memberships(calibration.trust)
        rows: Floats = self.graph_.spread(found)
        return rows

    @property
    def confidence_(self) -> Floats:
        """Chance that a node is in its cluster by right, (n,): its own entry of `membership_`.

        1/K is a guess, 0 stands where `labels_` is -1. By blocks of rows, without (n, K).
        """
        calibration = self.calibration_
        with threads(self.n_jobs):
            found = self._evidence().confidence(calibration.trust)
        rows: Floats = self.graph_.spread(found)
        return rows

    @property
    def calibration_(self) -> Calibration:
        """α and β of `membership_`: by labels and pairs held out of further fits, else usual ones.

        Where the person gave enough to spare some, a third is held out of each of three fits
        like the last one, and α and β are those that made what turned out likeliest; elsewhere
        those that did so on ten other data sets. Made once for a fit.
        """
        check_is_fitted(self)
        made = self._calibrated
        if made is None or made[0] is not self.labels_:
            return self.calibrate()
        return made[1]

    @property
    def constraints_(self) -> Constraints:
        """What the last fit was told of the rows, labels and pairs alike; empty for nothing."""
        check_is_fitted(self)
        return Constraints.none(self.graph_.n_rows) if self._given is None else self._given

    def calibrate(self, observer: Any = None, known: Calibration | None = None) -> Calibration:
        """`calibration_`, made now; an observer sees its stage.

        Or the one that is `known`, of a fit before a few more answers: without further fits.
        """
        check_is_fitted(self)
        if isinstance(self.graph_, StoredGraph):
            raise InputError("confidence: the graph of this fit is on disk; it needs it in memory")
        if known is not None:
            self._calibrated = self.labels_, known
            return known
        usually = usual(self.graph_)
        if not self._trusts_edges:
            usually = replace(usually, trust=Trust(0.0, usually.trust.embedding))
        recorder = recorded(Unheard() if observer is None else observer)
        with threads(self.n_jobs):
            found = calibrated(usually, self._held_out(recorder))
        self._calibrated = self.labels_, found
        return found

    def _held_out(self, recorder: Recorder) -> list[HeldOut]:
        """What fits to parts of the side information say of the rest; none where it is little."""
        given, k = self._given, self.report_.n_clusters
        if given is None or k < 2 or not can_hold_out(given, k):
            return []
        parts = []
        with recorder.stage("confidence by held-out constraints") as advance:
            for number in range(_FITS):
                if recorder.deadline.is_over:
                    recorder.leave_out(f"confidence is by {number} fits instead of {_FITS}")
                    break
                kept, held = given.split(_HELD, number)
                with suppress(InputError):  # what is left may be too little, or infeasible
                    quiet = Recorder(Unheard(), recorder.deadline)
                    twin = self._fitted_again(kept, quiet)
                    parts.append(HeldOut.of(twin._evidence(), kept, held, number))
                advance((number + 1) / _FITS)
        return parts

    def _fitted_again(self, given: Constraints, recorder: Recorder) -> Self:
        """One like this, fitted to something else about the same graph, whose vectors it keeps."""
        raise NotImplementedError

    def _twin(self) -> Self:
        """The same parameters, K as it was found; not fitted."""
        twin: Any = clone(self)
        found: Self = twin.set_params(n_clusters=self.report_.n_clusters)
        return found

    def _evidence(self) -> Evidence:
        """Clusters and embedding of the nodes."""
        first, labels = self.graph_.first_rows, self.labels_
        k = max(self.report_.n_clusters, int(labels.max(initial=-1)) + 1)
        return Evidence.of(self.graph_, labels[first], np.asarray(self.embedding_)[first], k)
