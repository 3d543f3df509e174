"""WD14 Fig. 11: documents in two languages, the one's graph as soft must-links of the other's.

The paper draws 1,000 documents of six topics from Reuters Multilingual (Amini et al. 2009), makes
graphs of cosines between tf-idf vectors of the original language and of a translation, and takes
the first as Q of the second. Here 500 of 600 English documents and their four translations from
that collection, where text/reuters_multilingual.npz is in the data folder (100 a topic, chosen by
others who share them for multi-view clustering; there are no French originals, hence no Fig. 11b).
Beside them a stand-in that is always at hand: 600 articles of six newsgroups (20 Newsgroups), whose
words are dealt to five "languages" without a word in common, six tenths of all to the original and
one to each of four translations, which so know less.

β by eq. 19, of λ_K of Q̄ as its largest is a trivial cut (§6.3). The paper prints two ways to
clusters, k-means on the rows (Alg. 2) and on the signs of rows weighted by cost (eq. 16), by which
its statements are judged; k-means on rows of length 1 (Ng et al.) is shown for both graphs, too, as
are this package's defaults. ARI.
"""

from __future__ import annotations

from typing import Any

from bench.runner import data_file

from . import common, reporting
from .methods import Method, Score, measured
from .reporting import Report, Statement, Table, by_statements
from .running import Found, Task

DRAWS = 10
K, OF_TOPIC = 6, 100
REUTERS, GROUPS = "Reuters Multilingual", "20 Newsgroups, dealt words"
TAKEN = 500  # of 600
TOPICS = ("comp.graphics", "rec.sport.baseball", "sci.space", "talk.politics.guns",
          "soc.religion.christian", "misc.forsale")  # fmt: skip
ORIGINAL = 0
Means = dict[tuple[str, str, str], float | None]  # by language, way and "plain" or "CSP"
_PAPER = {"subspace": "exact", "beta": "paper"}
ROWS, SIGNS, SPHERE, OURS = (
    "rows (Alg. 2)",
    "signs by cost (eq. 16)",
    "rows of length 1",
    "defaults",
)
# without constraints, with them
WAYS: dict[str, tuple[Method, Method]] = {
    ROWS: (Method("plain", "NCut"), Method("CSP", "CSP", {**_PAPER, "assign": "kmeans"})),
    SIGNS: (Method("plain", "NCut"), Method("CSP", "CSP", {**_PAPER, "assign": "cost-weighted"})),
    SPHERE: (
        Method("plain", "NCut", {"variant": "ng"}),
        Method("CSP", "CSP", {**_PAPER, "assign": "sphere"}),
    ),
    OURS: (Method("plain", "NCut"), Method("CSP", "CSP")),
}


def languages(corpus: str) -> tuple[dict[str, Any], Any] | None:
    """Documents by words (600, ·) of every language, the original first, and topics (600,)."""
    return reuters() if corpus == REUTERS else newsgroups()


