"""The parts of an iteration in isolation, on arrays of the real shapes, with their operation and byte counts.

`benchmarks/breakdown.py` times them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp

import trustax as tx
from trustax.algorithms.batch import make_batch
from trustax.algorithms.mcpo.attention import Attention
from trustax.algorithms.mcpo.memory import PolicyMemory
from trustax.networks import Architecture, Policy
from trustax.ops.adam import adam_init, adam_step
from trustax.ops.minibatches import over_minibatches
from trustax.types import Rollout

NUM_ENVS, HORIZON, NUM_EPOCHS, NUM_MINIBATCHES = 4, 2048, 10, 64
NUM_UPDATES = NUM_EPOCHS * NUM_MINIBATCHES
TINY = 1e-20
"""Each repetition adds its result times this to the next input, so that the compiler cannot remove it."""


@dataclass(frozen=True)
class Part:
    """A part of an iteration: a function from carry to carry, and the work that it needs at least."""

    name: str
    times: int
    """calls per iteration"""
    carry: Any
    step: Callable[[Any], Any]
    operations: float
    num_bytes: float


class Work:
    """The number of floating-point operations of a network's matrix products."""

    def __init__(self, architecture: Architecture) -> None:
        spec, hidden = architecture.spec, architecture.hidden_sizes
        self.first = spec.observation_size * hidden[0]
        self.actor, self.critic = (
            sum(into * out for into, out in pairwise((spec.observation_size, *hidden, outputs)))
            for outputs in (spec.actions.num_outputs, 1)
        )

    def forward(self, samples: int, critic: bool = True) -> float:
        return 2 * samples * (self.actor + critic * self.critic)

    def backward(self, samples: int, critic: bool = True) -> float:
        """The gradients of all weights and of all inputs except the observations."""
        return 2 * self.forward(samples, critic) - 2 * samples * self.first * (1 + critic)


def bytes_of(*trees: Any) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(trees))


def rollout_of(spec: tx.EnvSpec) -> Rollout:
    """A rollout of random numbers."""
    keys = jax.random.split(jax.random.key(0), 3)
    shape = (HORIZON, NUM_ENVS)
    return Rollout(
        observation=jax.random.normal(keys[0], (HORIZON + 1, NUM_ENVS, *spec.observation_shape)),
        action=jax.random.normal(keys[1], (*shape, *spec.actions.shape)),
        reward=jax.random.normal(keys[2], shape),
        terminated=jnp.zeros(shape, bool),
        truncated=jnp.zeros(shape, bool),
        weight=jnp.ones(shape),
    )


def loss_of(policy: Policy, minibatch: Any, clipped: bool) -> Callable[[Any], Any]:
    """The loss of PPO or MCPO in θ on one minibatch; MCPO has one of its two trust regions, which cost the same."""

    def loss(parameters: Any) -> Any:
        distribution, value = Policy(parameters, policy.architecture).batch(minibatch.observation)
        ratio = jnp.exp(distribution.log_prob(minibatch.action) - minibatch.old_log_prob)
        gain = ratio * minibatch.advantage
        if clipped:
            gain = jnp.minimum(gain, jnp.clip(ratio, 0.8, 1.2) * minibatch.advantage)
        else:
            gain -= minibatch.old_distribution.kl(distribution)
        return jnp.mean(0.5 * (value - minibatch.value_target) ** 2 - gain)

    return loss


