"""The command line: `trustax train | resume | evaluate | record | plot | check | reproduce | report`.

Options are the fields of dataclasses, and their help is the fields' docstrings. A mistake is answered with one line on
stderr and exit code 2; a run that was stopped and can go on ends with exit code 75.
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
"""How many methods the short help lists: those that have a class of their own, and Mean ψ."""

USAGE = """\
usage: trustax COMMAND ...

  train METHOD --env-id ID   train one of: {methods}
  train METHOD --task NAME   the same on a task of the paper: {tasks}
  resume RUN                 go on with a run that was stopped
  evaluate RUN               run episodes with the agents of a run
  record RUN                 film an agent of a run, as a GIF or an MP4
  plot RUN ...               draw the learning curves of runs
  check ENV                  play an environment at random and say what is wrong with it
  reproduce NAME             run what the paper ran, and show it beside its numbers: {experiments}
  report [RESULTS]           write all results as one HTML page

trustax COMMAND --help tells the options, trustax --version the version.
"""


COMMANDS = {
    "resume": ("trustax.cli.commands", "Resume"),
    "evaluate": ("trustax.cli.commands", "Evaluate"),
    "record": ("trustax.cli.commands", "Record"),
    "plot": ("trustax.cli.commands", "Plot"),
    "check": ("trustax.cli.commands", "Check"),
    "reproduce": ("trustax.paper.commands", "Reproduce"),
    "report": ("trustax.paper.report.command", "Report"),
}
"""Where each command stands; imported when it is called, for some bring half a second of packages along."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # which, where output is redirected, may not know the letter β
            stream.reconfigure(errors="replace")
    try:
        sys.exit(_dispatch(list(sys.argv[1:] if arguments is None else arguments)))
    except TrustaxError as error:
        print(f"trustax: {error}", file=sys.stderr)
        sys.exit(2)
    except Interrupted as stopped:
        print(f"trustax: {stopped}", file=sys.stderr)
        sys.exit(EXIT_CODE)
    except BrokenPipeError:  # the reader of our output, `head` for example, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        print("trustax: interrupted", file=sys.stderr, flush=True)
        os._exit(130)  # XLA may be compiling in other threads, which do not survive an orderly end


def _dispatch(arguments: list[str]) -> int:
    if arguments[:1] == ["--version"]:
        from trustax import __version__

        print(f"trustax {__version__}")
        return 0
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage(), end="")
        return 0 if arguments else 2
    verb, *rest = arguments
    _require_known("command", verb, ["train", *COMMANDS])
    if verb != "train":
        module, kind = COMMANDS[verb]
        _parse(getattr(import_module(module), kind), f"trustax {verb}", rest)()
        return 0
    methods = _methods()
    if not rest or rest[0] in ("-h", "--help"):
        print(f"usage: trustax train METHOD --env-id ID ...\n\nMETHOD is one of: {', '.join(methods)}")
        return 0 if rest else 2
    method, *rest = rest
    _require_known("method", method, methods)
    from trustax.cli.commands import Train

    train_method = cast(Any, Train)
    default = train_method(run=_preset(methods[method], rest))
    _parse(train_method[type(methods[method])], f"trustax train {method}", rest, default)()
    return 0


def _usage() -> str:
    from trustax.paper.reproduce.reproduce import NAMES
    from trustax.paper.tasks import TASKS

    lists = {"methods": list(_methods())[:NUM_SHOWN], "tasks": TASKS, "experiments": NAMES}
    return USAGE.format(**{name: ", ".join(names) for name, names in lists.items()})


def _preset(algorithm: Any, options: Sequence[str]) -> Any:
    """The run from which the options differ: that of the task which is named by --task or --env-id, if there is one."""
    from trustax.envs import engine_of
    from trustax.paper.tasks import task, task_of
    from trustax.run import Run

    name, env_id = (_value_of(option, options) for option in ("task", "env-id"))
    if name and env_id:
        raise TrustaxError(f"--task {name} and --env-id {env_id} both name an environment; give one of them")
    if env_id:
        engine_of(env_id)  # what no engine has is refused before anything is said of it
    chosen = task(name) if name else task_of(env_id) if env_id else None
    if chosen is None:
        return Run(algorithm=algorithm, env_id="")
    print(f"settings of the paper unless you set them: {chosen.summary(algorithm)}")
    return chosen.run(algorithm)


def _value_of(option: str, options: Sequence[str]) -> str | None:
    """The value of an option before all others are parsed: their defaults depend on it."""
    written = re.compile(rf"--{option.replace('-', '[-_]')}(=|$)")
    for position, argument in enumerate(options):
        if match := written.match(argument):
            following = options[position + 1] if position + 1 < len(options) else None
            return argument[match.end() :] if match[1] else following
    return None


def _methods() -> dict[str, Any]:
    """Every method with its defaults, and those that the paper names with the paper's."""
    from trustax.algorithms import ALGORITHMS, MCPO
    from trustax.paper.methods import METHODS

    return {name: kind() for name, kind in ALGORITHMS.items()} | {"mean-psi": MCPO(virtual_policy="mean")} | METHODS


def _require_known(what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise TrustaxError(f"there is no {what} {name!r}; {similar_or_all(name, known, count=1, cutoff=0.6)}")


def _parse(command: Any, program: str, arguments: Sequence[str], default: Any = tyro.MISSING_NONPROP) -> Any:
    """The command with its options, or one line that says what is wrong with them."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parsed, unknown = tyro.cli(
                command,
                prog=program,
                args=[_whole(argument) for argument in arguments],
                default=default,
                config=(tyro.conf.OmitArgPrefixes,),
                return_unknown_args=True,
            )
    except SystemExit as leaving:
        if leaving.code:
            raise TrustaxError(f"{_in_one_line(said.getvalue())}; see {program} --help") from None
        raise
    if unknown:
        similar = difflib.get_close_matches(unknown[0], _options(command), n=1)
        hint = f"did you mean {similar[0]}?" if similar else f"see {program} --help"
        raise TrustaxError(f"unknown option {unknown[0]!r}; {hint}")
    return parsed


def _whole(argument: str) -> str:
    """1e6 as 1000000, which every option for a number takes."""
    return str(int(float(argument))) if re.fullmatch(r"[1-9]\d*e\d{1,2}", argument) else argument


def _options(command: Any) -> list[str]:
    """All options of a command, as its help names them."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        tyro.cli(command, args=["--help"], config=(tyro.conf.OmitArgPrefixes,))
    return re.findall(r"--[a-z][a-z0-9-]+", said.getvalue())


def _in_one_line(panel: str) -> str:
    """What tyro says in its framed panel, up to the first rule, as one line."""
    lines = [line.strip("│ \n") for line in panel.splitlines() if not line.startswith(("╭", "╰"))]
    rule = next((i for i, line in enumerate(lines) if line.startswith("──")), len(lines))
    return " ".join(" ".join(lines[:rule]).split()).rstrip(".")


if __name__ == "__main__":
    main()
