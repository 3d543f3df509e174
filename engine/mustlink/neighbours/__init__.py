"""Nearest neighbours of points: exact, by cells, by parts on disk; the graph they make."""

from mustlink.neighbours.knn import knn_graph

__all__ = ["knn_graph"]
