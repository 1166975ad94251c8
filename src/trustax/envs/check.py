"""Is an environment fit for learning? It is played at random, and looked through for what makes training fail or lie.

A finding answers one question in one line: what was seen and, unless all is well, what to do. Nothing here learns.
"""

import re
import warnings
from collections.abc import Iterator
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
from trustax.envs.gymnasium import registered
from trustax.envs.random_play import BOUND_STEPS, MIN_EPISODES, SEEDS, RandomPlay, play
from trustax.errors import TrustaxError
from trustax.types import BoxActions, DiscreteActions, MultiDiscreteActions

HUGE_REWARD = 1e4
LARGE_VECTOR = 10_000
SENSIBLE_REACH = (0.1, 10.0)
"""How far actions may reach from 0: a policy starts with means near 0 and a standard deviation of 1."""
SHORTEST_LIMIT = 10
"""Episodes that share a longer length than this hardly do so by chance."""
MARKS = {"good": ("✓", "green"), "look": ("!", "yellow"), "bad": ("✗", "red")}


@dataclass(frozen=True)
class Finding:
    """The answer to one question about an environment."""

    verdict: Literal["good", "look", "bad"]
    subject: str
    seen: str
    advice: str = ""


def check(env: Environment) -> list[Finding]:
    """Play at random in two copies of an environment for each of two seeds, and judge what came of it.

    >>> {finding.verdict for finding in check("CartPole-v1")}
    {'good'}
    """
    env = with_engine(env)
    engine = engine_of(env)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Gymnasium remarks, its own checker says below
        try:
            trial = play(env)
        except Exception as error:
            seen = str(error) if isinstance(error, TrustaxError) else describe(error)
            return [Finding("bad", "making it", seen, "nothing can be trained on it before that")]
        findings = [_random_play(trial), _actions(trial), _observations(trial)]
        if trial.num_steps:
            findings += [_values(trial, engine), _rewards(trial), *_endings(trial)]
            findings += [_same_seed(trial, play(env, trial.num_steps)), _other_seeds(trial)]
    return findings + ([_by_gymnasium(env)] if engine == "gymnasium" else [])


def with_engine(env: Environment) -> Environment:
    """An id `module:Env-v0` is Gymnasium's name for what a module registers.

    >>> with_engine("my_package:Mine-v0"), with_engine("native:CartPole-v1")
    ('gymnasium:my_package:Mine-v0', 'native:CartPole-v1')
    """
    of_a_module = isinstance(env, str) and ":" in env and env.partition(":")[0] not in ENGINES
    return f"gymnasium:{env}" if of_a_module else env


def _observations(trial: RandomPlay) -> Finding:
    spec, came = trial.spec, trial.observation
    size = " x ".join(map(str, spec.observation_shape))
    fault = trial.faults.get("type")
    if (came.shape[3:], str(came.dtype)) != (spec.observation_shape, spec.observation_dtype):
        declared = f"{spec.observation_dtype} of shape {spec.observation_shape}"
        fault = f"{came.dtype} of shape {came.shape[3:]}, but {declared} is declared"
    if fault is not None:
        return Finding("bad", "observations", fault, "return what is declared, or declare what is returned")
    if spec.is_image:
        return Finding("good", "observations", f"images of {size} bytes")
    seen = f"{size} numbers{'' if spec.parts is None else ', flattened'}"
    if spec.observation_size > LARGE_VECTOR:
        advice = "convolutions take uint8 boxes of rank 3 with at least 36 pixels a side; make a smaller image of it"
        return Finding("look", "observations", f"{seen}, which is much for a perceptron", advice)
    return Finding("good", "observations", seen)


def _actions(trial: RandomPlay) -> Finding:
    match trial.spec.actions:
        case DiscreteActions(count=count):
            return Finding("good", "actions", f"one of {count} choices")
        case MultiDiscreteActions(counts=counts):
            return Finding("good", "actions", f"{len(counts)} at once, of {', '.join(map(str, counts))} choices")
        case BoxActions(low=low, high=high):
            reach = np.abs([low, high]).max(axis=0)
            seen = f"{len(low)} real number{'s' if len(low) > 1 else ''} between {min(low):g} and {max(high):g}"
    smallest, largest = SENSIBLE_REACH
    if ((reach >= smallest) & (reach <= largest)).all():
        return Finding("good", "actions", seen)
    wrapper, by_hand = "gymnasium.wrappers.RescaleAction(env, -1, 1)", "to declare ±1 and to scale in step"
    advice = f"a new policy acts within about ±1: {by_hand if trial.in_jax else wrapper} suits it to the bounds"
    if np.isinf(reach).any():
        advice = "exploring goes far where nothing holds it: give its actions bounds"
    return Finding("look", "actions", seen, advice)


