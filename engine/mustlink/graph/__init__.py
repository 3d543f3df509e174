"""Points, images and matrices become graphs."""

from mustlink.graph.dense import rbf_graph
from mustlink.graph.graph import Graph
from mustlink.graph.image import image_graph
from mustlink.graph.knn import knn_graph

__all__ = ["Graph", "image_graph", "knn_graph", "rbf_graph"]
