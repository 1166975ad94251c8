"""`tune`: search for good hyperparameters with Optuna, several trials side by side, and prune bad ones early.

Trials are trained in generations, which Optuna's TPE sampler suggests (see `halving.py`). The first trial has the
default settings, if they are in the ranges. The study is stored by Optuna, and the state of its runs in their folders:
the same call continues an interrupted study, and finished trials are not repeated.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from trustax.algorithms import Algorithm
from trustax.errors import TrustaxError, refuse_unknown
from trustax.ops.metrics import RETURN
from trustax.run import Run, to_json
from trustax.runtime.interrupt import Interrupted
from trustax.storage.atomic import jsonable
from trustax.storage.lock import locked
from trustax.storage.object_store import is_url
from trustax.sweeps.engines import SweepEngine, make_engine
from trustax.sweeps.grid import Grid, setting_names, short_hash
from trustax.sweeps.halving import TrialOutcome, halve, planned_steps
from trustax.sweeps.local import LocalEngine
from trustax.sweeps.objectives import OBJECTIVES, reported_values
from trustax.sweeps.ranges import Range, Space, checked_space, choice_of, default_choice, is_mapped, suggest
from trustax.sweeps.study import ended, open_study, require_optuna, start_of_generation, without_warnings
from trustax.sweeps.sweep import named_methods
from trustax.sweeps.tuning_progress import TuningProgress, train_here, train_on
from trustax.sweeps.tuning_results import TuningResult

TrialCallback = Callable[[Any, Any], Any]
"""A function of the study and the trial that has ended, as for Optuna's `optimize`."""


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """The definition of a study."""

    run: Run
    """the run with its default settings; each trial has as many learners"""
    space: Mapping[str, Range | tuple[Any, ...]]
    objective: str = "final"
    generation_size: int = 8
    reduction: int = 3
    sampler_seed: int = 0

    def __post_init__(self) -> None:
        OBJECTIVES.find(self.objective)
        for name in ("generation_size", "reduction"):
            if getattr(self, name) < 1:
                raise TrustaxError(f"{name} must be at least 1, not {getattr(self, name)}")

    def definition(self) -> dict[str, Any]:
        """Everything that must stay the same when the study is continued, as JSON values."""
        space = {name: str(one) if isinstance(one, Range) else jsonable(one) for name, one in self.space.items()}
        others = {name: getattr(self, name) for name in ("objective", "generation_size", "reduction", "sampler_seed")}
        return json.loads(json.dumps({"run": to_json(self.run), "space": space} | others))

    def digest(self) -> str:
        return short_hash(self.definition())


def tune(
    algorithm: str | Algorithm,
    env_id: str,
    space: Space,
    *,
    folder: str | Path,
    trials: int = 40,
    objective: str = "final",
    generation_size: int = 8,
    reduction: int = 3,
    sampler_seed: int = 0,
    storage: str | None = None,
    engine: str | SweepEngine = "local",
    quiet: bool = False,
    callbacks: Iterable[TrialCallback] = (),
    **settings: Any,
) -> TuningResult:
    """Search for good settings of an algorithm on an environment.

    The same call continues an interrupted study; a larger number of trials extends it.

    Args:
        algorithm: an algorithm, by name or as an object with settings.
        env_id: the id of an environment.
        space: setting → `Range(low, high)`, or a list of choices.
        folder: the folder of the study and its runs.
        trials: number of trials.
        objective: "final", the return of the last 100 episodes, or "area", the mean return over the run. Both are
            interquartile means over the seeds.
        generation_size: number of trials that are trained and compared at the same time.
        reduction: trials are compared after 1/r² and 1/r of the steps, where r is this number, and the best of every r
            trials continues; 1 prunes no trial.
        sampler_seed: seed of Optuna's TPE sampler.
        storage: URL of an Optuna storage, for example "sqlite:///study.db"; by default a journal file in the folder.
        engine: "local", "ray", "slurm", or an engine with options.
        quiet: do not show progress.
        callbacks: functions of the study and the trial, called after each trial.
        settings: settings of `Run` and of the algorithm that all trials share.
    """
    ((name, method),) = named_methods(algorithm).items()
    known = setting_names(method)
    refuse_unknown("tune", [one for one in settings if one not in known], known)
    ((run, _),) = Grid({name: method}, [env_id], {one: [value] for one, value in settings.items()}).expand()
    tuning = Tuning(
        run=run,
        space=checked_space(run, space),
        objective=objective,
        generation_size=generation_size,
        reduction=reduction,
        sampler_seed=sampler_seed,
    )
    made = make_engine(engine) if isinstance(engine, str) else engine
    console = Console(stderr=True, quiet=quiet)
    return run_study(tuning, folder_of_study(folder), trials, made, console, storage, callbacks)


