"""`mustlink report`: what a result file tells of its run, as facts, pictures and a page."""
