"""HDF5 files: their format, read with suspicion, written whole or not at all."""
