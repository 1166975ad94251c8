"""The experiments of the paper: which methods run on which tasks.

An experiment runs under one of two protocols, and its outcomes are stored in a folder named after the protocol.
`paper` treats a time limit as a termination, as the repository that the paper names for its
PPO does by default. `bootstrapped` adds the value of the last
observation, the standard treatment.

>>> cells = experiment("table-1").cells("paper", tasks=["pendulum"], num_seeds=2)
>>> cells[0].method, cells[0].task, cells[0].run.total_timesteps, cells[0].run.bootstrap_truncation
('KL Adaptive d=0.01', 'pendulum', 1000000, False)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

from trustax.errors import TrustaxError, similar_or_all
from trustax.paper.methods import BASELINE_VARIANTS, DEFAULT_ABLATIONS, MCPO_VARIANTS, METHODS, method
from trustax.paper.tasks import task
from trustax.run import Run

PROTOCOLS = {"paper": False, "bootstrapped": True}
"""Protocol name → whether to bootstrap the value after a time limit."""

Items = tuple[tuple[str, Any], ...]
"""The items of a dictionary of settings."""


class Cell(NamedTuple):
    """A method on a task with all its seeds: one cell of a table, one line of a figure."""

    method: str
    task: str
    run: Run


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Methods × tasks × seeds, as the paper ran them."""

    title: str
    methods: Sequence[str]
    """rows of the paper, or of an experiment of our own"""
    tasks: Sequence[str]
    variants: Sequence[str] = ()
    """our additional rows"""
    num_seeds: int = 5
    algorithm_settings: dict[str, Any] = field(default_factory=dict)
    """overrides of the task's settings"""
    run_settings: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> list[str]:
        """The paper's methods, followed by our variants."""
        return [*self.methods, *self.variants]

    def cells(
        self,
        protocol: str,
        methods: Iterable[str] | None = None,
        tasks: Iterable[str] | None = None,
        num_seeds: int | None = None,
        total_timesteps: int | None = None,
    ) -> list[Cell]:
        """The runs under a protocol, optionally restricted to some methods and tasks or with other seeds and steps."""
        rows = _select("method", methods, self.rows)
        columns = _select("task", tasks, self.tasks)
        settings = self.run_settings | {"num_seeds": num_seeds or self.num_seeds} | _truncation(protocol)
        if total_timesteps is not None:
            settings |= {"total_timesteps": total_timesteps}
        items = tuple(self.algorithm_settings.items()), tuple(settings.items())
        return [Cell(row, column, _run(row, column, *items)) for column in columns for row in rows]


@cache
def _run(row: str, column: str, algorithm_settings: Items, run_settings: Items) -> Run:
    """A run of a method on a task. It is made once, since a report asks for all runs of all tables."""
    tuned: Any = task(column).tuned(method(row))
    return task(column).run(replace(tuned, **dict(algorithm_settings)), **dict(run_settings))


def _truncation(protocol: str) -> dict[str, bool]:
    if protocol not in PROTOCOLS:
        raise TrustaxError(f"there is no protocol {protocol!r}; {similar_or_all(protocol, PROTOCOLS)}")
    return {"bootstrap_truncation": PROTOCOLS[protocol]}


def _select(what: str, selected: Iterable[str] | None, known: Sequence[str]) -> Sequence[str]:
    """The selected names in the experiment's order; all names if `selected` is None."""
    if selected is None:
        return known
    selected = list(selected)
    for name in selected:
        if name not in known:
            raise TrustaxError(f"this experiment has no {what} {name!r}; {similar_or_all(name, known)}")
    return [name for name in known if name in selected]


def _named(*prefixes: str) -> list[str]:
    return [name for name in METHODS if name.startswith(prefixes)]


