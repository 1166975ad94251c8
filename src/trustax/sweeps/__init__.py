"""Sweeps: many runs in parallel processes."""
