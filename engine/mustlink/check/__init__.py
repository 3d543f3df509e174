"""Input checks: every array that enters the engine passes here once; nothing is changed in place.

Each failure is one line `where: what was given, what is wrong; what to do` (InputError).
"""

from mustlink.check.arrays import (
    as_affinity,
    as_csr,
    as_points,
    check_answer,
    numeric_array,
    positive,
)
from mustlink.check.parameters import (
    PlainParameters,
    as_integer,
    as_random_state,
    check_choice,
    check_flag,
    check_n_clusters,
    check_n_jobs,
    check_number,
    check_positive,
    check_share,
    check_tolerance,
)

__all__ = [
    "PlainParameters",
    "as_affinity",
    "as_csr",
    "as_integer",
    "as_points",
    "as_random_state",
    "check_answer",
    "check_choice",
    "check_flag",
    "check_n_clusters",
    "check_n_jobs",
    "check_number",
    "check_positive",
    "check_share",
    "check_tolerance",
    "numeric_array",
    "positive",
]
