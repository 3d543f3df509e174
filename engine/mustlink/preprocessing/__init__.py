"""Columns of a table made comparable before distances are taken: by blocks of rows."""
