"""`python -m mustlink_io` is the `mustlink` command."""

from mustlink_io.commands.cli import main

if __name__ == "__main__":
    main()
