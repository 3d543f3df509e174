"""Estimators by their names, each imported when it is asked for.

Modules ask here, and not `mustlink` itself, whose names come from all of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

ESTIMATORS = {
    "CSP": "mustlink.methods.csp",
    "DISIM": "mustlink.methods.disim",
    "NCut": "mustlink.methods.ncut",
    "SpectralLearning": "mustlink.methods.spectral_learning",
    "ConstrainedAP": "mustlink.methods.constrained_ap",
    "FastGE": "mustlink.methods.fast_ge",
    "SSKK": "mustlink.methods.sskk",
    "SSSC": "mustlink.methods.sssc",
    "GFHF": "mustlink.propagate.gfhf",
    "GLP": "mustlink.propagate.generalized",
    "GWEM": "mustlink.propagate.gwem",
    "ClusterKernel": "mustlink.propagate.cluster_kernel",
    "LELP": "mustlink.propagate.label_embeddings",
    "LLGC": "mustlink.propagate.llgc",
    "GreenFunction": "mustlink.propagate.green_function",
    "NCutPropagation": "mustlink.propagate.ncut_propagation",
    "Poisson": "mustlink.propagate.poisson",
    "TikReg": "mustlink.propagate.tikreg",
    "LLELP": "mustlink.propagate.label_embeddings",
    "LNP": "mustlink.propagate.lnp",
    "LTSALP": "mustlink.propagate.label_embeddings",
    "LLE": "mustlink.embedding",
    "LTSA": "mustlink.embedding",
    "LaplacianEigenmaps": "mustlink.embedding",
    "CSCGFHF": "mustlink.methods.csc_gfhf",
    "E2CP": "mustlink.methods.e2cp",
    "SRCP": "mustlink.methods.srcp",
}


def estimator_of(name: str) -> Any:
    """The class of that name."""
    return getattr(import_module(ESTIMATORS[name]), name)
