"""Parse the options of a command; errors have one line and name the option as it was typed."""

import contextlib
import dataclasses
import difflib
import io
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import tyro

from trustax.envs.engines import is_known
from trustax.errors import NOT_HERE, NOTES, TrustaxError, our_name

KINDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    bool: "True or False",
    Path: "a path",
    tuple[int, ...]: "whole numbers",
    tuple[float, ...]: "numbers",
    float | tuple[float, ...]: "a number, or one for each learner",
}


def parse(command: Any, program: str, arguments: Sequence[str], default: Any = None) -> Any:
    """Parse the options of a command; raise an error of one line if they are wrong."""
    stderr = io.StringIO()
    annotations = _annotations(command if default is None else default)
    _refuse_repeated_lists(arguments, annotations)
    try:
        with contextlib.redirect_stderr(stderr):
            parsed, unknown = tyro.cli(
                command,
                prog=program,
                args=_with_whole_numbers(arguments, annotations),
                default=tyro.MISSING_NONPROP if default is None else default,
                config=(tyro.conf.OmitArgPrefixes,),
                return_unknown_args=True,
            )
    except SystemExit as exiting:
        if exiting.code:
            said = _in_one_line(stderr.getvalue())
            explained = _explained(said, arguments, annotations) or said
            raise TrustaxError(f"{explained}; see {program} --help") from None
        raise
    except TrustaxError as error:
        raise TrustaxError(with_flags(str(error), annotations)) from error
    if unknown:
        raise TrustaxError(_about_unknown(unknown[0].partition("=")[0], _options(command), f"see {program} --help"))
    return parsed


def _refuse_repeated_lists(arguments: Sequence[str], annotations: dict[str, Any]) -> None:
    """Refuse an option that takes several values and is given twice: the parser would use only the last one."""
    given = [argument.partition("=")[0].replace("_", "-") for argument in arguments if argument.startswith("--")]
    for option in (flag(name) for name, annotation in annotations.items() if get_origin(annotation) is tuple):
        if given.count(option) > 1:
            raise TrustaxError(f"{option} is given twice; give it once with all its values: {option} FIRST SECOND")


def _about_unknown(argument: str, known: Sequence[str], otherwise: str) -> str:
    if argument.startswith("-"):
        return f"unknown option {argument!r}; {hint(argument, known, otherwise)}"
    is_env = "--env-id" in known and is_known(argument)
    return f"unexpected argument {argument!r}; " + (f"did you mean --env-id {argument}?" if is_env else otherwise)


def hint(option: str, known: Sequence[str], otherwise: str) -> str:
    """A hint for an unknown option: our name for one of Stable-Baselines3 or CleanRL, or a similar option.

    >>> hint("--n-steps", ["--horizon", "--num-seeds"], "see --help")
    'here it is called --horizon'
    """
    name = option.lstrip("-").replace("-", "_")
    ours = our_name(name, [one.lstrip("-").replace("-", "_") for one in known])
    if ours != name and flag(ours) in known:
        return f"here it is called {flag(ours)}" + (f": {NOTES[ours]}" if ours in NOTES else "")
    if name in NOT_HERE:
        return NOT_HERE[name]
    similar = difflib.get_close_matches(option, known, n=1)
    return f"did you mean {similar[0]}?" if similar else otherwise


def flag(name: str) -> str:
    """The option of a setting: --num-envs for num_envs."""
    return f"--{name.replace('_', '-')}"


def with_flags(message: str, names: Iterable[str]) -> str:
    """A message about settings with the flags of the command line in place of their names, except in formulas.

    >>> with_flags("seed must be at least 0, not -1", ["seed"])
    '--seed must be at least 0, not -1'
    >>> with_flags("num_minibatches is 9, but num_envs * horizon = 8", ["num_minibatches", "num_envs"])
    '--num-minibatches is 9, but num_envs * horizon = 8'
    >>> with_flags("a record needs time/total_timesteps", ["total_timesteps"])
    'a record needs time/total_timesteps'
    """
    known = set(names)

    def as_flag(found: re.Match[str]) -> str:
        name = found[0]
        is_name = name in known and (found.start() == 0 or "_" in name)
        return flag(name) if is_name else name

    return re.sub(r"(?<![-*] )(?<![\w/-])[a-z]\w*(?! [-*=])", as_flag, message)


