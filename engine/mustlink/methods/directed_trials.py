"""What labels and constraints of a directed graph's nodes tell: which rows, by what is held out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mustlink.constraints import Constraints
from mustlink.constraints.constraints import among
from mustlink.methods.csp import CSP
from mustlink.methods.directed_rows import Ints, Rows
from mustlink.observe import Recorder, Unheard
from mustlink.scores import satisfaction
from mustlink.workspace import Workspace

_TRIALS, _HELD = 3, 1 / 3  # of what is known, held out to see which rows tell it
_STAGE = "choosing by held-out constraints"
_WAYS = ("singular vectors", "singular vectors from the labels", "constrained vectors")


@dataclass(frozen=True, eq=False)
class DirectedTrials:
    """Singular vectors as they are, with k-means from the labels, and constrained vectors.

    `view` is of the graph in which every node is twice, τ included, `csp` cuts that: with what is
    known said of senders, and again with it said of receivers.
    """

    view: Workspace
    plain: Rows
    csp: CSP
    k: int
    seed: int

    def best(self, known: Constraints) -> tuple[Rows, dict[str, str]]:
        """The rows that keep most of what is held out, and why; those before win a tie."""
        recorder, right = self.view.recorder, []
        without = self.plain.clusters(self.k, self.seed)  # whatever is held out
        with recorder.stage(_STAGE) as advance:
            for number in range(_TRIALS):
                # a trial takes about as long as each that is left, and as the fit to all
                share = recorder.deadline.share(1 / (_TRIALS - number + 1))
                quiet = Recorder(Unheard(), share)
                quiet.budget = recorder.budget
                kept, held = known.split(_HELD, self.seed + number)
                rows = self.plain.told(kept), self._constrained(kept, quiet)
                clusters = [without, *(way.clusters(self.k, self.seed) for way in rows)]
                right.append([satisfaction(c, held, given=kept)["balanced"] for c in clusters])
                advance((number + 1) / _TRIALS)
                if quiet.left_out or recorder.deadline.is_over:
                    break
        done = len(right)
        if done < _TRIALS:
            recorder.leave_out(
                f"{_TRIALS - done} of {_TRIALS} trials of held-out constraints were not made"
            )
        mean = np.mean(right, axis=0)
        best = int(np.argmax(mean))
        told = ", ".join(f"{name} {share:.0%}" for name, share in zip(_WAYS, mean, strict=True))
        why = f"held-out constraints kept: {told}"
        recorder.note(f"{_WAYS[best]}: {why}")
        return self._fitted(best, known), {"rows": _WAYS[best], "why": why}

    def _fitted(self, best: int, known: Constraints) -> Rows:
        if best < 2:
            return self.plain.told(known) if best else self.plain
        recorder = self.view.recorder
        quiet = Recorder(Unheard(), recorder.deadline)
        quiet.budget = recorder.budget
        with recorder.stage("constrained vectors"):
            found = self._constrained(known, quiet)
        for what in quiet.left_out:
            recorder.leave_out(what)
        return found

    def _constrained(self, known: Constraints, quiet: Recorder) -> Rows:
        """What CSP makes of what is known of those that send, and of those that receive.

        Its doubts are about clusters of a graph that nobody sees, and heard by nobody.
        """
        n, work = known.n_nodes, replace(self.view, recorder=quiet)
        halves = []
        for first, there in ((0, self.plain.sends), (n, self.plain.receives)):
            nodes: Ints = np.flatnonzero(there)
            self.csp.fit_on(work, among(known[nodes], first + nodes, 2 * n), self.seed)
            halves.append(self.csp.embedding_[first : first + n])
        return replace(self.plain, sending=halves[0], receiving=halves[1]).told(known)