def reuters() -> tuple[dict[str, Any], Any] | None:
    """English and its translations."""
    import numpy as np
    import scipy.sparse as sp

    path = data_file("text/reuters_multilingual.npz")
    if path is None:
        return None
    with np.load(path, allow_pickle=False) as archive:
        found = {}
        for name in archive["languages"].tolist():
            parts = tuple(archive[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
            found[name] = sp.csr_matrix(parts, shape=tuple(archive[f"{name}_shape"]))
        return found, archive["y"]


def newsgroups() -> tuple[dict[str, Any], Any] | None:
    """100 articles of each of six groups with at least 5 words in every language."""
    import numpy as np
    import scipy.sparse as sp

    path = data_file("text/20news_bydate.npz")
    if path is None:
        return None
    rng = np.random.default_rng(0)
    with np.load(path, allow_pickle=False) as archive:
        parts = (archive["data"], archive["indices"], archive["indptr"])
        X = sp.csr_matrix(parts, shape=tuple(archive["shape"])).astype(np.float64)
        names, y = archive["y_names"].tolist(), archive["y"]
    language = rng.choice(5, X.shape[1], p=(0.6, 0.1, 0.1, 0.1, 0.1))
    views = [X[:, np.flatnonzero(language == one)] for one in range(5)]
    long = np.min([np.diff(view.indptr) for view in views], axis=0) >= 5
    rows = [
        rng.permutation(np.flatnonzero((y == names.index(topic)) & long))[:OF_TOPIC]
        for topic in TOPICS
    ]
    chosen = np.concatenate(rows)
    told = {("original" if i == 0 else f"translation {i}"): V[chosen] for i, V in enumerate(views)}
    return told, np.repeat(np.arange(K), [len(r) for r in rows])


def cosines(words: Any) -> Any:
    """Cosines of all pairs of documents, (n, n), 0 on the diagonal."""
    import numpy as np
    import scipy.sparse as sp

    length = np.sqrt(np.asarray(words.multiply(words).sum(axis=1)).ravel())
    scaled = sp.diags_array(1.0 / length) @ words
    found = np.maximum((scaled @ scaled.T).toarray(), 0.0)
    np.fill_diagonal(found, 0.0)
    return found


def one_draw(corpus: str, draw: int) -> dict[tuple[str, str, str], Score]:
    """Scores by language, way and "plain" or "CSP" on 500 of the documents."""
    import numpy as np

    import mustlink as ml

    there = languages(corpus)
    assert there is not None
    words, y = there
    rows = np.sort(np.random.default_rng(draw).permutation(y.size)[:TAKEN])
    graphs = [ml.Graph.from_affinity(cosines(one[rows])) for one in words.values()]
    source = ml.Constraints.from_graph(graphs[ORIGINAL])
    found: dict[tuple[str, str, str], Score] = {}
    for place, (name, graph) in enumerate(zip(words, graphs, strict=True)):
        for way, (plain, constrained) in WAYS.items():
            found[name, way, "plain"] = measured(plain, graph, K, y[rows])
            if place != ORIGINAL:
                scored = measured(constrained, graph, K, y[rows], source)
                found[name, way, "CSP"] = scored
    return found


def tasks(draws: int) -> list[Task]:
    """A draw of a collection each."""
    there = [corpus for corpus in (REUTERS, GROUPS) if languages(corpus) is not None]
    return [Task(one_draw, (corpus, draw), 12.0) for corpus in there for draw in range(draws)]


def report(draws: int, found: Found) -> Report:
    """A table a collection, statements way by way."""
    del draws
    text: list[Any] = []
    verdicts, errors = [], []
    for corpus in (REUTERS, GROUPS):
        scores = [scored for (name, _), scored in found[one_draw] if name == corpus]
        if not scores:
            text.append(f"{corpus}: skipped, its file is not in the data folder.")
            continue
        means = {
            key: common.mean(common.column([one[key] for one in scores], "ari"))
            for key in scores[0]
        }
        names = list(dict.fromkeys(name for name, _, _ in means))
        rows = []
        for name in names:
            cells = []
            for way in WAYS:
                ours = means.get((name, way, "CSP"))
                cells += [means[name, way, "plain"], "–" if ours is None else f"{ours:.3f}"]
            rows.append((name, *(c if isinstance(c, str) else f"{c:.3f}" for c in cells)))
        headers = ("language", *(f"{way}, {what}" for way in WAYS for what in ("plain", "CSP")))
        text.append(Table(f"WD14 Fig. 11: {corpus}, mean ARI", headers, rows))
        says = statements(means, names)
        text.append(reporting.statements(f"WD14 §7.4: {corpus}", says))
        verdicts.append(by_statements(f"WD14 Fig. 11, {corpus}", says, why=reason(means, names)))
        errors += [(f"{corpus}, {key[1]}", s) for one in scores for key, s in one.items()]
    return Report([*text, *common.error_lines(errors)], verdicts)


def statements(
    means: dict[tuple[str, str, str], float | None], names: list[str]
) -> list[Statement]:
    """What §7.4 says, for the way of Alg. 2 with the signs of eq. 16."""
    original, others = names[ORIGINAL], names[ORIGINAL + 1 :]

    def plain(name: str) -> float:
        return means[name, SIGNS, "plain"] or 0.0

    def ours(name: str) -> float:
        return means[name, SIGNS, "CSP"] or 0.0

    def counted(says: str, holds: list[bool], shown: list[str]) -> Statement:
        told = f"{sum(holds)} of {len(holds)}: {', '.join(shown)}"
        return Statement(says, told, all(holds))

    best = plain(original)
    return [
        counted("without constraints the original is better than its translations",
                [best > plain(n) for n in others],
                [f"{n} {best:.3f}/{plain(n):.3f}" for n in others]),
        counted("the original as constraints improves on the translation alone",
                [ours(n) > plain(n) for n in others],
                [f"{n} {plain(n):.3f}→{ours(n):.3f}" for n in others]),
        counted("the result is even better than the original alone",
                [ours(n) > best for n in others],
                [f"{n} {ours(n):.3f}/{best:.3f}" for n in others]),
    ]  # fmt: skip


def reason(means: Means, names: list[str]) -> str:
    """What the other ways give."""
    others = names[ORIGINAL + 1 :]

    def mean(way: str, what: str, of: list[str]) -> float:
        return common.mean([means[name, way, what] for name in of]) or 0.0

    told = [
        f"{way}: original {mean(way, 'plain', names[:1]):.3f}, translations "
        f"{mean(way, 'plain', others):.3f} alone and {mean(way, 'CSP', others):.3f} with it"
        for way in WAYS
    ]
    return f"The ways to clusters matter more than the constraints. Mean ARI, {'; '.join(told)}."
