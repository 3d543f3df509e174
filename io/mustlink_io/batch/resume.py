"""What `--resume` may leave alone: jobs that ended, if nothing they depend on has changed since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.batch.arguments import Ready
from mustlink_io.batch.state import (
    PART,
    RESULT,
    STATUS,
    Stamp,
    State,
    Status,
    key,
    stamp,
    unchanged,
    version,
)
from mustlink_io.hdf5 import store


def standing(ready: Ready, state: State) -> tuple[Status | None, str]:
    """Return the status of a job that still counts, or None, and why an earlier one does not.

    It counts if the job asks for the same of the same inputs, and what came of it is there: the
    output of a job that is done must be readable and as it was written. A failure of the plan never
    counts, as there may be more memory now. A job whose child had finished when the batch was
    killed is done; every other one that was running is interrupted.
    """
    name = ready.spec.name
    status = state.read(name)
    if status is None:
        broken = (state.place(name) / STATUS).exists()
        return None, f"its {STATUS} cannot be read" if broken else ""
    why = _outdated(ready, status)
    if status.planned or why:
        return None, why
    if status.phase == "running":
        status = _ended_unseen(ready, status, state)
    if status.phase == "done":
        why = _lost(ready, status, state)
    return (None, why) if why else (status, "")


def _outdated(ready: Ready, status: Status) -> str:
    """Why a status is about another job, empty if it is about this one."""
    if status.key != key(ready.spec):
        return "the jobs file asks for something else now"
    if status.version != version():
        return "another version of mustlink did it"
    for role, path in input_files(ready).items():
        if role not in status.inputs or not unchanged(path, status.inputs[role]):
            return f"its {role} changed"
    return ""


def _lost(ready: Ready, status: Status, state: State) -> str:
    """What is missing of a job that is done, empty if nothing."""
    if not ready.output.exists():
        return f"{ready.output} is gone"
    if status.output is None or not unchanged(ready.output, status.output):
        return f"{ready.output} is not as it was written"
    try:
        with store.open_h5(ready.output):
            pass
    except InputError:
        return f"{ready.output} cannot be read"
    return "" if state.result(ready.spec.name) else f"its {RESULT} is gone"


def _ended_unseen(ready: Ready, status: Status, state: State) -> Status:
    """The status of a job that was running when the batch was killed."""
    name = ready.spec.name
    unkept = state.result(name, PART)
    whole = unkept or state.result(name)
    try:
        written = ready.output.stat().st_mtime_ns >= status.started_ns
    except OSError:
        written = False
    if whole is None or not written:
        return status.model_copy(update={"phase": "interrupted"})
    if unkept is not None:
        state.keep_result(name)
    found = finished(ready, status, whole)
    state.write(found)
    return found


def finished(ready: Ready, status: Status, result: dict[str, Any]) -> Status:
    """Return the status of a job that succeeded, with the identity of its output."""
    digests = {
        str(item.get("role")): item.get("sha256")
        for item in result.get("inputs") or ()
        if isinstance(item, dict)
    }
    return status.model_copy(
        update={
            "phase": "done",
            "exit_code": 0,
            "error": None,
            "seconds": status.seconds or result.get("seconds"),
            "peak_bytes": result.get("peak_bytes") or status.peak_bytes,
            "inputs": {
                role: found.model_copy(update={"sha256": digests.get(role)})
                for role, found in status.inputs.items()
            },
            "output": stamp(ready.output, digest=True),
        }
    )


def input_files(ready: Ready) -> dict[str, Path]:
    """Return the files a job reads, by role."""
    return {role: formats.parse(text).path for role, text in ready.job.inputs.items()}


def stamps(ready: Ready) -> dict[str, Stamp]:
    """Return the files a job reads as they are now, by role; those that went away are left out."""
    return {role: stamp(path) for role, path in input_files(ready).items() if path.exists()}
