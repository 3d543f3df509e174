"""Eigenvalue problems: one convention of problems and results, solvers of L̄ and of pencils."""
