"""Questions to a person: which labels or pairs would help most, and when more stop to matter."""

from mustlink.queries.asking import Settled, next_queries, settled

__all__ = ["Settled", "next_queries", "settled"]
