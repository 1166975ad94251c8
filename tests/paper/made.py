"""Small handmade outcomes for tests of figures, tables and reports."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from trustax.algorithms import MCPO
from trustax.paper import results
from trustax.paper.methods import method
from trustax.paper.results import Outcome
from trustax.paper.tasks import task

NAN = float("nan")
EVIL = """</script><script>window.harmed=1</script><img src=x onerror="window.harmed=1"><b>&amp;'"`{{data}}"""


def outcome(name: str = "MCPO N=10", where: str = "pendulum", protocol: str = "paper", **changes: Any) -> Outcome:
    """Two seeds that rise by 1 per point, 10 apart; the first point has no value."""
    algorithm = method(name) if name != EVIL else MCPO()
    run = task(where).run(algorithm, num_seeds=2, bootstrap_truncation=protocol == "bootstrapped")
    points = np.arange(8.0)
    returns = np.stack([points, points + 10])
    returns[:, 0] = NAN
    scales = {"alpha": 0.1, "beta": 1.0, "kl_old_new": 1e-3, "kl_old_virtual": 1e-4, "written": 0.01}
    details = {f"mcpo/{key}": np.outer([scale, 0.1], 1 + points) for key, scale in scales.items()}
    made = Outcome(
        run=run,
        method=name,
        steps=[8192 * (1 + index) for index in range(8)],
        returns=returns,
        successes=returns / 20 if where.startswith("unlock") else None,
        details=details if isinstance(run.algorithm, MCPO) else {},
        seconds=60.0,
        steps_per_second=1000.0,
        versions={"trustax": "0.1.0", "jax": "0.9.1"},
        hardware="CPU, 2 device(s), x86_64",
    )
    return replace(made, **changes)


def folder_of(tmp_path: Path, *outcomes: Outcome) -> Path:
    for each in outcomes:
        protocol = "bootstrapped" if each.run.bootstrap_truncation else "paper"
        results.write(each, tmp_path / "results" / protocol)
    (tmp_path / "results").mkdir(exist_ok=True)
    return tmp_path / "results"
