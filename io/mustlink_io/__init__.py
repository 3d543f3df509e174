"""Files, batch jobs, terminals and pictures around the `mustlink` engine."""
