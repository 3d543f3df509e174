"""What is derived from a graph, kept under typed keys in memory and on disk."""
