"""Reproductions of the papers' tables and figures: `python -m bench.papers`."""
