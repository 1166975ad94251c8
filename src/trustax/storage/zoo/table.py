"""The table of the zoo, for the terminal and for the documentation."""

from collections.abc import Sequence
from statistics import fmean

from trustax.storage.zoo.stored import Entry, published

COLUMNS = ("task", "method", "steps", "return", "all seeds", "RL Zoo", "size")


def cells(entry: Entry) -> dict[str, str]:
    """The cells of an agent by column."""
    reference = published(entry.method, entry.task)
    seeds = entry.result["seed_returns"]
    row = [
        entry.task,
        entry.method,
        f"{entry.steps:,}",
        score(entry.evaluation["mean"], entry.evaluation["std"]),
        f"{number(fmean(seeds))} ({len(seeds)})",
        "" if reference is None else _reference(reference["mean"], reference["std"], reference["steps"], entry.steps),
        f"{entry.size / 1000:.0f} kB",
    ]
    return dict(zip(COLUMNS, row, strict=True))


def page(entries: Sequence[Entry]) -> str:
    """The table of the documentation, and a line that compares PPO with RL Zoo."""
    return f"{_markdown(entries)}\n\n{_comparison(entries)}"


def _comparison(entries: Sequence[Entry]) -> str:
    """The tasks on which PPO's stored agent reaches RL Zoo's score, and the others."""
    ours = [entry for entry in entries if entry.method == "ppo"]
    pairs = [(entry, score) for entry in ours if (score := published("ppo", entry.task))]
    reached = [entry.task for entry, score in pairs if entry.evaluation["mean"] >= score["mean"]]
    below = [entry.task for entry, _ in pairs if entry.task not in reached]
    return f"PPO reaches RL Zoo's score on {_listed(reached)}" + (f", and not on {_listed(below)}." if below else ".")


def _listed(names: Sequence[str]) -> str:
    *others, last = names or ["no task"]
    return f"{', '.join(others)} and {last}" if others else last


def _markdown(entries: Sequence[Entry]) -> str:
    rows = [list(COLUMNS), *(list(cells(entry).values()) for entry in entries)]
    header, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([header, "|" + "---|" * len(COLUMNS), *body])


def score(mean: float, std: float) -> str:
    """Mean ± standard deviation.

    >>> score(-150.25, 80.0), score(2410.4, 10.0), score(0.912, 0.03)
    ('-150.2 ± 80.0', '2410 ± 10', '0.91 ± 0.03')
    """
    digits = _digits(mean)
    return f"{mean:.{digits}f} ± {std:.{digits}f}"


def number(value: float) -> str:
    """A number with about four digits."""
    return f"{value:.{_digits(value)}f}"


def _digits(value: float) -> int:
    return 2 if abs(value) < 10 else 1 if abs(value) < 1000 else 0


def _reference(mean: float, std: float, reference_steps: int, steps: int) -> str:
    note = "" if reference_steps == steps else f" ({reference_steps:,} steps)"
    return score(mean, std) + note
