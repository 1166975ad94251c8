"""Types of options that have no value by default; their help shows neither `{None}` nor `(default: None)`."""

from pathlib import Path
from typing import Annotated

import tyro

OptionalStr = Annotated[str | None, tyro.conf.arg(metavar="STR", help_behavior_hint="")]
OptionalInt = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")]
OptionalFloat = Annotated[float | None, tyro.conf.arg(metavar="FLOAT", help_behavior_hint="")]
OptionalPath = Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")]
Strings = Annotated[tuple[str, ...], tyro.conf.arg(metavar="STR ...", help_behavior_hint="")]
