"""Labels held out: the method beside answers that know no graph, see `mustlink.advice.baseline`.

It tells something about an answer that is there already: never may the answer be lost by it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.method_cost import SPREAD_DENSE_BELOW, Cost
from mustlink.cost.sample_fits import sample_bytes, sample_rows
from mustlink.errors import OutOfMemoryError
from mustlink.observe import Recorder
from mustlink_io import formats
from mustlink_io.jobs.rates import duration

STAGE = "labels held out"
_RIVALS = 0.3  # seconds, of the three together
_FITS = 3
_WEIGHTS = 19  # stored for a point of the sample
_TOO_LITTLE = f"{STAGE}: none, as "  # the time is up, or the memory


def spreading_seconds(n: int) -> float:
    """Seconds in which constraints spread over a graph of n nodes."""
    return duration("dense spread", n**3) if n <= SPREAD_DENSE_BELOW else duration("spread", n)


def seconds_for(n: int, classes: int, cost: Cost) -> float:
    """Seconds of all fits to the sample of n points, and of the rivals."""
    m = sample_rows(n, classes)
    one = duration("fit of a sample", m) + (spreading_seconds(m) if cost.spreads else 0.0)
    one += duration("steps", _WEIGHTS * m * classes * (cost.most_steps or 0))
    return _RIVALS + _FITS * one


def look(
    labels: NDArray[np.int64] | None, estimator: Any, data: formats.Data, recorder: Recorder
) -> dict[str, Any] | None:
    """What is found, for a report; None where there is nothing to compare, or no room or time."""
    from mustlink.advice.baseline import baseline

    if labels is None or data.kind == "graph" or data.image is not None:
        return None
    (n, d), cost = data.value.shape, estimator.cost()
    classes = int(labels.max(initial=0)) + 1
    if recorder.deadline.remaining() < seconds_for(n, classes, cost):
        recorder.note(f"{_TOO_LITTLE}the time is up")
        return None
    try:
        recorder.budget.ask(sample_bytes(n, d, classes, cost), STAGE)
        with recorder.stage(STAGE):
            found = baseline(data.value, labels, estimator)
    except OutOfMemoryError as error:
        recorder.note(f"{_TOO_LITTLE}{error}")
        return None
    if found is None:
        return None
    if found.doubt is not None:
        recorder.warn(found.doubt)
    return found.to_dict()
