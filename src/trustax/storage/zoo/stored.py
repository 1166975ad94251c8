"""The trained agents of the zoo: a folder for each, with the agent and `result.json`.

`result.json` has the run that trained the agent, the command, the results of all its learners, and the evaluation.
"""

import json
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from trustax.errors import TrustaxError, similar_or_all
from trustax.storage.atomic import write_atomic
from trustax.storage.manifest import ARRAYS, MANIFEST
from trustax.storage.reading import read_json
from trustax.storage.zoo.tuned import task_name

AGENTS = Path(__file__).parent / "agents"
PUBLISHED = Path(__file__).parent / "published.toml"
RESULT = "result.json"
SCHEME = "zoo:"


@dataclass(frozen=True)
class Entry:
    """A trained agent of the zoo."""

    method: str
    task: str
    folder: Path
    result: dict[str, Any]
    """the content of `result.json`"""

    @property
    def name(self) -> str:
        return f"{self.method}/{self.task}"

    @property
    def steps(self) -> int:
        """Environment steps of training."""
        return int(self.result["run"]["total_timesteps"])

    @property
    def evaluation(self) -> dict[str, Any]:
        """Mean and standard deviation of the return, number of episodes, and success rate if there is one."""
        return self.result["evaluation"]

    @property
    def size(self) -> int:
        """The size of the agent's files in bytes."""
        return sum((self.folder / name).stat().st_size for name in (ARRAYS, MANIFEST))

    def with_evaluation(self, evaluation: dict[str, Any]) -> "Entry":
        """Write another evaluation to `result.json`, and return the entry with it."""
        result = self.result | {"evaluation": evaluation}
        write_result(self.folder, result)
        return Entry(self.method, self.task, self.folder, result)


def entries() -> list[Entry]:
    """All trained agents, by task and method."""
    paths = sorted(AGENTS.glob(f"*/*/{RESULT}"), key=lambda path: (path.parent.name, path.parent.parent.name))
    return [Entry(path.parent.parent.name, path.parent.name, path.parent, read_json(path)) for path in paths]


def entry(name: str) -> Entry:
    """The entry with a name such as `ppo/CartPole-v1`."""
    method, _, env_id = name.partition("/")
    folder = folder_of(method, env_id)
    if not env_id or not (folder / RESULT).is_file():
        known = [found.name for found in entries()]
        raise TrustaxError(f"the zoo has no agent {name!r}; {similar_or_all(name, known)}")
    return Entry(method, folder.name, folder, read_json(folder / RESULT))


def folder_of(method: str, env_id: str) -> Path:
    """The folder of an agent. A name with a slash or a leading dot, which could lead out of the zoo, is replaced."""
    task = task_name(env_id)
    return AGENTS / _safe(method) / _safe(task)


def published(method: str, task: str) -> dict[str, Any] | None:
    """The score of RL Baselines3 Zoo: mean, std and steps; None if there is none."""
    return _published().get(method, {}).get(task)


def write_result(folder: Path, result: dict[str, Any]) -> None:
    """Write `result.json`."""
    try:
        write_atomic(folder / RESULT, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise TrustaxError(f"{folder / RESULT} cannot be written: {error.strerror or error}") from error


def _safe(name: str) -> str:
    return name if name and not set(name) & set("/\\\0") and not name.startswith(".") else "-"


@cache
def _published() -> dict[str, Any]:
    return tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))
