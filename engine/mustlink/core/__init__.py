"""What every room may use: checks of input, stages and their observer, deadlines, results."""
