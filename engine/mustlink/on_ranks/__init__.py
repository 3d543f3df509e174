"""Fits whose nodes are on the ranks of an MPI job; mpi4py and petsc4py are imported only here."""
