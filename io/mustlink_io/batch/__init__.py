"""`mustlink batch`: many jobs from one TOML file, within one memory budget, resumable.

`jobs_file` reads the file and expands its grids and templates, `arguments` checks each job against
the command line, `state` holds what is on disk of every job, `run` starts `children` within the
limits and sums up.
"""
