"""What every job records: stages, versions, its command; and the limit on threads."""

from __future__ import annotations

import contextlib
import platform
import shlex
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import numpy as np

from mustlink.observe import Recorder
from mustlink_io.hdf5.result_parts import Stage

_ALSO = ("numba", "pyamg", "pynndescent", "scikit-learn")  # what results depend on, too


def stages_of(recorder: Recorder) -> list[Stage]:
    """Stages so far, as a result tells them."""
    return [Stage(name=s.name, seconds=s.seconds, peak_bytes=s.peak_bytes) for s in recorder.stages]


@contextlib.contextmanager
def thread_limit(threads: int | None) -> Iterator[None]:
    """Keep BLAS and OpenMP to a number of threads."""
    if threads is None:
        yield
        return
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=threads):
        yield


def now() -> str:
    """Date and time, to the second, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def command_line(command: str, data: str | None, options: Mapping[str, Any]) -> str:
    """Return the words to type for a run; `options` maps flags to values, None is left out.

    True is the flag alone, False its opposite `--no-…`, a list its parts with commas, a tuple the
    flag with each of its parts.
    """
    words = ["mustlink", command, *([] if data is None else [data])]
    for name, value in options.items():
        if isinstance(value, bool):
            words.append(name if value else name.replace("--", "--no-", 1))
        elif isinstance(value, tuple):
            words += [word for part in value for word in (name, str(part))]
        elif isinstance(value, list):
            words += [name, ",".join(str(part) for part in value)]
        elif value is not None:
            words += [name, str(value)]
    return shlex.join(words)


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
        **{name: _installed(name) for name in _ALSO},
        "python": platform.python_version(),
    }


def _installed(package: str) -> str:
    """Version of a package without importing it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"
