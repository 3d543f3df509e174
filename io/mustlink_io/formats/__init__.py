"""What is in a file: points, a graph, labels or pairs, from `FILE` or `FILE:PART`."""

from mustlink_io.formats.datasets import InputData, Want, default_part, load, sha256
from mustlink_io.formats.labels import LABEL_NAMES, LabelCountError, Labels, load_classes
from mustlink_io.formats.pairs import PairFile, load_matrix, load_pairs
from mustlink_io.formats.priors import load_beliefs, load_prior, load_weights
from mustlink_io.formats.tables import NodeNames, names_or_none
from mustlink_io.formats.texts import TextColumn, files_of
from mustlink_io.hdf5.file_names import HDF5, METIS, Place, parse

__all__ = [
    "HDF5",
    "LABEL_NAMES",
    "METIS",
    "InputData",
    "LabelCountError",
    "Labels",
    "NodeNames",
    "PairFile",
    "Place",
    "TextColumn",
    "Want",
    "default_part",
    "files_of",
    "load",
    "load_beliefs",
    "load_classes",
    "load_matrix",
    "load_pairs",
    "load_prior",
    "load_weights",
    "names_or_none",
    "parse",
    "sha256",
]