CLASSIC = ["pendulum", "lunar-lander", "bipedal-walker"]
MUJOCO = ["half-cheetah", "walker2d", "hopper", "ant", "humanoid", "humanoid-standup"]
ATARI = ["beam-rider", "breakout", "enduro", "gopher", "seaquest", "space-invaders"]
BEST_CLASSIC = ["KL Adaptive d=0.01", "KL Fixed β=0.1", "PPO ε=0.3", "MDPO β₀=2", "VMPO α₀=1"]
SIGNATURE = ["KL Adaptive d=0.01", "KL Fixed β=0.1", "PPO ε=0.2", "MDPO β₀=0.5", "VMPO α₀=1"]
TABLE_1 = [
    name for name in _named("KL", "PPO", "MDPO", "VMPO") if name not in ("KL Fixed β=10", "PPO ε=0.5", "PPO ε=0.8")
]
ABLATIONS = ["No ψ", "α=0.5", "α=1.0", "Annealed β", "Adaptive β", *_named("Frequent", "Uniform", "Sparse")]
PARTS = [*ABLATIONS, "Half feature"]
"""MCPO without one of its parts, which is not another method."""

EXPERIMENTS: dict[str, Experiment] = {
    "table-1": Experiment(
        title="Classical control, each method at its best setting",
        methods=[*BEST_CLASSIC, *_named("MCPO")],
        variants=list(MCPO_VARIANTS),
        tasks=CLASSIC,
    ),
    "table-1-full": Experiment(
        title="Classical control, all settings",
        methods=[*TABLE_1, *_named("MCPO")],
        variants=[*MCPO_VARIANTS, *BASELINE_VARIANTS],
        tasks=CLASSIC,
    ),
    "table-2": Experiment(
        title="MuJoCo",
        methods=[
            *_named("TRPO", "PPO ε=0.2", "PPO ε=0.5", "PPO ε=0.8", "MDPO", "TRGPPO"),
            *("Mean ψ N=5", "Mean ψ N=40", "MCPO N=5", "MCPO N=40"),
        ],
        variants=["MCPO N=40 default", "PPO ε=0.2 default", "MCPO N=40 one target", "MCPO N=40 literal"],
        tasks=MUJOCO,
    ),
    "table-3": Experiment(
        title="Atari, human-normalized",
        methods=["PPO ε=0.2", "ACKTR δ=0.01", "VMPO α₀=5", "TRGPPO", "MCPO N=10"],
        variants=["MCPO N=10 default", "ACKTR δ=0.001"],
        tasks=ATARI,
    ),
    "minigrid": Experiment(
        title="Navigation",
        methods=[*SIGNATURE, "MCPO N=10"],
        variants=["MCPO N=10 default", "MCPO N=10 literal"],
        tasks=["unlock", "unlock-pickup"],
        num_seeds=10,
    ),
    "ablation": Experiment(
        title="Ablation on BipedalWalkerHardcore",
        methods=[*_named("MCPO"), *ABLATIONS, "Mean ψ N=10", "Half feature", *TABLE_1],
        variants=["MCPO N=10 default", "MCPO N=10 literal"],
        tasks=["bipedal-walker-hardcore"],
    ),
    "ablation-full": Experiment(
        title="The same ablation on tasks where every row runs in full",
        methods=[*_named("MCPO"), *ABLATIONS, "Mean ψ N=10", "Half feature"],
        variants=["MCPO N=10 default", "MCPO N=10 literal"],
        tasks=["lunar-lander", "bipedal-walker"],
    ),
    "ablation-default": Experiment(
        title="Ablation of MCPO()",
        methods=["MCPO N=10 default", *DEFAULT_ABLATIONS],
        tasks=["pendulum", "lunar-lander", "unlock", "unlock-pickup"],
        num_seeds=10,
    ),
    "figure-1c": Experiment(
        title="The slot that attention prefers",
        methods=["MCPO N=40"],
        variants=["MCPO N=40 default", "MCPO N=40 literal"],
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
"""Experiments by their names for `trustax reproduce`. Figures 1a and 1b trace a single run: see `paper/trace/`."""


def experiment(name: str) -> Experiment:
    """Look up an experiment by its name."""
    if name not in EXPERIMENTS:
        raise TrustaxError(f"the paper has no experiment {name!r}; {similar_or_all(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]
