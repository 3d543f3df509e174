"""What tests read of result files."""

import h5py


def labels_of(path):
    """Labels (n,) that a result holds."""
    with h5py.File(path) as file:
        return file["labels"][:]
