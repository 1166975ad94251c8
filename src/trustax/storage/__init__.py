"""Everything a run writes: checkpoints, metrics, locks."""
