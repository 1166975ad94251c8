"""MCPO whose choices are numbers in its state, so that readings are mapped over learners like seeds."""

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from rounds import Reading

from trustax.algorithms.batch import Batch, Evaluation, evaluate, make_batch
from trustax.algorithms.first_order import ascend, batch_metrics
from trustax.algorithms.mcpo.attention import dropout_masks
from trustax.algorithms.mcpo.context import context_of
from trustax.algorithms.mcpo.mcpo import MCPO
from trustax.algorithms.mcpo.state import MCPOState
from trustax.ops.adam import adam_step
from trustax.ops.minibatches import over_minibatches
from trustax.ops.objectives import clipped_gain, expectations, mean_kl, standardize
from trustax.types import Progress, Rollout


class ReadingState(MCPOState):
    """The state of MCPO, where `kl_cost` is β, with an adaptive β_max, the scale of advantages and the reading."""

    kl_cost_max: Float[Array, ""]
    scale: Float[Array, ""]
    reading: Reading

    @classmethod
    def start(cls, state: MCPOState, reading: Reading) -> "ReadingState":
        """The initial state of MCPO with a reading."""
        own = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
        return cls(
            **own | {"advantage_precision": None},
            kl_cost_max=jnp.asarray(reading.kl_cost_max),
            scale=jnp.where(jnp.asarray(reading.unrewarded) > 0, jnp.inf, 0.0),
            reading=reading,
        )


class Signal(NamedTuple):
    """The size of the advantages of a rollout before they are standardized."""

    spread: Float[Array, ""]
    """the standard deviation of the advantages"""
    scale: Float[Array, ""]
    """the divisor of the advantages where it is larger than the spread"""
    is_weak: Bool[Array, ""]
    """whether rewards are too rare in the rollout to lower β_max because of it"""


