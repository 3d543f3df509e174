"""Slow, dense, obvious twins of what the engine computes: a module for each of its rooms."""

from oracles.constraints import *
from oracles.counting import *
from oracles.csc_gfhf import *
from oracles.directed import *
from oracles.eigen import *
from oracles.generalized import *
from oracles.graph import *
from oracles.linear import *
from oracles.local_fits import *
from oracles.lyapunov import *
from oracles.multiplicity import *
from oracles.neighbours import *
from oracles.operators import *
from oracles.propagate import *
from oracles.regions import *
from oracles.rounding import *
from oracles.scores import *
from oracles.spectral import *
from oracles.sskk import *
from oracles.strokes import *
from oracles.wide import *
