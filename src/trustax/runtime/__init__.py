"""The training loop and its parts: rollouts, iterations, devices, callbacks and interrupts."""
