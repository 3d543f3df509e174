"""How progress and results look on a terminal."""
