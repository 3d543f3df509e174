"""Guidance: which method, with which parameters and why, from a quick look or from trials."""
