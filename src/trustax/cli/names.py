"""The names that the help shows. They are written here so that `trustax --help` does not import JAX; a test compares
them with the registries."""

from importlib.metadata import entry_points
from typing import NamedTuple

ZOO = "zoo"
"""The value of --settings that stands for the settings of the zoo."""


class Method(NamedTuple):
    name: str
    summary: str
    paper: str


METHODS = (
    Method("mcpo", "two trust regions, one around a learned mixture of past policies", "Le et al., NeurIPS 2022"),
    Method("ppo", "clipped probability ratios", "Schulman et al., 2017"),
    Method("kl-fixed", "a KL penalty with a fixed weight", "Schulman et al., 2017"),
    Method("kl-adaptive", "a KL penalty that adapts to a target", "Schulman et al., 2017"),
    Method("mdpo", "mirror descent: a KL penalty from the new policy to the old one", "Tomar et al., ICLR 2022"),
    Method("vmpo", "weighted likelihood of the better half of the samples", "Song et al., ICLR 2020"),
    Method("trpo", "a natural gradient step and a line search", "Schulman et al., ICML 2015"),
    Method("trgppo", "PPO with a clip range for each sample", "Wang et al., NeurIPS 2019"),
    Method("acktr", "natural gradients of actor and critic by K-FAC", "Wu et al., NeurIPS 2017"),
    Method("mean-psi", "MCPO with the mean of its memory as the mixture", "Le et al., NeurIPS 2022"),
)
TASKS = (
    *("pendulum", "lunar-lander", "bipedal-walker", "bipedal-walker-hardcore", "unlock", "unlock-pickup"),
    *("half-cheetah", "walker2d", "hopper", "ant", "humanoid", "humanoid-standup"),
    *("beam-rider", "breakout", "enduro", "gopher", "seaquest", "space-invaders"),
)
EXPERIMENTS = (
    *("table-1", "table-1-full", "table-2", "table-3", "minigrid", "ablation", "ablation-full", "ablation-default"),
    *("figure-1c", "alpha", "cost", "figure-1a", "figure-1b", "within", "overview", "curves", "profiles"),
)


def methods_table() -> str:
    """All methods, one in a line; those of installed packages follow."""
    installed = [Method(point.name, f"from {point.module}", "") for point in entry_points(group="trustax.algorithms")]
    rows = [Method("METHOD", "what it does", "paper"), *METHODS, *installed]
    name_width, summary_width = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines = [f"  {row.name:<{name_width}}  {row.summary:<{summary_width}}  {row.paper}".rstrip() for row in rows]
    return "\n".join(lines)
