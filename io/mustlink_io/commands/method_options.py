"""Options that belong to some methods only; `jobs.methods` says to which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from mustlink_io.jobs.methods import EQUAL, KINDS, SMOOTHED, Method


def number_or(*words: str) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Return a callback that takes a number or one of the words."""

    def convert(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        if value is None or value in words:
            return value
        try:
            number = float(value)
        except ValueError:
            listed = " or ".join(words)
            raise click.BadParameter(f"{value!r} is neither a number nor {listed}") from None
        whole = parameter.name in ("subspace", "new_edges") and number.is_integer()
        return int(number) if whole else number

    return convert


def class_shares(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> list[float] | str | None:
    """Numbers above 0 behind a list such as 0.5,0.3,0.2; words stay."""
    if value in (None, EQUAL, SMOOTHED):
        return value
    try:
        found = [float(word) for word in value.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < share < float("inf") for share in found):
        raise click.BadParameter(
            f"{value!r} is neither {EQUAL}, {SMOOTHED} nor a list of shares above 0, such as "
            "0.5,0.3,0.2"
        )
    return found


def kind_weights(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> dict[str, float] | None:
    """Weights behind a list such as must=2,labels=0.5."""
    if value is None:
        return None
    found = {}
    for word in value.split(","):
        kind, _, number = word.strip().partition("=")
        if kind in found:
            raise click.BadParameter(f"{kind} is given twice; give it one weight")
        try:
            found[kind] = float(number)
        except ValueError:
            found[kind] = -1.0
        if kind not in KINDS or not 0 <= found[kind] < float("inf"):
            raise click.BadParameter(
                f"{word.strip()!r} is no weight of a kind; write as must=2,labels=0.5, of "
                f"{', '.join(KINDS)}, and numbers of at least 0"
            )
    return found


CLUSTER_OWN = (
    click.option(
        "--beta",
        callback=number_or("auto", "paper", "paper-max", "tight", "search", "wide", "wide-printed"),
        help="csp: auto, paper, paper-max, tight, search, wide, wide-printed, or a fraction "
        "below 1.",
    ),
    click.option(
        "--balanced/--unbalanced",
        is_flag=True,
        default=None,
        help="csp, sssc: must-links as a whole weigh as much as cannot-links, or all pairs alike; "
        "without either csp takes them alike, sssc by evidence.",
    ),
    click.option(
        "--n-vectors",
        type=click.IntRange(min=1),
        help="csp: feasible vectors that are clustered; default K - 1.",
    ),
    click.option(
        "--gamma", callback=number_or("auto", "search"), help="sssc: auto, search, or below 1."
    ),
    click.option("--must-weight", type=float, help="sssc: of must-links; default 1."),
    click.option("--cannot-weight", type=float, help="sssc: of cannot-links; default 1."),
    click.option(
        "--normalized", is_flag=True, default=None, help="sl: with the normalised Laplacian."
    ),
    click.option("--noise", callback=number_or("auto"), help="ap: auto, or how loose pairs are."),
    click.option(
        "--prior",
        type=click.Choice(["laplacian", "affinity"]),
        help="ap: covariance before the pairs; default laplacian.",
    ),
    click.option(
        "--mu",
        type=float,
        help="srcp: how fast pairs fade with distance; default 0.2. fast-ge: shift of the pencil; "
        "default 0.001.",
    ),
    click.option("--alpha", type=float, help="e2cp: in (0, 1), how far pairs spread; default 0.8."),
    click.option(
        "--new-edges",
        callback=number_or("all"),
        help="srcp, e2cp: per node, where pairs that were spread say must-link, or all of them; "
        "default 20.",
    ),
    click.option(
        "--normalize/--no-normalize",
        default=None,
        help="srcp, e2cp: scale what was spread to 1; default yes.",
    ),
    click.option(
        "--power",
        callback=number_or("auto"),
        help="srcp, e2cp: of what was spread; auto, or in (0, 1]: below 1, far pairs count more.",
    ),
    click.option(
        "--eigen-solver",
        type=click.Choice(["auto", "dense", "lobpcg", "shift-invert", "lanczos"]),
        help="srcp, e2cp: for the adjusted graph's cut.",
    ),
    click.option(
        "--eigen-tol", type=float, help="srcp, e2cp: residual of the adjusted graph's cut."
    ),
    click.option(
        "--subspace",
        callback=number_or("auto", "exact"),
        help="csp, sssc, sl, ap, fast-ge: auto, exact, or a dimension.",
    ),
    click.option(
        "--assign",
        type=click.Choice(
            ["auto", "sign", "split", "kmeans", "sign-kmeans", "cost-weighted", "sphere"]
        ),
        help="From embedding to clusters; not all ways for every method.",
    ),
    click.option(
        "--init",
        type=click.Choice(["auto", "labels", "k-means++", "spectral", "relaxed", "neighborhoods"]),
        help="ncut, csp, sssc, sl, ap, fast-ge: k-means starts at the labels, k-means++, auto. "
        "sskk: auto, spectral, relaxed, neighborhoods.",
    ),
    click.option("--penalty", callback=number_or("auto"), help="sskk: of a broken constraint."),
    click.option(
        "--volume", type=click.Choice(["links", "graph"]), help="sskk: what degrees count."
    ),
    click.option(
        "--sigma",
        callback=number_or("auto"),
        help="sskk: diagonal shift; csc-gfhf: width of the similarity.",
    ),
    click.option(
        "--variant",
        type=click.Choice(["auto", "luxburg", "ng", "shi-malik"]),
        help="ncut: default luxburg; srcp, e2cp: default auto.",
    ),
    click.option(
        "--regularization",
        callback=number_or("auto"),
        help="ncut, csp, disim, sssc, sl, ap, fast-ge: added to every degree, in units of the mean "
        "one; auto, 0, or such as 0.3.",
    ),
    click.option(
        "--refine",
        is_flag=True,
        default=None,
        help="All but csc-gfhf and disim: go on to the clusters that a block model finds likelier, "
        "constrained nodes held; for networks.",
    ),
    click.option(
        "--class-mass/--no-class-mass",
        default=None,
        help="csc-gfhf: scale every class to its share of the labels; default yes.",
    ),
    click.option(
        "--class-shares",
        callback=class_shares,
        help="csc-gfhf: equal, or as 0.5,0.3,0.2: to these shares instead.",
    ),
    click.option("--kernel-tol", type=float, help="csc-gfhf: share of the similarity left out."),
    click.option(
        "--max-rank", type=click.IntRange(min=1), help="csc-gfhf: most columns; default 200."
    ),
)

PROPAGATE_OWN = (
    click.option(
        "--center",
        type=click.Choice(["auto", "rows", "degrees"]),
        help="poisson: what has mean 0, which decides between classes. Default auto: rows where "
        "the graph is one of points, degrees (Calder et al.) where it was given.",
    ),
    click.option(
        "--class-mass",
        is_flag=True,
        default=None,
        help="gfhf, llgc, lelp, gwem, cluster-kernel, lnp: scale every class to its share of the "
        "labels; for few labels, equally many a class.",
    ),
    click.option(
        "--class-shares",
        callback=class_shares,
        help="As 0.5,0.3,0.2, in the order of the classes, or equal, or smoothed (the labels' "
        "shares, ten labels added to every class): to these shares instead; "
        "poisson too. For few labels, not equally many a class.",
    ),
    click.option(
        "--alpha",
        callback=number_or("auto"),
        help="llgc, lnp: in (0, 1), how far labels travel; default 0.99, llgc down to 0.9 where "
        "labels are many, and on a graph what labels held out choose. ncut, and lelp, llelp, "
        "ltsalp with --orthogonal: weight of the labels.",
    ),
    click.option(
        "--refine/--no-refine",
        default=None,
        help="Go on to what a block model of the network finds likelier, labels held; default no, "
        "for llgc on a graph what labels held out choose.",
    ),
    click.option("--gamma", type=float, help="tik-reg: weight of smoothness; default 0.001."),
    click.option(
        "--normalized", is_flag=True, default=None, help="green: of the normalised Laplacian."
    ),
    click.option(
        "--orthogonal",
        is_flag=True,
        default=None,
        help="lelp, llelp, ltsalp: balanced, with soft labels (LELPC, LLELPC, LTSALPC).",
    ),
    click.option(
        "--steps", "n_steps", type=click.IntRange(min=1), help="gwem: of the walk; default 20."
    ),
    click.option(
        "--variant", help="gwem: em (default), fixed-point; lnp: iteration (default), minimizer."
    ),
    click.option(
        "--em-steps", type=click.IntRange(min=1), help="gwem: most steps of EM; default 10."
    ),
    click.option(
        "--components",
        "n_components",
        type=click.IntRange(min=1),
        help="cluster-kernel: eigenvectors, default one a class; ltsalp: of a tangent space, "
        "default 2.",
    ),
    click.option(
        "--rows",
        type=click.Choice(["sphere", "plain"]),
        help="cluster-kernel: length of the eigenvectors' rows.",
    ),
    click.option("--reg", type=float, help="lnp, llelp: ridge of the local fits; default 0.001."),
)


def method_help(methods: Mapping[str, Method]) -> str:
    """Every method with what it is."""
    return "; ".join(f"{name}: {method.summary}" for name, method in methods.items()) + "."
