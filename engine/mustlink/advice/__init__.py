"""Guidance: which method, with which parameters and why, from a quick look at the data."""

from mustlink.advice.suggest import suggest
from mustlink.advice.suggestion import Suggestion

__all__ = ["Suggestion", "suggest"]
