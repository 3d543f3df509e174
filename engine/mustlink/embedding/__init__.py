"""Embeddings: points or nodes to a few coordinates; label propagation without labels."""
