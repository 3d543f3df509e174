"""`mustlink batch`: many jobs from one TOML file, within one memory budget, resumable.

`spec` reads the file, `expand` makes jobs of grids and templates, `arguments` checks each against
the command line, `state` remembers on disk how it went, `admission` decides who runs next, `run`
runs child processes, `live` shows them, `table` sums up.
"""
