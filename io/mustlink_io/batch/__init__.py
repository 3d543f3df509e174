"""`mustlink batch`: many jobs from one TOML file, within one memory budget, resumable.

`jobs_file` reads the file and makes jobs of grids and templates, `arguments` checks each against
the command line, `state` remembers on disk how it went, `run` decides who runs next and runs
`children`, `table` sums up.
"""
