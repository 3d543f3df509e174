"""What is remembered on disk: one folder a job with `status.json`, `log.txt`, `result.json`.

Every status is written whole (sync, rename): a killed batch leaves the old one or the new one. A
status says what was run (`key`), on which inputs, and which output came of it.
"""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

import mustlink
from mustlink.errors import InputError
from mustlink.workspace.shelf import VERSION
from mustlink_io.batch.arguments import WAYS
from mustlink_io.batch.expand import JobSpec
from mustlink_io.batch.templates import MARK
from mustlink_io.formats import stream
from mustlink_io.hdf5 import store

STATUS, LOG, RESULT = "status.json", "log.txt", "result.json"
PART = RESULT + ".part"
FORMAT: Literal[1] = 1

Phase = Literal["running", "done", "failed", "interrupted"]


class Stamp(BaseModel):
    """A file as it was: equal size and time mean an equal file; else `sha256` decides."""

    model_config = ConfigDict(frozen=True)

    bytes: int
    mtime_ns: int
    sha256: str | None = None


class Status(BaseModel):
    """How the last attempt at a job went.

    `inputs` is by role. `planned` marks a failure of the plan: the job was not begun.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: Literal[1] = 1
    name: str
    phase: Phase
    key: str
    version: str = ""
    arguments: list[str]
    inputs: dict[str, Stamp]
    attempts: int = 0
    started: str
    started_ns: int
    seconds: float | None = None
    exit_code: int | None = None
    error: str | None = None
    planned: bool = False
    plan_bytes: int | None = None
    plan_seconds: float | None = None
    memory: int | None = None
    threads: int | None = None
    peak_bytes: int | None = None
    output: Stamp | None = None


def now() -> str:
    """Return the time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def key(spec: JobSpec) -> str:
    """Return the digest of what a job asks for, whatever its limits."""
    values = {name: value for name, value in spec.values.items() if name not in WAYS}
    text = json.dumps([spec.command, values], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def version() -> str:
    """What made a result: this version, and that of the results of its stages."""
    return f"{mustlink.__version__}, stages {VERSION}"


def stamp(path: Path, digest: bool = False) -> Stamp:
    """Return size and time of a file, and its SHA-256 if asked for."""
    found = path.stat()
    return Stamp(
        bytes=found.st_size,
        mtime_ns=found.st_mtime_ns,
        sha256=stream.sha256(path) if digest else None,
    )


def unchanged(path: Path, before: Stamp) -> bool:
    """Whether a file is still what it was; its contents are read only if its time differs."""
    try:
        found = stamp(path)
    except OSError:
        return False
    if found.bytes != before.bytes:
        return False
    if found.mtime_ns == before.mtime_ns:
        return True
    return before.sha256 is not None and stream.sha256(path) == before.sha256


class State:
    """The state folder of one batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, jobs_file: Path) -> None:
        """Make the folder, or make sure that it is one of ours; raises InputError."""
        mark = self.folder / MARK
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder}: is a file; give --state a folder")
        if self.folder.is_dir() and not mark.exists():
            held = [entry.name for entry in os.scandir(self.folder) if not _is_lock(entry.name)]
            if held:
                raise InputError(
                    f"{self.folder}: holds {sorted(held)[0]} and is no state of a batch; give "
                    "--state another folder"
                )
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.folder}: cannot be made: {error.strerror}") from error
        if not mark.exists():
            _write(mark, json.dumps({"format": FORMAT, "jobs": jobs_file.name}))

    def place(self, name: str) -> Path:
        """Folder of a job."""
        return self.folder / name

    def read(self, name: str) -> Status | None:
        """Status of a job, None if it was never started or cannot be read."""
        try:
            return Status.model_validate_json((self.place(name) / STATUS).read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def write(self, status: Status) -> None:
        """Keep a status; on disk when this returns. Raises InputError (a full disk)."""
        folder = self.place(status.name)
        folder.mkdir(exist_ok=True)
        _write(folder / STATUS, status.model_dump_json(indent=1) + "\n")

    def result(self, name: str, file: str = RESULT) -> dict[str, Any] | None:
        """Result of a job as its child printed it, None if there is none or only a part."""
        try:
            found = json.loads((self.place(name) / file).read_bytes())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def keep_result(self, name: str) -> None:
        """Make what the child printed the result of the job."""
        part = self.place(name) / PART
        with open(part, "rb") as file:
            os.fsync(file.fileno())
        os.replace(part, self.place(name) / RESULT)

    def used(self) -> list[Status]:
        """Every status there is, of jobs that are no longer in the file too."""
        if not self.folder.is_dir():
            return []
        found = (self.read(entry.name) for entry in os.scandir(self.folder) if entry.is_dir())
        return [status for status in found if status is not None]

    def clear(self) -> None:
        """Forget every job: remove our files in it, nothing else."""
        for status in self.used():
            folder = self.place(status.name)
            for name in (STATUS, LOG, RESULT, PART):
                (folder / name).unlink(missing_ok=True)
            if not any(folder.iterdir()):
                folder.rmdir()


def _is_lock(name: str) -> bool:
    return name.startswith(".") and name.endswith(".lock")


def _write(path: Path, text: str) -> None:
    with store.atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
