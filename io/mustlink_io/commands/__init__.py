"""The verbs of the `mustlink` command and what they share."""
