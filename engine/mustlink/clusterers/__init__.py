"""Clusterers: a file a method, the bases they share, and the steps that several take."""
