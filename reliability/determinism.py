"""R12 and R13: the same seed gives the same numbers, and seeds side by side those of seeds alone."""

import hashlib
import json
import subprocess
import sys
from dataclasses import fields
from typing import Any

import jax
import numpy as np

import trustax as tx
from reliability.rows import Row
from reliability.runs import ROOT
from trustax.algorithms import ALGORITHMS

METHODS = ("mcpo", "ppo", "trpo")
ENGINES = ("native", "envpool", "gymnasium", "gymnax")
SMALL: dict[str, Any] = {"num_envs": 4, "horizon": 32, "total_timesteps": 128 * 4, "quiet": True}
UPDATES = 10
TOLERANCE = 1e-5
PROGRAM = "import sys; from reliability.determinism import main; main(*sys.argv[1:])"


def algorithm(method: str, **settings: Any) -> Any:
    """A method with small settings; it gets those that it has."""
    kind = ALGORITHMS[method]
    small = {"num_epochs": 2, "num_minibatches": 4, "hidden_sizes": (16,), "value_epochs": 2} | settings
    return kind(**{name: value for name, value in small.items() if name in {field.name for field in fields(kind)}})


def check_seeds(full: bool) -> Row:
    row = Row("R12", "the same seed in two processes gives the same bits, another seed others; four kinds of engines")
    methods, engines = (METHODS, ENGINES) if full else (METHODS[1:2], ENGINES[:1])
    arguments = [",".join(methods), ",".join(engines)]
    first, again = (json.loads(_output(arguments)) for _ in range(2))
    for name, (digest, other) in first.items():
        with row.trial(name):
            assert again[name] == [digest, other], "two processes differ"
            assert digest != other, "another seed gives the same numbers"
    return row


def _output(arguments: list[str]) -> str:
    process = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, cwd=ROOT)
    if process.returncode:
        raise RuntimeError(process.stderr[-300:])
    return process.stdout.splitlines()[-1]


def main(methods: str, engines: str) -> None:
    """Print the digests of the runs of two seeds for each method and engine."""
    digests = {
        f"{method}, {engine}": [_digest(method, engine, seed) for seed in (3, 4)]
        for method in methods.split(",")
        for engine in engines.split(",")
    }
    print(json.dumps(digests))


def _digest(method: str, engine: str, seed: int) -> str:
    result = tx.train(algorithm(method), f"{engine}:CartPole-v1", seed=seed, **SMALL)
    return hashlib.sha256(b"".join(leaf.tobytes() for leaf in _numbers(result.state.learner))).hexdigest()


def check_side_by_side(full: bool) -> Row:
    row = Row("R13", f"parameters after {UPDATES} updates: seeds side by side and alone agree to {TOLERANCE:g}")
    seeds = 3 if full else 2
    settings = SMALL | {"total_timesteps": 128}  # one rollout, which is the same to the last bits
    for method in ("mcpo", "ppo", "vmpo") if full else ("ppo",):
        for env in ("native:CartPole-v1", "native:Pendulum-v1") if full else ("native:CartPole-v1",):
            small = algorithm(method, num_epochs=UPDATES // 2, num_minibatches=2)
            together = tx.train(small, env, seed=5, num_seeds=seeds, **settings)
            for learner in range(seeds):
                with row.trial(f"{method}, {env}, seed {5 + learner}"):
                    alone = tx.train(small, env, seed=5 + learner, **settings)
                    ours, own = (run.agent(index).policy.parameters for run, index in ((together, learner), (alone, 0)))
                    np.testing.assert_allclose(ours, own, rtol=TOLERANCE, atol=TOLERANCE)
    return row


def _numbers(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


CHECKS = {"R12": check_seeds, "R13": check_side_by_side}
