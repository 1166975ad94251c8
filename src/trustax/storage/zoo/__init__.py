"""The zoo: tuned settings and trained agents of methods on tasks.

`run` returns a run with tuned settings, `entries` lists the trained agents, and `trustax.load("zoo:ppo/CartPole-v1")`
loads one.
"""

from trustax.storage.zoo.stored import Entry, entries, entry
from trustax.storage.zoo.tuned import run

__all__ = ["Entry", "entries", "entry", "run"]
