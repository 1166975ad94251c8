"""MCPO against a slow reference in float64, written from the paper's equations; and its parts, one by one."""

import dataclasses
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.probes import QUICK_COMPILE, SPECS, operation_by_operation, random_rollout
from trustax.algorithms import ALGORITHMS, MCPO
from trustax.algorithms.batch import Batch, Evaluation, evaluate, make_batch
from trustax.algorithms.first_order import fraction_of_updates_left, improve
from trustax.algorithms.mcpo.attention import Attention
from trustax.algorithms.mcpo.beta_max import kl_target_of, limits_of
from trustax.algorithms.mcpo.context import context_of
from trustax.algorithms.mcpo.mcpo import Virtual
from trustax.algorithms.mcpo.state import MCPOState
from trustax.networks import flatten
from trustax.ops.minibatches import shuffles
from trustax.ops.objectives import expectation, surrogate
from trustax.types import DiscreteActions, EnvSpec, Metrics, Progress, Rollout

HORIZON, NUM_ENVS, NUM_ITERATIONS = 5, 8, 4
SMALL = MCPO(
    learning_rate=1e-2,
    num_epochs=2,
    num_minibatches=4,
    hidden_sizes=(5, 4),
    memory_size=3,
    entropy_cost=0.01,
    dropout=0.0,
    kl_cost_max_target=0.0,
)


def change(**changes: Any) -> MCPO:
    return dataclasses.replace(SMALL, **changes)


# Compiling takes longer than running, so independent settings are tested in one run.
MEAN = change(virtual_policy="mean", num_epochs=1, num_minibatches=1, write_rule="interval", write_interval=1)
SCHEDULED = change(write_rule="interval", write_interval=3, kl_cost_rule="annealed")
ONE_POLICY = change(memory_size=1, kl_cost_rule="adaptive", kl_target=1e6)
MANY_POLICIES = change(
    memory_size=1000, write_rule="interval", write_interval=1, kl_cost_rule="adaptive", kl_target=1e-6
)
EACH_MINIBATCH = change(switch_every="minibatch")
ADAPTIVE_MAXIMUM = change(kl_cost_max_target=0.014, switch_every="epoch")
both_action_kinds = pytest.mark.parametrize("actions", ["discrete", "box"])


class Softmax:
    """A categorical distribution in float64, with gradients in its logits."""

    def __init__(self, outputs: np.ndarray, log_std: np.ndarray) -> None:
        shifted = outputs - outputs.max(axis=1, keepdims=True)
        self.log = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        self.p = np.exp(self.log)

    def log_prob(self, action: np.ndarray) -> np.ndarray:
        return self.log[np.arange(len(action)), action]

    def log_prob_gradient(self, action: np.ndarray) -> np.ndarray:
        return np.eye(self.p.shape[1])[action] - self.p

    def entropy(self) -> np.ndarray:
        return -(self.p * self.log).sum(axis=1)

    def entropy_gradient(self) -> np.ndarray:
        return -self.p * (self.log + self.entropy()[:, None])

    def kl_gradient(self, p: "Softmax") -> np.ndarray:
        """Of KL(p‖self)."""
        return self.p - p.p


class Gaussian:
    """A diagonal Gaussian in float64, with gradients in its means and then its log standard deviations."""

    def __init__(self, outputs: np.ndarray, log_std: np.ndarray) -> None:
        self.mean, self.log_std = outputs, np.broadcast_to(log_std, outputs.shape)
        self.std = np.exp(self.log_std)

    def log_prob(self, action: np.ndarray) -> np.ndarray:
        z = (action - self.mean) / self.std
        return (-(z**2) / 2 - self.log_std - np.log(2 * np.pi) / 2).sum(axis=1)

    def log_prob_gradient(self, action: np.ndarray) -> np.ndarray:
        z = (action - self.mean) / self.std
        return np.hstack([z / self.std, z**2 - 1])

    def entropy(self) -> np.ndarray:
        return (self.log_std + np.log(2 * np.pi * np.e) / 2).sum(axis=1)

    def entropy_gradient(self) -> np.ndarray:
        return np.hstack([np.zeros_like(self.mean), np.ones_like(self.mean)])

    def kl_gradient(self, p: "Gaussian") -> np.ndarray:
        """Of KL(p‖self)."""
        offset = (self.mean - p.mean) / self.std
        return np.hstack([offset / self.std, 1 - (p.std / self.std) ** 2 - offset**2])


def kl(p: Any, q: Any) -> np.ndarray:
    """KL(p‖q), row by row."""
    if isinstance(p, Softmax):
        return (p.p * (p.log - q.log)).sum(axis=1)
    spread = (p.std**2 + (p.mean - q.mean) ** 2) / (2 * q.std**2)
    return (q.log_std - p.log_std + spread - 0.5).sum(axis=1)


