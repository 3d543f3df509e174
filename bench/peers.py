"""Other libraries, beside which mustlink is measured; each is left out where it is not installed.

A table a task: name, function. `NEEDS` says which module a name needs.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

_PACKAGES = {
    "graphlearning": "graphlearning", "scikit-network": "sknetwork", "Louvain": "igraph",
    "Leiden": "leidenalg", "random_walker": "skimage", "watershed": "skimage", "SLIC": "skimage",
    "felzenszwalb": "skimage", "grabCut": "cv2",
}  # fmt: skip


def needs(name: str) -> str | None:
    """The module that a peer needs; None for what is always there."""
    return next((module for word, module in _PACKAGES.items() if name.startswith(word)), None)


def installed(names: Iterable[str]) -> list[str]:
    """Those whose library is there; the others are named on stdout."""
    found = []
    for name in names:
        module = needs(name)
        if module is None or importlib.util.find_spec(module) is not None:
            found.append(name)
        else:
            print(f"skipped {name}: {module} is not installed")
    return found


# ---------------------------------------------------------------- labels on a graph: f(W, labels)


def graphlearning(W: Any, known: Any, model: str) -> Any:
    """On the largest component: with several its system has no solution."""
    import graphlearning as gl
    from scipy.sparse.csgraph import connected_components

    component = connected_components(W, directed=False)[1]
    one = component == np.bincount(component).argmax()
    mine = known[one]
    nodes = np.flatnonzero(mine >= 0)
    labels = np.full(len(one), -1)
    labels[one] = getattr(gl.ssl, model)(W[one][:, one]).fit_predict(nodes, mine[nodes])
    return labels


def spreading(W: Any, known: Any, alpha: float) -> Any:
    """scikit-learn's LabelSpreading, with the graph as its kernel."""
    from sklearn.semi_supervised import LabelSpreading

    model = LabelSpreading(kernel=lambda A, B: W, alpha=alpha)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 30 steps do not converge; its default
        return model.fit(np.arange(len(known))[:, None], known).transduction_


OF_LABELS: dict[str, Any] = {
    "graphlearning Laplace": partial(graphlearning, model="laplace"),
    "graphlearning Poisson": partial(graphlearning, model="poisson"),
    "scikit-learn LabelSpreading(alpha=0.99)": partial(spreading, alpha=0.99),
    "scikit-learn LabelSpreading, its default 0.2": partial(spreading, alpha=0.2),
}


def questions(
    W: Any, known: Any, answers: Any, strategy: str, batches: int, size: int
) -> list[Any]:
    """Labels (n,) after every batch of graphlearning's questions, by its Poisson learning."""
    import graphlearning as gl

    model, start = gl.ssl.poisson(W, solver="gradient_descent"), np.flatnonzero(known >= 0)
    options = {}
    if strategy != "unc_sampling":
        values, V = gl.graph(W).eigen_decomp(normalization="normalized", k=60)
        options = {"C": np.diag(1.0 / (values + 0.1 * values[9])), "V": V}
    chosen = getattr(gl.active_learning, strategy)
    learner = gl.active_learning.active_learner(model, chosen, start, known[start], **options)
    found = [model.predict()]
    for _ in range(batches):
        asked = learner.select_queries(batch_size=size)
        learner.update(asked, answers[asked])
        found.append(model.predict())
    return found


# ---------------------------------------------------------------- networks: f(W, k, seed)


def _igraph(W: Any) -> Any:
    import igraph
    import scipy.sparse as sp

    upper = sp.triu(W, 1).tocoo()
    edges = list(zip(upper.row.tolist(), upper.col.tolist(), strict=True))
    return igraph.Graph(W.shape[0], edges, edge_attrs={"weight": upper.data.tolist()})


def louvain(W: Any, k: int, seed: int) -> Any:
    import random

    random.seed(seed)  # igraph draws from Python's generator
    return np.array(_igraph(W).community_multilevel(weights="weight").membership)


