"""The jobs file: TOML checked by pydantic, its grids and templates made jobs."""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import itertools
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from mustlink.core.resources import named_memory
from mustlink.errors import InputError, spelt_alike
from mustlink_io import formats
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.file_names import named_view

Scalar = bool | int | float | str
COMMANDS = ("cluster", "propagate", "graph")
_LARGEST = 2**20  # bytes of a jobs file
MOST = 10_000  # jobs of one file
TRUTH = "truth"  # a key that is no option: labels that the table of the batch scores with
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
_WILD = re.compile(r"[*?\[]")


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
Values = dict[str, Scalar]
Fits = Callable[[str, Mapping[str, Scalar], str], bool]  # (command, values, key of [defaults])


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
        """Folder of the jobs file."""
        return self.file.parent

    def path(self, text: str, key: str = "") -> str:
        """Return a path written in the file as the program may open it; a view may have a name."""
        name, text = named_view(text) if key == "view" else (None, text)
        found = text if self.folder == Path() else str(self.folder / text)
        return found if name is None else f"{name}={found}"

    def wrong(self, job: str | None, key: str | None, words: str) -> InputError:
        """Return the error that names file, job and key."""
        parts = [str(self.file)]
        parts += [f'job "{job}"'] if job is not None else []
        parts += [key] if key else []
        return InputError(": ".join([*parts, words]))

    @contextlib.contextmanager
    def about(self, job: str | None, key: str | None) -> Iterator[None]:
        """Let errors in the block name file, job and key; some begin with the option's dashes."""
        try:
            yield
        except InputError as error:
            raise self.wrong(job, key, str(error).removeprefix("--")) from error


def load(where: Where) -> JobsFile:
    """Read and check the form of a jobs file; raises InputError.

    The meaning of the keys is checked by `expand` and `arguments`.
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
    with where.about(None, "batch"):
        if found.batch.memory is not None:
            named_memory(found.batch.memory)
    return found


def _first(where: Where, raw: Mapping[str, Any], error: ValidationError) -> InputError:
    # What is misspelt is missing, too: the word that is there says more.
    found = min(error.errors(include_url=False), key=lambda one: one["type"] == "missing")
    section, *rest = (str(part) for part in found["loc"])
    job = None
    if section == "job" and rest:
        entry = raw["job"][int(rest[0])]
        name = entry.get("name") if isinstance(entry, dict) else None
        job = name if isinstance(name, str) else f"number {int(rest[0]) + 1}"
        key = ": ".join(rest[1:])
    else:
        key = ": ".join([section, *rest])
    words = found["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    if found["type"] == "missing":
        words = "is missing"
    elif found["type"] == "extra_forbidden":
        words = "unknown" + did_you_mean(
            key.split(": ")[-1], (Settings if rest else JobsFile).model_fields
        )
    return where.wrong(job, key, words)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?`, or all that there are to choose from."""
    listed = sorted(known)
    close = spelt_alike(word, listed)
    return f"; did you mean {close}?" if close else f"; there are {', '.join(listed)}"


def split(text: str) -> tuple[str, str | None]:
    """Split `FILE.h5:DATASET` as `formats.parse` does, but leave the words as they are."""
    part = formats.parse(text).part
    return (text, None) if part is None else (text[: -len(part) - 1], part)


def safe(value: Scalar) -> str:
    """Return a value as a part of a file name: no separators, no leading dot, never empty."""
    text = _UNSAFE.sub("-", str(value).lower() if isinstance(value, bool) else str(value))
    return f"_{text}" if text[:1] in ("", ".") else text


def fields(values: Mapping[str, Scalar]) -> dict[str, str]:
    """Return the fields of templates: every key, the data's folder and dataset; all safe."""
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
    try:
        return template.format_map({**known, **{k.replace("-", "_"): known[k] for k in known}})
    except KeyError as error:
        listed = ", ".join(sorted(known))
        raise InputError(
            f"{{{error.args[0]}}} is not known in this job; known are {listed}"
        ) from error
    except (ValueError, LookupError, AttributeError) as error:
        raise InputError(
            f"{template!r}: no template ({error}); write {{key}}, and a brace twice to mean one"
        ) from error