class Said(NamedTuple):
    """The outputs of a network on a batch, and the inputs of its layers, for the gradient."""

    distribution: Any
    value: np.ndarray
    inputs: list[list[np.ndarray]]


class Network:
    """An actor and a critic with tanh units whose parameters are one vector; gradients by hand."""

    def __init__(self, spec: EnvSpec, hidden_sizes: tuple[int, ...]) -> None:
        self.discrete = isinstance(spec.actions, DiscreteActions)
        self.num_outputs = spec.actions.count if self.discrete else spec.actions.shape[0]
        self.widths = [(*spec.observation_shape, *hidden_sizes, last) for last in (self.num_outputs, 1)]

    def layers(self, parameters: np.ndarray) -> tuple[list[list[tuple[np.ndarray, np.ndarray]]], np.ndarray]:
        """Weights and biases of actor and critic, and what is left: the log standard deviations."""
        halves, rest = [], parameters
        for widths in self.widths:
            half = []
            for into, out in pairwise(widths):
                weight, bias, rest = np.split(rest, [into * out, into * out + out])
                half.append((weight.reshape(into, out), bias))
            halves.append(half)
        assert len(rest) == (0 if self.discrete else self.num_outputs)
        return halves, rest

    def __call__(self, parameters: np.ndarray, observation: np.ndarray) -> Said:
        halves, log_std = self.layers(parameters)
        outputs, inputs = [], []
        for half in halves:
            seen = [observation]
            for weight, bias in half[:-1]:
                seen.append(np.tanh(seen[-1] @ weight + bias))
            outputs.append(seen[-1] @ half[-1][0] + half[-1][1])
            inputs.append(seen)
        return Said((Softmax if self.discrete else Gaussian)(outputs[0], log_std), outputs[1][:, 0], inputs)

    def gradient(
        self, parameters: np.ndarray, said: Said, by_distribution: np.ndarray, by_value: np.ndarray
    ) -> np.ndarray:
        """The gradient of a sum over the batch, from its gradients in what the network says."""
        halves, _ = self.layers(parameters)
        pieces = []
        by_outputs = (by_distribution[:, : self.num_outputs], by_value[:, None])
        for half, seen, by_output in zip(halves, said.inputs, by_outputs, strict=True):
            backwards = []
            for (weight, _), x in zip(half[::-1], seen[::-1], strict=True):
                backwards.append(np.concatenate([(x.T @ by_output).ravel(), by_output.sum(axis=0)]))
                by_output = (by_output @ weight.T) * (1 - x**2)
            pieces += backwards[::-1]
        return np.concatenate([*pieces, by_distribution[:, self.num_outputs :].sum(axis=0)])


class Adam:
    """Adam with ε = 1e-5 behind a clip of the global norm."""

    def __init__(self) -> None:
        self.m = self.v = self.t = 0

    def step(self, x: np.ndarray, gradient: np.ndarray, learning_rate: float, max_norm: float) -> np.ndarray:
        norm = np.sqrt((gradient**2).sum())
        gradient = gradient * min(1, max_norm / norm) if norm > 0 else gradient
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient**2
        corrected = np.sqrt(self.v / (1 - 0.999**self.t)) + 1e-5
        return x - learning_rate * (self.m / (1 - 0.9**self.t)) / corrected


class Samples(NamedTuple):
    """A rollout in float64, row by row; `share` is the weight of each row in the mean."""

    observation: np.ndarray
    action: np.ndarray
    advantage: np.ndarray
    value_target: np.ndarray
    weight: np.ndarray
    old_value: np.ndarray

    def take(self, rows: np.ndarray) -> "Samples":
        return Samples(*(x[rows] for x in self))

    @property
    def share(self) -> np.ndarray:
        return self.weight / max(self.weight.sum(), 1)


def samples_of(network: Network, theta: np.ndarray, rollout: Rollout, settings: Any) -> Samples:
    """Textbook generalized advantage estimates, standardized once over the rows with weight."""
    data = jax.tree.map(lambda x: np.asarray(x, np.float64 if x.dtype == jnp.float32 else x.dtype), rollout)
    time, env = data.reward.shape
    rows = lambda x: x.reshape(-1, *x.shape[2:])  # noqa: E731
    value = network(theta, rows(data.observation)).value.reshape(time + 1, env)
    advantage = np.zeros((time, env))
    for e in range(env):
        later = 0.0
        for t in reversed(range(time)):
            future = 0.0 if data.terminated[t, e] else value[t + 1, e]
            if data.terminated[t, e] or data.truncated[t, e]:
                later = 0.0
            delta = data.reward[t, e] + settings.discount * future - value[t, e]
            later = advantage[t, e] = delta + settings.discount * settings.gae_lambda * later
    counted = advantage[data.weight == 1]
    standardized = (advantage - counted.mean()) / (counted.std() + 1e-5)
    parts = (data.observation[:-1], data.action, standardized, advantage + value[:-1], data.weight, value[:-1])
    return Samples(*map(rows, parts))


