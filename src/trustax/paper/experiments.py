"""The experiments of the paper: which methods on which tasks, as runs.

Each is run under one of two protocols, and its outcomes lie in a folder of that protocol's name: `paper`, where a time
limit counts as a termination, as in the paper's code base; and `bootstrapped`, where the value of what would have
followed it counts, as it should.

>>> cells = experiment("table-1").cells("paper", tasks=["pendulum"], num_seeds=2)
>>> cells[0].method, cells[0].task, cells[0].run.total_timesteps, cells[0].run.bootstrap_truncation
('KL Adaptive d=0.01', 'pendulum', 1000000, False)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from trustax.errors import TrustaxError, similar_or_all
from trustax.paper.methods import METHODS, VARIANTS, method
from trustax.paper.tasks import task
from trustax.run import Run

PROTOCOLS = {"paper": False, "bootstrapped": True}
"""Whether the value after a time limit counts, by the protocol's name."""


class Cell(NamedTuple):
    """A method on a task, over all its seeds: a cell of a table, a line of a figure."""

    method: str
    task: str
    run: Run


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Methods × tasks × seeds, as the paper ran them."""

    title: str
    methods: Sequence[str]
    """the paper's rows"""
    tasks: Sequence[str]
    variants: Sequence[str] = ()
    """rows of ours"""
    num_seeds: int = 5
    algorithm_settings: dict[str, Any] = field(default_factory=dict)
    """what differs from the task's settings"""
    run_settings: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> list[str]:
        """The paper's methods and, below them, ours."""
        return [*self.methods, *self.variants]

    def cells(
        self,
        protocol: str,
        methods: Iterable[str] | None = None,
        tasks: Iterable[str] | None = None,
        num_seeds: int | None = None,
        total_timesteps: int | None = None,
    ) -> list[Cell]:
        """Its runs under a protocol, or a part of them; with other seeds or fewer steps than the paper's."""
        rows = _chosen("method", methods, self.rows)
        columns = _chosen("task", tasks, self.tasks)
        settings = self.run_settings | {"num_seeds": num_seeds or self.num_seeds}
        if total_timesteps is not None:
            settings |= {"total_timesteps": total_timesteps}
        return [
            Cell(row, column, task(column).run(self._algorithm(row, column), **settings | _truncation(protocol)))
            for column in columns
            for row in rows
        ]

    def _algorithm(self, row: str, column: str) -> Any:
        tuned: Any = task(column).tuned(method(row))
        return replace(tuned, **self.algorithm_settings)


def _truncation(protocol: str) -> dict[str, bool]:
    if protocol not in PROTOCOLS:
        raise TrustaxError(f"there is no protocol {protocol!r}; {similar_or_all(protocol, PROTOCOLS)}")
    return {"bootstrap_truncation": PROTOCOLS[protocol]}


def _chosen(what: str, wanted: Iterable[str] | None, known: Sequence[str]) -> Sequence[str]:
    """Those that are wanted, in the experiment's order; all without a wish."""
    if wanted is None:
        return known
    wanted = list(wanted)
    for name in wanted:
        if name not in known:
            raise TrustaxError(f"this experiment has no {what} {name!r}; {similar_or_all(name, known)}")
    return [name for name in known if name in wanted]


def _named(*beginnings: str) -> list[str]:
    return [name for name in METHODS if name.startswith(beginnings)]


CLASSIC = ["pendulum", "lunar-lander", "bipedal-walker"]
MUJOCO = ["half-cheetah", "walker2d", "hopper", "ant", "humanoid", "humanoid-standup"]
ATARI = ["beam-rider", "breakout", "enduro", "gopher", "seaquest", "space-invaders"]
BEST_CLASSIC = ["KL Adaptive d=0.01", "KL Fixed β=0.1", "PPO ε=0.3", "MDPO β₀=2", "VMPO α₀=1"]
SIGNATURE = ["KL Adaptive d=0.01", "KL Fixed β=0.1", "PPO ε=0.2", "MDPO β₀=0.5", "VMPO α₀=1"]
TABLE_1 = [
    name for name in _named("KL", "PPO", "MDPO", "VMPO") if name not in ("KL Fixed β=10", "PPO ε=0.5", "PPO ε=0.8")
]
ABLATIONS = ["No ψ", "α=0.5", "α=1.0", "Annealed β", "Adaptive β", *_named("Frequent", "Uniform", "Sparse")]

EXPERIMENTS: dict[str, Experiment] = {
    "table-1": Experiment(
        title="Classical control, each method at its best setting",
        methods=[*BEST_CLASSIC, *_named("MCPO")],
        variants=list(VARIANTS),
        tasks=CLASSIC,
    ),
    "table-1-full": Experiment(
        title="Classical control, all settings",
        methods=[*TABLE_1, *_named("MCPO")],
        variants=list(VARIANTS),
        tasks=CLASSIC,
    ),
    "table-2": Experiment(
        title="MuJoCo",
        methods=[
            *_named("TRPO", "PPO ε=0.2", "PPO ε=0.5", "PPO ε=0.8", "MDPO", "TRGPPO"),
            *("Mean ψ N=5", "Mean ψ N=40", "MCPO N=5", "MCPO N=40"),
        ],
        variants=["MCPO N=40 adaptive β_max", "MCPO N=40 literal"],
        tasks=MUJOCO,
    ),
    "table-3": Experiment(
        title="Atari, human-normalised",
        methods=["PPO ε=0.2", "ACKTR δ=0.01", "VMPO α₀=5", "TRGPPO", "MCPO N=10"],
        tasks=ATARI,
    ),
    "minigrid": Experiment(
        title="Navigation",
        methods=[*SIGNATURE, "MCPO N=10"],
        variants=["MCPO N=10 adaptive β_max", "MCPO N=10 literal"],
        tasks=["unlock", "unlock-pickup"],
        num_seeds=10,
    ),
    "ablation": Experiment(
        title="Ablation on BipedalWalkerHardcore",
        methods=[*_named("MCPO"), *ABLATIONS, "Mean ψ N=10", "Half feature", *TABLE_1],
        variants=["MCPO N=10 adaptive β_max", "MCPO N=10 literal"],
        tasks=["bipedal-walker-hardcore"],
    ),
    "figure-1c": Experiment(
        title="The slot that attention prefers",
        methods=["MCPO N=40"],
        variants=["MCPO N=40 adaptive β_max", "MCPO N=40 literal"],
        tasks=["humanoid", "humanoid-standup", "hopper"],
    ),
    "alpha": Experiment(
        title="The weight of the virtual trust region, without decay of the learning rate",
        methods=["MCPO N=40"],
        tasks=["half-cheetah"],
        num_seeds=3,
        algorithm_settings={"learning_rate_schedule": "constant"},
    ),
    "cost": Experiment(
        title="Environment steps per second",
        methods=["MCPO N=5", "MCPO N=10", "MCPO N=40", "PPO ε=0.2"],
        tasks=["pendulum"],
        num_seeds=1,
        run_settings={"total_timesteps": 409_600},
    ),
}
"""By the names that `trustax reproduce` knows. Figures 1a and 1b look inside a single run: see `paper/trace/`."""


def experiment(name: str) -> Experiment:
    """An experiment by its name."""
    if name not in EXPERIMENTS:
        raise TrustaxError(f"the paper has no experiment {name!r}; {similar_or_all(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]
