"""From relaxed vectors to clusters, and how good clusters are."""
