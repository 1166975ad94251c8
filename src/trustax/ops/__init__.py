"""Pure functions from arrays to arrays."""
