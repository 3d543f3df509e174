"""Names of distances."""

# Distances that messages and help name; haversine last, of which the help says more.
METRICS = (
    *("euclidean", "cosine", "correlation", "manhattan", "chebyshev", "minkowski:P"),
    *("canberra", "braycurtis", "hamming", "jaccard", "hellinger", "haversine"),
)
