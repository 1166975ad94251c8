"""TRPO against a slow reference in float64; the guarantees of its steps, and which parameters they change."""

import dataclasses
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.algorithms.test_mcpo import Adam, Network, double, kl, samples_of
from tests.ops.test_natural_gradient import HIDDEN_SIZES, dense_fisher
from tests.probes import QUICK_COMPILE, SPECS, random_rollout
from trustax.algorithms.batch import make_batch
from trustax.algorithms.trpo import KL_SLACK, TRPO
from trustax.networks import Policy
from trustax.settings import with_values
from trustax.types import DiscreteActions, EnvSpec, Progress, Rollout

SMALL = TRPO(hidden_sizes=HIDDEN_SIZES, cg_iterations=3, num_minibatches=2, value_epochs=1, value_iterations=2)
START = Progress(jnp.array(0), jnp.array(4))
KEY = jax.random.key(1)
TRACED = ("kl_target", "damping", "value_weight_decay")
both_action_kinds = pytest.mark.parametrize("actions", ["discrete", "box"])
both_fits = pytest.mark.parametrize("value_fit", ["lbfgs", "epochs"])
# The critic's fit does not depend on the kind of actions, and the policy step does not depend on the fit.
both_kinds_and_fits = pytest.mark.parametrize(("actions", "value_fit"), [("discrete", "epochs"), ("box", "lbfgs")])


@lru_cache
def program(algorithm: TRPO) -> Any:
    def update(values: dict[str, Any], *arguments: Any) -> Any:
        return with_values(algorithm, values).update(*arguments)

    return jax.jit(update, compiler_options=QUICK_COMPILE)


def compiled(algorithm: TRPO) -> Any:
    """The compiled update. Algorithms that differ only in the traced settings share one program."""
    traced = {name: jnp.float32(getattr(algorithm, name)) for name in TRACED}
    return partial(program(dataclasses.replace(algorithm, **{name: getattr(SMALL, name) for name in TRACED})), traced)


def first(algorithm: TRPO, spec: EnvSpec = SPECS["discrete"]) -> Any:
    return jax.jit(partial(algorithm.init, spec=spec))(jax.random.key(0))