def parts_of(spec: tx.EnvSpec, memory_size: int | None) -> list[Part]:
    """The parts of an MCPO iteration with this memory size, or of a PPO iteration if it is None."""
    policy = jax.jit(Architecture(spec).init)(jax.random.key(0))
    rollout = rollout_of(spec)
    batch = jax.jit(partial(make_batch, discount=0.99, gae_lambda=0.95))(policy, rollout)
    minibatch = jax.tree.map(lambda x: x[: NUM_ENVS * HORIZON // NUM_MINIBATCHES], batch)
    parts = [*batch_parts(policy, rollout, batch), *learner_parts(policy, minibatch, clipped=memory_size is None)]
    return parts if memory_size is None else parts + mcpo_parts(policy, minibatch, memory_size)


def batch_parts(policy: Policy, rollout: Rollout, batch: Any) -> list[Part]:
    """The parts that run once per iteration, between rollout and updates."""
    num_samples = (HORIZON + 1) * NUM_ENVS

    def estimate(parameters: Any) -> Any:
        made = make_batch(Policy(parameters, policy.architecture), rollout, discount=0.99, gae_lambda=0.95)
        return parameters + TINY * sum(jnp.sum(leaf) for leaf in jax.tree.leaves(made))

    def gather(total: Any) -> Any:
        def touch(total: Any, minibatch: Any, _: Any) -> Any:
            total += sum(jnp.sum(leaf) for leaf in jax.tree.leaves(minibatch))
            return total, {"total": total}

        key = jax.random.key(jax.lax.bitcast_convert_type(total, jnp.int32))
        return over_minibatches(touch, total, batch, key, NUM_EPOCHS, NUM_MINIBATCHES)[0]

    work = Work(policy.architecture).forward(num_samples)
    return [
        Part("advantages and batch", 1, policy.parameters, estimate, work, bytes_of(rollout, batch)),
        Part("shuffle and gather minibatches", 1, jnp.zeros(()), gather, 0, 2 * NUM_EPOCHS * bytes_of(batch)),
    ]


def learner_parts(policy: Policy, minibatch: Any, clipped: bool) -> list[Part]:
    """The parts of an update that every first-order method has."""
    theta, size, work = policy.parameters, minibatch.advantage.shape[0], Work(policy.architecture)
    gradient_of = jax.grad(loss_of(policy, minibatch, clipped))

    def learn(parameters: Any) -> Any:
        return parameters - TINY * gradient_of(parameters)

    operations = work.forward(size) + work.backward(size)
    moved = 2 * theta.nbytes + bytes_of(minibatch)
    return [
        Part("θ forward and backward", NUM_UPDATES, theta, learn, operations, moved),
        Part("Adam of θ", NUM_UPDATES, (policy, adam_init(policy)), adam, 0, 7 * theta.nbytes),
    ]


def adam(carry: Any) -> Any:
    """A step of Adam with a varying gradient, so that the compiler cannot hoist it out of the loop."""
    parameters, state = carry
    return adam_step(parameters, jax.tree.map(lambda x: 1e-3 * x, parameters), state, 3e-4, 0.5)[:2]


def mcpo_parts(policy: Policy, minibatch: Any, memory_size: int) -> list[Part]:
    """The parts that MCPO adds: the virtual policy, the forward pass after the step, and the memory."""
    theta, architecture, work = policy.parameters, policy.architecture, Work(policy.architecture)
    size, seen = minibatch.advantage.shape[0], bytes_of(minibatch)
    memory = PolicyMemory.init(memory_size, theta)
    attention = Attention.init(jax.random.key(1), 12, memory_size)
    context, dropout_mask = jnp.linspace(-1.0, 1.0, 12), jnp.ones(memory_size)

    def evaluate(parameters: Any) -> Any:
        distribution, value = Policy(parameters, architecture).batch(minibatch.observation)
        total = jnp.sum(distribution.log_prob(minibatch.action)) + jnp.sum(value)
        return parameters + TINY * total

    def forward_after_step(parameters: Any) -> Any:
        distribution, _ = Policy(parameters, architecture).batch(minibatch.observation)
        return parameters + TINY * jnp.sum(distribution.kl(minibatch.old_distribution))

    def mix(attention: Attention) -> Attention:
        def loss_of(attention: Attention) -> Any:
            mixed = Policy(memory.mix(attention(context, memory.filled, dropout_mask)), architecture)
            distribution, _ = mixed.batch(minibatch.observation)
            ratio = jnp.exp(distribution.log_prob(minibatch.action) - minibatch.old_log_prob)
            return -jnp.mean(ratio * minibatch.advantage)

        return jax.tree.map(lambda x, g: x - TINY * g, attention, jax.grad(loss_of)(attention))

    def write(memory: PolicyMemory) -> PolicyMemory:
        return memory.write(theta, memory.position, memory.position >= 0)

    mixing = work.forward(size, critic=False) + work.backward(size, critic=False) + 4 * memory.policies.size
    adam_carry = (attention, adam_init(attention))
    return [
        Part("ψ_old forward", NUM_UPDATES, theta, evaluate, work.forward(size), theta.nbytes + seen),
        Part("ψ mix, forward, backward", NUM_UPDATES, attention, mix, mixing, 2 * memory.policies.nbytes + seen),
        Part(
            "θ forward after the step",
            NUM_UPDATES,
            theta,
            forward_after_step,
            work.forward(size, False),
            theta.nbytes + seen,
        ),
        Part("Adam of φ", NUM_UPDATES, adam_carry, adam, 0, 7 * bytes_of(attention)),
        Part("memory write", NUM_UPDATES, memory, write, 0, 2 * theta.nbytes),
    ]
