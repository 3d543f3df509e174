"""Matrices as operators on blocks, in working order."""
