"""What every job records: stages, versions, plain JSON; and the limit on threads."""

from __future__ import annotations

import contextlib
import json
import platform
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mustlink.observe import Recorder


def stage_rows(recorder: Recorder) -> list[dict[str, Any]]:
    """Stages so far as plain values."""
    return [
        {"name": s.name, "seconds": s.seconds, "peak_bytes": s.peak_bytes} for s in recorder.stages
    ]


@contextlib.contextmanager
def thread_limit(threads: int | None) -> Iterator[None]:
    """Keep BLAS and OpenMP to a number of threads."""
    if threads is None:
        yield
        return
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=threads):
        yield


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    import h5py
    import scipy

    import mustlink

    return {
        "mustlink": str(getattr(mustlink, "__version__", "unknown")),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "h5py": h5py.__version__,
        "python": platform.python_version(),
    }


def to_json(value: Any) -> str:
    """JSON of plain and numpy values; NaN and Inf, which JSON lacks, become null."""
    return json.dumps(_plain(value), ensure_ascii=False, default=str)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
