"""Learning curves and videos."""
