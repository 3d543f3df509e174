"""Nearest neighbours of points: exact, by parts, by NN-descent; the graph they make."""

from mustlink.neighbours.knn import knn_graph

__all__ = ["knn_graph"]
