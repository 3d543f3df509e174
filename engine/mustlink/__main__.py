"""`python -m mustlink`: the command line, which lives next door."""

from mustlink_io.cli import main

main()
