"""Settings of the whole suite."""

import os

from hypothesis import settings

# The same examples in every run of continuous integration; new ones on a developer's machine.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("developer", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "developer")
