"""Point sets of the papers: from the data folder, from scikit-learn, or drawn here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.common import data_file


@dataclass(frozen=True, eq=False)
class Points:
    """X (n, d) without missing cells, classes y (n,) from 0, their number, and what was done."""

    name: str
    X: Any
    y: Any
    k: int
    about: str = ""

    def standardised(self) -> Points:
        """Every feature with mean 0 and variance 1; constant features are 0."""
        return Points(self.name, standardised(self.X), self.y, self.k, self.about)


def standardised(X: Any) -> Any:
    """Columns with mean 0 and variance 1; constant ones are 0."""
    size = X.std(axis=0)
    size[size == 0] = 1.0
    return (X - X.mean(axis=0)) / size


def _of_file(name: str) -> dict[str, Any] | None:
    import numpy as np

    path = data_file(f"uci/{name}.npz")
    if path is None:
        return None
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in ("X", "y", "complete")}


def dermatology() -> Points | None:
    """366 rows, 6 classes; the 8 missing ages are the median, so that the paper's 366 rows stay."""
    import numpy as np

    found = _of_file("dermatology")
    if found is None:
        return None
    X = found["X"].astype(float)
    X = np.where(np.isnan(X), np.nanmedian(X, axis=0), X)
    return Points("Dermatology", X, found["y"], 6, "366 rows, 8 missing ages = median")


def hepatitis() -> Points | None:
    """The 80 rows without missing cells."""
    found = _of_file("hepatitis")
    if found is None:
        return None
    full = found["complete"].astype(bool)
    return Points("Hepatitis", found["X"][full].astype(float), found["y"][full], 2)


def ionosphere() -> Points | None:
    """351 rows; the second of its 34 features is constant."""
    found = _of_file("ionosphere")
    return None if found is None else Points("Ionosphere", found["X"].astype(float), found["y"], 2)


def glass(classes: int) -> Points | None:
    """214 rows in 6 classes, or in 2: window glass (the first three) against the rest."""
    import numpy as np

    found = _of_file("glass")
    if found is None:
        return None
    y = found["y"] if classes == 6 else (found["y"] >= 3).astype(np.int64)
    return Points("Glass, 2-way" if classes == 2 else "Glass, 6-way",
                  found["X"].astype(float), y, classes)  # fmt: skip


def iris(classes: int = 3) -> Points:
    """150 rows, or the 100 without setosa."""
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    return Points("Iris", X, y, 3) if classes == 3 else Points("Iris", X[y > 0], y[y > 0] - 1, 2)


def wine(classes: int = 3) -> Points:
    """178 rows, or the 130 of classes 1 and 2."""
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    return Points("Wine", X, y, 3) if classes == 3 else Points("Wine", X[y < 2], y[y < 2], 2)


def wdbc() -> Points:
    """569 rows, 30 features."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return Points("WDBC", X, y, 2)


def moons(n: int, noise: float, seed: int, background: int = 0) -> tuple[Any, Any]:
    """Two moons of n points, (X, y), then `background` points uniform on the box around them.

    The background's class, for scores only, is -1.
    """
    import numpy as np
    from sklearn.datasets import make_moons

    X, y = make_moons(n, noise=noise, random_state=seed)
    if background:
        rng = np.random.default_rng([seed, background])
        low, high = X.min(axis=0), X.max(axis=0)
        X = np.concatenate([X, rng.uniform(low - 0.2, high + 0.2, (background, 2))])
        y = np.concatenate([y, np.full(background, -1)])
    return X, y
