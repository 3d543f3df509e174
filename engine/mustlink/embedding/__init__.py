"""Embeddings: points or nodes to a few coordinates; label propagation without labels."""

from mustlink.embedding.laplacian_eigenmaps import LaplacianEigenmaps
from mustlink.embedding.lle import LLE
from mustlink.embedding.ltsa import LTSA

__all__ = ["LLE", "LTSA", "LaplacianEigenmaps"]
