"""The command `trustax sweep`: a grid from the command line or from a TOML file."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.console import Console

from trustax.algorithms import Algorithm
from trustax.cli.methods import method_named
from trustax.cli.names import ZOO
from trustax.cli.optional import OptionalStr, Strings
from trustax.cli.parsing import flag, hint, with_flags
from trustax.cli.progress import output_console
from trustax.cli.settings_file import read_settings, read_toml
from trustax.envs import engine_of
from trustax.errors import TrustaxError, similar_or_all
from trustax.paper.tasks import task_of
from trustax.run import Run
from trustax.settings import validated
from trustax.storage import zoo
from trustax.storage.object_store import copy_to_store
from trustax.sweeps.grid import Grid, MakeRun, require_different, setting_names
from trustax.sweeps.options import EngineOptions
from trustax.sweeps.results import RESULTS_FILE, SweepResult
from trustax.sweeps.sweep import digest, run_grid

PICTURE = "curves.png"


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Train every METHOD on every environment with every combination of settings.

    Give any setting of trustax train one or several values: --memory-size 5 10 40 --learning-rate 1e-4 3e-4. A setting
    applies to the methods that have it. Instead of methods, the name of a TOML file can be given:

        methods = ["mcpo", "ppo"]
        env_id = ["LunarLander-v3", "CartPole-v1"]
        memory_size = [5, 10, 40]
        num_seeds = 5

    Finished runs are not repeated. After an interruption, the same command continues.
    """

    methods: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="METHOD ...", help_behavior_hint="")
    ]
    """Methods, or one TOML file."""
    env_id: Strings = ()
    """Ids of environments."""
    settings: OptionalStr = None
    """A TOML file of settings, such as best.toml of trustax tune, or zoo for tuned ones; other options override it."""
    folder: OptionalStr = None
    """The folder of the sweep, or its URL (s3://bucket/x); by default runs/sweep-HASH, a hash of all settings."""
    engine: EngineOptions = field(default_factory=EngineOptions)

    def run(self, settings: Mapping[str, Sequence[Any]]) -> None:
        """Train the grid. `settings` are those that `separate` has found."""
        options = settings
        methods, env_ids, settings = self._definition(settings)
        chosen = {name: method_named(name) for name in methods}
        require_known_options(options, chosen.values(), Sweep)
        if not env_ids:
            raise TrustaxError("--env-id is missing; choose one or several, for example --env-id CartPole-v1")
        for env_id in env_ids:
            engine_of(env_id)
        from_file = self._from_file(chosen.values())
        try:
            grid = Grid(chosen, env_ids, from_file | _checked(chosen.values(), settings), first_run(self.settings))
        except TrustaxError as error:
            raise TrustaxError(with_flags(str(error), options)) from error
        place = self.folder or Path("runs") / f"sweep-{digest(grid)}"
        result = run_grid(grid, place, self.engine.make(), output_console())
        if result.finished:
            self._show(result)
        if result.failures:
            lines = [f"✗ {failure.job.title}: {failure.reason}" for failure in result.failures]
            print("\n".join(lines))
            raise TrustaxError(f"failed runs: {len(lines)}; run the same command to try them again")

    def _show(self, result: SweepResult) -> None:
        """Print the table, and plot the learning curves if there are any."""
        Console().print(result.table())
        shown = result.store or result.folder
        print(f"results         {shown}/{RESULTS_FILE}")
        if any(np.isfinite(one.returns).any() for one in result.finished):
            picture = result.folder / PICTURE
            result.plot(picture)
            if result.store is not None:
                copy_to_store(picture, result.store)
            print(f"learning curves {shown}/{PICTURE}")

    def _definition(self, settings: Mapping[str, Sequence[Any]]) -> tuple[list[str], list[str], dict[str, Any]]:
        """Methods, environments and settings; options on the command line override those of the file."""
        methods, env_ids, read = list(self.methods), list(self.env_id), {}
        if len(methods) == 1 and methods[0].endswith(".toml"):
            read = read_toml(Path(methods[0]))
            methods = _strings("methods", read.pop("methods", []))
            env_ids = env_ids or _strings("env_id", read.pop("env_id", []))
            read.pop("env_id", None)
        if not env_ids and (env_id := read_settings(self.settings).get("env_id")):
            env_ids = [env_id]
        if not methods:
            raise TrustaxError("give at least one method, for example: trustax sweep mcpo ppo --env-id CartPole-v1")
        require_different(methods)
        return methods, env_ids, read | dict(settings)

    def _from_file(self, methods: Iterable[Algorithm]) -> dict[str, list[Any]]:
        """The settings of --settings, each with one value; errors name the file."""
        values = {name: [value] for name, value in read_settings(self.settings).items() if name != "env_id"}
        known = sorted({name for method in methods for name in setting_names(method)})
        for name in values:
            if name not in known:
                raise TrustaxError(f"{self.settings}: no method has a setting {name!r}; {similar_or_all(name, known)}")
        try:
            return _checked(methods, values)
        except TrustaxError as error:
            raise TrustaxError(f"{self.settings}: {error}") from error


