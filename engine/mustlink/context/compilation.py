"""Kernels before they are needed: which there are, for which types, and how far compiling is.

`signatures.json` has every kernel that Python calls, with the types of its arguments, in the order
of first use, and the kernels that each estimator takes. `python bench/kernels.py` makes it from
fits; a test runs a fit of each method after all of it is compiled, and finds nothing to compile.
"""

from __future__ import annotations

import atexit
import json
import os
import pkgutil
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba as nb
from numba.core import event

import mustlink.kernels
from mustlink.core import observe
from mustlink.core.resources import rooms
from mustlink.kernels.threads import cache_folder, workers

types: Any = nb.core.types  # numba has no types of its own for these
TABLE = Path(__file__).with_name("signatures.json")


@dataclass(frozen=True)
class Kernel:
    """A kernel for some types of arguments, and the seconds that compiling it once took."""

    name: str
    types: Any
    seconds: float


def dispatchers() -> dict[str, Any]:
    """All compiled functions of this package by module and name."""
    found = {}
    for module in pkgutil.iter_modules(mustlink.kernels.__path__):
        for name, one in vars(import_module(f"mustlink.kernels.{module.name}")).items():
            body = getattr(one, "body", one)  # of a loop over rows
            if hasattr(body, "py_func") and body.__module__.endswith(module.name):
                found[f"{module.name}.{name}"] = body
    return found


def kernels_of(*estimators: str) -> list[Kernel]:
    """The kernels that these take, or all, in the order of first use."""
    kernels, fits = _table()
    if not estimators:
        return list(kernels)
    return [kernels[at] for at in dict.fromkeys(at for one in estimators for at in fits[one])]


def processor() -> str:
    """The kind of processor that kernels are compiled for."""
    config: Any = nb.config
    return str(config.CPU_NAME or llvm.get_host_cpu_name())


def known() -> list[str]:
    """Names of what `kernels_of` knows."""
    return list(_table()[1])


@cache
def _table() -> tuple[list[Kernel], dict[str, list[int]]]:
    table = json.loads(TABLE.read_text())
    return [Kernel(*row) for row in table["kernels"]], table["fits"]


def compile_kernels(kernels: list[Kernel], observer: Any) -> int:
    """Compile what is in no cache; returns how many that were.

    `observer.compiling(done, total, seconds_left)` is called before each.
    """
    bodies, misses = dispatchers(), 0
    left = Remaining(kernels)
    for done, one in enumerate(kernels):
        body = bodies[one.name]
        signature = tuple(decoded(each) for each in one.types)
        observer.compiling(done, len(kernels), left.seconds(done))
        before, started = sum(body.stats.cache_misses.values()), time.perf_counter()
        body.compile(signature)
        compiled = sum(body.stats.cache_misses.values()) > before
        misses += compiled
        left.took(done, time.perf_counter() - started)
    return misses


class Remaining:
    """Seconds that are left of a list of kernels, at the pace of those that are done."""

    def __init__(self, kernels: list[Kernel]) -> None:
        self._expected = [one.seconds for one in kernels]
        self._done = self._taken = 0.0

    def took(self, at: int, seconds: float) -> None:
        """Note what one took; what was in a cache counts as well: so are those after it, mostly."""
        self._done += self._expected[at]
        self._taken += seconds

    def seconds(self, at: int) -> float:
        """What is left from one on."""
        pace = self._taken / self._done if self._done else 1.0
        return pace * sum(self._expected[at:])


# --- Types as text: "float32[2]C", "int64", and named tuples with their class


def encoded(one: Any) -> Any:
    """A type of numba as JSON."""
    if isinstance(one, types.Array):
        fixed = "" if one.mutable else " const"
        return f"{one.dtype}[{one.ndim}]{one.layout}{fixed}"
    if isinstance(one, types.BaseTuple):
        kind = getattr(one, "instance_class", tuple)
        return {f"{kind.__module__}:{kind.__qualname__}": [encoded(each) for each in one]}
    return str(one)


def decoded(text: Any) -> Any:
    """The type of numba behind `encoded`."""
    if isinstance(text, dict):
        ((name, items),) = text.items()
        module, _, kind = name.partition(":")
        made = getattr(import_module(module), kind)
        return types.BaseTuple.from_types(
            [decoded(each) for each in items], None if made is tuple else made
        )
    dtype, bracket, rest = text.partition("[")
    if not bracket:
        return getattr(types, dtype)
    dimensions, _, layout = rest.partition("]")
    return types.Array(
        getattr(types, dtype), int(dimensions), layout[0], readonly=layout.endswith("const")
    )


