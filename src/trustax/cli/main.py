"""The command line: `trustax COMMAND`.

Options are fields of dataclasses, and the docstrings of the fields are their help. A user error prints one line to
stderr and exits with code 2; a run that was stopped and can be resumed exits with code 75.
"""

import contextlib
import io
import os
import re
import shutil
import signal
import sys
import textwrap
import threading
import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from trustax.cli.names import EXPERIMENTS, METHODS, TASKS, ZOO, methods_table
from trustax.errors import TrustaxError, similar_or_all
from trustax.runtime.interrupt import EXIT_CODE, Interrupted

USAGE = """\
usage: trustax COMMAND ...

  train METHOD --env-id ID   train one of: {methods}
  train METHOD --task NAME   the same on a task of the paper: {tasks}
  sweep METHOD ...           train every method on every environment with every combination of settings
  tune METHOD --tune ...     search for good settings of a method with Optuna
  resume RUN                 resume a run that was stopped
  evaluate RUN               evaluate the agents of a run
  record RUN                 record a video of an agent, as a GIF or an MP4
  export RUN                 export a policy to ONNX or StableHLO, which run without Trustax
  plot RUN ...               plot the learning curves of runs
  check ENV                  check whether an environment is fit for training
  zoo                        list, evaluate or show trained agents; train --settings zoo has tuned settings
  reproduce NAME             run an experiment of the paper and compare the results: {experiments}
  report [RESULTS]           write all results as one HTML page

trustax COMMAND --help shows the options, trustax --version the version.
"""

PACKAGE = Path(__file__).parent.parent
HELP_COLUMN = 29
"""Where the explanations of the commands begin."""

TRAIN_USAGE = """\
usage: trustax train METHOD --env-id ID ...

{table}

METHOD can also be a configuration of the paper by its name there, for example "KL Adaptive d=0.03".
trustax train METHOD --help shows the options of a method.
"""


