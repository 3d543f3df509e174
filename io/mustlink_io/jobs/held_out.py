"""Labels held out: the method beside answers that know no graph, see `mustlink.advice.baseline`.

It tells something about an answer that is there already: never may the answer be lost by it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.method_cost import sample_bytes
from mustlink.errors import OutOfMemoryError
from mustlink.observe import Recorder
from mustlink_io import formats
from mustlink_io.jobs.planning import HELD_OUT, held_out_seconds

_TOO_LITTLE = f"{HELD_OUT}: none, as "  # the time is up, or the memory


def look(
    labels: NDArray[np.int64] | None, estimator: Any, data: formats.Data, recorder: Recorder
) -> dict[str, Any] | None:
    """What is found, for a report; None where there is nothing to compare, or no room or time."""
    from mustlink.advice.baseline import baseline

    if labels is None or data.kind == "graph" or data.image is not None:
        return None
    (n, d), cost = data.value.shape, estimator.cost()
    classes = int(labels.max(initial=0)) + 1
    if recorder.deadline.remaining() < held_out_seconds(n, classes, cost):
        recorder.note(f"{_TOO_LITTLE}the time is up")
        return None
    try:
        recorder.budget.ask(sample_bytes(n, d, classes, cost), HELD_OUT)
        with recorder.stage(HELD_OUT):
            found = baseline(data.value, labels, estimator)
    except OutOfMemoryError as error:
        recorder.note(f"{_TOO_LITTLE}{error}")
        return None
    if found is None:
        return None
    if found.doubt is not None:
        recorder.warn(found.doubt)
    return found.to_dict()
