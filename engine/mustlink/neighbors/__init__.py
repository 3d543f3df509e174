"""Nearest neighbours of points: exact, by a tree, by cells in memory or on disk; their graph."""

from mustlink.neighbors.knn import knn_graph

__all__ = ["knn_graph"]
