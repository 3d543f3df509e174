"""`python -m mustlink`: the command line, which lives next door."""

from mustlink_io.commands.cli import main

main()