def parts(policy: Policy) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The parameters that only the critic uses, and all others."""
    network = policy.architecture.unflatten(policy.parameters)
    critic = jax.tree.leaves(network.critic)
    rest = [leaf for leaf in jax.tree.leaves(network) if not any(leaf is other for other in critic)]
    return [np.asarray(leaf) for leaf in critic], [np.asarray(leaf) for leaf in rest]


def moved(before: list[np.ndarray], after: list[np.ndarray]) -> list[bool]:
    return [not np.array_equal(a, b) for a, b in zip(before, after, strict=True)]


def reference_step(theta: np.ndarray, actions: str, rollout: Rollout, algorithm: TRPO) -> tuple[np.ndarray, float]:
    """Section 6 and appendix C of the paper with a dense Fisher information, and the fraction of the step taken."""
    network = Network(SPECS[actions], algorithm.hidden_sizes)
    samples = samples_of(network, theta, rollout, algorithm)
    old = network(theta, samples.observation)

    def measure(parameters: np.ndarray) -> tuple[float, float]:
        new = network(parameters, samples.observation)
        log_ratio = new.distribution.log_prob(samples.action) - old.distribution.log_prob(samples.action)
        gain = samples.share @ ((np.exp(log_ratio) - 1) * samples.advantage)
        return gain, samples.share @ kl(old.distribution, new.distribution)

    slope = (samples.share * samples.advantage)[:, None] * old.distribution.log_prob_gradient(samples.action)
    gradient = network.gradient(theta, old, slope, np.zeros(len(slope)))
    fisher = dense_fisher(actions, theta, samples.observation, samples.weight)
    damped = fisher + algorithm.damping * np.eye(len(theta))
    direction = np.linalg.solve(damped, gradient)
    step = np.sqrt(2 * algorithm.kl_target / (direction @ damped @ direction)) * direction
    for power in range(algorithm.line_search_steps):
        gain, divergence = measure(theta + 0.5**power * step)
        enough = gain > 0 and gain / (gradient @ step * 0.5**power) > 0.1
        if enough and divergence <= 1.5 * algorithm.kl_target:
            return theta + 0.5**power * step, 0.5**power
    return theta, 0.0


@both_action_kinds
@pytest.mark.parametrize("kl_target", [0.01, 30.0])
def test_policy_step_equals_the_reference(actions: str, kl_target: float) -> None:
    """To 1e-5 of the step, with enough conjugate gradients to solve a system of this size."""
    algorithm = dataclasses.replace(SMALL, kl_target=kl_target, cg_iterations=60)
    rollout, state = random_rollout(SPECS[actions], 10, 8), first(algorithm, SPECS[actions])
    after, metrics = compiled(algorithm)(state, rollout, START, KEY)
    theta = double(state.policy)
    expected, fraction = reference_step(theta, actions, rollout, algorithm)
    numbers = Policy(jnp.arange(len(theta), dtype=jnp.float32), state.policy.architecture)
    rows = np.concatenate([leaf.ravel() for leaf in parts(numbers)[1]]).astype(int)
    error = (double(after.policy) - expected)[rows]
    assert np.linalg.norm(error) < 1e-5 * np.linalg.norm(expected - theta)
    assert float(metrics["train/step_fraction"]) == fraction
    assert (fraction == 1) == (kl_target == 0.01)
    assert fraction > 0


def test_epochs_fit_the_critic_by_adam() -> None:
    """One epoch of one minibatch is the whole rollout, whose gradient is taken by hand."""
    actions = "discrete"
    algorithm = dataclasses.replace(SMALL, num_minibatches=1)
    rollout, state = random_rollout(SPECS[actions], 10, 8), first(algorithm, SPECS[actions])
    after, metrics = compiled(algorithm)(state, rollout, START, KEY)
    theta, network = double(state.policy), Network(SPECS[actions], HIDDEN_SIZES)
    samples = samples_of(network, theta, rollout, algorithm)
    said = network(theta, samples.observation)
    slope = 2 * samples.share * (said.value - samples.value_target)
    gradient = network.gradient(theta, said, np.zeros((len(slope), network.num_outputs)), slope)
    expected = Adam().step(theta, gradient, algorithm.learning_rate, np.inf)
    rows = gradient != 0
    np.testing.assert_allclose(double(after.policy)[rows], expected[rows], atol=1e-6)
    error = network(expected, samples.observation).value - samples.value_target
    assert float(metrics["train/value_loss"]) == pytest.approx(samples.share @ error**2, rel=1e-4)


@pytest.mark.parametrize("value_weight_decay", [0.0, 1e-3])
def test_lbfgs_fits_the_critic(value_weight_decay: float) -> None:
    """A critic without hidden layers is linear regression on the targets, here as float64 solves it."""
    algorithm = dataclasses.replace(
        SMALL, hidden_sizes=(), value_fit="lbfgs", value_iterations=25, value_weight_decay=value_weight_decay
    )
    state, rollout = first(algorithm), random_rollout(SPECS["discrete"], 10, 8)
    after, _ = compiled(algorithm)(state, rollout, START, KEY)
    batch = make_batch(state.policy, rollout, algorithm.discount, algorithm.gae_lambda)
    observation, target, share = (
        np.asarray(x, np.float64) for x in (batch.observation, batch.value_target, batch.weight)
    )
    inputs, share = np.hstack([observation, np.ones((len(target), 1))]), share / share.sum()
    normal = inputs.T @ (share[:, None] * inputs) + value_weight_decay * np.eye(4)
    expected = np.linalg.solve(normal, inputs.T @ (share * target))
    bias_and_weight = sorted(parts(after.policy)[0], key=np.size)
    np.testing.assert_allclose(np.concatenate([x.ravel() for x in bias_and_weight[::-1]]), expected, atol=1e-4)


@both_action_kinds
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_steps_stay_in_the_region(actions: str, scale: float) -> None:
    """For ten updates on new rollouts, also with very large rewards and nearly all of the advantage in one row."""
    spec = SPECS[actions]
    algorithm = dataclasses.replace(SMALL, kl_target=0.05, damping=1e-3)
    state, accepted = first(algorithm, spec), 0
    batch_of = jax.jit(partial(make_batch, discount=algorithm.discount, gae_lambda=algorithm.gae_lambda))
    divergence_of = jax.jit(lambda batch, new: batch.old_distribution.kl(new.batch(batch.observation)[0]))
    for number in range(10):
        rollout = random_rollout(spec, 10, 8, seed=number)
        reward = rollout.reward.at[3, 2].multiply(scale)
        action = rollout.action if actions == "discrete" else rollout.action.at[3, 2].multiply(4)
        rollout = dataclasses.replace(rollout, reward=reward, action=action)
        batch = batch_of(state.policy, rollout)
        state, metrics = compiled(algorithm)(state, rollout, START, KEY)
        divergence = np.asarray(divergence_of(batch, state.policy), np.float64) @ np.asarray(batch.weight)
        divergence /= np.asarray(batch.weight, np.float64).sum()
        assert divergence <= KL_SLACK * algorithm.kl_target * (1 + 1e-4)
        assert float(metrics["train/approx_kl"]) == pytest.approx(divergence, abs=1e-5)
        assert np.isfinite(state.policy.parameters).all()
        accepted += float(metrics["train/step_fraction"]) > 0
    assert accepted >= 8


@both_kinds_and_fits
def test_a_rejected_step_leaves_the_actor_unchanged(actions: str, value_fit: Any) -> None:
    """The region is so wide that the only attempt, at its boundary, is rejected."""
    algorithm = dataclasses.replace(SMALL, kl_target=1e4, line_search_steps=1, value_fit=value_fit)
    state = first(algorithm, SPECS[actions])
    after, metrics = compiled(algorithm)(state, random_rollout(SPECS[actions], 10, 8), START, KEY)
    (critic, rest), (new_critic, new_rest) = parts(state.policy), parts(after.policy)
    assert float(metrics["train/step_fraction"]) == 0
    assert float(metrics["train/approx_kl"]) == pytest.approx(0, abs=1e-7)
    assert not any(moved(rest, new_rest))
    assert all(moved(critic, new_critic))


@both_action_kinds
def test_a_rollout_without_weight_changes_nothing(actions: str) -> None:
    state, rollout = first(SMALL, SPECS[actions]), random_rollout(SPECS[actions], 10, 8)
    rollout = dataclasses.replace(rollout, weight=jnp.zeros_like(rollout.weight))
    after, metrics = compiled(SMALL)(state, rollout, START, KEY)
    np.testing.assert_array_equal(after.policy.parameters, state.policy.parameters)
    assert all(np.isfinite(value) for value in metrics.values())


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(SPECS["box"], id="box"),
        pytest.param(EnvSpec((1, 36, 36), DiscreteActions(3), "uint8"), id="image", marks=pytest.mark.slow),
    ],
)
@both_fits
def test_the_policy_step_and_the_critic_fit_change_separate_parameters(spec: EnvSpec, value_fit: Any) -> None:
    algorithm = dataclasses.replace(SMALL, value_fit=value_fit)
    state, rollout = first(algorithm, spec), random_rollout(spec, horizon=3)
    batch_of = jax.jit(partial(make_batch, discount=algorithm.discount, gae_lambda=algorithm.gae_lambda))
    fit = algorithm._fit_by_lbfgs if value_fit == "lbfgs" else algorithm._fit_by_epochs
    batch = batch_of(state.policy, rollout)
    stepped, _ = jax.jit(algorithm._step, compiler_options=QUICK_COMPILE)(state.policy, batch)
    fitted, _ = jax.jit(fit, compiler_options=QUICK_COMPILE)(stepped, state.critic_adam, batch, KEY)
    (critic, rest), (critic_stepped, rest_stepped), (critic_fitted, rest_fitted) = map(
        parts, (state.policy, stepped, fitted)
    )
    assert not any(moved(critic, critic_stepped))
    assert all(moved(critic_stepped, critic_fitted))
    assert all(moved(rest, rest_stepped))
    assert not any(moved(rest_stepped, rest_fitted))


@both_kinds_and_fits
def test_rows_of_weight_zero_have_no_influence(actions: str, value_fit: Any) -> None:
    algorithm, rollout = dataclasses.replace(SMALL, value_fit=value_fit), random_rollout(SPECS[actions], 10, 8)
    idle = np.asarray(rollout.weight) == 0
    assert idle.any()
    action = np.asarray(rollout.action)
    other = (action + 1) % 3 if actions == "discrete" else action - 50
    spoilt = dataclasses.replace(
        rollout,
        action=jnp.asarray(np.where(idle.reshape(idle.shape + (1,) * (action.ndim - 2)), other, action)),
        reward=jnp.where(idle, 1e4, rollout.reward),
        terminated=rollout.terminated | idle,
    )
    state = first(algorithm, SPECS[actions])
    after, spoilt_after = (compiled(algorithm)(state, x, START, KEY)[0] for x in (rollout, spoilt))
    np.testing.assert_array_equal(after.policy.parameters, spoilt_after.policy.parameters)


@pytest.mark.parametrize("value_fit", ["epochs", pytest.param("lbfgs", marks=pytest.mark.slow)])
def test_seeds_side_by_side_equal_seeds_alone(value_fit: Any) -> None:
    """One of the seeds backtracks and the others wait for it."""
    algorithm = dataclasses.replace(SMALL, kl_target=3.0, value_fit=value_fit)
    keys = jax.random.split(jax.random.key(3), 3)
    states = jax.jit(jax.vmap(partial(algorithm.init, spec=SPECS["box"])))(keys)
    rollouts = [random_rollout(SPECS["box"], 10, 8, seed=seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *rollouts)
    abreast = jax.jit(jax.vmap(algorithm.update, (0, 0, None, 0)), compiler_options=QUICK_COMPILE)
    together, metrics = abreast(states, stacked, START, keys)
    assert len(np.unique(metrics["train/step_fraction"])) > 1
    for seed in range(3):
        state = jax.tree.map(lambda x, seed=seed: np.asarray(x)[seed], states)
        alone, _ = compiled(algorithm)(state, rollouts[seed], START, keys[seed])
        parameters = np.asarray(together.policy.parameters)[seed]
        np.testing.assert_allclose(parameters, alone.policy.parameters, atol=1e-5)
