"""The command line: `trustax COMMAND`.

Options are fields of dataclasses, and the docstrings of the fields are their help. A user error prints one line to
stderr and exits with code 2; a run that was stopped and can be resumed exits with code 75.
"""

import contextlib
import difflib
import io
import os
import re
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, cast

import tyro

from trustax.errors import TrustaxError, similar_or_all
from trustax.runtime.interrupt import EXIT_CODE, Interrupted

NUM_SHOWN = 10
"""How many methods the short help lists: those with their own class, and Mean ψ."""

USAGE = """\
usage: trustax COMMAND ...

  train METHOD --env-id ID   train one of: {methods}
  train METHOD --task NAME   the same on a task of the paper: {tasks}
  resume RUN                 resume a run that was stopped
  evaluate RUN               evaluate the agents of a run
  record RUN                 record a video of an agent, as a GIF or an MP4
  export RUN                 export a policy to ONNX or StableHLO, which run without Trustax
  plot RUN ...               plot the learning curves of runs
  check ENV                  check whether an environment is fit for training
  reproduce NAME             run an experiment of the paper and compare the results: {experiments}
  report [RESULTS]           write all results as one HTML page

trustax COMMAND --help shows the options, trustax --version the version.
"""


COMMANDS = {
    "resume": ("trustax.cli.commands", "Resume"),
    "evaluate": ("trustax.cli.commands", "Evaluate"),
    "record": ("trustax.cli.commands", "Record"),
    "export": ("trustax.cli.commands", "Export"),
    "plot": ("trustax.cli.commands", "Plot"),
    "check": ("trustax.cli.commands", "Check"),
    "reproduce": ("trustax.paper.commands", "Reproduce"),
    "report": ("trustax.paper.report.command", "Report"),
}
"""The module and class of each command, imported on use, since some of them take half a second to import."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # redirected output may not be able to encode β
            stream.reconfigure(errors="replace")
    try:
        sys.exit(_dispatch(list(sys.argv[1:] if arguments is None else arguments)))
    except TrustaxError as error:
        print(f"trustax: {error}", file=sys.stderr)
        sys.exit(2)
    except Interrupted as stopped:
        print(f"trustax: {stopped}", file=sys.stderr)
        sys.exit(EXIT_CODE)
    except BrokenPipeError:  # the reader of the output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        print("trustax: interrupted", file=sys.stderr, flush=True)
        os._exit(130)  # a regular exit may crash while XLA compiles in other threads


def _dispatch(arguments: list[str]) -> int:
    if arguments[:1] == ["--version"]:
        from trustax import __version__

        print(f"trustax {__version__}")
        return 0
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage(), end="")
        return 0 if arguments else 2
    command, *rest = arguments
    _require_known("command", command, ["train", *COMMANDS])
    if command != "train":
        module, name = COMMANDS[command]
        _parse(getattr(import_module(module), name), f"trustax {command}", rest)()
        return 0
    methods = _methods()
    if not rest or rest[0] in ("-h", "--help"):
        print(f"usage: trustax train METHOD --env-id ID ...\n\nMETHOD is one of: {', '.join(methods)}")
        return 0 if rest else 2
    method, *rest = rest
    _require_known("method", method, methods)
    from trustax.cli.commands import Train

    train_method = cast(Any, Train)
    default = train_method(run=_default_run(methods[method], rest))
    _parse(train_method[type(methods[method])], f"trustax train {method}", rest, default)()
    return 0


def _usage() -> str:
    from trustax.paper.reproduce.reproduce import NAMES
    from trustax.paper.tasks import TASKS

    lists = {"methods": list(_methods())[:NUM_SHOWN], "tasks": TASKS, "experiments": NAMES}
    return USAGE.format(**{name: ", ".join(names) for name, names in lists.items()})


def _default_run(algorithm: Any, options: Sequence[str]) -> Any:
    """The run with default settings: those of the paper's task that --task or --env-id names, if there is one."""
    from trustax.envs import engine_of
    from trustax.paper.tasks import task, task_of
    from trustax.run import Run

    name, env_id = (_value_of(option, options) for option in ("task", "env-id"))
    if name and env_id:
        raise TrustaxError(f"--task {name} and --env-id {env_id} both name an environment; give one of them")
    if env_id:
        engine_of(env_id)  # raises an error for an unknown environment before anything is printed
    chosen = task(name) if name else task_of(env_id) if env_id else None
    if chosen is None:
        return Run(algorithm=algorithm, env_id="")
    print(f"defaults from the paper: {chosen.summary(algorithm)}")
    return chosen.run(algorithm)


def _value_of(option: str, options: Sequence[str]) -> str | None:
    """The value of an option, found before parsing: the defaults of the other options depend on it."""
    pattern = re.compile(rf"--{option.replace('-', '[-_]')}(=|$)")
    for position, argument in enumerate(options):
        if match := pattern.match(argument):
            following = options[position + 1] if position + 1 < len(options) else None
            return argument[match.end() :] if match[1] else following
    return None


def _methods() -> dict[str, Any]:
    """All methods with their defaults, and the configurations that the paper names with its settings."""
    from trustax.algorithms import ALGORITHMS, MCPO
    from trustax.paper.methods import METHODS

    return {name: kind() for name, kind in ALGORITHMS.items()} | {"mean-psi": MCPO(virtual_policy="mean")} | METHODS


def _require_known(what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise TrustaxError(f"there is no {what} {name!r}; {similar_or_all(name, known, count=1, cutoff=0.6)}")


def _parse(command: Any, program: str, arguments: Sequence[str], default: Any = tyro.MISSING_NONPROP) -> Any:
    """Parse the options of a command; raise an error of one line if they are wrong."""
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):
            parsed, unknown = tyro.cli(
                command,
                prog=program,
                args=[_expand_exponent(argument) for argument in arguments],
                default=default,
                config=(tyro.conf.OmitArgPrefixes,),
                return_unknown_args=True,
            )
    except SystemExit as exiting:
        if exiting.code:
            raise TrustaxError(f"{_in_one_line(stderr.getvalue())}; see {program} --help") from None
        raise
    if unknown:
        similar = difflib.get_close_matches(unknown[0], _options(command), n=1)
        hint = f"did you mean {similar[0]}?" if similar else f"see {program} --help"
        raise TrustaxError(f"unknown option {unknown[0]!r}; {hint}")
    return parsed


def _expand_exponent(argument: str) -> str:
    """Write 1e6 as 1000000, which options for integers accept too."""
    return str(int(float(argument))) if re.fullmatch(r"[1-9]\d*e\d{1,2}", argument) else argument


def _options(command: Any) -> list[str]:
    """All options of a command, read from its help."""
    stdout = io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.suppress(SystemExit):
        tyro.cli(command, args=["--help"], config=(tyro.conf.OmitArgPrefixes,))
    return re.findall(r"--[a-z][a-z0-9-]+", stdout.getvalue())


def _in_one_line(panel: str) -> str:
    """The text in tyro's error panel, up to the first horizontal rule, in one line."""
    lines = [line.strip("│ \n") for line in panel.splitlines() if not line.startswith(("╭", "╰"))]
    rule = next((i for i, line in enumerate(lines) if line.startswith("──")), len(lines))
    return " ".join(" ".join(lines[:rule]).split()).rstrip(".")


if __name__ == "__main__":
    main()
