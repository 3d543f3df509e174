"""Questions to a person: which labels or pairs would help most, and when more stop to matter."""

from mustlink.queries.asking import next_queries
from mustlink.queries.strategies import Settled, settled

__all__ = ["Settled", "next_queries", "settled"]
