"""The jobs file: TOML checked by pydantic, its grids and templates made jobs."""

from __future__ import annotations

import difflib
import fnmatch
import glob
import itertools
import os
import re
import string
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from mustlink.core.process_memory import parse_size
from mustlink.errors import InputError
from mustlink_io import formats
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


MARK = "batch.json"  # says that a folder is the state of a batch
FILES = (
    "data",
    "labels",
    "constraints",
    "soft-labels",
    "graph",
    "view",
    "weights",
    "prior",
    "belief",
)
_LONGEST = 150  # bytes of a name
_UNSAFE = re.compile(r"[^\w.+,=@ -]")


def split(text: str) -> tuple[str, str | None]:
    """Split `FILE.h5:DATASET` as `formats.parse` does, but leave the words as they are."""
    place = formats.parse(text)
    if place.part is None:
        return text, None
    return text[: -len(place.part) - 1], place.part


def safe(value: Scalar) -> str:
    """Return a value as a part of a file name: no separators, no leading dot, never empty."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    text = _UNSAFE.sub("-", text)
    return f"_{text}" if text[:1] in ("", ".") else text


def fields(values: Mapping[str, Scalar]) -> dict[str, str]:
    """Return what templates may name: every key, the data's folder and dataset; all safe."""
    found = {key: safe(value) for key, value in values.items()}
    for key in FILES:
        if isinstance(values.get(key), str):
            found[key] = safe(PurePath(split(str(values[key]))[0]).stem)
    path, part = split(str(values["data"]))
    found["folder"] = safe(PurePath(path).parent.name)
    found["dataset"] = safe((part or "").strip("/"))
    return found


def fill(template: str, known: Mapping[str, str]) -> str:
    """Put `known` in place of `{key}`; `{{` and `}}` are braces. Raises InputError."""
    found = ""
    try:
        for literal, field, form, conversion in string.Formatter().parse(template):
            found += literal
            if field is None:
                continue
            key = field.replace("_", "-")
            if form or conversion or not key:
                raise InputError(f"{template!r}: write {{key}} and nothing else into the braces")
            if key not in known:
                listed = ", ".join(sorted(known))
                raise InputError(f"{{{field}}} is not known in this job; known are {listed}")
            found += known[key]
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{template!r}: a brace has no partner; double it to mean one") from error
    return found


def check_name(name: str) -> None:
    """Raise InputError unless a name can be a folder of the state."""
    if _UNSAFE.search(name) or not name.strip() or name[0] in ". " or name[-1] == " ":
        raise InputError(
            f"{name!r} names a folder of the state too; use letters, digits and . + - _ = , @"
        )
    if name.casefold() == MARK:
        raise InputError(f"{name!r} is a file of the state; give another name")
    if len(os.fsencode(name)) > _LONGEST:
        raise InputError(f"{name[:40]}…: longer than {_LONGEST} bytes; give a shorter one")


Values = dict[str, Scalar]
Fits = Callable[[str, Mapping[str, Scalar], str], bool]  # (command, values, key of [defaults])

MOST = 10_000  # jobs of one file
TRUTH = "truth"  # a key that is no option: it is for the table of the batch
TEMPLATES = (*FILES[1:], TRUTH)  # beside name and output
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class JobSpec:
    """One job: its options as written in the file, without lists and templates.

    `values` has `data`, `output` and option names of the command line without their dashes, `truth`
    is a file of true labels for the table of the batch.
    """

    name: str
    command: str
    values: Mapping[str, Scalar]
    truth: str | None = None


def expand(file: JobsFile, where: Where, fits: Fits) -> list[JobSpec]:
    """Return all jobs in the order of the file; within a `[[job]]` the last list varies
    fastest, and lists of `[defaults]` are behind its own.

    A value of `[defaults]` is given to the jobs that `fits` says can take it. Raises InputError
    for names and outputs that are not unique, templates that cannot be filled, globs that match
    nothing.
    """
    jobs: list[JobSpec] = []
    defaults = one_spelling(file.defaults, where, None)
    command = str(defaults.pop("command", "cluster"))
    if "name" in defaults:
        raise where.wrong(None, "[defaults]: name", "belongs to a job; every job has its own")
    for entry in file.job:
        jobs += _entry(entry, entry.command or command, defaults, where, fits)
        if len(jobs) > MOST:
            raise where.wrong(entry.name, None, f"with it there are more than {MOST:,} jobs")
    _check_unique(jobs, where)
    return jobs


def one_spelling(given: Mapping[str, Any], where: Where, job: str | None) -> dict[str, Any]:
    """Return the keys with dashes, as on the command line; underscores mean the same."""
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = key.replace("_", "-")
        if name in found:
            raise where.wrong(job, name, "given twice, with a dash and with an underscore")
        found[name] = value
    return found


