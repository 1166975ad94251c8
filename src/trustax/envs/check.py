"""Check whether an environment is fit for training: play it with random actions, and look for common mistakes.

Each finding answers one question in one line: what was observed and, if there is a problem, what to do.
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, cast

import numpy as np
from gymnasium.utils.env_checker import check_env
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trustax.envs import ENGINES, Environment, engine_of
from trustax.envs.engines import bare_id
from trustax.envs.errors import describe
from trustax.envs.making import registered
from trustax.envs.random_play import BOUND_STEPS, MIN_EPISODES, SEEDS, RandomPlay, play
from trustax.errors import TrustaxError
from trustax.types import BoxActions, DiscreteActions, MultiDiscreteActions

HUGE_REWARD = 1e4
LARGE_VECTOR = 10_000
SENSIBLE_REACH = (0.1, 10.0)
"""The range of action bounds that suits a new policy, which has means near 0 and a standard deviation of 1."""
SHORTEST_LIMIT = 10
"""Several episodes that end after the same number of steps suggest a time limit if they are at least this long."""
MARKS = {"good": ("✓", "green"), "look": ("!", "yellow"), "bad": ("✗", "red")}


@dataclass(frozen=True)
class Finding:
    """The answer to one question about an environment."""

    verdict: Literal["good", "look", "bad"]
    subject: str
    seen: str
    advice: str = ""

    def __str__(self) -> str:
        advice = f" → {self.advice}" if self.advice else ""
        return f"{MARKS[self.verdict][0]} {self.subject}: {self.seen}{advice}"


class Findings(list[Finding]):
    """All findings about an environment; printed, one on each line."""

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    __repr__ = __str__


def check(env: Environment) -> Findings:
    """Play random actions in two copies of an environment for each of two seeds, and judge the results.

    Nothing is printed or raised: print the findings, or ask for their verdicts.

    >>> findings = check("CartPole-v1")
    >>> {finding.verdict for finding in findings}
    {'good'}
    >>> print(findings[1])
    ✓ actions: one of 2 choices
    """
    env = with_engine(env)
    engine = engine_of(env)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium's checker reports them below
        try:
            played = play(env)
        except Exception as error:
            seen = str(error) if isinstance(error, TrustaxError) else describe(error)
            return Findings([Finding("bad", "creation", seen, "make sure that the environment can be created")])
        findings = [_random_play(played), _actions(played), _observations(played)]
        if played.num_steps:
            findings += [_values(played, engine), _rewards(played), *_episode_ends(played)]
            findings += [_same_seed(played, play(env, played.num_steps)), _other_seeds(played)]
    return Findings(findings + ([_gymnasium_checker(env)] if engine == "gymnasium" else []))


def with_engine(env: Environment) -> Environment:
    """Add the engine to an id `module:Env-v0`, which Gymnasium uses for an environment that a module registers.

    >>> with_engine("my_package:Mine-v0"), with_engine("native:CartPole-v1")
    ('gymnasium:my_package:Mine-v0', 'native:CartPole-v1')
    """
    names_module = isinstance(env, str) and ":" in env and env.partition(":")[0] not in ENGINES
    return f"gymnasium:{env}" if names_module else env


def _observations(played: RandomPlay) -> Finding:
    spec, returned = played.spec, played.observation
    size = " x ".join(map(str, spec.observation_shape))
    fault = played.faults.get("type")
    if (returned.shape[3:], str(returned.dtype)) != (spec.observation_shape, spec.observation_dtype):
        declared = f"{spec.observation_dtype} of shape {spec.observation_shape}"
        fault = f"{returned.dtype} of shape {returned.shape[3:]}, but {declared} is declared"
    if fault is not None:
        return Finding("bad", "observations", fault, "make the observations match the declared space")
    if spec.is_image:
        return Finding("good", "observations", f"images of {size} bytes")
    seen = f"{size} numbers{'' if spec.parts is None else ', flattened'}"
    if spec.observation_size > LARGE_VECTOR:
        advice = (
            "use a smaller image; convolutional networks take uint8 Boxes of rank 3 with at least 36 pixels per side"
        )
        return Finding("look", "observations", f"{seen}, which is large for an MLP", advice)
    return Finding("good", "observations", seen)


def _actions(played: RandomPlay) -> Finding:
    match played.spec.actions:
        case DiscreteActions(count=count):
            return Finding("good", "actions", f"one of {count} choices")
        case MultiDiscreteActions(counts=counts):
            return Finding("good", "actions", f"{len(counts)} at once, with {', '.join(map(str, counts))} choices")
        case BoxActions(low=low, high=high):
            reach = np.abs([low, high]).max(axis=0)
            seen = f"{len(low)} real number{'s' if len(low) > 1 else ''} between {min(low):g} and {max(high):g}"
    smallest, largest = SENSIBLE_REACH
    if ((reach >= smallest) & (reach <= largest)).all():
        return Finding("good", "actions", seen)
    wrapper, by_hand = "use gymnasium.wrappers.RescaleAction(env, -1, 1)", "declare bounds of ±1 and scale in step"
    advice = f"a new policy acts within about ±1: {by_hand if played.in_jax else wrapper}"
    if np.isinf(reach).any():
        advice = "give the actions bounds, which limit exploration"
    return Finding("look", "actions", seen, advice)


def _random_play(played: RandomPlay) -> Finding:
    if played.error is None:
        copies = played.reward.shape[1] * played.reward.shape[2]
        return Finding("good", "random play", f"{played.num_steps} steps in each of {copies} copies")
    at_bounds = 0 < len(played.observation) <= BOUND_STEPS
    where = f"step {len(played.observation)}" if len(played.observation) else "reset"
    advice = "step must accept every action in its space, including the lowest and the highest" if at_bounds else ""
    return Finding("bad", "random play", f"{where}{played.error}", advice)


def _values(played: RandomPlay, engine: str) -> Finding:
    subject = "observation values"
    if "range" in played.faults:
        return Finding("bad", subject, played.faults["range"], "scale the observations; learning uses float32")
    fault = played.faults.get("finite")
    wrong = np.argwhere(~np.isfinite(played.observation))
    if fault is None and len(wrong):
        fault = f"{played.observation[tuple(wrong[0])]} at step {wrong[0, 0]}"
    if fault is not None:
        return Finding("bad", subject, fault, "look for divisions by 0 and square roots of negative numbers")
    if "bounds" in played.faults:
        return Finding("bad", subject, played.faults["bounds"], "widen observation_space, or clip the observations")
    in_bounds = ", within the declared bounds" if engine == "gymnasium" else ""
    return Finding("good", subject, f"all finite{in_bounds}")


def _rewards(played: RandomPlay) -> Finding:
    if "reward" in played.faults:
        return Finding("look", "rewards", played.faults["reward"], "return a float")
    wrong = np.argwhere(~np.isfinite(played.reward))
    if len(wrong):
        seen = f"{played.reward[tuple(wrong[0])]} at step {wrong[0, 0] + 1}"
        return Finding("bad", "rewards", seen, "look for divisions by 0 and square roots of negative numbers")
    earned = played.reward[~played.restarted]
    seen = f"from {earned.min():.4g} to {earned.max():.4g}" if np.ptp(earned) else f"always {earned.min():.4g}"
    if np.abs(earned).max() > HUGE_REWARD:
        return Finding("look", "rewards", seen, "very large; scale them so that a good step earns about 1")
    if not earned.any():
        advice = "fine if rewards are rare, but learning starts only when a random policy finds one"
        return Finding("look", "rewards", "all 0 in random play", advice)
    return Finding("good", "rewards", seen)


def _episode_ends(played: RandomPlay) -> Iterator[Finding]:
    if "flags" in played.faults:
        yield Finding("look", "flags", played.faults["flags"], "return bool(terminated) and bool(truncated)")
    episodes = played.episodes
    if not episodes:
        limit = "time_limit" if played.in_jax else "a time limit: gymnasium.wrappers.TimeLimit"
        advice = f"fine if episodes are long; if they never end, set {limit}"
        yield Finding("look", "episode ends", f"no episode ended within {played.num_steps} steps", advice)
        return
    lengths = [episode.length for episode in episodes]
    longest = [episode for episode in episodes if episode.length == max(lengths)]
    shared = len(longest) >= MIN_EPISODES and (max(lengths) >= SHORTEST_LIMIT or min(lengths) == max(lengths) > 1)
    number = f"{'all' if len(longest) == len(lengths) else len(longest)} of {len(lengths)} episodes"
    in_gymnasium = "return truncated=True and terminated=False at a time limit"
    rule = "set time_limit instead of terminating at a time limit" if played.in_jax else in_gymnasium
    advice = f"{rule}: learning bootstraps from the value after a truncation"
    if shared and all(episode.terminated and episode.truncated for episode in longest):
        seen = f"{number} terminated and truncated at the same step {max(lengths)}"
        yield Finding("bad", "episode ends", seen, advice)
    elif shared and all(episode.terminated for episode in longest):
        seen = f"{number} terminated at step {max(lengths)} and none later, as if at a time limit"
        yield Finding("look", "episode ends", seen, f"if so, {advice}")
    else:
        num_terminated = sum(episode.terminated for episode in episodes)
        num_truncated = sum(episode.truncated for episode in episodes)
        steps = f"{min(lengths)} to {max(lengths)}" if min(lengths) < max(lengths) else f"{max(lengths)}"
        seen = f"{len(lengths)} episodes of {steps} steps: {num_terminated} terminated, {num_truncated} truncated"
        yield Finding("good", "episode ends", seen)
        num_both = sum(episode.terminated and episode.truncated for episode in episodes)
        if num_both:
            seen = f"{num_both} of {len(lengths)} episodes terminated and truncated at the same step"
            advice = "such a step counts as terminated: learning does not bootstrap from the value after it"
            yield Finding("look", "both flags", seen, advice)
    if played.reward[played.restarted].any() or played.ended[played.restarted].any():
        advice = "the engine must only reset in the step after the end of an episode"
        yield Finding("bad", "new episodes", "the step that resets returns a reward or ends an episode", advice)
    else:
        yield Finding("good", "new episodes", "start in the step after the end of an episode, with reward 0")


def _same_seed(played: RandomPlay, again: RandomPlay) -> Finding:
    advice = "call super().reset(seed=seed) first in reset, and draw all random numbers from self.np_random"
    if played.in_jax:
        advice = "draw all random numbers from the key that reset gets, or from a key in the state"
    pairs = [(getattr(played, name), getattr(again, name)) for name in ("observation", "reward", "ended")]
    if all(np.array_equal(one, other, equal_nan=True) for one, other in pairs):
        return Finding("good", "same seed", "exactly the same episodes")
    if all(one.shape == other.shape and np.allclose(one, other, 1e-4, 1e-4, equal_nan=True) for one, other in pairs):
        return Finding("look", "same seed", "nearly the same episodes, so runs cannot be repeated exactly", advice)
    same_starts = np.array_equal(played.observation[:1], again.observation[:1], equal_nan=True)
    seen = f"different {'steps' if same_starts else 'first observations'} each time"
    return Finding("bad", "same seed", seen, advice)


def _other_seeds(played: RandomPlay) -> Finding:
    one, other = (played.observation[:, seed] for seed in range(len(SEEDS)))
    if np.array_equal(one, other, equal_nan=True):
        remedy = "use its key" if played.in_jax else "pass on its seed: super().reset(seed=seed)"
        advice = f"fine if the environment is deterministic; otherwise reset must {remedy}"
        return Finding("look", "other seeds", "the same episodes", advice)
    starts = [played.observation[1:][played.restarted[:, 0, env], 0, env] for env in range(played.reward.shape[2])]
    repeated = all(np.array_equal(a, b) for env_starts in starts for a, b in pairwise(env_starts))
    if repeated and min(map(len, starts)) >= MIN_EPISODES - 1 and not np.array_equal(one[0], other[0]):
        advice = "reset without a seed must continue the random stream, not restart it"
        return Finding("look", "other seeds", "different episodes, but all episodes of a seed start alike", advice)
    return Finding("good", "other seeds", "different episodes")


def _gymnasium_checker(env: Environment) -> Finding:
    """The result of `gymnasium.utils.env_checker`, without warnings about infinite bounds: they are harmless here."""
    subject = "Gymnasium's checker"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            single = registered(bare_id(env)).unwrapped if isinstance(env, str) else cast(Any, env)()
            with closing(single):
                check_env(single, skip_render_check=True)
        except (Exception, SystemExit) as error:
            return Finding("bad", subject, describe(error), "see gymnasium.farama.org/api/env")
    messages = [re.sub(r"\x1b\[\d+m", "", str(warning.message)) for warning in caught]
    remarks = [text.removeprefix("WARN: ") for text in dict.fromkeys(messages) if text.startswith("WARN: ")]
    remarks = [text for text in remarks if not re.search("infinity|normalized space|unwrapped version", text)]
    if remarks:
        return Finding("look", subject, "; ".join(remarks))
    return Finding("good", subject, "passed")


def report(env_id: str, findings: list[Finding], console: Console) -> None:
    """Print the findings and a conclusion."""
    env_id = str(with_engine(env_id))
    console.print(f"{env_id} (engine: {engine_of(env_id)})\n", highlight=False, markup=False)
    table = Table.grid(padding=(0, 2, 0, 0))
    for finding in findings:
        mark, color = MARKS[finding.verdict]
        seen = Text(finding.seen)
        if finding.advice:
            seen.append(f"\n→ {finding.advice}", style="dim")
        table.add_row(Text(mark, style=f"bold {color}"), Text(finding.subject, style="bold"), seen)
    console.print(table)
    bad, look = (sum(finding.verdict == verdict for finding in findings) for verdict in ("bad", "look"))
    noted = f"{look} to review (!)" if look else ""
    if bad:
        console.print(f"\nnot fit for training: {bad} to fix (✗){noted and f', {noted}'}", highlight=False)
    else:
        console.print(f"\nfit for training{noted and f', with {noted}'}", highlight=False)
        console.print(f"next  trustax train mcpo --env-id {env_id}", highlight=False, markup=False, soft_wrap=True)
