"""Run the paper's experiments."""
