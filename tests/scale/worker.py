"""What every rank of `test_ranks` does: `mpiexec … worker.py OUT GROUPS`."""

import sys
from pathlib import Path

import numpy as np
from graphs import (
    CLUSTERS,
    CONSTRAINED,
    FAR,
    REGIONS,
    SPREAD,
    constrained,
    graphs,
    hardly_anything,
    sources,
    told,
)

from mustlink import CSP, E2CP, SRCP
from mustlink.clusterers.clusterer import fit_at
from mustlink.clusterers.ncut import NormalizedCuts
from mustlink.eigen.lobpcg import Lobpcg, lobpcg
from mustlink.eigen.rank_work import RankWork, world
from mustlink.linear.cg import block_cg
from mustlink.linear.multigrid import rank_grids
from mustlink.linear.multigrid.rank_grids import aggregates, divided_hierarchy
from mustlink.lyapunov import pair_propagation
from mustlink.lyapunov.fields import LyapunovProblem
from mustlink.space import Dots, Gram, GroupSums
from mustlink.space.ranks import Ranks

sys.path.append(str(Path(__file__).parents[2] / "bench"))
sys.path.append(str(Path(__file__).parents[1]))
from cases import solve_krylov
from rank_messages import DividedShape, messages_of_cycle

DIVIDED = {"points", "many_parts", "wide_weights"}  # whose coarse grids are divided, too
USUAL = rank_grids.DIVIDED
ranks = world()
found, groups_told = {}, np.load(sys.argv[2])


def keep(name, own):
    """Own rows of all ranks."""
    found[name] = ranks.joined(own)


def cut(est, known, k=None):
    """The cut of a fit on these ranks, its labels and what was chosen."""
    est = est if k is None else est.set_params(n_clusters=k)
    fitted = fit_at(est.set_params(affinity="precomputed"), work, known)
    report = fitted.report_
    return fitted._cut_on_disk, fitted.labels_, {**report.extra, **report.choices}


def verbs(space, name):
    """Each verb that knows of other ranks."""
    X, y = space.normals(4, 7), space.normals(1, 8)
    groups = (np.abs(y[:, 0]) * 3).astype(np.int64).clip(0, 4)
    keep(f"{name} normals", X)
    sums = space.sums(Gram([X, y], X), Dots(X, X), GroupSums(X, groups, 5, y[:, 0]))
    for at, each in enumerate(sums):
        found[f"{name} sum {at}"] = each
    found[f"{name} gram"] = space.gram(X, X)
    found[f"{name} peaks"] = space.peaks(X)
    found[f"{name} largest"] = space.largest(np.round(y), 30)
    nodes = np.arange(space.size)[::-7]
    found[f"{name} take"] = space.take(X, nodes)
    Y = space.copy(X)
    space.add_rows(Y, nodes, np.ones((nodes.size, 4)))
    found[f"{name} lessen"] = space.lessen(Y, X, np.array([0.5, 1.0, -1.0, 2.0]))
    keep(f"{name} added", Y)
    keep(f"{name} placed", space.place(np.arange(space.size)))


def counted(cycle, X):
    """Messages, and bytes that come, of a cycle."""
    total = np.zeros(2, dtype=np.int64)

    def counting(call, own):
        def count(*given):
            came = call(*given)
            total[:] += 1, came.nbytes - (np.asarray(given[0]).nbytes if own else 0)
            return came

        return count

    for call, own in (("added", False), ("joined", True), ("fetched", False)):
        setattr(ranks, call, counting(getattr(Ranks, call).__get__(ranks), own))
    cycle(X)
    for call in ("added", "joined", "fetched"):
        delattr(ranks, call)
    return total


