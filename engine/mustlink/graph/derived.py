"""What was computed from a graph alone, kept in memory under typed keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

Value = TypeVar("Value")
AnyKey = TypeVar("AnyKey", bound="Key[Any]")


@dataclass(frozen=True)
class Key(Generic[Value]):
    """What a result depends on beside the graph; a subclass is one kind of result.

    `single` is the precision it is held in, None where there is none. `types` are the dataclasses
    in a value, for a keeper that reads it back.
    """

    single: bool | None
    types: ClassVar[tuple[type, ...]] = ()

    def serves(self, asked: Self, value: Value) -> bool:
        """Whether a value kept under this key is what a fresh computation of `asked` would be."""
        return self == asked

    def identity(self) -> Self:
        """The part of the key that names a kept value; `serves` looks at the rest."""
        return self


class Derived:
    """Results by key, of every kind the latest only: two of a kind would double the memory.

    Only results of one precision are held: those of another are let go when one comes.
    `origin` names the graph where results are kept on disk, None where they are not.
    """

    def __init__(self) -> None:
        self.origin: str | None = None
        self._kept: dict[type[Key[Any]], tuple[Key[Any], Any]] = {}
        self._left_out: dict[type[Key[Any]], tuple[str, ...]] = {}

    def find(self, asked: Key[Value]) -> Value | None:
        """What was kept, if it is what a fresh computation would give."""
        key, value = self._kept.get(type(asked), (None, None))
        if key is None or not key.serves(asked, value):
            return None
        found: Value | None = value
        return found

    def left_out(self, kind: type[Key[Any]]) -> tuple[str, ...]:
        """What a time limit left out of the value of a kind."""
        return self._left_out.get(kind, ())

    def put(self, key: Key[Value], value: Value, left_out: Sequence[str] = ()) -> None:
        """Keep a value in place of the one of its kind, and what a time limit left out of it."""
        if key.single is not None:
            others = [k for k, _ in self._kept.values() if k.single not in (None, key.single)]
            for other in others:
                self.drop(type(other))
        self._kept[type(key)], self._left_out[type(key)] = (key, value), tuple(left_out)

    def drop(self, kind: type[Key[Any]]) -> None:
        """Let the value of one kind go, before another is computed."""
        self._kept.pop(kind, None)

    def of(self, kind: type[AnyKey]) -> Iterator[tuple[AnyKey, Any]]:
        """The key and value of a kind, if one is kept."""
        for key, value in self._kept.values():
            if isinstance(key, kind):
                yield key, value
