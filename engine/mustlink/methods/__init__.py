"""Clusterers: a file a method, the bases they share, and the steps that several take."""

from mustlink.methods.constrained_ap import ConstrainedAP
from mustlink.methods.csc_gfhf import CSCGFHF
from mustlink.methods.csp import CSP
from mustlink.methods.disim import DISIM
from mustlink.methods.e2cp import E2CP
from mustlink.methods.fast_ge import FastGE
from mustlink.methods.ncut import NCut
from mustlink.methods.spectral_learning import SpectralLearning
from mustlink.methods.srcp import SRCP
from mustlink.methods.sskk import SSKK
from mustlink.methods.sssc import SSSC
from mustlink.methods.stationary import stationary_labelings, stationary_residual

__all__ = [
    "CSCGFHF",
    "CSP",
    "DISIM",
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
