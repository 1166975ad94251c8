"""Training as it runs: rollouts, iterations, devices, interrupts."""
