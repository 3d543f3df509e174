"""Which subspace, parameter and discretisation: decided by constraints held out of the fit."""