def _entry(
    entry: Entry, command: str, defaults: Mapping[str, Any], where: Where, fits: Fits
) -> list[JobSpec]:
    own = one_spelling(entry.__pydantic_extra__, where, entry.name)
    merged = {**own, **{key: value for key, value in defaults.items() if key not in own}}
    if "data" not in merged:
        raise where.wrong(entry.name, "data", "is missing; give a file, or a list of files")
    if isinstance(merged.get("output"), list):
        raise where.wrong(entry.name, "output", "is a list; give one template, as out/{name}.h5")
    lists = {key: value if isinstance(value, list) else [value] for key, value in merged.items()}
    lists["data"] = [match for text in lists["data"] for match in _glob(text, entry.name, where)]
    size = 1
    for values in lists.values():
        size *= len(values)
    if size > MOST:
        raise where.wrong(entry.name, None, f"its lists make {size:,} jobs; at most {MOST:,}")
    found: dict[str, Values] = {}
    for combination in itertools.product(*lists.values()):
        given = dict(zip(lists, combination, strict=True))
        whole = {k: _for_data(v, k, given["data"], entry.name, where) for k, v in given.items()}
        kept = {*own, TRUTH}
        point = {k: v for k, v in whole.items() if k in kept or fits(command, whole, k)}
        found.setdefault(repr(point), point)  # equal once defaults that do not fit are left out
    points = list(found.values())
    varying = [
        key
        for key, values in lists.items()
        if len(values) > 1 and len({repr(point.get(key)) for point in points}) > 1
    ]
    jobs = [_fill(entry.name, command, point, varying, where) for point in points]
    _check_globs(lists, merged["data"], jobs, where)
    return jobs


def _for_data(value: Any, key: str, data: Any, job: str, where: Where) -> Scalar:
    """A value, or that of a data set in a table by the names of their files without ending."""
    if not isinstance(value, Mapping):
        found: Scalar = value
        return found
    name = PurePath(split(str(data))[0]).stem
    if name not in value:
        listed = ", ".join(value)
        raise where.wrong(job, key, f"its table has no value for {name}; there are {listed}")
    chosen: Scalar = value[name]
    return chosen


def _glob(text: Scalar, job: str, where: Where) -> list[str]:
    """Files a pattern such as `in/*.h5:/points` matches, sorted; a plain name is itself."""
    if not isinstance(text, str) or not text:
        raise where.wrong(job, "data", f"{text!r} is not the name of a file")
    place = formats.parse(where.path(text))
    if place.path.exists() or not _WILD.search(text):
        return [text]
    pattern, part = split(text)
    found = sorted(glob.glob(pattern, root_dir=where.folder, recursive=True))
    found = [name for name in found if os.path.isfile(where.folder / name)]
    if not found:
        raise where.wrong(job, "data", f"{text}: no file matches")
    return [name + (f":{part}" if part is not None else "") for name in found]


def _fill(name: str, command: str, values: Values, varying: Sequence[str], where: Where) -> JobSpec:
    values = dict(values)
    key = "data"
    try:
        known = {**fields(values), "file": split(str(values["data"]))[0]}
        for key in TEMPLATES:
            if isinstance(values.get(key), str):
                values[key] = fill(str(values[key]), known)
        key, known = "name", fields(values)
        if "{" in name or "}" in name:
            full = fill(name, known)
        else:
            full = "-".join([name, *(known[at] for at in varying if at in known)])
        check_name(full)
        key = "output"
        if key not in values:
            raise InputError("is missing; give one, such as out/{name}.h5")
        if not isinstance(values[key], str) or not values[key]:
            raise InputError(f"{values[key]!r} is not the name of a file")
        values[key] = fill(str(values[key]), {**known, "name": full})
    except InputError as error:
        raise where.wrong(name, key, str(error)) from error
    truth = values.pop(TRUTH, None)
    return JobSpec(full, command, values, None if truth is None else str(truth))


# ---------------------------------------------------------------- what must not be


def _check_unique(jobs: Sequence[JobSpec], where: Where) -> None:
    names: dict[str, JobSpec] = {}
    outputs: dict[str, JobSpec] = {}
    for job in jobs:
        other = names.setdefault(job.name.casefold(), job)
        if other is not job:
            raise where.wrong(
                job.name, "name", "two jobs are called so; put what differs between them into "
                "name, such as {folder}-{data} or {dataset}"
            )  # fmt: skip
        output = os.path.realpath(where.path(str(job.values["output"])))
        other = outputs.setdefault(output, job)
        if other is not job:
            raise where.wrong(
                job.name, "output", f'{job.values["output"]} is written by job "{other.name}" '
                "too; put what differs between them into output, such as out/{name}.h5"
            )  # fmt: skip
    for job in jobs:
        for key in FILES:
            if not isinstance(job.values.get(key), str):
                continue
            path = os.path.realpath(where.path(split(str(job.values[key]))[0]))
            if path in outputs:
                raise where.wrong(
                    job.name, key, f'{job.values[key]} is the output of job "{outputs[path].name}"'
                    "; jobs do not wait for each other: write it elsewhere, or in a batch before"
                )  # fmt: skip


def _check_globs(
    lists: Mapping[str, Sequence[Scalar]],
    data: object,
    jobs: Sequence[JobSpec],
    where: Where,
) -> None:
    """An output that a pattern of the data matches would be data of the next run."""
    given = data if isinstance(data, list) else [data]
    patterns = [split(str(text))[0] for text in given if text not in lists["data"]]
    for job, pattern in itertools.product(jobs, patterns):
        output = os.path.normpath(str(job.values["output"]))
        if _matches(PurePath(output).parts, PurePath(os.path.normpath(pattern)).parts):
            raise where.wrong(
                job.name,
                "output",
                f"{output} matches the data {pattern} and would be taken for data by the next "
                "run; give outputs a folder of their own",
            )


def _matches(path: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Whether glob would find the path; `**` stands for any folders."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(_matches(path[at:], pattern[1:]) for at in range(len(path) + 1))
    return bool(path) and fnmatch.fnmatchcase(path[0], pattern[0]) and _matches(
        path[1:], pattern[1:]
    )  # fmt: skip
