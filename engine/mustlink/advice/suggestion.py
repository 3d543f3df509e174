"""What is suggested: a method with parameters, why, what else, and what to doubt."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from sklearn.pipeline import make_pipeline

from mustlink.advice.baseline import Baseline
from mustlink.advice.observations import Seen
from mustlink.advice.scikit_steps import imports, transformer_code, transformers
from mustlink.cost.process_memory import parse_size
from mustlink.names import estimator_of
from mustlink.preparation.request import Preparation

# Command and -m of the methods that are suggested.
SHELL = {
    "NCut": ("cluster", "ncut"),
    "CSP": ("cluster", "csp"),
    "SSSC": ("cluster", "sssc"),
    "SpectralLearning": ("cluster", "sl"),
    "ConstrainedAP": ("cluster", "ap"),
    "FastGE": ("cluster", "fast-ge"),
    "SSKK": ("cluster", "sskk"),
    "SRCP": ("cluster", "srcp"),
    "E2CP": ("cluster", "e2cp"),
    "CSCGFHF": ("cluster", "csc-gfhf"),
    "Poisson": ("propagate", "poisson"),
    "GFHF": ("propagate", "gfhf"),
    "LLGC": ("propagate", "llgc"),
    "LELP": ("propagate", "lelp"),
}
_FLAGS = {
    "n_clusters": "-k",
    "n_neighbors": "--neighbors",
    "random_state": "--seed",
    "weights": "--edge-weights",
}
_NOT_TYPED = ("affinity",)  # the file says what it is


@dataclass(frozen=True)
class Suggestion:
    """A method (class name) and parameters for it, with the reasons as plain sentences.

    `rule` names the row of `mustlink.advice.rules.RULES` that spoke, `alternatives` are pairs of a
    method and when to take it instead, `doubts` what a person should look at first, `peak_bytes`
    the memory that a fit takes at its peak, about, `seen` what all of it is based on, `baseline`
    how the method and answers without a graph do on labels held out, None where they are too few.
    """

    method: str
    parameters: Mapping[str, Any]
    reasons: tuple[str, ...]
    alternatives: tuple[tuple[str, str], ...]
    doubts: tuple[str, ...]
    rule: str
    peak_bytes: int
    seen: Seen = field(repr=False)
    baseline: Baseline | None = None

    def __post_init__(self) -> None:
        """Parameters cannot be changed afterwards either."""
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    @property
    def propagates(self) -> bool:
        """Whether the method gives every node a class, from labels alone: `fit(X, y)`."""
        return SHELL[self.method][0] == "propagate"

    @property
    def preparation(self) -> Preparation:
        """What is to be done to the columns of the points before."""
        return self.seen.preparation

    def estimator(self) -> Any:
        """The estimator with these parameters, not fitted; a new one at every call.

        Where columns are to be prepared, a pipeline of scikit-learn that does it before.
        """
        made = estimator_of(self.method)(**self.parameters)
        steps = transformers(self.preparation)
        return make_pipeline(*steps, made) if steps else made

    @property
    def code(self) -> str:
        """Lines of Python that do it, to points `X` with labels `y` or constraints `known`."""
        values = [f"{name}={value!r}" for name, value in self.parameters.items()]
        model = f"ml.{self.method}({', '.join(values)})"
        steps = transformer_code(self.preparation)
        if steps:
            model = f"make_pipeline({', '.join([*steps, model])})"
        known = self.seen.known
        prefix = f"{self.method.lower()}__" if steps else ""
        sides = ["y"] if known.labelled and not (known.pairs or known.soft) else []
        if known.pairs or known.soft:
            sides = [f"{prefix}constraints=known"]
        last = f"model = {model}.fit({', '.join(['X', *sides])})"
        return "\n".join([*imports(self.preparation), last])

    def __str__(self) -> str:
        """Reasons, doubts, and the code."""
        told = [f"because {reason}" for reason in self.reasons]
        told += [f"doubt: {doubt}" for doubt in self.doubts]
        return "\n".join([*told, "", self.code])

    def command(
        self,
        data: str,
        output: str = "out.h5",
        *,
        labels: str | None = None,
        constraints: str | None = None,
        weights: str | None = None,
        views: Sequence[str] = (),
        read_as: str | None = None,
    ) -> str:
        """The line for the shell that does the same with files."""
        command, name = SHELL[self.method]
        words = ["mustlink", command, data, "-m", name]
        words += self.preparation.options()
        for parameter, value in self.parameters.items():
            words += _words(parameter, value)
        takes = {"--labels": labels, "--constraints": constraints}
        for flag, file in takes.items():
            if file is not None and self.method != "NCut":
                words += [flag, file]
        for file in views:
            words += ["--view", file]
        words += [] if weights is None else ["--weights", weights]
        words += [] if read_as is None else ["--as", read_as]
        return shlex.join([*words, "-o", output])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "method": self.method,
            "parameters": dict(self.parameters),
            "preparation": self.preparation.to_dict(),
            "reasons": list(self.reasons),
            "alternatives": [{"method": name, "when": when} for name, when in self.alternatives],
            "doubts": list(self.doubts),
            "rule": self.rule,
            "peak_bytes": self.peak_bytes,
            "seen": self.seen.to_dict(),
            "baseline": None if self.baseline is None else self.baseline.to_dict(),
        }


def _words(parameter: str, value: Any) -> list[str]:
    """What is typed for one parameter."""
    if parameter in _NOT_TYPED or value is None:
        return []
    if parameter == "class_mass":
        return ["--class-mass"] if value is True else ["--class-shares", str(value)]
    flag = _FLAGS.get(parameter, "--" + parameter.replace("_", "-"))
    if parameter == "memory" and isinstance(value, int):
        short = f"{value / 10**9:g}GB"
        value = short if parse_size(short) == value else value
    return [flag, str(value)]
