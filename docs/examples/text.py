"""Documents, a few of them labelled by name: `python docs/examples/text.py --out FOLDER`."""

import argparse
import inspect
import tempfile
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline

import mustlink as ml
from mustlink_io import pictures

TOPICS = ("stats", "signal", "linalg", "sparse", "optimize", "special", "ndimage", "interpolate")
LABELS_A_TOPIC = 4


def documents():
    """Docstrings of SciPy, and the part of SciPy that each belongs to."""
    texts = {}
    for topic in TOPICS:
        module = import_module(f"scipy.{topic}")
        for name in module.__all__:
            text = inspect.getdoc(getattr(module, name)) or ""
            if "casting=" in text[:200]:  # the signature of every ufunc, the same throughout
                text = text.split("\n", 1)[-1].lstrip()
            if len(text) > 200:
                texts.setdefault(text.replace(topic, ""), topic)  # the answer is not in it
    return list(texts), np.array(list(texts.values()))


def main(out):
    warnings.simplefilter("ignore", DeprecationWarning)
    texts, truth = documents()
    words = TfidfVectorizer(
        stop_words="english", token_pattern="[a-z]{3,}", sublinear_tf=True, min_df=3, max_df=0.3
    )
    X = make_pipeline(words, TruncatedSVD(60, random_state=0)).fit_transform(texts)

    rng = np.random.default_rng(0)
    y = np.full(len(texts), "", dtype=object)  # "" is unknown
    for topic in TOPICS:
        chosen = rng.choice(np.flatnonzero(truth == topic), LABELS_A_TOPIC, replace=False)
        y[chosen] = topic

    common = {"n_clusters": len(TOPICS), "metric": "cosine", "random_state": 0}
    without = ml.NCut(**common).fit(X)
    with_labels = ml.CSP(**common).fit(X, y)
    spread = ml.Poisson(metric="cosine", random_state=0).fit(X, y)  # a topic for every document

    figures = {
        "documents": len(texts),
        "without": adjusted_rand_score(truth, without.labels_),
        "with": adjusted_rand_score(truth, with_labels.labels_),
        "accuracy": float(np.mean(spread.labels_ == truth)),
    }
    print(f"{len(texts)} documents on {len(TOPICS)} topics, {LABELS_A_TOPIC} labels a topic")
    print(f"ARI without labels {figures['without']:.3f}, with labels {figures['with']:.3f}")
    print(f"topic propagated rightly: {figures['accuracy']:.1%}")
    for number in np.argsort(spread.confidence_)[:3]:
        first = texts[number].splitlines()[0][:60]
        print(f"least certain: {first!r}: {spread.labels_[number]}, in truth {truth[number]}")

    numbers = np.unique(y, return_inverse=True)[1] - 1  # -1 for ""
    figure = pictures.embedding(with_labels.embedding_, with_labels.labels_, known_labels=numbers)
    pictures.save(figure, out / "text.png")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=None, help="folder for the picture")
    folder = parser.parse_args().out or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
    print(f"picture: {folder / 'text.png'}")
