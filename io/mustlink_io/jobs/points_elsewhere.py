"""Points that a model does not hold: in the file that they were read from, or with the caller."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from mustlink.check import as_points
from mustlink.errors import InputError
from mustlink.preparation.request import Preparation
from mustlink.workspace.keeper import digest
from mustlink_io import formats
from mustlink_io.formats import stream
from mustlink_io.formats.preparing import Apart

_HOW = ("file", "sha256", "want", "steps", "apart", "shape")


class PointsElsewhere:
    """Points (n, d) of a model that are read when they are first asked for, and checked."""

    ndim = 2

    def __init__(self, reference: Mapping[str, Any], model: Path) -> None:
        self.reference = dict(reference)
        self.shape: tuple[int, int] = tuple(reference["shape"])
        self._model = model
        self._found: NDArray[Any] | None = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All of them; raises InputError where they are not there, or others."""
        if self._found is None:
            self._found = self._read()
        return self._found if dtype is None else self._found.astype(dtype, copy=False)

    def _read(self) -> NDArray[Any]:
        if "file" not in self.reference:
            raise InputError(
                f"{self._model}: the points are not in it, only their digest; give them: "
                "mustlink.load(path, data=X)"
            )
        text = _found(self.reference["file"], self._model)
        place = formats.parse(text)
        if not place.path.exists() or stream.sha256(place.path) != self.reference["sha256"]:
            gone = "has changed since" if place.path.exists() else "is not there"
            raise InputError(
                f"{self._model}: its points are those of {text}, which {gone}; give them: "
                "mustlink.load(path, data=X)"
            )
        given = self.reference["steps"]
        try:
            steps: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
            apart = tuple(Apart(str(option), str(name)) for option, name in self.reference["apart"])
            how: dict[str, Any] = {"steps": Preparation(**steps), "apart": apart}
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{self._model}: damaged: how points were read; save anew") from error
        how["want"] = "points" if self.reference["want"] == "points" else None
        return as_points(formats.load(text, **how).value)


def reference_of(
    text: str, sha256: str, want: Any, steps: Preparation, apart: Any, shape: Any
) -> dict[str, Any]:
    """How points are found again: from which file, read as what, prepared how."""
    told = [(one.option, one.name) for one in apart]
    return dict(zip(_HOW, (text, sha256, want, steps.to_dict(), told, list(shape)), strict=True))


def points_of(reference: Mapping[str, Any], model: Path, data: Any) -> Any:
    """The caller's points, if they are those; else such that are read when asked for. InputError.

    `reference` may come from any file: it names a file to read, and nothing to be done.
    """
    shape: Any = reference.get("shape")
    fine = isinstance(shape, list | tuple) and len(shape) == 2
    told = "digest" in reference or set(reference) == set(_HOW)
    if not fine or not told or not all(isinstance(size, int) and size > 0 for size in shape):
        raise InputError(f"{model}: damaged: the reference to its points; save it anew")
    if data is None:
        return PointsElsewhere(reference, model)
    X = as_points(data, "data")
    if X.shape != tuple(shape):
        raise InputError(f"{model}: data of shape {X.shape}; those that were fitted have {shape}")
    if "digest" in reference and digest(X) != reference["digest"]:
        raise InputError(f"{model}: data are other points than those that were fitted")
    return X


def _found(text: str, model: Path) -> str:
    """The file as it was named, or beside the model."""
    place = formats.parse(text)
    if place.path.exists() or place.path.is_absolute():
        return text
    beside = model.parent / place.path
    return text if not beside.exists() else f"{beside}:{place.part}" if place.part else str(beside)
