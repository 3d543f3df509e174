"""Fitted estimators as trees of plain values and arrays, and back: what a model file holds."""