def check_name(name: str) -> None:
    """Raise InputError unless a name can be a folder of the state."""
    if _UNSAFE.search(name) or not name.strip() or name[0] in ". " or name[-1] == " ":
        raise InputError(
            f"{name!r} names a folder of the state too; use letters, digits and . + - _ = , @"
        )
    if len(os.fsencode(name)) > _LONGEST:
        raise InputError(f"{name[:40]}…: longer than {_LONGEST} bytes; give a shorter one")


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
    """Return all jobs in the order of the file; within a `[[job]]` the last list varies fastest,
    and lists of `[defaults]` come behind its own.

    A value of `[defaults]` goes to the jobs that can take it, by `fits`. Raises InputError
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
    _check_apart(jobs, where)
    return jobs


def one_spelling(values: Mapping[str, Any], where: Where, job: str | None) -> dict[str, Any]:
    """Return the keys with dashes, as on the command line; underscores mean the same."""
    found = {key.replace("_", "-"): value for key, value in values.items()}
    if len(found) < len(values):
        twice = next(key for key in values if "_" in key and key.replace("_", "-") in values)
        name = twice.replace("_", "-")
        raise where.wrong(job, name, "is there twice, with a dash and with an underscore")
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
    patterns = [text for text in lists["data"] if _WILD.search(str(text))]
    lists["data"] = [match for text in lists["data"] for match in _glob(text, entry.name, where)]
    size = math.prod(map(len, lists.values()))
    if size > MOST:
        raise where.wrong(entry.name, None, f"its lists make {size:,} jobs; at most {MOST:,}")
    points: dict[str, Values] = {}
    for combination in itertools.product(*lists.values()):
        mixed = dict(zip(lists, combination, strict=True))
        whole = {k: _for_data(v, k, mixed["data"], entry.name, where) for k, v in mixed.items()}
        point = {k: v for k, v in whole.items()
                 if k in own or k == TRUTH or fits(command, whole, k)}  # fmt: skip
        points.setdefault(repr(point), point)  # equal without defaults that do not fit
    lists_of_many = [key for key, values in lists.items() if len(values) > 1]
    varying = [k for k in lists_of_many if len({repr(one.get(k)) for one in points.values()}) > 1]
    jobs = [_fill(entry.name, command, one, varying, where) for one in points.values()]
    for job, pattern in itertools.product(jobs, patterns):
        output = os.path.normpath(str(job.values["output"]))
        if _matches(output, os.path.normpath(split(str(pattern))[0])):
            raise where.wrong(
                job.name,
                "output",
                f"{output} matches the data {pattern} and would be data of the next run; give "
                "outputs a folder of their own",
            )
    return jobs


def _for_data(value: Any, key: str, data: Any, job: str, where: Where) -> Scalar:
    """A value, or that of a data set in a table by the names of their files without ending."""
    if isinstance(value, Mapping):
        name = PurePath(split(str(data))[0]).stem
        if name not in value:
            listed = ", ".join(value)
            raise where.wrong(job, key, f"its table has no value for {name}; there are {listed}")
        value = value[name]
    found: Scalar = value
    return found


def _glob(text: Scalar, job: str, where: Where) -> list[str]:
    """Files that a pattern such as `in/*.h5:/points` matches, sorted; a plain name is itself."""
    if not isinstance(text, str) or not text:
        raise where.wrong(job, "data", f"{text!r} is not the name of a file")
    if formats.parse(where.path(text)).path.exists() or not _WILD.search(text):
        return [text]
    pattern, part = split(text)
    found = sorted(glob.glob(pattern, root_dir=where.folder, recursive=True))
    found = [name for name in found if os.path.isfile(where.folder / name)]
    if not found:
        raise where.wrong(job, "data", f"{text}: no file matches")
    return [name + (f":{part}" if part is not None else "") for name in found]


def _matches(path: str, pattern: str) -> bool:
    """Whether glob would find a path, or may where `**` stands for any folders."""
    if "**" in pattern:
        return fnmatch.fnmatchcase(path, pattern.replace("**/", "*"))
    # from the root on, as otherwise the end of a path is enough
    return PurePath("/", path).match(os.path.join("/", pattern))


def _fill(name: str, command: str, values: Values, varying: Sequence[str], where: Where) -> JobSpec:
    values = dict(values)
    key = "data"
    try:
        known = {**fields(values), "file": split(str(values["data"]))[0]}
        for key in (*FILES[1:], TRUTH):
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


def _check_apart(jobs: Sequence[JobSpec], where: Where) -> None:
    names: dict[str, JobSpec] = {}
    outputs: dict[str, JobSpec] = {}
    for job in jobs:
        if names.setdefault(job.name.casefold(), job) is not job:
            raise where.wrong(
                job.name, "name", "two jobs have it; put what differs between them into name, "
                "such as {folder}-{data} or {dataset}"
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
            value = job.values.get(key)
            value = named_view(value)[1] if key == "view" and isinstance(value, str) else value
            path = os.path.realpath(where.path(split(value)[0])) if isinstance(value, str) else ""
            if path in outputs:
                raise where.wrong(
                    job.name, key, f'{value} is the output of job "{outputs[path].name}"; jobs do '
                    "not wait for each other: write it elsewhere, or in a batch before"
                )  # fmt: skip
