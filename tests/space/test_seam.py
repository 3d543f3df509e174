"""Who may look at a matrix of the whole graph, and who at blocks: read from the source itself."""

import ast
from pathlib import Path

import pytest

import mustlink

ENGINE = Path(mustlink.__file__).parent
MATRICES = {"S", "affinity", "edges", "single_edges", "graph_weights", "local"}
HOMES = ("graph", "operators")

# Files above these rooms that see such a matrix, and why a product would not do.
SEE = {
    "advice/candidates.py": "none: a number of edges",
    "advice/observations.py": "looks at degrees and at a sample of a graph as given",
    "advice/stability.py": "leaves out edges of the graph as given, after the fit",
    "advice/suggest.py": "none: a number of edges",
    "eigen/memory_work.py": "maps the rows of the graph, asks for their order before L̄ is there",
    "eigen/rank_work.py": "maps the rows of the graph, sums weights between clusters",
    "eigen/penalized.py": "takes the affinity as a covariance: its rows of constrained nodes",
    "estimators/graph_estimator.py": "checks the graph as given, before there are operators",
    "estimators/graph_choice.py": "none: an estimator's parameter, by name",
    "estimators/fit_input.py": "joins graphs of several kinds of columns",
    "linear/laplacian_solve.py": "factors rows, of few nodes or constrained ones; graph of links",
    "linear/multigrid/rank_grids.py": "makes coarse grids of rows on ranks",
    "linear/multigrid/hierarchy.py": "makes coarse grids: PᵀSP",
    "linear/multigrid/disk_grids.py": "takes the graph of aggregates, in memory, as a matrix",
    "lyapunov/regions.py": "asks for the heaviest weight of the graph",
    "clusterers/propagated_constraints.py": "makes the adjusted graph, eq. 9 of FLI11",
    "clusterers/sskk.py": "grows clusters along edges",
    "clusterers/ncut.py": "sweeps over splitting values: cuts of the graph as given",
    "clusterers/spectral_learning.py": "makes the graph with constraints written into it",
    "neighbors/disk_knn.py": "none: an estimator's parameter, by name",
    "neighbors/new_points.py": "walks along edges, joins new points to the graph",
    "neighbors/representatives.py": "joins representatives of rows, before there are operators",
    "neighbors/streamed_points.py": "adds blocks of rows to the graph of representatives",
    "persistence/attributes.py": "none: a number of edges",
    "persistence/model.py": "writes the graph into a file",
    "propagation/cluster_kernel.py": "makes the graph of the nodes that count",
    "propagation/propagator.py": "none: a number of edges",
    "discretize/merge_tree.py": "sums edges between small clusters, after the fit",
    "discretize/satisfaction.py": "moves nodes along edges and pairs, after the fit",
    "discretize/memberships.py": "asks where the edges of every node lead, after the fit",
    "selection/cluster_count.py": "looks at weights as given, makes the graph of a part",
    "selection/constrained_fit.py": "measures cuts of the graph as given",
}


def seen(path):
    """Names of matrices that a file reads from something else than itself."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in MATRICES:
            owner = node.value
            if not (isinstance(owner, ast.Name) and owner.id == "self"):
                yield node.attr


@pytest.mark.thorough
def test_matrices_of_the_graph_are_seen_by_graph_operators_and_a_few_with_a_reason():
    found = set()
    for path in sorted(ENGINE.rglob("*.py")):
        name = path.relative_to(ENGINE).as_posix()
        if not name.startswith(HOMES) and any(seen(path)):
            found.add(name)
    assert found == set(SEE)


@pytest.mark.thorough
def test_nobody_else_reads_the_laplacians_own_field():
    for path in ENGINE.rglob("*.py"):
        if path.parent.name != "operators":
            assert "S" not in set(seen(path)), path
