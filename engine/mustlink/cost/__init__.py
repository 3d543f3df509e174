"""What a fit costs, known before it runs: bytes of every stage, and what the process has."""