def folder_of_study(folder: str | Path) -> Path:
    """The folder of a study, which must not be in an object store: trials continue from the files of other trials."""
    if is_url(folder):
        raise TrustaxError(f"a study needs a folder that all its workers share, not an object store like {folder}")
    return Path(folder)


def run_study(
    tuning: Tuning,
    folder: Path,
    trials: int,
    engine: SweepEngine,
    console: Console,
    storage: str | None = None,
    callbacks: Iterable[TrialCallback] = (),
) -> TuningResult:
    """Train the trials that are not finished, and write the best settings after each generation."""
    if trials < 1:
        raise TrustaxError(f"trials must be at least 1, not {trials}")
    require_optuna()
    with locked(folder), without_warnings():
        study = open_study(folder, storage, tuning.definition(), default_choice(tuning.run, tuning.space))
        result = TuningResult(folder, tuning.run, tuning.space, tuning.objective, study)
        # Trials in one program are trained in this process; several programs and other engines need worker processes.
        is_here = type(engine) is LocalEngine and all(is_mapped(tuning.run, name) for name in tuning.space)
        sizes = _generation_sizes(study, tuning, trials)
        planned = [planned_steps(tuning.run, size, tuning.reduction) for size in sizes]
        with TuningProgress(folder.name, planned, trials, console, shows_bar=is_here) as progress:
            train = partial(train_here, progress) if is_here else partial(train_on, engine, folder.name, console)
            try:
                for _ in sizes:
                    _run_generation(study, tuning, folder, trials, train, tuple(callbacks))
                    progress.end_generation(len(ended(study)), result.best_value())
                    result.save()
            except Interrupted:
                done = f"{len(ended(study))} of {trials} trials are finished"
                raise Interrupted(f"stopped and saved; {done}; run the same command to continue") from None
        result.save()  # also if all trials were finished: a kill may have come between the last trial and the file
    return result


def _run_generation(
    study: Any, tuning: Tuning, folder: Path, trials: int, train: Any, callbacks: tuple[TrialCallback, ...]
) -> None:
    """Ask for a generation of trials, or take the one that was interrupted; train it and report the outcomes."""
    asked = _ask(study, tuning, trials)
    choices = {number: choice_of(tuning.space, trial.params) for number, trial in asked.items()}
    objective = OBJECTIVES.find(tuning.objective)

    def report(number: int, records: Any, learners: slice) -> None:
        known = study.trials[number].intermediate_values
        returns = records[-1][RETURN][learners]
        if not study.trials[number].state.is_finished():
            asked[number].set_user_attr("returns", returns)
            for step, value in reported_values(objective, records, learners, known):
                asked[number].report(value, step)

    outcomes = halve(tuning.run, choices, folder / "runs", tuning.reduction, train, objective, report)
    for number, outcome in outcomes.items():
        if not study.trials[number].state.is_finished():
            _tell(study, asked[number], outcome, tuning.run.num_seeds)
            for callback in callbacks:
                callback(study, study.trials[number])


def _tell(study: Any, trial: Any, outcome: TrialOutcome, num_seeds: int) -> None:
    from optuna.trial import TrialState

    trial.set_user_attr("steps", outcome.steps * num_seeds)
    if outcome.reason:
        trial.set_user_attr("reason", outcome.reason)
    if outcome.state == "complete":
        study.tell(trial, outcome.value)
    else:
        study.tell(trial, state=TrialState.PRUNED if outcome.state == "pruned" else TrialState.FAIL)


def _ask(study: Any, tuning: Tuning, trials: int) -> dict[int, Any]:
    """The trials of the generation that was interrupted, or of a new one, by their numbers.

    Each trial has a sampler of its own, whose seed depends on its number: a continued study suggests what it would
    have suggested without the interruption.
    """
    from optuna.samplers import TPESampler
    from optuna.trial import Trial, TrialState

    first = start_of_generation(study)
    own = [one for one in study.trials if one.state != TrialState.WAITING and one.number >= first]
    asked = {one.number: Trial(study, one._trial_id) for one in own}
    for number in range(first, first + min(tuning.generation_size, trials - first)):
        study.sampler = TPESampler(seed=tuning.sampler_seed + number, multivariate=True, constant_liar=True)
        if number not in asked:
            asked[number] = study.ask()
        if not study.trials[number].state.is_finished():
            asked[number].set_user_attr("generation", first)
            suggest(asked[number], tuning.run, tuning.space)
    return asked


def _generation_sizes(study: Any, tuning: Tuning, trials: int) -> list[int]:
    """The sizes of the generations that are still to be trained."""
    left = max(0, trials - start_of_generation(study))
    full, rest = divmod(left, tuning.generation_size)
    return [tuning.generation_size] * full + ([rest] if rest else [])