for name, W in graphs():
    rank_grids.DIVIDED = 100 if name in DIVIDED else USUAL
    work = RankWork.of(lambda a, b, W=W: W[a:b], W.shape[0], ranks)
    laplacian, space = work.laplacian, work.space
    verbs(space, name)
    keep(f"{name} component", laplacian.null.component)
    keep(f"{name} weight", laplacian.null.weight)
    keep(f"{name} root", laplacian.root_degree)
    found[f"{name} nodes"], found[f"{name} volume"] = work.rows.nodes, laplacian.volume
    X = space.normals(5, 1)
    keep(f"{name} product", laplacian.apply(X))
    keep(f"{name} smoothed", laplacian.smooth(X, 3))
    out = space.zeros(5)
    terms = laplacian.three_terms(X, space.normals(5, 2), (0.5, -1.0, 2.0), out)
    found[f"{name} terms"] = np.array(terms)
    keep(f"{name} three", out)
    groups = aggregates(laplacian.matrix, 0.5)
    keep(f"{name} group", groups.group)
    coarse = work.grids.coarse_operator(1)
    found[f"{name} coarse"] = coarse.to_dense()
    some = coarse.space.place(np.eye(coarse.space.size)[:, :50].copy())
    keep(f"{name} up", work.grids.up(1, some))
    nodes = np.arange(space.first, space.end)
    grounded = laplacian.grounded(np.where(nodes % 50 == 3, 0.5, 1e-4), nodes % 40 != 1)
    keep(f"{name} grounded root", grounded.root_degree)
    keep(f"{name} grounded product", grounded.apply(X))
    given = np.where(grounded.root_degree[:, None] > 0, X, 0.0)
    cycle = divided_hierarchy(grounded).cycle()
    solved, ended = block_cg(grounded.apply, given, tol=1e-11, precondition=cycle, space=space)
    keep(f"{name} grounded solved", solved)
    found[f"{name} grounded cg"] = np.array([ended.reason == "tolerance", ended.iterations])
    R = laplacian.null.project(X)
    keep(f"{name} cycle", work.grids.cycle()(R))
    single = R.astype(np.float32)
    found[f"messages {name}"] = np.array([counted(work.grids.cycle(), single)])
    shape = DividedShape.of(work.grids)
    found[f"messages {name}"] -= [messages_of_cycle(shape, single.shape[1])]
    solved, ended = block_cg(
        laplacian.apply,
        R,
        tol=1e-11,
        precondition=work.grids.cycle(),
        project=laplacian.null.project,
        space=space,
    )
    keep(f"{name} solved", solved)
    found[f"{name} cg"] = np.array([ended.reason == "tolerance", ended.iterations])
    spread, ended = solve_krylov(LyapunovProblem(laplacian, 0.2, sources(W)), memory=None, tol=1e-8)
    found[f"{name} lanczos"] = np.array([ended.converged.all(), ended.iterations])
    for at, (Z, theta) in enumerate(spread.terms):
        keep(f"{name} Z{at}", Z[:, :40])
        found[f"{name} theta{at}"] = theta[:40]
    k = CLUSTERS[name]
    pairs = work.smallest_pairs(k, tol=1e-9, max_iter=400)
    found[f"{name} values"] = pairs.values
    keep(f"{name} vectors", pairs.vectors)
    rule = Lobpcg(3, 1e-6, 800, largest=True, norm_A=2.0)
    highest = lobpcg(laplacian.apply, space.normals(8, 3), rule, space=space)
    found[f"{name} highest"] = highest.values
    known = told(W, name, groups_told[name])
    for method in CONSTRAINED:
        made, _, _ = cut(constrained(method, name), known, k)
        keep(f"{name} {method} labels", made.clusters)
        keep(f"{name} {method} embedding", made.embedding)
        found[f"{name} {method} values"] = made.values
    if name in ("picture", "many_parts"):
        for at, few in enumerate(hardly_anything(W)):
            for method in CONSTRAINED:
                made, _, _ = cut(constrained(method, "many_parts"), few, k)
                keep(f"{name} few {method} {at}", made.clusters)
    open_ = CSP(k, affinity="precomputed", random_state=3)
    made, _, choices = cut(open_, known)
    keep(f"{name} chosen labels", made.clusters)
    found[f"{name} chosen"] = np.array([choices["subspace"], choices["beta"]])
    for method in (SRCP, E2CP):
        made, labels, _ = cut(method(k, **SPREAD), known)
        found[f"{name} {method.__name__} labels"] = labels
        found[f"{name} {method.__name__} values"] = made.values
    plain = NormalizedCuts(work, k, tol=1e-8, max_iter=400, seed=3).sharp()
    found[f"{name} labels"] = work.labels_of_rows(plain.clusters)
    keep(f"{name} embedding", plain.embedding)
    if name in REGIONS:
        made, labels, choices = cut(SRCP(k, **FAR), known)
        found[f"far {name} labels"] = labels
        found[f"far {name} values"], found[f"far {name} by"] = made.values, choices["propagation"]
        found[f"far {name} added"] = choices["adjustment"]["added"]
pair_propagation._WHOLE = 0  # many regions, of which every rank has some
for name in REGIONS:
    W, k = dict(graphs())[name], CLUSTERS[name]
    work = RankWork.of(lambda a, b, W=W: W[a:b], W.shape[0], ranks)
    known = told(W, name, groups_told[name])
    for method in (SRCP, E2CP):
        made, labels, choices = cut(method(k, **SPREAD), known)
        found[f"regions {name} {method.__name__} values"] = made.values
        found[f"regions {name} {method.__name__} labels"] = labels
        found[f"regions {name} parts"] = choices["parts"]
if ranks.own == 0:
    np.savez(sys.argv[1], **{name: each for name, each in found.items() if each is not None})
