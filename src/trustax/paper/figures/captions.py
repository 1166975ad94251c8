"""Text shared by captions: the number of seeds, the training length, and the runs that are missing."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from trustax.cli.formatting import short_count
from trustax.paper.figures.families import family_and_setting
from trustax.paper.results import Outcome


def seeds_text(outcomes: Iterable[Outcome]) -> str:
    """The number of seeds in a figure, as the beginning of its caption."""
    counts = sorted({len(outcome.returns) for outcome in outcomes})
    if counts == [1]:
        return "One seed"
    return f"Mean over {counts[0]} to {counts[-1]} seeds" if len(counts) > 1 else f"Mean over {counts[0]} seeds"


def length_text(outcomes: Iterable[Outcome], steps: int) -> str:
    """The training length, as a part of a caption, if it is shorter than the paper's; `steps` is the paper's."""
    longest = max(outcome.run.total_timesteps for outcome in outcomes)
    return f" Runs of {short_count(longest)} steps; the paper's have {short_count(steps)}." if longest < steps else ""


def missing_text(rows: Sequence[str], found: Mapping[str, Collection[str]]) -> str:
    """The methods that were not run on each task, as the end of a caption.

    If no method of a family was run, only the family is named.

    >>> missing_text(["PPO ε=0.1", "PPO ε=0.2", "TRGPPO"], {"hopper": ["TRGPPO"], "ant": []})
    ' Not run yet: PPO on hopper; all methods on ant.'
    """
    parts = []
    for task, methods in found.items():
        tried = {family_and_setting(method)[0] for method in methods}
        families = [(family_and_setting(row)[0], row) for row in rows if row not in methods]
        names = dict.fromkeys(row if family in tried else family for family, row in families)
        if names:
            listed = ", ".join(name.replace(" ", "\N{NO-BREAK SPACE}") for name in names)
            parts.append(f"{listed if methods else 'all methods'} on {task}")
    return f" Not run yet: {'; '.join(parts)}." if parts else ""
