"""Images, dense points and matrices become graphs; what a graph is."""

from mustlink.graph.bipartite import bipartite_graph
from mustlink.graph.graph import Graph
from mustlink.graph.image import image_graph
from mustlink.graph.kernel_graphs import rbf_graph
from mustlink.graph.stored import StoredGraph

__all__ = ["Graph", "StoredGraph", "bipartite_graph", "image_graph", "rbf_graph"]
