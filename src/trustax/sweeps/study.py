"""The study of Optuna: where it is stored, and how far it is."""

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trustax.errors import TrustaxError

JOURNAL = "study.journal"


def open_study(
    folder: Path, storage: str | None, definition: Mapping[str, Any], first: Mapping[str, Any] | None
) -> Any:
    """Create the study, with `first` as its first trial, or load it; it must have the same definition."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        where: Any = storage or JournalStorage(JournalFileBackend(str(folder / JOURNAL)))
        name = folder.resolve().name
        study = optuna.create_study(storage=where, study_name=name, direction="maximize", load_if_exists=True)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise TrustaxError(f"Optuna cannot open the study in {storage or folder / JOURNAL}: {reason}") from error
    finally:
        optuna.logging.set_verbosity(level)
    old = study.user_attrs.get("definition")
    if old is None:
        if first is not None and not study.trials:
            study.enqueue_trial(dict(first))
        study.set_user_attr("definition", dict(definition))
    elif old != definition:
        raise TrustaxError(f"{folder} holds a study with {_difference(old, definition)}; choose another folder")
    return study


def start_of_generation(study: Any) -> int:
    """The number of the first trial of the generation that was interrupted, or of a new one."""
    running = [one for one in study.trials if one.state.name == "RUNNING"]
    new = sum(one.state.name != "WAITING" for one in study.trials)
    return min((one.user_attrs.get("generation", one.number) for one in running), default=new)


def ended(study: Any) -> list[Any]:
    return [one for one in study.trials if one.state.is_finished()]


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The first difference between two definitions, in words."""
    flat = [
        {key: value for key, value in one.items() if key not in ("run", "space")}
        | one["run"].pop("algorithm", {})
        | one["run"]
        | {f"the range of {name}": value for name, value in one["space"].items()}
        for one in json.loads(json.dumps([old, new]))
    ]
    name = next(name for name in flat[0] | flat[1] if flat[0].get(name) != flat[1].get(name))
    return f"{name} = {flat[0].get(name, 'nothing')}, not {flat[1].get(name, 'nothing')}"


def require_optuna() -> None:
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise TrustaxError("tuning needs Optuna: pip install 'trustax[tune]'") from None


@contextmanager
def without_warnings() -> Iterator[None]:
    """Optuna warns that parts of the TPE sampler may change in later versions."""
    from optuna.exceptions import ExperimentalWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield
