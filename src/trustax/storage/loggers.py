"""Loggers: destinations for the metrics of a run besides its own `metrics.jsonl`.

`metrics.jsonl` is part of a run, like its checkpoints, and is always written. Loggers are optional: if one fails, it is
disabled with a warning, and the run continues. Only a package that is not installed is an error, before the run.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from trustax.errors import TrustaxError
from trustax.ops.metrics import STEP, Record, finite_values
from trustax.run import Run, settings_of
from trustax.settings import Registry
from trustax.storage.atomic import write_atomic
from trustax.storage.records import copy_of
from trustax.storage.tensorboard import TensorBoardLogger


@runtime_checkable
class Logger(Protocol):
    """Three methods; any object that has them is a logger."""

    def start(self, run: Run, run_dir: Path | None, resume_at: int | None) -> None:
        """Start logging. A resumed run continues after the step `resume_at`; None means a new run."""
        ...

    def log(self, record: Record) -> None:
        """Log metrics: numbers, None, or lists with one number per seed; `time/total_timesteps` is their step.

        Each iteration has one record with all its metrics. What a callback logs follows in records of its own.
        """
        ...

    def close(self) -> None: ...


def scalars(record: Record, learners: Sequence[str]) -> dict[str, float]:
    """Flatten a record to plain numbers: the mean of each metric over the learners, and the value of each learner.

    >>> scalars({"rollout/ep_rew_mean": [1.0, 3.0], "time/fps": 10.0}, ["5", "6"])
    {'rollout/ep_rew_mean': 2.0, 'seed_5/rollout/ep_rew_mean': 1.0, 'seed_6/rollout/ep_rew_mean': 3.0, 'time/fps': 10.0}
    """
    found: dict[str, float] = {}
    for name, metric in record.items():
        if values := finite_values(metric):
            found[name] = sum(values) / len(values)
        if isinstance(metric, list) and len(metric) > 1:
            of_learners = zip(learners, metric, strict=True)
            found |= {f"seed_{learner}/{name}": value for learner, value in of_learners if finite_values(value)}
    return found


WANDB_ID, MLFLOW_ID = "wandb.id", "mlflow.id"
"""Files in the run's folder with the id that the service has for the run, under which it is resumed."""


def _stored_id(run_dir: Path | None, file: str, resume_at: int | None) -> str | None:
    """The id under which a resumed run has been logged; None for a new run."""
    if run_dir is None or resume_at is None or not (run_dir / file).is_file():
        return None
    return (run_dir / file).read_text(encoding="utf-8").strip()


def _name(run: Run, run_dir: Path | None) -> str:
    return f"{run.algorithm_name} on {run.env_id}" if run_dir is None else run_dir.name


class WandbLogger:
    """Weights & Biases: one run of the project "trustax", or of `project`.

    The environment variables of wandb apply, such as WANDB_MODE=offline and WANDB_PROJECT.
    """

    def __init__(self, project: str | None = None) -> None:
        self._project = project

    def start(self, run: Run, run_dir: Path | None, resume_at: int | None) -> None:
        try:
            import wandb
        except ImportError:
            raise ImportError('wandb is not installed: pip install "trustax[wandb]"') from None
        import os

        self._learners = run.learner_names
        found = _stored_id(run_dir, WANDB_ID, resume_at)
        self._run = wandb.init(
            project=self._project or os.environ.get("WANDB_PROJECT", "trustax"),
            name=_name(run, run_dir),
            id=found,
            resume=None if found is None else "allow",
            config=settings_of(run, without=()),
            dir=None if run_dir is None else str(run_dir),
        )
        if run_dir is not None:
            write_atomic(run_dir / WANDB_ID, f"{self._run.id}\n")

    def log(self, record: Record) -> None:
        self._run.log(scalars(record, self._learners), step=record[STEP])

    def close(self) -> None:
        if hasattr(self, "_run"):
            self._run.finish()


