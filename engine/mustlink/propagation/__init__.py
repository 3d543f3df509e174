"""Label propagation: a file a method (AB09, WD12 and later ones), on the problem in `problem`."""
