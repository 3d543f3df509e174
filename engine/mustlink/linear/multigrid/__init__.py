"""Algebraic multigrid cycles on blocks of vectors."""