COMMANDS = {
    "sweep": ("trustax.cli.sweep", "Sweep"),
    "tune": ("trustax.cli.tune", "Tune"),
    "resume": ("trustax.cli.training", "Resume"),
    "evaluate": ("trustax.cli.commands", "Evaluate"),
    "record": ("trustax.cli.commands", "Record"),
    "export": ("trustax.cli.commands", "Export"),
    "plot": ("trustax.cli.commands", "Plot"),
    "check": ("trustax.cli.commands", "Check"),
    "zoo": ("trustax.cli.zoo", "Zoo"),
    "reproduce": ("trustax.paper.commands", "Reproduce"),
    "report": ("trustax.paper.report.command", "Report"),
}
"""The module and class of each command, imported on use, since some of them take half a second to import."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # redirected output may not be able to encode β
            stream.reconfigure(errors="replace")
    if arguments is None:  # the process has nothing else to do
        sys.unraisablehook = _repeat_interrupt
        warnings.showwarning = _show_warning
    try:
        sys.exit(_dispatch(list(sys.argv[1:] if arguments is None else arguments)))
    except TrustaxError as error:
        _complain(str(error))
        sys.exit(2)
    except Interrupted as stopped:
        _complain(str(stopped))
        sys.exit(EXIT_CODE)
    except BrokenPipeError:  # the reader of the output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        _complain("interrupted")
        os._exit(130)  # a regular exit may crash while XLA compiles in other threads


def _repeat_interrupt(unraisable: Any) -> None:
    """Send Ctrl-C again if its exception was lost, which happens in callbacks of JAX's garbage collection."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        main_thread = threading.main_thread().ident
        assert main_thread is not None
        threading.Timer(0.01, signal.pthread_kill, (main_thread, signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(unraisable)


def _show_warning(message: Any, category: type, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
    """Show a warning of Trustax in one line, and other warnings as Python does."""
    if category is UserWarning and Path(filename).is_relative_to(PACKAGE):
        _complain(str(message))
    else:
        print(warnings.formatwarning(message, category, filename, lineno, line), end="", file=file or sys.stderr)


def _complain(message: str) -> None:
    """Print a message to stderr; the terminal may have been closed, and the exit code must say why the run ended."""
    with contextlib.suppress(OSError):
        print(f"trustax: {message}", file=sys.stderr, flush=True)


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
        from trustax.cli.parsing import parse

        module, name = COMMANDS[command]
        chosen = getattr(import_module(module), name)
        if command in ("sweep", "tune"):
            from trustax.cli.sweep import separate

            own, settings = separate(rest, chosen)
            parse(chosen, f"trustax {command}", own).run(settings)
        else:
            parse(chosen, f"trustax {command}", rest)()
        return 0
    if not rest or rest[0] in ("-h", "--help"):
        print(TRAIN_USAGE.format(table=methods_table()), end="")
        return 0 if rest else 2
    _train(rest[0], rest[1:])
    return 0


def _usage() -> str:
    lists = {"methods": [method.name for method in METHODS], "tasks": TASKS, "experiments": EXPERIMENTS}
    filled = USAGE.format(**{name: ", ".join(names) for name, names in lists.items()})
    width = max(60, min(120, shutil.get_terminal_size().columns))
    lines = [
        textwrap.fill(line, width, subsequent_indent=" " * HELP_COLUMN, break_on_hyphens=False)
        for line in filled.splitlines()
    ]
    return "\n".join(lines) + "\n"


def _train(method: str, options: list[str]) -> None:
    """Train a method. The settings of the paper are shown once the options are known to be right."""
    from trustax.cli.methods import method_named
    from trustax.cli.parsing import parse
    from trustax.cli.training import Train

    algorithm = method_named(method)
    train_method = cast(Any, Train)
    use_zoo = _value_of("settings", options) == ZOO
    run, summary = _zoo_run(method, options) if use_zoo else _default_run(algorithm, options)
    command = parse(train_method[type(algorithm)], f"trustax train {method}", options, train_method(run=run))
    if summary:
        print(summary)
    command()


def _default_run(algorithm: Any, options: Sequence[str]) -> tuple[Any, str]:
    """The run with default settings, and a line about them if they are those of a task of the paper.

    The task is the one that --task, --env-id or the file of --settings names.
    """
    from trustax.cli.settings_file import read_settings, with_settings
    from trustax.envs import engine_of
    from trustax.paper.tasks import task, task_of
    from trustax.run import Run

    name, env_id = (_value_of(option, options) for option in ("task", "env-id"))
    if name and env_id:
        raise TrustaxError(f"--task {name} and --env-id {env_id} both name an environment; give one of them")
    path = _value_of("settings", options)
    values = read_settings(path)
    env_id = env_id or (None if name else values.get("env_id"))
    if env_id:
        engine_of(env_id)  # raises an error for an unknown environment
    chosen = task(name) if name else task_of(env_id) if env_id else None
    run = Run(algorithm=algorithm, env_id="") if chosen is None else chosen.run(algorithm)
    run = with_settings(run, path, {one: value for one, value in values.items() if one != "env_id" or not name})
    return run, f"defaults from the paper: {chosen.summary(algorithm)}" if chosen and not values else ""


def _zoo_run(method: str, options: Sequence[str]) -> tuple[Any, str]:
    """The run with the settings of the zoo, and a line about them."""
    from trustax.envs import engine_of
    from trustax.paper.tasks import task
    from trustax.storage.zoo import run, tuned

    name, env_id = (_value_of(option, options) for option in ("task", "env-id"))
    env_id = env_id or (task(name).env_id if name else None)
    if env_id is None:
        raise TrustaxError(f"--settings zoo needs --env-id; {method} has {', '.join(tuned.tasks(method))}")
    engine_of(env_id)  # raises an error for an unknown environment
    found = run(method, env_id)
    values = ", ".join(f"{one} {value}" for one, value in tuned.settings(method, env_id)[1].items())
    return found, f"settings of the zoo: {values}"


def _value_of(option: str, options: Sequence[str]) -> str | None:
    """The value of an option, found before parsing: the defaults of the other options depend on it."""
    pattern = re.compile(rf"--{option.replace('-', '[-_]')}(=|$)")
    for position, argument in enumerate(options):
        if match := pattern.match(argument):
            following = options[position + 1] if position + 1 < len(options) else None
            return argument[match.end() :] if match[1] else following
    return None


def _require_known(what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise TrustaxError(f"there is no {what} {name!r}; {similar_or_all(name, known, count=1, cutoff=0.6)}")


if __name__ == "__main__":
    main()
