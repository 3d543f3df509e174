"""Compiled inner loops (numba): arrays in, arrays out, no policy."""
