"""WD14 Fig. 4: two moons and a random constraint matrix in the joint numerical range J(L̄, Q̄).

The paper names neither size, kernel nor how many constraints: samples of Fig. 7 (100 points, noise
0.1, Gaussian kernel of width 0.2), a random tenth of all pairs with their true relation, β by
eq. 19, clusters are the signs of one vector. `mustlink_io.pictures.joint_range` draws the first
sample, as the paper does, into bench/out/papers/wd14_fig4.png.
"""

from __future__ import annotations

from typing import Any

from bench.runner import OUT

from . import common, data, methods, reporting
from .reporting import Report, Statement, Table, by_statements
from .running import Found, Task
from .wd14_fig7 import NOISE, RULE, WIDTH, N

DRAWS = 10
PAIRS = 495  # of 4,950
ALONE = methods.Method("plain cut", "NCut", {"variant": "shi-malik"})


def one_sample(sample: int) -> dict[str, Any]:
    """ARI of both cuts, and the feasible cuts as the report tells them."""
    import numpy as np

    import mustlink as ml

    X, y = data.moons(N, NOISE, sample)
    graph = ml.rbf_graph(X, sigma=WIDTH)
    pairs = common.distinct_pairs(N, PAIRS, np.random.default_rng([sample, PAIRS]))
    constraints = common.truth_pairs(y, pairs)
    est = RULE.make(2).fit(graph, constraints=constraints)
    plain = methods.measured(ALONE, graph, 2, y)
    return {
        "plain": plain["ari"],
        "ours": methods.score(graph, est.labels_, y)["ari"],
        "cuts": est.report_.to_dict()["cuts"],
    }


def tasks(draws: int) -> list[Task]:
    """A sample each."""
    return [Task(one_sample, (sample,)) for sample in range(draws)]


def report(draws: int, found: Found) -> Report:
    """A row a sample, unit vectors."""
    from mustlink_io import pictures

    rows, below, least, lemma = [], [], [], []
    samples = [one for _, one in found[one_sample]]
    for sample, one in enumerate(samples):
        cuts, volume = one["cuts"], one["cuts"]["volume"]
        alone = cuts["unconstrained"]["alpha"]
        below.append(sum(a < cuts["beta"] for a in alone) / len(alone))
        lemma.append(min(cuts["alpha"]) > cuts["beta"])
        # the leftmost of all that lie above the line, cuts of the graph alone included
        above = [c for c, a in zip(cuts["unconstrained"]["cost"], alone, strict=True)
                 if a >= cuts["alpha"][0]]  # fmt: skip
        least.append(cuts["cost"][0] <= min([*cuts["cost"], *above]))
        rows.append((
            sample, f"{one['plain']:.3f}", f"{one['ours']:.3f}", f"{cuts['beta'] / volume:.3f}",
            f"{min(cuts['alpha']) / volume:.3f}-{max(cuts['alpha']) / volume:.3f}",
            f"{min(alone) / volume:.3f}-{max(alone) / volume:.3f}", len(cuts["alpha"]),
            f"{cuts['cost'][0] / volume:.3f}",
        ))  # fmt: skip
    (OUT / "papers").mkdir(parents=True, exist_ok=True)
    pictures.save(pictures.joint_range(samples[0]["cuts"]), OUT / "papers" / "wd14_fig4.png")
    headers = ("sample", "ARI, plain cut", "ARI, CSP", "β/vol", "α/vol of feasible cuts",
               "α/vol of plain cuts", "feasible", "cost/vol of the chosen")  # fmt: skip
    plain, ours = (common.mean([one[name] for one in samples]) or 0.0 for name in ("plain", "ours"))
    says = [
        Statement("the plain cut misses the moons", f"mean ARI {plain:.3f}", plain < 0.9),
        Statement("the constrained cut finds them (ARI ≥ 0.95)", f"{ours:.3f}", ours >= 0.95),
        Statement(
            "most plain cuts are far below the threshold β",
            f"{min(below):.0%} or more of a sample's cuts",
            min(below) > 0.5,
        ),
        Statement("α > β for all feasible cuts (Lemma 1)",
                  f"in {sum(lemma)} of {draws} samples", all(lemma)),
        Statement(
            "the chosen cut is the leftmost at its height",
            f"of all cuts drawn, in {sum(least)} of {draws} samples",
            all(least),
        ),
    ]  # fmt: skip
    text = [Table("WD14 Fig. 4", headers, rows), reporting.statements("WD14 §5.2", says)]
    why = (
        f"Size and kernel are not in the paper; here the plain cut has a mean ARI of {plain:.3f}, "
        f"CSP {ours:.3f}."
    )
    return Report(text, [by_statements("WD14 Fig. 4", says, why=why)])