def _explained(said: str, arguments: Sequence[str], annotations: dict[str, Any]) -> str | None:
    """An error about an option's value: what the option takes, and what was given."""
    if missing := re.match(r"Missing from .*?: (?P<name>.+?) (?P<help>[A-Z].*?)\.? \(required\)", said):
        return f"{missing['name']} is missing: {missing['help'][0].lower()}{missing['help'][1:]}"
    found = re.match(r"(?:Error parsing|invalid choice .*? for argument|Missing value for argument) '?--([\w-]+)", said)
    kind = _described(annotations.get(found[1].replace("-", "_"))) if found else None
    if found is None or kind is None:
        return None
    option, values = _typed(found[1], arguments)
    return f"{option} must be {kind}, not {' '.join(values)!r}" if values else f"{option} needs a value: {kind}"


def _typed(option: str, arguments: Sequence[str]) -> tuple[str, list[str]]:
    """An option as it was typed the last time, and the values after it."""
    for position, argument in reversed(list(enumerate(arguments))):
        typed, equals, value = argument.partition("=")
        if typed.startswith("--") and typed[2:].replace("_", "-") == option:
            rest = list(arguments[position + 1 :])
            end = next((i for i, other in enumerate(rest) if other.startswith("--")), len(rest))
            return typed, [value] if equals else rest[:end]
    return f"--{option}", []


def _described(annotation: Any) -> str | None:
    """The name of a type in messages; None for other types."""
    if annotation in KINDS:
        return KINDS[annotation]
    if get_origin(annotation) is Literal:
        *others, last = map(str, get_args(annotation))
        return f"{', '.join(others)} or {last}" if others else last
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    return _described(kinds[0]) if len(kinds) == 1 and NoneType in get_args(annotation) else None


def _annotations(command: Any) -> dict[str, Any]:
    """The type of each option of a command, which is a dataclass or an object with the defaults of one."""
    kinds = get_type_hints(command if isinstance(command, type) else type(command))
    found: dict[str, Any] = {}
    for field in dataclasses.fields(command):
        value = getattr(command, field.name, None)
        found |= _annotations(value) if dataclasses.is_dataclass(value) else {field.name: kinds[field.name]}
    return found


def _with_whole_numbers(arguments: Sequence[str], annotations: dict[str, Any]) -> list[str]:
    """The arguments with 1000000 in place of 1e6, where an option takes whole numbers."""
    described = {flag(name): _described(annotation) for name, annotation in annotations.items()}
    expanded, kind = [], None  # what the values that follow are
    for argument in arguments:
        typed, equals, value = argument.partition("=")
        if typed.startswith("--"):
            kind = described.get(typed.replace("_", "-"))
            is_whole = equals and kind in (KINDS[int], KINDS[tuple[int, ...]])
            expanded.append(f"{typed}={_expand_exponent(value)}" if is_whole else argument)
        else:
            expanded.append(_expand_exponent(argument) if kind in (KINDS[int], KINDS[tuple[int, ...]]) else argument)
            kind = None if kind == KINDS[int] else kind  # a single value
    return expanded


def _expand_exponent(value: str) -> str:
    """Write 1e6 as 1000000 and 1.5e3 as 1500; other texts stay as they are.

    >>> _expand_exponent("1.5e3"), _expand_exponent("1.5e0")
    ('1500', '1.5e0')
    """
    if not re.fullmatch(r"[-+]?\d+(\.\d*)?e[-+]?\d{1,2}", value, flags=re.IGNORECASE):
        return value
    number = Decimal(value)
    return str(int(number)) if number == int(number) else value


def _options(command: Any) -> list[str]:
    """All options of a command, read from its help."""
    stdout = io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.suppress(SystemExit):
        tyro.cli(command, args=["--help"], config=(tyro.conf.OmitArgPrefixes,))
    return re.findall(r"--[a-z][a-z0-9-]+", stdout.getvalue())


def _in_one_line(panel: str) -> str:
    """The message in tyro's error panel in one line.

    The panel has a frame with its title in it or, in a terminal without Unicode, a title and a rule above the message.
    A rule follows the message.
    """
    lines = [line.strip("│ \n") for line in panel.splitlines() if not line.startswith(("╭", "╰"))]
    sections = re.split(r"^[─-]{3,}$", "\n".join(lines), flags=re.MULTILINE)
    message = sections[0] if "╭" in panel or len(sections) == 1 else sections[1]
    return " ".join(message.split()).rstrip(".")
