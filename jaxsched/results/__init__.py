"""What evaluations say: statistics and comparisons."""
