"""Points, images and matrices become graphs."""

from mustlink.graph.graph import Graph
from mustlink.graph.image import image_graph
from mustlink.graph.knn import knn_graph
from mustlink.graph.rbf import rbf_graph

__all__ = ["Graph", "image_graph", "knn_graph", "rbf_graph"]
