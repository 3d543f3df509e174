"""Nearest neighbours of points: exact, by cells in memory or on disk, by parts; their graph."""

from mustlink.neighbours.knn import knn_graph

__all__ = ["knn_graph"]