def gradients_of_loss(
    samples: Samples, new: Said, by_policy: np.ndarray, settings: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Add the value loss and the entropy to the gradient of a policy's loss; all are weighted by `share`."""
    share, target = samples.share, samples.value_target
    moved = np.clip(new.value - samples.old_value, -settings.value_clip_range, settings.value_clip_range)
    clipped_error, error = samples.old_value + moved - target, new.value - target
    outside = np.abs(new.value - samples.old_value) > settings.value_clip_range
    slope = np.where(clipped_error**2 > error**2, np.where(outside, 0, clipped_error), error)
    by_entropy = -settings.entropy_cost * share[:, None] * new.distribution.entropy_gradient()
    return by_policy + by_entropy, settings.value_cost * share * slope


def minibatch_rows(key: Any, settings: Any, num_rows: int) -> np.ndarray:
    """The order of the samples is the library's; everything else in the reference is its own."""
    orders = np.asarray(shuffles(jax.random.split(key)[0], settings.num_epochs, num_rows))
    size = num_rows // settings.num_minibatches
    return orders[:, : size * settings.num_minibatches].reshape(-1, size)


class Reference:
    """MCPO, one minibatch after another. The memory is a list of parameter vectors, the newest first."""

    def __init__(self, settings: MCPO, spec: EnvSpec, theta: np.ndarray, phi: np.ndarray) -> None:
        self.settings, self.network = settings, Network(spec, settings.hidden_sizes)
        self.theta, self.phi, self.memory, self.psi = theta, phi, [theta], theta
        self.adam, self.phi_adam = Adam(), Adam()
        self.beta, self.beta_max = np.nan, settings.kl_cost_max
        self.deviation = np.inf
        self.betas: list[float] = []
        self.writes: list[bool] = []

    def update(self, rollout: Rollout, remaining: float, key: Any) -> None:
        samples = samples_of(self.network, self.theta, rollout, self.settings)
        deviation = (samples.value_target - samples.old_value)[samples.weight == 1].std() + 1e-5
        rewarded = bool((np.asarray(rollout.reward) * np.asarray(rollout.weight)).any())
        if rewarded:
            self.deviation = deviation
        samples = samples._replace(advantage=samples.advantage * min(1, deviation / self.deviation))
        self.deviation *= 1 if rewarded else 0.97
        old = self.theta
        for rows in minibatch_rows(key, self.settings, len(samples.weight)):
            self.step(samples.take(rows), old, self.settings.learning_rate * remaining)
        if target := self.settings.kl_cost_max_target:
            target *= max(len(samples.weight) / 8192, 1) ** self.settings.kl_target_growth
            if samples.action.ndim == 2:
                target *= samples.action.shape[1] ** self.settings.kl_target_action_growth
            before, after = (self.network(x, samples.observation).distribution for x in (old, self.theta))
            distance = samples.share @ kl(before, after)
            factor = 2 if distance > 1.5 * target else 0.5 if distance < target / 1.5 and rewarded else 1
            self.beta_max = np.clip(self.beta_max * factor, 0.1, 100)

    def step(self, samples: Samples, theta_old: np.ndarray, learning_rate: float) -> None:
        settings, network, share, A = self.settings, self.network, samples.share, samples.advantage
        old, virtual_old, new = (network(x, samples.observation) for x in (theta_old, self.psi, self.theta))

        def D(a: Said, b: Said) -> float:  # noqa: N802
            return share @ kl(a.distribution, b.distribution)

        def ratio(x: Said) -> np.ndarray:
            log_ratio = x.distribution.log_prob(samples.action) - old.distribution.log_prob(samples.action)
            return np.exp(np.clip(log_ratio, -20, 20))

        trio = (virtual_old, old, new)
        context = [D(new, virtual_old), D(old, virtual_old), D(old, new)]
        context += [share @ (ratio(x) * A) for x in trio]
        context += [share @ x.distribution.entropy() for x in trio]
        context += [share @ (x.value - samples.value_target) ** 2 for x in trio]
        v = np.clip(context, -100, 100)

        hidden_weight, hidden_bias, output_weight, output_bias = self.attention()
        hidden = np.maximum(v @ hidden_weight + hidden_bias, 0)
        size = len(self.memory)
        logits = (hidden @ output_weight + output_bias)[:size]
        w = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        psi = sum(weight * theta for weight, theta in zip(w, self.memory, strict=True))
        virtual = network(psi, samples.observation)

        alpha = 1 / (1 + np.exp(-settings.trust_region_sharpness * (ratio(virtual) - 1) * A))
        each = {"minibatch": True, "epoch": False, "auto": samples.action.ndim == 2}[settings.switch_every]
        if each or self.adam.t % settings.num_minibatches == 0:
            self.beta = self.beta_max if D(old, new) > D(old, virtual) else settings.kl_cost_min
        gain = (ratio(new) * A)[:, None] * new.distribution.log_prob_gradient(samples.action)
        to_old = new.distribution.kl_gradient(old.distribution)
        to_virtual = new.distribution.kl_gradient(virtual.distribution)
        distance = (1 - alpha)[:, None] * to_old + alpha[:, None] * to_virtual
        by_policy = share[:, None] * (self.beta * distance - gain)
        slopes = gradients_of_loss(samples, new, by_policy, settings)
        gradient = network.gradient(self.theta, new, *slopes)

        virtual_gain = (ratio(virtual) * A)[:, None] * virtual.distribution.log_prob_gradient(samples.action)
        by_psi = network.gradient(psi, virtual, -share[:, None] * virtual_gain, np.zeros_like(A))
        by_weight = np.array([by_psi @ theta for theta in self.memory])
        by_logits = np.zeros(settings.memory_size)
        by_logits[:size] = w * (by_weight - w @ by_weight)
        by_hidden = (output_weight @ by_logits) * (hidden > 0)
        pieces = (np.outer(v, by_hidden), by_hidden, np.outer(hidden, by_logits), by_logits)
        phi_gradient = np.concatenate([piece.ravel() for piece in pieces])

        self.theta = self.adam.step(self.theta, gradient, learning_rate, settings.max_gradient_norm)
        self.phi = self.phi_adam.step(self.phi, phi_gradient, learning_rate, settings.max_gradient_norm)
        written = D(network(self.theta, samples.observation), virtual) > D(old, virtual)
        if written:
            self.memory = [self.theta, *self.memory][: settings.memory_size]
        self.psi = psi
        self.betas.append(self.beta)
        self.writes.append(bool(written))

    def attention(self) -> list[np.ndarray]:
        N = self.settings.memory_size
        hidden_weight, hidden_bias, output_weight, output_bias = np.split(self.phi, np.cumsum([12 * N, N, N * N]))
        return [hidden_weight.reshape(12, N), hidden_bias, output_weight.reshape(N, N), output_bias]


class Trained(NamedTuple):
    states: list[MCPOState]
    metrics: list[Metrics]


@lru_cache
def compiled(algorithm: MCPO) -> Any:
    """The update, compiled once for all tests of these settings."""
    return jax.jit(algorithm.update, compiler_options=QUICK_COMPILE)


def rollout_of(actions: str, iteration: int, unrewarded: tuple[int, ...] = ()) -> Rollout:
    """A random rollout, without any reward in the `unrewarded` iterations."""
    rollout = random_rollout(SPECS[actions], HORIZON, NUM_ENVS, seed=iteration)
    return dataclasses.replace(rollout, reward=rollout.reward * (iteration not in unrewarded))


@lru_cache
def trained(
    algorithm: MCPO, actions: str = "discrete", iterations: int = 2, unrewarded: tuple[int, ...] = ()
) -> Trained:
    """The states and metrics of a few updates on random rollouts."""
    spec = SPECS[actions]
    states, metrics = [jax.jit(partial(algorithm.init, spec=spec))(jax.random.key(0))], []
    for i in range(iterations):
        progress = Progress(jnp.array(i), jnp.array(NUM_ITERATIONS))
        rollout = rollout_of(actions, i, unrewarded)
        state, measured = compiled(algorithm)(states[-1], rollout, progress, jax.random.key(i))
        states.append(state)
        metrics.append(jax.device_get(measured))
    return Trained(states, metrics)


def series(run: Trained, name: str) -> np.ndarray:
    """A metric of all updates of a run, one after another."""
    return np.concatenate([measured[name] for measured in run.metrics])


def remembered(state: MCPOState) -> np.ndarray:
    """The policies in the memory, the newest first."""
    memory = state.memory
    slots = [(int(memory.position) - 1 - rank) % memory.capacity for rank in range(int(memory.size))]
    return np.asarray(memory.policies)[slots]


def double(tree: Any) -> np.ndarray:
    return np.asarray(flatten(tree), np.float64)


@pytest.mark.parametrize(
    ("algorithm", "actions", "unrewarded"),
    [
        (SMALL, "discrete", ()),
        (ADAPTIVE_MAXIMUM, "box", ()),
        (ADAPTIVE_MAXIMUM, "box", (1, 2)),
        (SMALL, "box", ()),
        (EACH_MINIBATCH, "discrete", ()),
    ],
)
def test_update_equals_the_reference(algorithm: MCPO, actions: str, unrewarded: tuple[int, ...]) -> None:
    """Two iterations of 2 x 4 minibatches, or three, of which the last two have no reward.

    The library computes in float32, whose rounding (6e-8) Adam carries from step to step, dividing small gradients by
    their own size; 16 or 24 steps of it stay far below 1e-4 of the way travelled unless an equation differs.
    """
    iterations = 2 + len(unrewarded) // 2
    run = trained(algorithm, actions, iterations, unrewarded)
    first, last = run.states[0], run.states[-1]
    reference = Reference(algorithm, SPECS[actions], double(first.policy), double(first.attention))
    for i in range(iterations):
        reference.update(rollout_of(actions, i, unrewarded), 1 - i / NUM_ITERATIONS, jax.random.key(i))

    assert len(set(reference.betas)) == (3 if algorithm is ADAPTIVE_MAXIMUM else 2)
    assert sum(reference.writes) > SMALL.memory_size
    np.testing.assert_array_equal(series(run, "mcpo/beta"), np.float32(reference.betas))
    np.testing.assert_array_equal(series(run, "mcpo/written"), reference.writes)
    pairs = {
        "policy": (last.policy, reference.theta, first.policy),
        "attention": (last.attention, reference.phi, first.attention),
        "virtual": (last.virtual, reference.psi, first.policy),
    }
    for name, (ours, theirs, start) in pairs.items():
        way = np.linalg.norm(theirs - double(start))
        assert np.linalg.norm(double(ours) - theirs) < 1e-4 * way, name
    np.testing.assert_allclose(remembered(last), np.stack(reference.memory), rtol=1e-4, atol=1e-5)


def virtual_and_batch(actions: str) -> tuple[Virtual, Batch]:
    """A first policy as its own virtual policy, and a batch that it collected."""
    policy = trained(SMALL, actions).states[0].policy
    batch_of = jax.jit(partial(make_batch, discount=SMALL.discount, gae_lambda=SMALL.gae_lambda))
    batch = batch_of(policy, random_rollout(SPECS[actions]))
    return Virtual(policy, jax.jit(evaluate)(policy, batch), jnp.array([1.0, 0.0, 0.0])), batch


@both_action_kinds
def test_alpha_is_one_half_where_the_virtual_policy_is_the_old_one(actions: str) -> None:
    # A ratio of 1 is off by its rounding, up to 1e-6, and α by a quarter of that times the sharpness.
    np.testing.assert_allclose(SMALL._alpha(*virtual_and_batch(actions)), 0.5, atol=1e-4)
    assert series(trained(SMALL, actions), "mcpo/alpha")[0] == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize(("sharpness", "expected"), [(1.0, [0.505, 0.4975, 0.495]), (100.0, [0.8808, 0.2689, 0.1192])])
def test_alpha_is_the_sigmoid_of_the_difference_of_returns(sharpness: float, expected: list[float]) -> None:
    """Differences of 0.02, -0.01 and -0.02, by hand: sigmoid(2) = 0.8808, sigmoid(-1) = 0.2689."""
    virtual, batch = virtual_and_batch("discrete")
    ratio = jnp.ones_like(batch.advantage).at[:3].set(jnp.array([1.01, 1.01, 0.98]))
    advantage = batch.advantage.at[:3].set(jnp.array([2.0, -1.0, 1.0]))
    virtual = virtual._replace(evaluation=dataclasses.replace(virtual.evaluation, ratio=ratio))
    algorithm = change(trust_region_sharpness=sharpness)
    alpha = algorithm._alpha(virtual, dataclasses.replace(batch, advantage=advantage))
    np.testing.assert_allclose(alpha[:3], expected, atol=1e-4)


@pytest.mark.parametrize("ratio", [1.5, 4.8e8])
def test_alpha_prefers_the_virtual_policy_where_its_return_is_higher(ratio: float) -> None:
    virtual, batch = virtual_and_batch("discrete")
    likelier = dataclasses.replace(virtual.evaluation, ratio=jnp.full_like(batch.advantage, ratio))
    alpha = SMALL._alpha(virtual._replace(evaluation=likelier), batch)
    np.testing.assert_array_equal(alpha > 0.5, batch.advantage > 0)


def test_a_memory_of_one_does_not_change_attention() -> None:
    run = trained(ONE_POLICY)
    np.testing.assert_array_equal(flatten(run.states[-1].attention), flatten(run.states[0].attention))
    assert series(run, "mcpo/written").sum() > 1


def test_mean_virtual_policy_is_the_mean_of_the_memory() -> None:
    run = trained(MEAN, iterations=4)
    np.testing.assert_array_equal(flatten(run.states[-1].attention), flatten(run.states[0].attention))
    for before, after in pairwise(run.states):
        np.testing.assert_allclose(after.virtual.parameters, remembered(before).mean(axis=0), rtol=1e-5, atol=1e-6)
    assert [int(state.memory.size) for state in run.states] == [1, 2, 3, 3, 3]


def test_full_memory_drops_the_oldest_policy() -> None:
    run = trained(MEAN, iterations=4)
    newest_first = [np.asarray(state.policy.parameters) for state in run.states[::-1]]
    np.testing.assert_array_equal(remembered(run.states[-1]), newest_first[:3])


@pytest.mark.slow
@both_action_kinds
def test_without_virtual_region_the_step_is_a_kl_penalty(actions: str) -> None:
    """Bit for bit, operation by operation; compiled, XLA may fuse the two programs differently."""
    algorithm = change(trust_region_weight=0.0, kl_cost_rule="fixed", kl_cost=0.7, num_epochs=1, num_minibatches=2)
    first, rollout = (
        algorithm.init(jax.random.key(0), SPECS[actions]),
        random_rollout(SPECS[actions], HORIZON, NUM_ENVS),
    )
    progress, key = Progress(jnp.array(0), jnp.array(1)), jax.random.key(0)

    def penalized(new: Evaluation, batch: Batch, remaining: Any) -> Any:
        distance = expectation(batch.old_distribution.kl(new.distribution), batch.weight)
        return surrogate(new.ratio, batch.advantage, batch.weight) - algorithm.kl_cost * distance, {}

    with operation_by_operation(first.policy):
        batch = make_batch(first.policy, rollout, algorithm.discount, algorithm.gae_lambda)
        plain, _ = improve(algorithm, penalized, first.learner, batch, progress, key)
        last, _ = algorithm.update(first, rollout, progress, key)
    np.testing.assert_array_equal(flatten(last.learner), flatten(plain))


def test_interval_writes_at_its_interval() -> None:
    run = trained(SCHEDULED, iterations=NUM_ITERATIONS)
    np.testing.assert_array_equal(np.flatnonzero(series(run, "mcpo/written")) + 1, np.arange(3, 33, 3))
    np.testing.assert_array_equal(sorted(run.states[-1].memory.written_at), [24, 27, 30])


@both_action_kinds
def test_diversity_writes_policies_farther_from_the_virtual_policy_than_the_old_one(actions: str) -> None:
    run = trained(SMALL, actions)
    farther = series(run, "mcpo/kl_new_virtual") > series(run, "mcpo/kl_old_virtual")
    np.testing.assert_array_equal(series(run, "mcpo/written"), farther)
    assert 0 < farther.sum() < farther.size


@pytest.mark.parametrize("ties", [True, False])
def test_equal_distance_is_written_only_with_ties(ties: bool) -> None:
    """The distances are made by hand: two computations of one distance need not round alike."""
    algorithm = change(write_ties=ties)
    one, more = jnp.float32(0.25), jnp.nextafter(jnp.float32(0.25), jnp.float32(1))
    count = jnp.array(1)
    assert bool(algorithm._should_write(one, one, count)) == ties
    assert bool(algorithm._should_write(more, one, count))
    assert not bool(algorithm._should_write(one, more, count))


def test_annealed_cost_falls_from_one_with_the_updates() -> None:
    beta = series(trained(SCHEDULED, iterations=NUM_ITERATIONS), "mcpo/beta")
    np.testing.assert_allclose(beta, 1 - np.arange(32) / 32, atol=1e-6)


def test_the_fraction_of_updates_left_does_not_overflow_in_long_runs() -> None:
    settings, progress = (
        replace(SCHEDULED, num_epochs=10, num_minibatches=64),
        Progress(jnp.int32(0), jnp.int32(4_000_000)),
    )
    left = fraction_of_updates_left(settings, jnp.int32(1_920_000_000), progress)
    assert float(left) == pytest.approx(0.25, abs=1e-6)


@pytest.mark.parametrize(("algorithm", "factor"), [(ONE_POLICY, 0.5), (MANY_POLICIES, 2.0)])
def test_adaptive_cost_approaches_the_target(algorithm: MCPO, factor: float) -> None:
    run = trained(algorithm)
    np.testing.assert_array_equal(series(run, "mcpo/beta"), np.repeat([1, factor], 8))
    assert float(run.states[-1].kl_cost) == factor**2


@pytest.mark.parametrize(
    ("every", "actions", "size", "count", "expected"),
    [
        ("epoch", "box", 2048, 0, 10),
        ("epoch", "box", 2048, 3, 7),
        ("epoch", "discrete", 2048, 4, 10),
        ("minibatch", "discrete", 1, 3, 10),
        ("minibatch", "discrete", 1, 4, 10),
        ("auto", "discrete", 1023, 3, 7),
        ("auto", "discrete", 1023, 4, 10),
        ("auto", "discrete", 1024, 3, 10),
        ("auto", "box", 1, 3, 10),
    ],
)
def test_beta_switches_at_the_right_minibatches(
    every: str, actions: str, size: int, count: int, expected: float
) -> None:
    """Four minibatches an epoch: updates 0 and 4 start one. β was 7 before; outside the radius it becomes β_max."""
    algorithm = change(switch_every=every)
    state = eqx.tree_at(lambda s: s.learner.adam.count, trained(SMALL).states[0], jnp.int32(count))
    _, batch = virtual_and_batch(actions)
    batch = eqx.tree_at(lambda b: b.weight, batch, jnp.ones(size))
    outside, inside = (float(algorithm._switch_beta(state, jnp.float32(7), jnp.array(x), batch)) for x in (True, False))
    assert outside == expected
    assert inside == pytest.approx(0.01 if expected == 10 else 7)


def test_a_single_epoch_decides_beta_at_every_minibatch() -> None:
    algorithm = change(switch_every="auto", num_epochs=1)
    state = eqx.tree_at(lambda s: s.learner.adam.count, trained(SMALL).states[0], jnp.int32(3))
    _, batch = virtual_and_batch("discrete")
    assert float(algorithm._switch_beta(state, jnp.float32(7), jnp.array(True), batch)) == 10
    held = change(switch_every="epoch", num_epochs=1)
    assert float(held._switch_beta(state, jnp.float32(7), jnp.array(True), batch)) == 7


@pytest.mark.parametrize(
    ("target", "before", "after"), [(1e6, 10, 5), (1e-9, 10, 20), (1e6, 0.1, 0.1), (1e-9, 100, 100)]
)
def test_beta_max_adapts_to_the_divergence(target: float, before: float, after: float) -> None:
    """It halves after small steps and doubles after large ones, between 0.1 and 100, and β switches to it."""
    algorithm = change(kl_cost_max_target=target)
    state, rollout = trained(SMALL).states[0], random_rollout(SPECS["discrete"], HORIZON, NUM_ENVS, seed=0)
    state = eqx.tree_at(lambda s: s.kl_cost, state, jnp.float32(before))
    progress = Progress(jnp.array(0), jnp.array(NUM_ITERATIONS))
    state, metrics = compiled(algorithm)(state, rollout, progress, jax.random.key(0))
    assert float(state.kl_cost) == pytest.approx(after)
    assert float(metrics["mcpo/beta_max"]) == pytest.approx(before)
    assert float(metrics["mcpo/beta"].max()) == pytest.approx(before)


@pytest.mark.parametrize(
    ("initial", "low", "bounds"),
    [(10.0, 0.01, (0.1, 100)), (0.02, 0.01, (0.02, 100)), (1000.0, 0.01, (0.1, 1000)), (10.0, 1.0, (1, 100))],
)
def test_the_bounds_of_beta_max_contain_its_initial_value_and_not_less_than_beta_min(
    initial: float, low: float, bounds: tuple[float, float]
) -> None:
    assert limits_of(low, initial) == pytest.approx(bounds)


@pytest.mark.parametrize(
    ("batch_size", "growth", "expected"),
    [(8192, 1.0, 0.01), (32768, 1.0, 0.04), (2048, 1.0, 0.01), (32768, 0.5, 0.02), (32768, 0.0, 0.01)],
)
def test_the_kl_target_grows_with_the_batch(batch_size: int, growth: float, expected: float) -> None:
    """0.01 · max(batch_size / 8,192, 1)^growth."""
    _, batch = virtual_and_batch("discrete")
    batch = eqx.tree_at(lambda b: b.weight, batch, jnp.ones(batch_size))
    assert float(kl_target_of(batch, 0.01, growth, 0.5)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("actions", "growth", "expected"), [("box", 0.5, 0.01 * 2**0.5), ("box", 1.0, 0.02), ("discrete", 1.0, 0.01)]
)
def test_the_kl_target_grows_with_the_number_of_box_actions(actions: str, growth: float, expected: float) -> None:
    """0.01 · d^growth for d = 2 real numbers; discrete actions count as one."""
    _, batch = virtual_and_batch(actions)
    assert float(kl_target_of(batch, 0.01, 1.0, growth)) == pytest.approx(expected)


@both_action_kinds
def test_beta_is_held_for_an_epoch_with_discrete_actions(actions: str) -> None:
    run = trained(SMALL, actions)
    beta = series(run, "mcpo/beta").reshape(-1, SMALL.num_minibatches)
    outside = (series(run, "mcpo/kl_old_new") > series(run, "mcpo/kl_old_virtual")).reshape(beta.shape)
    decisive = outside if actions == "box" else np.broadcast_to(outside[:, :1], beta.shape)
    np.testing.assert_array_equal(beta, np.where(decisive, SMALL.kl_cost_max, np.float32(SMALL.kl_cost_min)))
    assert len(np.unique(beta)) == 2


def test_a_seed_gives_all_algorithms_the_same_initial_policy() -> None:
    methods = [ALGORITHMS[name](hidden_sizes=(4,)) for name in ("mcpo", "ppo", "vmpo", "trpo", "acktr")]

    @jax.jit
    def policies(key: Any) -> Any:
        return [[method.init(key, spec).policy.parameters for method in methods] for spec in SPECS.values()]

    for first, *others in policies(jax.random.key(3)):
        for other in others:
            np.testing.assert_array_equal(other, first)


@both_action_kinds
def test_first_minibatch_of_an_iteration_has_the_small_cost(actions: str) -> None:
    run = trained(SMALL, actions)
    assert [measured["mcpo/beta"][0] for measured in run.metrics] == [np.float32(SMALL.kl_cost_min)] * 2
    assert series(run, "mcpo/beta").max() == SMALL.kl_cost_max


def test_half_of_the_features_are_distances_and_returns() -> None:
    half, last = change(context_features="half"), trained(SMALL).states[-1]
    _, batch = virtual_and_batch("discrete")
    new, virtual = evaluate(last.policy, batch), evaluate(last.virtual, batch)
    some, every = (context_of(new, virtual, batch, which).features for which in ("half", "all"))
    np.testing.assert_allclose(some, every[:6], rtol=1e-5, atol=1e-7)
    state = jax.eval_shape(partial(half.init, spec=SPECS["discrete"]), jax.random.key(0))
    assert state.attention.hidden_layer.shape == (6 + 1, 3)


@both_action_kinds
def test_metrics_are_finite_and_within_their_bounds(actions: str) -> None:
    run = trained(SMALL, actions)
    for name in run.metrics[0]:
        values = np.ravel([measured[name] for measured in run.metrics])
        assert np.isfinite(values).all(), name
    assert ((series(run, "mcpo/alpha") > 0) & (series(run, "mcpo/alpha") < 1)).all()
    for name in ("kl_old_new", "kl_old_virtual", "kl_new_virtual"):
        assert series(run, f"mcpo/{name}").min() > -1e-7
    before = np.minimum(1 + np.cumsum(series(run, "mcpo/written")) - series(run, "mcpo/written"), SMALL.memory_size)
    entropy, rank, age = (
        series(run, f"mcpo/{name}") for name in ("attention_entropy", "attended_rank", "attended_age")
    )
    np.testing.assert_array_equal(series(run, "mcpo/memory_filled"), before)
    assert (entropy <= np.log(before) + 1e-6).all()
    assert (rank < before).all()
    assert ((age >= 0) & (age < np.arange(1, 17))).all()
    assert series(run, "mcpo/kl_old_new")[[0, 8]] == pytest.approx(0, abs=1e-7)
    np.testing.assert_allclose(series(run, "train/approx_kl"), series(run, "mcpo/kl_old_new"), atol=1e-6)


def test_attention_weights_are_zero_on_empty_ranks() -> None:
    attention = Attention.init(jax.random.key(0), num_features=12, memory_size=8)
    weights = attention(jnp.ones(12), jnp.arange(8) < 3, jnp.ones(8))
    np.testing.assert_array_equal(weights[3:], 0)
    assert float(weights.sum()) == pytest.approx(1)


def test_a_memory_of_a_thousand_works() -> None:
    state = trained(MANY_POLICIES).states[-1]
    assert int(state.memory.size) == 17
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state))
    np.testing.assert_array_equal(remembered(state)[0], state.policy.parameters)


