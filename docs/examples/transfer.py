"""Two graphs on the same nodes, one helping the other (WD14 §6.3).

`python docs/examples/transfer.py --out FOLDER`
"""

import argparse
import tempfile
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
from mustlink_io import pictures


def main(out):
    X, truth = load_digits(return_X_y=True)
    images = X.reshape(-1, 8, 8)
    left = images[:, :, :4].reshape(len(X), -1)  # the view to be clustered
    right = images[:, :, 4:].reshape(len(X), -1)  # the view that helps

    first, second = ml.knn_graph(left), ml.knn_graph(right)
    common = {"n_clusters": 10, "affinity": "precomputed", "random_state": 0}
    alone = ml.NCut(**common).fit(first)
    other = ml.NCut(**common).fit(second)
    added = ml.NCut(**common).fit(first.affinity + second.affinity)  # the obvious rival
    known = ml.Constraints.from_graph(second)
    together = ml.CSP(**common, subspace="exact").fit(first, constraints=known)

    figures = {
        "left half": adjusted_rand_score(truth, alone.labels_),
        "right half": adjusted_rand_score(truth, other.labels_),
        "both graphs added": adjusted_rand_score(truth, added.labels_),
        "left half, helped by right": adjusted_rand_score(truth, together.labels_),
    }
    for name, value in figures.items():
        print(f"ARI, {name}: {value:.3f}")
    print("how:", together.report_.choices["why"])

    figure = pictures.embedding(together.embedding_, together.labels_)
    pictures.save(figure, out / "transfer.png")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=None, help="folder for the picture")
    folder = parser.parse_args().out or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
    print(f"picture: {folder / 'transfer.png'}")
