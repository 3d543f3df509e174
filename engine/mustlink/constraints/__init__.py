"""Side information about nodes: pairs, labels, a second graph or a matrix, as one constraint Q."""

from mustlink.constraints.closure import Contradiction
from mustlink.constraints.constraints import Constraints

__all__ = ["Constraints", "Contradiction"]
