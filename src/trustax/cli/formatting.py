"""Human-readable numbers: counts, durations, and means with their spread over the seeds."""

from statistics import fmean, pstdev
from typing import Any

from trustax.ops.metrics import finite_values

UNKNOWN = "…"


def mean_and_spread(metric: Any) -> str:
    """A metric as mean ± standard deviation over the seeds.

    >>> mean_and_spread([1.0, 3.0, None]), mean_and_spread(-150.25), mean_and_spread([None])
    ('2.00 ± 1.00', '-150.2', '…')
    """
    values = finite_values(metric)
    if not values:
        return UNKNOWN
    mean = fmean(values)
    digits = 2 if abs(mean) < 10 else 1 if abs(mean) < 1000 else 0
    spread = f" ± {pstdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean:.{digits}f}{spread}"


def short_count(number: float | int) -> str:
    """A count with at most three significant digits.

    >>> [short_count(number) for number in (0, 999, 1500, 250_000, 1_000_000, 12_345_678, 999_999)]
    ['0', '999', '1.5k', '250k', '1M', '12.3M', '1M']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size * 0.9995:
            return f"{float(f'{number / size:.3g}'):g}{letter}"
    return f"{float(f'{number:.3g}'):g}"


def short_duration(seconds: float | int) -> str:
    """A duration in its two largest units.

    >>> [short_duration(seconds) for seconds in (4.2, 75, 3700, 100_000)]
    ['4 s', '1 min 15 s', '1 h 01 min', '1 d 03 h']
    """
    total = round(seconds)
    for size, unit, smaller_size, smaller in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if total >= size:
            return f"{total // size} {unit} {total % size // smaller_size:02d} {smaller}"
    return f"{total} s"
