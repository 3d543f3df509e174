"""Label propagation: a file a method (AB09, WD12 and later ones), on the problem in `glp`."""

from mustlink.propagate.cluster_kernel import ClusterKernel
from mustlink.propagate.generalized import GLP
from mustlink.propagate.gfhf import GFHF
from mustlink.propagate.green import GreenFunction
from mustlink.propagate.gwem import GWEM
from mustlink.propagate.lelp import LELP
from mustlink.propagate.llelp import LLELP
from mustlink.propagate.llgc import LLGC
from mustlink.propagate.lnp import LNP
from mustlink.propagate.ltsalp import LTSALP
from mustlink.propagate.ncut_propagation import NCutPropagation
from mustlink.propagate.poisson import Poisson
from mustlink.propagate.tikreg import TikReg

__all__ = [
    "GFHF",
    "GLP",
    "GWEM",
    "LELP",
    "LLELP",
    "LLGC",
    "LNP",
    "LTSALP",
    "ClusterKernel",
    "GreenFunction",
    "NCutPropagation",
    "Poisson",
    "TikReg",
]
