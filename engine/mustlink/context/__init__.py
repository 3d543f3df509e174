"""What is derived from a graph, kept by typed keys; what a fit costs, and where it fits."""
