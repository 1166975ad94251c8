"""The files of a run: checkpoints, metrics, logs and locks."""
