"""Estimators by their names, each imported at its first use.

Modules take them from here, not from `mustlink`, which imports all modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

ESTIMATORS = {
    "CSP": "mustlink.clusterers.csp",
    "DISIM": "mustlink.clusterers.disim",
    "NCut": "mustlink.clusterers.ncut",
    "SpectralLearning": "mustlink.clusterers.spectral_learning",
    "ConstrainedAP": "mustlink.clusterers.constrained_ap",
    "FastGE": "mustlink.clusterers.fast_ge",
    "SSKK": "mustlink.clusterers.sskk",
    "SSSC": "mustlink.clusterers.sssc",
    "GFHF": "mustlink.propagation.gfhf",
    "GLP": "mustlink.propagation.generalized",
    "GWEM": "mustlink.propagation.gwem",
    "ClusterKernel": "mustlink.propagation.cluster_kernel",
    "LELP": "mustlink.propagation.label_embeddings",
    "LLGC": "mustlink.propagation.llgc",
    "GreenFunction": "mustlink.propagation.poisson",
    "NCutPropagation": "mustlink.propagation.tikreg",
    "Poisson": "mustlink.propagation.poisson",
    "TikReg": "mustlink.propagation.tikreg",
    "LLELP": "mustlink.propagation.label_embeddings",
    "LNP": "mustlink.propagation.lnp",
    "LTSALP": "mustlink.propagation.label_embeddings",
    "LLE": "mustlink.clusterers.embedding",
    "LTSA": "mustlink.clusterers.embedding",
    "LaplacianEigenmaps": "mustlink.clusterers.embedding",
    "CSCGFHF": "mustlink.clusterers.csc_gfhf",
    "E2CP": "mustlink.clusterers.srcp",
    "SRCP": "mustlink.clusterers.srcp",
}


def estimator_of(name: str) -> Any:
    """The class of that name."""
    return getattr(import_module(ESTIMATORS[name]), name)