def test_an_update_with_a_non_finite_gradient_is_not_written() -> None:
    rollout = random_rollout(SPECS["discrete"], HORIZON, NUM_ENVS, seed=0)
    broken = dataclasses.replace(rollout, reward=jnp.full_like(rollout.reward, jnp.nan))
    before = trained(SCHEDULED, iterations=NUM_ITERATIONS).states[0]
    progress = Progress(jnp.array(0), jnp.array(NUM_ITERATIONS))
    after, _ = compiled(SCHEDULED)(before, broken, progress, jax.random.key(0))
    np.testing.assert_array_equal(after.memory.policies, before.memory.policies)


def test_the_memory_is_written_in_place_also_in_unrolled_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trustax.ops.minibatches.unroll_steps", lambda on_cpu, on_gpu: on_gpu)
    algorithm = change(num_minibatches=8, memory_size=7)
    state = jax.eval_shape(partial(algorithm.init, spec=SPECS["discrete"]), jax.random.key(0))
    rollout = random_rollout(SPECS["discrete"], HORIZON, NUM_ENVS, seed=0)
    arguments = state, rollout, Progress(jnp.array(0), jnp.array(NUM_ITERATIONS)), jax.random.key(0)
    program = jax.jit(algorithm.update, donate_argnums=0).lower(*arguments).compile().as_text()
    loops, _ = program.split("\nENTRY ")
    rows, columns = state.memory.policies.shape
    assert f"f32[{rows},{columns}]" in loops
    assert not [line for line in loops.splitlines() if f" = f32[{rows},{columns}]{{1,0}} copy(" in line]
