"""The jobs file: TOML checked by pydantic; every error names file, job and key."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from mustlink.cost.process_memory import parse_size
from mustlink.errors import InputError
from mustlink_io.hdf5 import store

Scalar = bool | int | float | str
COMMANDS = ("cluster", "propagate", "graph")
_LARGEST = 2**20  # bytes of a jobs file
_SECTIONS = ("batch", "defaults", "job")


def _value(value: Any) -> Any:
    """A scalar, a list of scalars that is not empty, or a table of scalars by data set."""
    if isinstance(value, dict):
        if not value or not all(isinstance(one, Scalar) for one in value.values()):
            raise ValueError("a table has a value for every data set: { iris = 3, wine = 3 }")
        return value
    if isinstance(value, list) and not value:
        raise ValueError("an empty list; a list has one value for every job")
    for one in value if isinstance(value, list) else [value]:
        if not isinstance(one, Scalar):
            raise ValueError(f"{one} is neither text, a number, true or false, nor a list of these")
    return value


Value = Annotated[Any, PlainValidator(_value)]


class Entry(BaseModel):
    """One `[[job]]`; whatever is not named here is an option of its command, or a list of them."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    __pydantic_extra__: dict[str, Value]

    name: str
    command: Literal["cluster", "propagate", "graph"] | None = None


class Settings(BaseModel):
    """`[batch]`: what the command line may overrule."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    memory: str | int | None = None
    workers: Annotated[int, Field(ge=1)] | None = None
    summary: str | None = None


class JobsFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    batch: Settings = Settings()
    defaults: dict[str, Value] = {}
    job: Annotated[list[Entry], Field(min_length=1)]


@dataclass(frozen=True)
class Where:
    """The jobs file and the folder that relative paths in it start from."""

    file: Path

    @property
    def folder(self) -> Path:
        """Folder of the jobs file, as it was given."""
        return self.file.parent

    def path(self, text: str) -> str:
        """Return a path written in the file as the program may open it."""
        return text if self.folder == Path() else str(self.folder / text)

    def wrong(self, job: str | None, key: str | None, words: str) -> InputError:
        """Return the error that names file, job and key."""
        parts = [str(self.file)]
        parts += [f'job "{job}"'] if job is not None else []
        parts += [key] if key else []
        return InputError(": ".join([*parts, words]))


def load(where: Where) -> JobsFile:
    """Read and check the form of a jobs file; raises InputError.

    What the keys mean is not known here, `expand` and `arguments` check that.
    """
    store.check_readable(where.file)
    if where.file.stat().st_size > _LARGEST:
        raise InputError(f"{where.file}: larger than 1 MiB; not a jobs file")
    try:
        raw = tomllib.loads(where.file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"{where.file}: not UTF-8 text; a jobs file is TOML") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{where.file}: not TOML: {' '.join(str(error).split())}") from error
    try:
        found = JobsFile.model_validate(raw)
    except ValidationError as error:
        raise _first(where, raw, error) from error
    if found.batch.memory is not None:
        try:
            parse_size(found.batch.memory)
        except InputError as error:
            raise InputError(f"{where.file}: [batch]: {error}") from error
    return found


def _first(where: Where, raw: Mapping[str, Any], error: ValidationError) -> InputError:
    """The first of pydantic's errors in one line, and how many there are beside it."""
    errors = error.errors(include_url=False, include_context=False)
    found = errors[0]
    section, *rest = found["loc"] or ("",)
    job: str | None = None
    if section == "job" and rest:
        at = int(rest.pop(0))
        name = raw["job"][at].get("name") if isinstance(raw["job"][at], dict) else None
        job = name if isinstance(name, str) else f"number {at + 1}"
    elif section in ("batch", "defaults") and rest:
        section = f"[{section}]: {rest.pop(0)}"
    key = ": ".join(str(part) for part in rest) if job is not None else str(section)
    more = len({(e["loc"][:3]) for e in errors}) - 1
    words = _words(str(section), found["type"], found["msg"]) + (
        f" (and {more} more)" if more else ""
    )
    return where.wrong(job, key, words)


def _words(section: str, kind: str, message: str) -> str:
    if kind == "missing" and section == "job":
        return "is missing; every job has one" if section != "job" else "is missing"
    if kind == "extra_forbidden":
        known = tuple(Settings.model_fields) if section.startswith("[batch]") else _SECTIONS
        return "unknown" + did_you_mean(section.rsplit(": ", maxsplit=1)[-1], known)
    return message.removeprefix("Value error, ").replace("Input should be", "must be")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?`, or what there is to choose from."""
    listed = sorted(known)
    close = difflib.get_close_matches(word, listed, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(listed)}"
