"""One fit's view of a graph: what is derived from it, kept in memory and on disk by one key."""

from mustlink.workspace.workspace import Workspace

__all__ = ["Workspace"]
