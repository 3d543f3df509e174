"""Clusterers, one file per method, and scores."""

from mustlink.cluster.csp import CSP
from mustlink.cluster.ncut import NCut
from mustlink.cluster.sssc import SSSC

__all__ = ["CSP", "SSSC", "NCut"]
