"""Pictures cut: along a few strokes, or without any by edges, small regions, neighbours joined."""
