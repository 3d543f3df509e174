"""`mustlink report`: a result file and its run, as facts, pictures and a page."""
