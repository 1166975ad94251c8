"""Runs the experiments of the paper."""