@dataclass(frozen=True, kw_only=True)
class Readings(MCPO):
    """MCPO whose choices are numbers in its state."""

    def update(self, state: Any, rollout: Rollout, progress: Progress, key: Any) -> Any:
        reading = state.reading
        batch = make_batch(state.policy, rollout, self.discount, self.gae_lambda)
        signal = _signal_of(batch, rollout, state)
        share = signal.spread / jnp.maximum(jnp.maximum(signal.scale, signal.spread), reading.floor + 1e-8)
        batch = dataclasses.replace(batch, advantage=share * batch.advantage)

        def step(carry: Any, minibatch: Batch, kept: Any) -> Any:
            state, wanted = carry
            return self._step(state.write_policy(wanted), minibatch, progress, kept)

        draw = partial(dropout_masks, size=self.memory_size, rate=self.dropout)
        (state, wanted), metrics = over_minibatches(
            step, (state, jnp.zeros((), bool)), batch, key, self.num_epochs, self.num_minibatches, draw
        )
        state = state.write_policy(wanted)
        kl = mean_kl(batch.old_distribution, evaluate(state.policy, batch).distribution, batch.weight)
        maximum = _adapted_maximum(state, kl, signal.is_weak)
        state = eqx.tree_at(lambda s: (s.kl_cost_max, s.scale), state, (maximum, signal.scale))
        return state, metrics | batch_metrics(self, batch, progress) | {
            "mcpo/cap": maximum,
            "mcpo/spread": signal.spread,
        }

    def _step(self, state: Any, batch: Batch, progress: Progress, kept: Any) -> Any:
        reading = state.reading
        each = standardize(batch.advantage, batch.weight)
        advantage = jnp.where(reading.minibatch_advantages > 0, each, batch.advantage)
        batch = dataclasses.replace(batch, advantage=advantage)
        old, weight = batch.old_distribution, batch.weight
        new = evaluate(state.policy, batch)
        context = context_of(new, evaluate(state.virtual, batch), batch, self.context_features).features
        virtual, attention_gradient = self._mix(state, context, batch, kept)
        difference = (virtual.evaluation.ratio - 1) * advantage
        (square,) = expectations([difference**2], weight)
        difference = difference / jnp.where(reading.relative > 0, jnp.sqrt(square) + 1e-8, 1.0)
        alpha = jax.nn.sigmoid(reading.sharpness * difference)
        old_to_new, old_to_virtual, mean_alpha = expectations(
            [*(_distance(reading.switch, old, other.distribution, batch.action) for other in (new, virtual)), alpha],
            weight,
        )
        outside = old_to_new > old_to_virtual
        grown = jnp.minimum(state.kl_cost * reading.growth, state.kl_cost_max)
        upper = jnp.where(reading.growth > 0, grown, state.kl_cost_max)
        switched = jnp.where(outside, upper, self.kl_cost_min)
        held = jnp.clip(reading.hold // weight.size, 1, self.num_minibatches).astype(jnp.int32)
        held = jnp.where(reading.each_minibatch > 0, 1, jnp.where(reading.hold > 0, held, self.num_minibatches))
        decides = state.num_updates % held == 0
        kl_cost = jnp.where(decides, switched, state.kl_cost)

        def objective(new: Evaluation, batch: Batch, remaining: Any) -> Any:
            to_old = _distance(reading.penalty, batch.old_distribution, new.distribution, batch.action)
            to_virtual = _distance(reading.penalty, virtual.distribution, new.distribution, batch.action)
            gain = new.ratio * batch.advantage - kl_cost * ((1 - alpha) * to_old + alpha * to_virtual)
            clipped = clipped_gain(new.ratio, batch.advantage, 1 - reading.clip, 1 + reading.clip)
            gain = gain / jnp.where(reading.normalized > 0, 1 + kl_cost, 1.0)
            return jnp.where(reading.clip > 0, clipped, gain), {"mcpo/beta": kl_cost}

        learner, metrics = ascend(self, objective, state.learner, batch, progress)
        attention, attention_adam, norm = adam_step(
            state.attention,
            attention_gradient,
            state.attention_adam,
            self.learning_rate_at(progress),
            self.max_gradient_norm,
        )
        new_to_virtual = mean_kl(evaluate(learner.policy, batch).distribution, virtual.distribution, weight)
        wanted = (new_to_virtual > mean_kl(old, virtual.distribution, weight)) & jnp.isfinite(norm)
        metrics |= {
            "mcpo/alpha": mean_alpha,
            "mcpo/kl_old_new": mean_kl(old, new.distribution, weight),
            "mcpo/kl_old_virtual": mean_kl(old, virtual.distribution, weight),
        }
        state = dataclasses.replace(
            state,
            learner=learner,
            attention=attention,
            attention_adam=attention_adam,
            virtual=virtual.policy,
            kl_cost=kl_cost,
        )
        return (state, wanted), metrics


def _signal_of(batch: Batch, rollout: Rollout, state: ReadingState) -> Signal:
    reading = state.reading
    raw = batch.value_target - batch.old_value
    mean, square = expectations([raw, raw**2], batch.weight)
    spread = jnp.sqrt(jnp.maximum(square - mean**2, 0.0))
    rewarded = jnp.any(rollout.reward != 0) | (reading.unrewarded == 0)
    decayed = jnp.where(reading.scale_decay > 0, reading.scale_decay * state.scale, 0.0)
    scale = jnp.where(rewarded, jnp.maximum(spread, decayed), reading.unrewarded * state.scale)
    is_weak = (spread < reading.floor) | ~rewarded | ((reading.scale_decay > 0) & (spread < 0.5 * scale))
    return Signal(spread, scale, is_weak)


def _adapted_maximum(state: ReadingState, kl: Float[Array, ""], is_weak: Bool[Array, ""]) -> Float[Array, ""]:
    """β_max of the next iteration."""
    reading = state.reading
    change = jnp.where(kl > 1.5 * reading.cap_target, 2.0, jnp.where(kl < reading.cap_target / 1.5, 0.5, 1.0))
    root = jnp.clip(jnp.sqrt(kl / reading.cap_target), 0.1, 10.0)
    change = jnp.where(reading.root > 0, root, change)
    change = jnp.where(is_weak, jnp.maximum(change, 1.0), change)
    adapted = jnp.clip(state.kl_cost_max * change, reading.cap_min, 100.0)
    return jnp.where(reading.cap_target > 0, adapted, state.kl_cost_max)


def _distance(weights: Any, p: Any, q: Any, action: Any) -> Array:
    """KL(p‖q), exact or estimated from the taken actions: EXACT, K1, K2 and K3 of rounds.py are the weights."""
    log_ratio = q.log_prob(action) - p.log_prob(action)
    k3 = jnp.expm1(jnp.clip(log_ratio, -20, 20)) - log_ratio
    rows = p.kl(q), -log_ratio, 0.5 * log_ratio**2, k3
    return sum(weight * row for weight, row in zip(weights, rows, strict=True))