class MLflowLogger:
    """MLflow: one run of the experiment "trustax".

    The environment variables of MLflow apply, such as MLFLOW_TRACKING_URI; without it, files are written to `mlruns` in
    the run's folder.
    """

    def __init__(self, experiment: str = "trustax") -> None:
        self._experiment = experiment

    def start(self, run: Run, run_dir: Path | None, resume_at: int | None) -> None:
        try:
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise ImportError('mlflow is not installed: pip install "trustax[mlflow]"') from None
        import os

        self._learners = run.learner_names
        uri = os.environ.get("MLFLOW_TRACKING_URI")
        if uri is None and run_dir is not None:
            uri = (run_dir / "mlruns").resolve().as_uri()
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # without it, mlflow 3.17 only writes to databases
        self._client = MlflowClient(tracking_uri=uri)
        found = self._client.get_experiment_by_name(self._experiment)
        experiment_id = found.experiment_id if found else self._client.create_experiment(self._experiment)
        found_id = _stored_id(run_dir, MLFLOW_ID, resume_at)
        if found_id is not None:
            self._id = self._client.get_run(found_id).info.run_id
            self._client.update_run(self._id, status="RUNNING")
            return
        self._id = self._client.create_run(experiment_id, run_name=_name(run, run_dir)).info.run_id
        for setting, value in settings_of(run, without=()).items():
            self._client.log_param(self._id, setting, value)
        if run_dir is not None:
            write_atomic(run_dir / MLFLOW_ID, f"{self._id}\n")

    def log(self, record: Record) -> None:
        for name, value in scalars(record, self._learners).items():
            self._client.log_metric(self._id, name, value, step=record[STEP])

    def close(self) -> None:
        if hasattr(self, "_id"):
            self._client.set_terminated(self._id)


LOGGERS: Registry[Callable[[], Logger]] = Registry(
    "logger",
    "trustax.loggers",
    {"tensorboard": TensorBoardLogger, "wandb": WandbLogger, "mlflow": MLflowLogger},
)
"""Loggers by name; `trustax.loggers` is the entry-point group."""


def register_logger(name: str, logger: Callable[[], Logger]) -> None:
    """Give a logger a name; `logger` is called without arguments to make one."""
    LOGGERS.register(name, logger)


class Loggers:
    """Several loggers as one. A logger that fails is disabled with a warning."""

    def __init__(self, loggers: Sequence[Any] | Any | None, run_dir: Path | None) -> None:
        self._run_dir = run_dir
        if loggers is None:
            loggers = [] if run_dir is None else ["tensorboard"]
        if isinstance(loggers, str) or not isinstance(loggers, Iterable):
            loggers = [loggers]
        self._loggers = [_make_logger(logger) for logger in loggers]

    def start(self, run: Run, resume_at: int | None) -> None:
        try:
            self._call_each(lambda logger: logger.start(run, self._run_dir, resume_at), refused=(ImportError,))
        except ImportError as error:
            raise TrustaxError(str(error)) from error

    def log(self, record: Record) -> None:
        self._call_each(lambda logger: logger.log(copy_of(record)))

    def close(self) -> None:
        self._call_each(lambda logger: logger.close())
        self._loggers = []

    def _call_each(self, call: Callable[[Logger], Any], refused: tuple[type[Exception], ...] = ()) -> None:
        """Call every logger, and disable those that fail; errors of the kinds `refused` are raised."""
        for logger in list(self._loggers):
            try:
                call(logger)
            except refused:
                raise
            except Exception as error:
                self._loggers.remove(logger)
                reason = " ".join(str(error).split())[:200] or type(error).__name__
                warnings.warn(f"{type(logger).__name__} failed and is now disabled: {reason}", stacklevel=2)


def _make_logger(logger: Any) -> Logger:
    if isinstance(logger, type):
        raise TrustaxError(f"a logger must be an object, not a class: {logger.__name__}(...)")
    if not isinstance(logger, str):
        missing = [name for name in ("start", "log", "close") if not hasattr(logger, name)]
        if missing:
            raise TrustaxError(f"a logger must have the methods start, log and close; {logger!r} has no {missing[0]}")
        return logger
    return LOGGERS.find(logger)()
