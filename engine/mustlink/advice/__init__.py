"""Guidance: which method, with which parameters and why, from a quick look at the data."""

from mustlink.advice.suggest import Suggestion, suggest

__all__ = ["Suggestion", "suggest"]
