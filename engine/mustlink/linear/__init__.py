"""Linear solvers and preconditioners on blocks of vectors."""
