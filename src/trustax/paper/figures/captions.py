"""What captions say alike: how many seeds a picture shows, and what was not run."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from trustax.paper.figures.families import family_and_setting
from trustax.paper.results import Outcome


def averaged(outcomes: Iterable[Outcome]) -> str:
    """How many seeds a picture shows: the beginning of its caption."""
    counts = sorted({len(outcome.returns) for outcome in outcomes})
    if counts == [1]:
        return "One seed"
    return f"Mean over {counts[0]} to {counts[-1]} seeds" if len(counts) > 1 else f"Mean over {counts[0]} seeds"


def lacking(rows: Sequence[str], found: Mapping[str, Collection[str]]) -> str:
    """Which of the rows were not run, by task: the end of a caption.

    A family of which nothing was run is named as a whole.

    >>> lacking(["PPO ε=0.1", "PPO ε=0.2", "TRGPPO"], {"hopper": ["TRGPPO"], "ant": []})
    ' Not run yet: PPO on hopper; anything on ant.'
    """
    parts = []
    for task, methods in found.items():
        tried = {family_and_setting(method)[0] for method in methods}
        families = [(family_and_setting(row)[0], row) for row in rows if row not in methods]
        names = dict.fromkeys(row if family in tried else family for family, row in families)
        if names:
            listed = ", ".join(name.replace(" ", "\N{NO-BREAK SPACE}") for name in names)
            parts.append(f"{listed if methods else 'anything'} on {task}")
    return f" Not run yet: {'; '.join(parts)}." if parts else ""
