"""Eigenvalue problems: one problem and result convention, a file per solver."""
