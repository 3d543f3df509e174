"""Columns of a table made comparable before distances are taken: by blocks of rows."""

from mustlink.preparation.fitted import Fitted
from mustlink.preparation.prepared_rows import PreparedRows, prepared
from mustlink.preparation.request import Preparation

__all__ = ["Fitted", "Preparation", "PreparedRows", "prepared"]
