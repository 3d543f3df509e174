"""What answers mean to a fit: constraints, the class that a cluster stands for, names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.core.check import best_matches
from mustlink.errors import InputError
from mustlink_io.ui.journal import Answer


def constraints_of(
    base: Constraints, y: NDArray[np.int64], answers: Sequence[Answer]
) -> Constraints:
    """All that is known and follows; of a node labelled before the last answer counts.

    Labels (n,), -1 for unknown, are those of `base` and of answers. Raises InputError.
    """
    if base.labels is not None and (y != base.labels)[base.labels >= 0].any():
        if base.soft_labels is not None:
            raise InputError("labels: some are of a prior, which cannot be changed")
        base = base.having(labels=None)
    new = y if base.labels is None else np.where(base.labels >= 0, -1, y)
    found = base + Constraints.from_labels(new)
    pairs = [one for one in answers if one.kind == "pair"]
    if pairs:
        ends = np.array([one.nodes for one in pairs])
        belief = [float(one.value) for one in pairs]
        found = found + Constraints.from_pairs(ends, belief, n_nodes=y.size)
        with suppress(InputError):  # what is believed in part has no closure
            found = found.closure()
    return found


def is_stated(base: Constraints, answer: Answer) -> bool:
    """Whether constraints say as surely what an answer on a pair says."""
    if answer.kind != "pair":
        return False
    pairs, belief = base.merged
    own = (np.sort(pairs, axis=1) == np.sort(answer.nodes)).all(axis=1)
    return bool((belief[own] * float(answer.value) >= 1).any())


def is_known(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Which labels (n,) are known: not -1, or not ""."""
    return np.asarray(labels != "" if labels.dtype.kind in "OU" else labels >= 0)


def class_number(value: int | str, named: Mapping[int, str]) -> int:
    """The class of a number, or of the name of a cluster; raises InputError."""
    numbers: dict[int | str, int | str] = {name: one for one, name in named.items()}
    try:
        found = int(numbers.get(value, value))
    except ValueError:
        raise InputError(
            f"class {value!r}: classes have whole numbers here, and no cluster is called so; "
            "give a number"
        ) from None
    if found < 0:
        raise InputError(f"class {found}: numbers of classes are 0 or more; give one")
    return found


@dataclass(frozen=True, eq=False)
class ClassWords:
    """How answers call classes that a fit knows by numbers.

    `stated` are names by number, `new` numbers of the words that answers name first.
    """

    stated: Mapping[Any, str]
    new: Mapping[int | str, int]

    @classmethod
    def of(cls, answers: Sequence[Answer], stated: Mapping[Any, str], top: int) -> Self:
        """Words get numbers one by one, behind `top` and all that are named before them."""
        found: dict[int | str, int] = {}
        top = max([top, *stated])
        for value in (one.value for one in answers if one.kind == "label"):
            if isinstance(value, str):
                top += value not in found
                found.setdefault(value, top)
            else:
                top = max(top, value)
        return cls(stated, found)

    @property
    def names(self) -> dict[Any, str]:
        """All names by number."""
        return {**self.stated, **{number: str(word) for word, number in self.new.items()}}

    def stored(self, choice: int | str) -> int | str:
        """A class as answers record it: in words where its number follows from answers."""
        words = {number: word for word, number in self.new.items()}
        return words.get(choice, choice) if isinstance(choice, int) else choice

    def numbers(self, choices: Mapping[Any, str], *, stated: bool) -> dict[int | str, int | str]:
        """What answers record of names: those of `choices`, and `stated` ones."""
        found: dict[int | str, int | str] = {}
        if stated:
            found |= {name: one for one, name in self.stated.items()}
        return found | {name: self.stored(one) for one, name in choices.items()}

    def takes(self, word: int | str, is_first: bool) -> bool:
        """Whether a word may be a new class: others have names, or it is the first."""
        if not word or isinstance(word, int) or word.lstrip("+-").isdigit():
            return False
        return is_first or bool(self.stated or self.new)


def classes_of(
    groups: Sequence[int], labels: NDArray[np.int64], known_labels: NDArray[np.int64]
) -> dict[int, int]:
    """The class that says of a node that it is in a cluster, another one for every cluster.

    Clusters and classes of known labels are paired so that most known nodes agree, numbers where
    they do not say. Clusters that are left have classes of their own, of their number where it is
    free. Empty without known labels.
    """
    known = np.flatnonzero((known_labels >= 0) & (labels >= 0))
    if not known.size:
        return {}
    numbers, (classes, code) = np.array(groups), np.unique(known_labels[known], return_inverse=True)
    agree = 0.5 * np.equal.outer(numbers, classes)
    np.add.at(agree, (np.searchsorted(numbers, labels[known]), code), 1.0)
    pairs = zip(*best_matches(agree), strict=True)
    found = {int(numbers[i]): int(classes[j]) for i, j in pairs if agree[i, j] > 0}
    free = count(int(max(numbers.max(), classes.max())) + 1)
    taken = set(classes.tolist())
    return {one: found[one] if one in found else next(free) if one in taken else one
            for one in numbers.tolist()}  # fmt: skip
