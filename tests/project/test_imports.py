"""No circles of imports: neither by imports inside functions, nor by modules named in strings."""

import ast
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

ROOT = Path(__file__).parents[2]
# The engine's doors to files, to the page and to the terminal, opened when they are used.
DOORS = {
    ("mustlink.__main__", "mustlink_io.commands.cli"),
    ("mustlink.core.io_entry_points", "mustlink_io.jobs.models"),
    ("mustlink.core.io_entry_points", "mustlink_io.ui.opening"),
}


def sources():
    """Files by the names of their modules."""
    for folder in (ROOT / "engine", ROOT / "io"):
        for path in folder.glob("mustlink*/**/*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def named(tree, modules):
    """Modules that a module asks for: by an import anywhere in it, or in a string to import by."""
    nodes = list(ast.walk(tree))
    by_strings = any(isinstance(node, ast.Name) and node.id == "import_module" for node in nodes)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                yield inside if inside in modules else node.module
        elif by_strings and isinstance(node, ast.Constant):
            yield str(node.value)


@pytest.fixture(scope="module")
def asked():
    """Modules of both packages, and those that each asks for."""
    modules = dict(sources())
    return {
        name: {
            one
            for one in named(ast.parse(path.read_text(encoding="utf-8")), modules)
            if one in modules and one != name and (name, one) not in DOORS
        }
        for name, path in modules.items()
    }


@pytest.mark.thorough
def test_no_modules_ask_for_each_other(asked):
    names = sorted(asked)
    place = {name: at for at, name in enumerate(names)}
    edges = np.array([(place[a], place[b]) for a, found in asked.items() for b in found]).T
    graph = sp.coo_matrix((np.ones(edges.shape[1]), edges), shape=(len(names),) * 2)
    count, circle = connected_components(graph.tocsr(), connection="strong")
    sizes = np.bincount(circle)
    circles = [
        [name for name, of in zip(names, circle, strict=True) if of == one]
        for one in np.flatnonzero(sizes > 1)
    ]
    assert not circles
    assert count == len(names) > 100


def test_no_module_of_the_engine_asks_for_the_whole(asked):
    """`mustlink` has every name, and every name would then hang on all others."""
    inside = {name for name in asked if name.startswith("mustlink.")}
    assert not [name for name in inside if "mustlink" in asked[name]]