def _random_play(trial: RandomPlay) -> Finding:
    if trial.error is None:
        copies = trial.reward.shape[1] * trial.reward.shape[2]
        return Finding("good", "random play", f"{trial.num_steps} steps in each of {copies} copies")
    at_bounds = 0 < len(trial.observation) <= BOUND_STEPS
    where = f"step {len(trial.observation)}" if len(trial.observation) else "reset"
    advice = "step must take every action of its space, the lowest and the highest too" if at_bounds else ""
    return Finding("bad", "random play", f"{where} raised {trial.error}", advice)


def _values(trial: RandomPlay, engine: str) -> Finding:
    subject = "their values"  # of the observations, which stand above
    fault = trial.faults.get("finite")
    wrong = np.argwhere(~np.isfinite(trial.observation))
    if fault is None and len(wrong):
        fault = f"{trial.observation[tuple(wrong[0])]} at step {wrong[0, 0]}"
    if fault is not None:
        return Finding("bad", subject, fault, "look for divisions by 0 and roots of negative numbers")
    if "bounds" in trial.faults:
        return Finding("bad", subject, trial.faults["bounds"], "widen observation_space, or clip what is returned")
    within = ", within the declared bounds" if engine == "gymnasium" else ""
    return Finding("good", subject, f"all finite{within}")


def _rewards(trial: RandomPlay) -> Finding:
    if "reward" in trial.faults:
        return Finding("look", "rewards", trial.faults["reward"], "return a float")
    wrong = np.argwhere(~np.isfinite(trial.reward))
    if len(wrong):
        seen = f"{trial.reward[tuple(wrong[0])]} at step {wrong[0, 0] + 1}"
        return Finding("bad", "rewards", seen, "look for divisions by 0 and roots of negative numbers")
    earned = trial.reward[~trial.restarted]
    seen = f"from {earned.min():.4g} to {earned.max():.4g}" if np.ptp(earned) else f"always {earned.min():.4g}"
    if np.abs(earned).max() > HUGE_REWARD:
        return Finding("look", "rewards", seen, "huge; divide them so that a good step earns about 1")
    if not earned.any():
        advice = "fine if the reward is rare; but nothing is learnt before a random policy meets it"
        return Finding("look", "rewards", "all 0 in random play", advice)
    return Finding("good", "rewards", seen)


def _endings(trial: RandomPlay) -> Iterator[Finding]:
    if "flags" in trial.faults:
        yield Finding("look", "flags", trial.faults["flags"], "return bool(terminated) and bool(truncated)")
    episodes = trial.episodes
    if not episodes:
        limit = "time_limit" if trial.in_jax else "a time limit: gymnasium.wrappers.TimeLimit"
        advice = f"fine if episodes are long; if they never end, set {limit}"
        yield Finding("look", "endings", f"no episode ended within {trial.num_steps} steps", advice)
        return
    lengths = [episode.length for episode in episodes]
    longest = [episode for episode in episodes if episode.length == max(lengths)]
    shared = len(longest) >= MIN_EPISODES and (max(lengths) >= SHORTEST_LIMIT or min(lengths) == max(lengths) > 1)
    number = f"{'all' if len(longest) == len(lengths) else len(longest)} of {len(lengths)} episodes"
    in_gymnasium = "at a time limit return truncated=True and terminated=False"
    rule = "leave a time limit to time_limit" if trial.in_jax else in_gymnasium
    advice = f"{rule}: a cut episode still has a future to value"
    if shared and all(episode.terminated and episode.truncated for episode in longest):
        seen = f"{number} terminated at the very step {max(lengths)} that truncated them"
        yield Finding("bad", "endings", seen, advice)
    elif shared and all(episode.terminated for episode in longest):
        seen = f"{number} terminated at step {max(lengths)}, none later, as if at a time limit"
        yield Finding("look", "endings", seen, f"if it is one, {advice}")
    else:
        num_terminated = sum(episode.terminated for episode in episodes)
        num_truncated = sum(episode.truncated for episode in episodes)
        steps = f"{min(lengths)} to {max(lengths)}" if min(lengths) < max(lengths) else f"{max(lengths)}"
        seen = f"{len(lengths)} episodes of {steps} steps: {num_terminated} terminated, {num_truncated} truncated"
        yield Finding("good", "endings", seen)
    if trial.reward[trial.restarted].any() or trial.ended[trial.restarted].any():
        advice = "the engine must reset in the step after an ending, and do nothing else"
        yield Finding("bad", "new episodes", "the step that resets has a reward or an ending", advice)
    else:
        yield Finding("good", "new episodes", "begin in the step after an ending, with reward 0")