# --- How far compiling is, for those who wait for it


class Progress:
    """Of the kernels that a fit takes, where it is."""

    def __init__(self, estimator: str) -> None:
        self._kernels = kernels_of(estimator) if estimator in known() else []
        self._left = Remaining(self._kernels)
        self._next, self._began, self._told = 0, time.perf_counter(), False

    def start(self, name: str, recorder: observe.Recorder) -> None:
        """A kernel is about to be compiled: tell how far that is, if all of it takes seconds."""
        places = range(self._next, len(self._kernels))
        at = next((at for at in places if self._kernels[at].name == name), None)
        self._at = self._next if at is None else at
        left = None if at is None else self._left.seconds(at)
        if at is not None and recorder.budget.limit is None:
            _BESIDE.compile(self._kernels[at + 1 :])
        if left is not None and _BESIDE.at_work:
            left /= 2
        self._told |= time.perf_counter() - self._began + (left or 0.0) >= observe.LONG
        if self._told:
            recorder.compiling(self._at, len(self._kernels) if at is not None else None, left)
        self._next, self._started = self._at + 1, time.perf_counter()

    def end(self) -> None:
        """It is compiled."""
        if self._at < len(self._kernels):
            self._left.took(self._at, time.perf_counter() - self._started)


# --- Compiling beside the work, in another process, as numba compiles one kernel at a time


class Beside:
    """A process that compiles from the last of the kernels on, while this one works to the first.

    What it has compiled is read from the cache. Begun at the first kernel that is in no cache,
    where enough are left, there is a core for it, kernels are kept on disk, and no limit is
    enforced on memory that it would take from the fit. It ends with this process.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def at_work(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def compile(self, kernels: list[Kernel]) -> None:
        """Begin with these, in the order of first use, unless it runs or is not worth it."""
        if self.at_work or sum(one.seconds for one in kernels) < _WORTH or not _has_room():
            return
        names = json.dumps([[one.name, one.types] for one in reversed(kernels)])
        root = str(Path(mustlink.kernels.__file__).parents[2])
        words = [sys.executable, "-c", _PROGRAM, root, str(os.getpid())]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        quiet = subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, env=env
            )
            assert self._process.stdin is not None
            with self._process.stdin as pipe:
                pipe.write(names.encode())
        except OSError:  # no room for another process: kernels are compiled as they are needed
            return
        atexit.register(self.end)

    def end(self) -> None:
        """Stop it, wherever it is: files of the cache are put there whole."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        atexit.unregister(self.end)


_BESIDE = Beside()
_WORTH = 4.0  # seconds of compiling, from which on another process gains more than its start takes
_ENFORCED_ROOM = 4 << 30  # bytes that an enforced limit leaves at least
_PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from mustlink.context.compilation import compile_for
compile_for(int(sys.argv[2]))
"""


def compile_for(parent: int) -> None:
    """Compile the kernels that standard input names, while `parent` runs: the other process."""
    bodies = dispatchers()
    for name, signature in json.load(sys.stdin):
        if os.getppid() != parent:
            return
        bodies[name].compile(tuple(decoded(one) for one in signature))


def _has_room() -> bool:
    """Whether there are a core, a cache and memory for another process."""
    # a job that allows one thread, as processes of tests and of ranks do, has one core for each
    is_alone = workers() < 2 or os.environ.get("OMP_NUM_THREADS") == "1"
    if is_alone or not sys.executable or cache_folder() is None:
        return False
    return all(one.left >= _ENFORCED_ROOM for one in rooms() if one.enforced)


class _Listener(event.Listener):
    """Called by numba when it compiles, never when it reads what it compiled before."""

    def __init__(self) -> None:
        self._depth = 0  # numba compiles one kernel at a time, and in it those that it calls

    def on_start(self, event: Any) -> None:
        """Tell every fit with an open stage: all of them may wait for this kernel."""
        self._depth += 1
        if self._depth == 1:
            function = event.data["dispatcher"].py_func
            name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
            for recorder in observe.at_work():
                if recorder.progress is None:
                    recorder.progress = Progress(recorder.estimator)
                recorder.progress.start(name, recorder)

    def on_end(self, event: Any) -> None:
        """Note how long it took."""
        self._depth -= 1
        if self._depth == 0:
            for recorder in observe.at_work():
                if recorder.progress is not None:
                    recorder.progress.end()


_register: Any = event.register
_register("numba:compile", _Listener())
