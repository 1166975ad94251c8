"""Environments written in JAX."""