def _same_seed(trial: RandomPlay, again: RandomPlay) -> Finding:
    advice = "begin reset with super().reset(seed=seed), and draw every random number from self.np_random"
    if trial.in_jax:
        advice = "draw every random number from the key that reset is given, or from one kept in the state"
    pairs = [(getattr(trial, name), getattr(again, name)) for name in ("observation", "reward", "ended")]
    if all(np.array_equal(one, other, equal_nan=True) for one, other in pairs):
        return Finding("good", "same seed", "the same episodes, to the bit")
    if all(one.shape == other.shape and np.allclose(one, other, 1e-4, 1e-4, equal_nan=True) for one, other in pairs):
        return Finding("look", "same seed", "nearly the same episodes: a run cannot be repeated exactly", advice)
    begin_alike = np.array_equal(trial.observation[:1], again.observation[:1], equal_nan=True)
    seen = f"other {'steps' if begin_alike else 'first observations'} each time"
    return Finding("bad", "same seed", seen, advice)


def _other_seeds(trial: RandomPlay) -> Finding:
    one, other = (trial.observation[:, seed] for seed in range(len(SEEDS)))
    if np.array_equal(one, other, equal_nan=True):
        remedy = "use its key" if trial.in_jax else "hand its seed on: super().reset(seed=seed)"
        advice = f"fine if nothing is random in it; otherwise reset must {remedy}"
        return Finding("look", "other seeds", "the same episodes", advice)
    starts = [trial.observation[1:][trial.restarted[:, 0, env], 0, env] for env in range(trial.reward.shape[2])]
    repeated = all(np.array_equal(a, b) for of_env in starts for a, b in pairwise(of_env))
    if repeated and min(map(len, starts)) >= MIN_EPISODES - 1 and not np.array_equal(one[0], other[0]):
        advice = "reset without a seed must go on with the random numbers, not begin them anew"
        return Finding("look", "other seeds", "other episodes, but each seed begins all of its own alike", advice)
    return Finding("good", "other seeds", "other episodes")


def _by_gymnasium(env: Environment) -> Finding:
    """What `gymnasium.utils.env_checker` says, but for remarks on bounds: infinite ones do no harm here."""
    subject = "Gymnasium's checker"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            single = registered(bare_id(env)).unwrapped if isinstance(env, str) else cast(Any, env)()
            check_env(single, skip_render_check=True)
            single.close()
        except Exception as error:
            return Finding("bad", subject, describe(error), "its rules: gymnasium.farama.org/api/env")
    said = [re.sub(r"\x1b\[\d+m", "", str(warning.message)) for warning in caught]
    remarks = [text.removeprefix("WARN: ") for text in dict.fromkeys(said) if text.startswith("WARN: ")]
    remarks = [text for text in remarks if not re.search("infinity|normalized space|unwrapped version", text)]
    if remarks:
        return Finding("look", subject, "; ".join(remarks))
    return Finding("good", subject, "passed")


def report(env_id: str, findings: list[Finding], console: Console) -> None:
    """Print the findings, and what follows from them."""
    env_id = str(with_engine(env_id))
    console.print(f"{env_id}, run by the engine {engine_of(env_id)}\n", highlight=False, markup=False)
    table = Table.grid(padding=(0, 2, 0, 0))
    for finding in findings:
        mark, color = MARKS[finding.verdict]
        seen = Text(finding.seen)
        if finding.advice:
            seen.append(f"\n→ {finding.advice}", style="dim")
        table.add_row(Text(mark, style=f"bold {color}"), Text(finding.subject, style="bold"), seen)
    console.print(table)
    bad, look = (sum(finding.verdict == verdict for finding in findings) for verdict in ("bad", "look"))
    noted = f"{look} to think about (!)" if look else ""
    if bad:
        console.print(f"\nnot fit for training: {bad} to mend (✗){noted and f', {noted}'}", highlight=False)
    else:
        console.print(f"\nfit for training{noted and f', with {noted}'}", highlight=False)
        console.print(f"next  trustax train mcpo --env-id {env_id}", highlight=False, markup=False, soft_wrap=True)
