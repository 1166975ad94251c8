"""Settings with one value for each learner: one program, and each learner as if it were alone with its value."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trustax as tx
from tests.probes import SPECS, random_rollout
from trustax.run import Run, from_json, to_json
from trustax.runtime.state import learner_values
from trustax.settings import with_values
from trustax.types import Progress

SMALL: dict[str, Any] = {"num_envs": 2, "horizon": 32, "total_timesteps": 128, "quiet": True}
RATES = (1e-3, 3e-3)


def ppo(**settings: Any) -> tx.PPO:
    return tx.PPO(num_epochs=2, num_minibatches=2, hidden_sizes=(8,), **settings)


def test_each_learner_learns_with_its_own_values_in_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = []
    update = tx.PPO.update
    monkeypatch.setattr(tx.PPO, "update", lambda self, *args: traces.append(self) or update(self, *args))
    mapped = ppo(learning_rate=RATES, clip_range=(0.1, 0.3), entropy_cost=(0.0, 0.01))
    together = tx.train(mapped, "CartPole-v1", num_seeds=2, **SMALL)
    assert len(traces) == 1
    for learner in range(2):
        settings = {"learning_rate": RATES[learner], "clip_range": (0.1, 0.3)[learner], "entropy_cost": 0.01 * learner}
        alone = tx.train(ppo(**settings), "CartPole-v1", seed=learner, **SMALL)
        for mine, ours in zip(alone.records, together.records, strict=True):
            for metric in ("train/learning_rate", "train/value_loss", "train/approx_kl"):
                np.testing.assert_allclose(mine[metric][0], ours[metric][learner], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    "algorithm",
    [
        tx.MCPO(kl_cost_min=(0.01, 0.1), kl_cost_max=(1.0, 10.0), max_gradient_norm=(0.5, 1.0), memory_size=3),
        tx.MCPO(kl_cost=(0.5, 1.0), kl_target=(0.1, 0.2), kl_cost_rule="adaptive", memory_size=3),
        tx.TRPO(kl_target=(0.01, 0.02), damping=(0.1, 0.2), learning_rate=RATES),
        tx.TRPO(value_weight_decay=(0.1, 0.2), value_fit="lbfgs"),
        tx.ACKTR(learning_rate=RATES, momentum=(0.5, 0.9), statistics_decay=(0.9, 0.99), damping=(0.1, 0.2)),
        tx.VMPO(initial_kl_cost=(0.5, 1.0), initial_temperature=(1.0, 2.0), kl_target=(0.1, 0.2)),
        tx.KLAdaptive(kl_target=(0.1, 0.2), initial_kl_cost=(0.5, 1.0), gae_lambda=(0.9, 1.0)),
        tx.KLFixed(kl_cost=(0.1, 0.2), value_cost=(0.5, 1.0), value_clip_range=(0.1, 0.2)),
        tx.MDPO(kl_cost=(0.1, 0.2)),
        tx.MDPO(kl_cost=(0.1, 0.2), schedule="original"),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_no_algorithm_branches_on_a_value_that_may_differ(algorithm: Any) -> None:
    """Traced, not compiled: what needs to know a value in Python raises here."""
    spec, key = SPECS["discrete"], jax.random.key(0)
    run = Run(algorithm=algorithm, env_id="CartPole-v1", num_seeds=2)

    def learn(values: dict[str, Any], key: Any) -> Any:
        own = with_values(run.algorithm, values)
        rollout = random_rollout(spec, 64, 2)
        return own.update(own.init(key, spec), rollout, Progress(jnp.array(1), jnp.array(4)), key)

    jax.eval_shape(jax.vmap(learn), learner_values(run), jax.random.split(key))


def test_values_are_checked_and_kept_in_files() -> None:
    run = Run(algorithm=ppo(learning_rate=RATES), env_id="CartPole-v1", num_seeds=2)
    assert from_json(to_json(run)) == run
    with pytest.raises(tx.TrustaxError, match="learning_rate has 2 values, but num_seeds is 3; give one value for all"):
        Run(algorithm=ppo(learning_rate=RATES), env_id="CartPole-v1", num_seeds=3)
    with pytest.raises(tx.TrustaxError, match="learning_rate must be at least 0 each, not"):
        Run(algorithm=ppo(learning_rate=(1e-3, -1.0)), env_id="CartPole-v1", num_seeds=2)
    with pytest.raises(tx.TrustaxError, match=r"kl_cost_min must not be above kl_cost_max, but 5\.0 is above"):
        Run(algorithm=tx.MCPO(kl_cost_min=5.0, kl_cost_max=(10.0, 1.0)), env_id="CartPole-v1", num_seeds=2)
    with pytest.raises(tx.TrustaxError, match="discount must be a number, not"):
        from_json({"algorithm": {"name": "ppo", "discount": [0.9, 0.99]}, "env_id": "CartPole-v1", "num_seeds": 2})
