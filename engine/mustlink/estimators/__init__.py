"""What every estimator begins with: its graph, its budget, what is known of nodes."""
