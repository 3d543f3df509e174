"""Exceptions: one line each, saying what was given, what is wrong, what to do."""

from collections.abc import Iterable


class MustlinkError(Exception):
    """Base of every error that mustlink raises on purpose."""


class DoubtfulResultWarning(UserWarning):
    """A result was computed, but there is a reason not to rely on it; the message names it."""


class InputError(MustlinkError, ValueError):
    """The caller's data or parameters cannot be used as given."""


class InputTypeError(InputError, TypeError):
    """Values are of a type that no number can be made of."""


class OutOfMemoryError(InputError, MemoryError):
    """The memory named, or that of the system, does not suffice for a stage."""


class AtHomeOnlyError(InputError):
    """A parameter has a value that runs in memory only, and is asked for on disk or on ranks."""

    def __init__(self, words: str, name: str = "") -> None:
        super().__init__(words)
        self.name = name


class InfeasibleError(InputError):
    """No vector satisfies the constraints at this β (WD14 Alg. 1 line 4, Alg. 2 line 4)."""


class NumericalError(InputError, ArithmeticError):
    """The numbers of a problem differ by more than the precision in use can hold."""


def spelt_alike(word: str, known: Iterable[str], least: float = 0.6) -> str | None:
    """What is known and spelt most like a word, whatever the case; None where nothing is.

    `least` is the share of the letters of both that are alike.
    """
    from difflib import get_close_matches

    small = {one.casefold(): one for one in known}
    found = get_close_matches(word.casefold(), small, 1, least)
    return small[found[0]] if found else None