def require_known_options(options: Iterable[str], methods: Iterable[Algorithm], command: type) -> None:
    """Raise an error for an option that is neither one of the command nor a setting of a method."""
    kinds: list[Any] = [command, EngineOptions]
    own = [one.name for kind in kinds for one in dataclasses.fields(kind)]
    known = [flag(name) for name in dict.fromkeys([*(name for one in methods for name in setting_names(one)), *own])]
    for name in options:
        if (option := flag(name)) not in known:
            what = f"trustax {command.__name__.lower()}"
            other = hint(option, known, f"see {what} --help, and trustax train METHOD --help for settings")
            raise TrustaxError(f"unknown option {option!r}; {INSTEAD.get(name, other).format(what=what)}")


INSTEAD = {
    "run_dir": "{what} has --folder for all its runs",
    "resume": "run the same command again, and {what} continues where it stopped",
    "quiet": "redirect the output of {what} instead",
    "callbacks": "{what} has no callbacks; trustax train has them",
    "loggers": "{what} has no loggers; trustax train has them",
}
"""What to do instead of options that only `trustax train` has."""


def separate(arguments: Sequence[str], command: Any) -> tuple[list[str], dict[str, list[Any]]]:
    """Separate the options of a command itself from settings of its runs, which may have many values.

    >>> separate(["mcpo", "--env-id", "CartPole-v1", "--memory-size", "5", "10"], Sweep)
    (['mcpo', '--env-id', 'CartPole-v1'], {'memory_size': [5, 10]})
    """
    own = {"help", "h", *(one.name for kind in (command, EngineOptions) for one in dataclasses.fields(kind))}
    kept: list[str] = []
    settings: dict[str, list[Any]] = {}
    values: list[Any] | None = None
    for argument in arguments:
        if argument.startswith("-") and not _is_number(argument):
            name, _, value = argument.lstrip("-").partition("=")
            name = name.replace("-", "_")
            if name in own:
                values = None
            else:
                values = settings.setdefault(name, [])
                values += [parse_value(value)] if value else []
                continue
        if values is None:
            kept.append(argument)
        else:
            values.append(parse_value(argument))
    return kept, settings


def _checked(methods: Iterable[Algorithm], settings: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Values in the types that the settings require; a value that does not fit raises an error."""
    kinds: list[Any] = [Run, *map(type, methods)]
    checked = {}
    for name, values in settings.items():
        values = values if isinstance(values, list) else [values]
        owner = next((kind for kind in kinds if name in {one.name for one in dataclasses.fields(kind)}), None)
        checked[name] = [value if owner is None else validated(owner, {name: value})[name] for value in values]
    return checked


def first_run(settings: str | None) -> MakeRun:
    """The run before any option: with the settings of the zoo, or with the paper's."""
    return (lambda method, _, env_id: zoo.run(method, env_id)) if settings == ZOO else paper_run


def paper_run(_: str, algorithm: Algorithm, env_id: str) -> Run:
    """The run with the paper's settings for its task, if it has this task, as `trustax train` does."""
    task = task_of(env_id)
    return Run(algorithm=algorithm, env_id=env_id) if task is None else task.run(algorithm, env_id=env_id)


def _strings(name: str, value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str) for one in values):
        raise TrustaxError(f"{name} must be a list of names, not {value!r}")
    return values


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def parse_value(text: str) -> Any:
    """A value as its text reads: 5, 1e-4, true, 64,64 (a tuple) or a name.

    >>> parse_value("5"), parse_value("1e-4"), parse_value("64,64"), parse_value("mean"), parse_value("true")
    (5, 0.0001, (64, 64), 'mean', True)
    """
    if "," in text:
        return tuple(parse_value(part) for part in text.split(",") if part)
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if not _is_number(text):
        return text
    return int(text) if text.lstrip("+-").isdecimal() else float(text)
