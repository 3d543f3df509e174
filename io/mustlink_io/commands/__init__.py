"""The verbs of the `mustlink` command, a file each, and what they share."""
