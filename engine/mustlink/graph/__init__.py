"""Images, dense points and matrices become graphs; what a graph is."""

from mustlink.graph.disk_graph import DiskGraph
from mustlink.graph.forms import bipartite_graph, graph_from_neighbors
from mustlink.graph.graph import Graph
from mustlink.graph.image import image_graph
from mustlink.graph.weights import rbf_graph

__all__ = [
    "DiskGraph",
    "Graph",
    "bipartite_graph",
    "graph_from_neighbors",
    "image_graph",
    "rbf_graph",
]
