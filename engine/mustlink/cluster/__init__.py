"""Clusterers, one file per method, and scores."""

from mustlink.cluster.constrained_ap import ConstrainedAP
from mustlink.cluster.csc_gfhf import CSCGFHF
from mustlink.cluster.csp import CSP
from mustlink.cluster.e2cp import E2CP
from mustlink.cluster.fast_ge import FastGE
from mustlink.cluster.ncut import NCut
from mustlink.cluster.spectral_learning import SpectralLearning
from mustlink.cluster.srcp import SRCP
from mustlink.cluster.sskk import SSKK
from mustlink.cluster.sssc import SSSC
from mustlink.cluster.stationary import stationary_labelings, stationary_residual

__all__ = [
    "CSCGFHF",
    "CSP",
    "E2CP",
    "SRCP",
    "SSKK",
    "SSSC",
    "ConstrainedAP",
    "FastGE",
    "NCut",
    "SpectralLearning",
    "stationary_labelings",
    "stationary_residual",
]