def leiden(W: Any, k: int, seed: int) -> Any:
    import leidenalg

    quality = leidenalg.ModularityVertexPartition
    found = leidenalg.find_partition(_igraph(W), quality, weights="weight", seed=seed)
    return np.array(found.membership)


def sknetwork_spectral(W: Any, k: int, seed: int) -> Any:
    from sklearn.cluster import KMeans
    from sknetwork.embedding import Spectral

    rows = Spectral(k).fit_transform(W)
    return KMeans(k, n_init=10, random_state=seed).fit_predict(rows)


def sknetwork(W: Any, known: Any, classifier: str) -> Any:
    import sknetwork.classification as classification

    return getattr(classification, classifier)().fit_predict(W, known)


OF_NETWORKS: dict[str, Any] = {
    "Louvain": louvain,
    "Leiden": leiden,
    "scikit-network Spectral": sknetwork_spectral,
}
LABELS_OF_NETWORKS: dict[str, Any] = {
    "scikit-network Diffusion": partial(sknetwork, classifier="DiffusionClassifier"),
    "scikit-network PageRank": partial(sknetwork, classifier="PageRankClassifier"),
    "scikit-network Propagation": partial(sknetwork, classifier="Propagation"),
    "graphlearning Poisson": partial(graphlearning, model="poisson"),
}

# ---------------------------------------------------------------- strokes: f(image, strokes)


def colours(image: Any, strokes: Any) -> Any:
    """A mixture of five Gaussians in Lab for each label, and the likeliest."""
    from sklearn.mixture import GaussianMixture

    from mustlink.graph.image import rgb_to_lab

    X = rgb_to_lab(image / 255.0).reshape(-1, 3)
    found = [
        GaussianMixture(5, reg_covar=1.0, random_state=0).fit(X[(strokes == c).ravel()])
        for c in range(strokes.max() + 1)
    ]
    likeliest = np.column_stack([model.score_samples(X) for model in found]).argmax(axis=1)
    return np.where(strokes >= 0, strokes, likeliest.reshape(strokes.shape))


def random_walker(image: Any, strokes: Any, mode: str = "cg_j") -> Any:
    """Grady 2006, by scikit-image."""
    from skimage.segmentation import random_walker

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return random_walker(image, strokes + 1, mode=mode, channel_axis=-1) - 1


def watershed(image: Any, strokes: Any) -> Any:
    """On the gradient of the grey picture, by scikit-image."""
    from skimage.color import rgb2gray
    from skimage.filters import sobel
    from skimage.segmentation import watershed

    return watershed(sobel(rgb2gray(image)), strokes + 1) - 1


def grab_cut(image: Any, strokes: Any, by_colours: bool = False) -> Any:
    """Rother et al. 2004, by OpenCV: unknown pixels begin as ground, or by the strokes' colours."""
    import cv2

    likely = colours(image, strokes) if by_colours else np.zeros(strokes.shape, dtype=int)
    mask = np.where(likely == 1, cv2.GC_PR_FGD, cv2.GC_PR_BGD).astype(np.uint8)
    mask[strokes == 1], mask[strokes == 0] = cv2.GC_FGD, cv2.GC_BGD
    cv2.setNumThreads(1)
    cv2.setRNGSeed(0)
    rest = np.zeros((1, 65)), np.zeros((1, 65)), 5, cv2.GC_INIT_WITH_MASK
    cv2.grabCut(np.ascontiguousarray(image[..., ::-1]), mask, None, *rest)
    return ((mask == cv2.GC_FGD) | (mask == cv2.GC_PR_FGD)) * 1


OF_STROKES: dict[str, Any] = {
    "colours": colours,
    "random_walker": random_walker,
    "watershed": watershed,
    "grabCut": grab_cut,
    "grabCut by colours": partial(grab_cut, by_colours=True),
}

# ---------------------------------------------------------------- parts of a picture: f(image)


