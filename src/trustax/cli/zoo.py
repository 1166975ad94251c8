"""The command `trustax zoo`: list, evaluate and show trained agents."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from trustax.agent import load_agent
from trustax.cli.optional import OptionalInt, OptionalPath
from trustax.errors import TrustaxError
from trustax.evaluation import evaluate
from trustax.plotting.record import record
from trustax.storage.zoo import Entry, entries, entry
from trustax.storage.zoo.table import cells, score

FRESH_SEED = 1
"""The seed of stored evaluations. Settings and agents were chosen without these episodes."""

LISTED = ("steps", "return", "RL Zoo")
"""The columns of the list beside the names."""

Names = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME ...", help_behavior_hint="")]


@dataclass(frozen=True, kw_only=True)
class Zoo:
    """List the trained agents of the zoo, evaluate them again, or record one.

    An agent has the name of its method and its task:

        trustax zoo                        list them
        trustax zoo evaluate [NAME ...]    evaluate these agents, or all of them
        trustax zoo show ppo/CartPole-v1   record a video of one

    To train with the settings of the zoo: trustax train METHOD --env-id ID --settings zoo.
    """

    action: Annotated[Literal["list", "evaluate", "show"], tyro.conf.Positional] = "list"
    """What to do."""
    names: Names = ()
    """Agents by name, for example ppo/CartPole-v1."""
    num_episodes: OptionalInt = None
    """Number of episodes; by default 100 to evaluate and 1 to show."""
    output: OptionalPath = None
    """The video, .gif or .mp4; by default a GIF in this folder."""
    seed: int = FRESH_SEED
    """The seed of the environments."""
    store: bool = False
    """Also store the evaluations in the zoo, in place of its own."""

    def __post_init__(self) -> None:
        if self.num_episodes is not None and self.num_episodes < 1:
            raise TrustaxError(f"num_episodes must be at least 1, not {self.num_episodes}")

    def __call__(self) -> None:
        {"list": self._list, "evaluate": self._evaluate, "show": self._show}[self.action]()

    def _chosen(self) -> list[Entry]:
        return [entry(name) for name in self.names] or entries()

    def _list(self) -> None:
        table = Table("agent", *LISTED, box=None, pad_edge=False)
        table.columns[0].no_wrap = True  # names are there to be typed
        for column in table.columns[1:]:
            column.justify = "right"
        for found in self._chosen():
            shown = cells(found)
            table.add_row(found.name, *(shown[column] for column in LISTED))
        Console().print(table)

    def _evaluate(self) -> None:
        for found in self._chosen():
            evaluation = evaluation_of(load_agent(found.folder), found.task, self.num_episodes or 100, self.seed)
            if self.store:
                found.with_evaluation(evaluation)
            print(f"{found.name}  {score(evaluation['mean'], evaluation['std'])}", flush=True)

    def _show(self) -> None:
        if len(self.names) != 1:
            raise TrustaxError("show needs the name of one agent, for example: trustax zoo show ppo/CartPole-v1")
        found = entry(self.names[0])
        output = self.output or Path(f"{found.method}-{found.task}.gif")
        print(record(load_agent(found.folder), found.task, output, self.num_episodes or 1, seed=self.seed))


def evaluation_of(agent: Any, env_id: str, num_episodes: int, seed: int = FRESH_SEED) -> dict[str, Any]:
    """The evaluation of an agent with the most likely actions, as `result.json` stores it."""
    result = evaluate(agent, env_id, num_episodes, seed=seed, max_envs=num_episodes)
    evaluation = {
        "num_episodes": num_episodes,
        "seed": seed,
        "mean": round(float(result.returns.mean()), 3),
        "std": round(float(result.returns.std()), 3),
    }
    successes = result.successes
    return evaluation | ({} if successes is None else {"success_rate": round(float(successes.mean()), 3)})
