"""What the verbs do: from files through the engine to files."""
