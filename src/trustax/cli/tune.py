"""The command `trustax tune`: search for good hyperparameters."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from trustax.algorithms import Algorithm
from trustax.cli.methods import method_named
from trustax.cli.optional import OptionalStr, Strings
from trustax.cli.progress import output_console
from trustax.cli.settings_file import read_settings, with_settings
from trustax.cli.sweep import first_run, parse_value, require_known_options
from trustax.envs import engine_of
from trustax.errors import TrustaxError
from trustax.sweeps.grid import Grid
from trustax.sweeps.options import EngineOptions
from trustax.sweeps.ranges import Range, checked_space
from trustax.sweeps.tuning import Tuning, folder_of_study, run_study

PICTURE = "tuning.png"
HOW = "write NAME:LOW..HIGH, NAME:LOW..HIGH:log or NAME:FIRST,SECOND"


@dataclass(frozen=True, kw_only=True)
class Tune:
    """Search for good settings of METHOD with Optuna.

    Any setting of trustax train can be tuned, and any other one can be given: --num-seeds 2 --total-timesteps 100000.
    Several trials train side by side, and bad ones stop early. The best settings are written to best.toml, for trustax
    train METHOD --settings best.toml. After an interruption, the same command continues; more --trials extend a study.
    """

    method: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="METHOD")]
    """A method, for example ppo."""
    env_id: OptionalStr = None
    """Id of the environment."""
    tune: Strings = ()
    """Settings with their ranges or choices: learning_rate:1e-5..1e-2:log num_epochs:1..20 activation:tanh,relu
    hidden_sizes:64x64,128x128"""
    trials: int = 40
    """Number of trials. The first one has the default settings, if they are in the ranges."""
    objective: str = "final"
    """final: return of the last 100 episodes; area: mean return of the run; interquartile means over the seeds."""
    generation_size: int = 8
    """Trials that are trained and compared at the same time."""
    reduction: int = 3
    """r: after 1/r² and 1/r of the steps, the best of every r trials continues; 1 prunes no trial."""
    sampler_seed: int = 0
    """Seed of Optuna's TPE sampler."""
    storage: OptionalStr = None
    """URL of an Optuna storage, for example sqlite:///study.db; default: a journal file in the folder."""
    settings: OptionalStr = None
    """A TOML file of settings that all trials share, or zoo for tuned ones; options on the command line override it."""
    folder: OptionalStr = None
    """The folder of the study; by default a folder in runs/ that depends on all settings except --trials."""
    engine: EngineOptions = field(default_factory=EngineOptions)

    def run(self, settings: Mapping[str, Sequence[Any]]) -> None:
        """Run the study. `settings` are those that `separate` has found."""
        tuning = self.tuning(settings)
        folder = folder_of_study(self.folder or Path("runs") / f"tune-{tuning.digest()}")
        engine = self.engine.make()
        result = run_study(tuning, folder, self.trials, engine, output_console(), self.storage)
        if result.best_value() is None:
            reasons = [trial.user_attrs["reason"] for trial in result.study.trials if "reason" in trial.user_attrs]
            raise TrustaxError(f"no trial of {folder} is complete; the last one failed: {reasons[-1]}")
        Console().print(result.table())
        result.plot(folder / PICTURE)
        print(f"best settings   {result.settings_file}\npicture         {folder / PICTURE}")
        print(f"train with them: trustax train {self.method} --settings {result.settings_file}")

    def tuning(self, settings: Mapping[str, Sequence[Any]]) -> Tuning:
        """The definition of the study."""
        method = method_named(self.method)
        if not self.tune:
            raise TrustaxError("--tune is missing; for example --tune learning_rate:1e-5..1e-2:log clip_range:0.1..0.4")
        space = parse_space(self.tune)
        _check_options(method, settings)
        if self.env_id:
            engine_of(self.env_id)  # raises an error for an unknown environment
        read = read_settings(self.settings)
        env_id = self.env_id or read.pop("env_id", None)
        if not env_id:
            raise TrustaxError("--env-id is missing; choose an environment, for example --env-id CartPole-v1")
        engine_of(env_id)  # it may come from the file
        first = first_run(self.settings)(self.method, method, env_id)
        run = with_settings(first, self.settings, {k: v for k, v in read.items() if k != "env_id"})
        grid = Grid({self.method: method}, [env_id], settings, lambda *_: run)
        ((run, _),) = grid.expand()
        return Tuning(
            run=run,
            space=checked_space(run, space),
            objective=self.objective,
            generation_size=self.generation_size,
            reduction=self.reduction,
            sampler_seed=self.sampler_seed,
        )


def _check_options(method: Algorithm, settings: Mapping[str, Sequence[Any]]) -> None:
    """Settings must exist and have one value."""
    require_known_options(settings, [method], Tune)
    for name, values in settings.items():
        option = f"--{name.replace('_', '-')}"
        if len(values) != 1:
            raise TrustaxError(f"{option} needs one value; to tune it, name it in --tune, for example {name}:1,2")


def parse_space(texts: Iterable[str]) -> dict[str, Range | list[Any]]:
    """Ranges and choices from the command line.

    >>> parse_space(["learning_rate:1e-5..1e-2:log", "num-epochs:1..20", "hidden_sizes:8x8,16", "activation:tanh,relu"])
    {'learning_rate': Range(low=1e-05, high=0.01, log=True), 'num_epochs': Range(low=1, high=20, log=False), \
'hidden_sizes': [(8, 8), 16], 'activation': ['tanh', 'relu']}
    """
    space: dict[str, Range | list[Any]] = {}
    for text in texts:
        name, _, values = text.partition(":")
        name = name.replace("-", "_")
        if not values:
            raise TrustaxError(f"--tune {text} has no values; {HOW.replace('NAME', name or 'NAME')}")
        if name in space:
            raise TrustaxError(f"--tune has {name} twice; give all its values at once")
        space[name] = _parse_range(name, values) if ".." in values else list(map(_parse_choice, values.split(",")))
    return space


def _parse_range(name: str, text: str) -> Range:
    found = re.fullmatch(r"([^:]+?)\.\.([^:]+)(:log)?", text)
    ends: list[Any] = [parse_value(end) for end in found.groups()[:2]] if found else [""]
    if found is None or not all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends):
        raise TrustaxError(f"--tune {name}:{text} is not a range; {HOW.replace('NAME', name)}")
    try:
        return Range(ends[0], ends[1], log=found[3] is not None)
    except TrustaxError as error:
        raise TrustaxError(f"--tune {name}:{text}: {error}") from error


def _parse_choice(text: str) -> Any:
    if re.fullmatch(r"\d+(x\d+)+", text):
        return tuple(map(int, text.split("x")))
    return parse_value(text)
