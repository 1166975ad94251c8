"""A run of MCPO, update by update."""
