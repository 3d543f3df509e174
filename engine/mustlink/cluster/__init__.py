"""Clusterers, one file per method, and scores."""

from mustlink.cluster.csp import CSP
from mustlink.cluster.ncut import NCut

__all__ = ["CSP", "NCut"]
