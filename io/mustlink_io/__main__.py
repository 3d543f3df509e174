"""`python -m mustlink_io` is the `mustlink` command."""

from mustlink_io.cli import main

if __name__ == "__main__":
    main()
