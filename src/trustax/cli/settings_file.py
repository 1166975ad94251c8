"""`--settings FILE`: a TOML file of settings, such as `best.toml` of `trustax tune`, as defaults of a command."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trustax.cli.names import ZOO
from trustax.errors import TrustaxError, suggestion
from trustax.run import Run
from trustax.storage.reading import read_limited
from trustax.sweeps.grid import setting_names, with_choice

SIZE_LIMIT = 2**20


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; any failure is an error of one line that names the file."""
    try:
        return tomllib.loads(str(read_limited(path, SIZE_LIMIT), "utf-8"))
    except FileNotFoundError:
        raise TrustaxError(f"there is no file {path}") from None
    except (OSError, ValueError) as error:
        raise TrustaxError(f"{path} is not a TOML file: {error}") from error


def read_settings(path: str | None) -> dict[str, Any]:
    """The settings in a file; none without a file, and none for `zoo`, which has other settings for each method."""
    values = {} if path is None or path == ZOO else read_toml(Path(path))
    if not isinstance(values.get("env_id", ""), str):
        raise TrustaxError(f"{path}: env_id must be a string, not {values['env_id']!r}")
    return values


def with_settings(run: Run, path: str | None, values: Mapping[str, Any]) -> Run:
    """The run with the settings of a file; errors name the file and the setting."""
    known = ["env_id", *setting_names(run.algorithm)]
    for name in values:
        if name not in known:
            hint = suggestion(name, known)
            raise TrustaxError(f"{path}: {run.algorithm_name} has no setting {name!r}; {hint}")
    try:
        own = {name: value for name, value in values.items() if name != "env_id"}
        return with_choice(replace(run, env_id=values.get("env_id", run.env_id)), own)
    except TrustaxError as error:
        raise TrustaxError(f"{path}: {error}") from error