def slic_ncut(image: Any, n_segments: int, compactness: float, thresh: float) -> Any:
    """Superpixels, and the normalised cut of their graph (Shi & Malik 2000)."""
    from skimage import graph
    from skimage.segmentation import slic

    small = slic(image, n_segments=n_segments, compactness=compactness, start_label=0)
    near = graph.rag_mean_color(image, small, mode="similarity")
    return graph.cut_normalized(small, near, thresh=thresh, rng=0)


def felzenszwalb(image: Any) -> Any:
    from skimage.segmentation import felzenszwalb

    return felzenszwalb(image, scale=500, sigma=0.8, min_size=500)


def slic(image: Any) -> Any:
    from skimage.segmentation import slic

    return slic(image, n_segments=8, start_label=0)


OF_PICTURES: dict[str, Any] = {
    "SLIC + NCut": partial(slic_ncut, n_segments=400, compactness=30, thresh=0.001),
    "SLIC + NCut, chosen": partial(slic_ncut, n_segments=200, compactness=20, thresh=0.01),
    "felzenszwalb, chosen": felzenszwalb,
    "SLIC, K = 8": slic,
}

# ---------------------------------------------------------------- rows of a table: f(X, labels)


def nearest(X: Any, y: Any) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(1).fit(X[y >= 0], y[y >= 0]).predict(X)


def trees(X: Any, y: Any, n_estimators: int = 100) -> Any:
    from sklearn.ensemble import ExtraTreesClassifier

    model = ExtraTreesClassifier(n_estimators, random_state=0)
    return model.fit(X[y >= 0], y[y >= 0]).predict(X)


def _logistic() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def logistic(X: Any, y: Any) -> Any:
    return _logistic().fit(X[y >= 0], y[y >= 0]).predict(X)


def self_training(X: Any, y: Any) -> Any:
    from sklearn.semi_supervised import SelfTrainingClassifier

    return SelfTrainingClassifier(_logistic()).fit(X, y).predict(X)


def spreading_points(X: Any, y: Any) -> Any:
    """scikit-learn's LabelSpreading on its own graph of neighbours."""
    from sklearn.semi_supervised import LabelSpreading

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 30 steps do not converge; its default
        return LabelSpreading(kernel="knn", n_neighbors=15).fit(X, y).transduction_


def seeded_k_means(X: Any, y: Any) -> Any:
    from sklearn.cluster import KMeans

    centres = np.array([X[y == c].mean(axis=0) for c in np.unique(y[y >= 0])])
    return KMeans(len(centres), init=centres, n_init=1).fit_predict(X)


OF_TABLES: dict[str, Any] = {
    "1-NN": nearest,
    "extra trees": trees,
    "seeded k-means": seeded_k_means,
}

# ---------------------------------------------------------------- any answer: f(X, labels), f(X, k)

OF_LABELLED_POINTS: dict[str, Any] = {
    "1-NN": nearest,
    "extra trees": partial(trees, n_estimators=200),
    "logistic regression": logistic,
    "self-training": self_training,
    "LabelSpreading": spreading_points,
}


def k_means(X: Any, k: int) -> Any:
    from sklearn.cluster import KMeans

    return KMeans(k, n_init=10, random_state=0).fit_predict(X)


def spectral(X: Any, k: int, assign: str = "kmeans", solver: str | None = None) -> Any:
    """scikit-learn's SpectralClustering on as many neighbours as our graphs have."""
    from sklearn.cluster import SpectralClustering

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # graphs of several components; its default
        return SpectralClustering(
            k,
            affinity="nearest_neighbors",
            n_neighbors=15,
            assign_labels=assign,
            eigen_solver=solver,
            random_state=0,
        ).fit_predict(X)


OF_POINTS: dict[str, Any] = {
    "k-means": k_means,
    "SpectralClustering": spectral,
    "SpectralClustering, cluster_qr": partial(spectral, assign="cluster_qr"),
}
