"""Memory-Constrained Policy Optimization.

    maximize over θ   Ê[τ(θ) A] - β Ê[(1-αₜ) KL(π_old‖π_θ) + αₜ KL(π_ψ‖π_θ)]          (Eq. 3)
    maximize over φ   Ê[τ(ψ) A]   with   ψ = Σⱼ f_φ(v)ⱼ θⱼ                             (Eqs. 5, 1)

The new policy is held by two trust regions: that of the policy which collected the data, and that of a *virtual
policy* ψ, which a learned attention mixes from a memory of past policies. Where ψ promises more than the old policy,
α gives its region more weight; when the new policy is farther from the old one than ψ is, β pulls hard.

Le, George, Abdolshah, Nguyen, Do, Gupta, Venkatesh: Learning to Constrain Policy Optimization with Virtual Trust
Region. NeurIPS 2022. arXiv:2204.09315. What the paper leaves open, and how it is settled here: docs/fidelity.md.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Bool, Float, Int, Key

from trustax.algorithms.base import (
    Batch,
    Evaluation,
    FirstOrder,
    ascend,
    batch_metrics,
    evaluate,
    make_batch,
)
from trustax.attention import Attention, dropout_mask
from trustax.memory import PolicyMemory
from trustax.minimize import AdamState, adam_init, adam_step, over_minibatches
from trustax.networks import Architecture, Policy
from trustax.objectives import adapt_kl_cost, expectation, squared_error, surrogate
from trustax.types import EnvSpec, Metrics, Progress, Rollout

CONTEXT_LIMIT = 100.0
"""The context is clipped to ± this, so that one wild feature cannot blind the attention."""


class MCPOState(eqx.Module):
    policy: Policy
    """θ, actor and critic"""
    adam: AdamState
    attention: Attention
    """φ"""
    attention_adam: AdamState
    memory: PolicyMemory
    virtual: Policy
    """ψ of the last update: ψ_old of the next"""
    kl_cost: Float[Array, ""]
    """β, where it adapts from iteration to iteration"""
    num_updates: Int[Array, ""]


class Virtual(NamedTuple):
    """The virtual policy of one update."""

    policy: Policy
    evaluation: Evaluation
    attention: Float[Array, "rank"]


@dataclass(frozen=True, kw_only=True)
class MCPO(FirstOrder):
    """Memory-Constrained Policy Optimization (Le et al. 2022)."""

    memory_size: int = 10
    """How many past policies are remembered (N)."""
    virtual_policy: Literal["attention", "mean"] = "attention"
    """How the virtual policy is mixed from the memory: by learned attention, or as its plain mean ("Mean ψ")."""
    trust_region_weight: Literal["adaptive"] | float = "adaptive"
    """α, the weight of the virtual trust region against the old policy's: per sample, or a constant in [0, 1]."""
    kl_cost_rule: Literal["switching", "annealed", "adaptive", "fixed"] = "switching"
    """β, the weight of both regions: the paper's switch, 1 falling to 0, a target for the KL, or constant."""
    kl_cost_min: float = 0.01
    """β while the new policy is nearer to the old one than the virtual policy is (switching)."""
    kl_cost_max: float = 10.0
    """β once it is farther away (switching)."""
    kl_cost: float = 1.0
    """β (fixed), or where it starts (adaptive)."""
    kl_target: float = 0.03
    """The KL divergence of old and new policy that β steers to (adaptive)."""
    write_rule: Literal["diversity", "interval"] = "diversity"
    """Remember a policy when it is farther from the virtual policy than the old one is, or at an interval."""
    write_interval: int = 10
    """Updates between two writes (interval)."""
    write_ties: bool = False
    """Also write at equal distance, as in Eq. 2; Algorithm 1 does not."""
    context_features: Literal["all", "half"] = "all"
    """What attention sees: all 12 features, or only distances and returns."""
    dropout: float = 0.5
    """Dropout rate of the attention network while training."""

    def init(self, key: Key[Array, ""], spec: EnvSpec) -> MCPOState:
        policy_key, attention_key = jax.random.split(key)
        policy = Architecture(spec, self.hidden_sizes).init(policy_key)
        num_features = 12 if self.context_features == "all" else 6
        attention = Attention.init(attention_key, num_features, self.memory_size)
        return MCPOState(
            policy=policy,
            adam=adam_init(policy),
            attention=attention,
            attention_adam=adam_init(attention),
            memory=PolicyMemory.init(self.memory_size, policy.parameters),
            virtual=policy,
            kl_cost=jnp.array(self.kl_cost, jnp.float32),
            num_updates=jnp.zeros((), jnp.int32),
        )

    def update(
        self, state: MCPOState, rollout: Rollout, progress: Progress, key: Key[Array, ""]
    ) -> tuple[MCPOState, Metrics]:
        """Algorithm 1, lines 4 to 13."""
        batch = make_batch(state.policy, rollout, self.discount, self.gae_lambda)
        learning_rate = self.learning_rate_at(progress)
        num_updates = self.num_epochs * self.num_minibatches * progress.num_iterations

        def step(state: MCPOState, minibatch: Batch, key: Key[Array, ""]) -> tuple[MCPOState, Metrics]:
            remaining = 1 - state.num_updates / num_updates
            return self._step(state, minibatch, learning_rate, remaining, key)

        state, metrics = over_minibatches(step, state, batch, key, self.num_epochs, self.num_minibatches)
        if self.kl_cost_rule == "adaptive":
            kl = expectation(batch.old_distribution.kl(evaluate(state.policy, batch).distribution), batch.weight)
            state = eqx.tree_at(lambda s: s.kl_cost, state, adapt_kl_cost(state.kl_cost, kl, self.kl_target))
        return state, metrics | batch_metrics(batch, learning_rate)

    def _step(
        self,
        state: MCPOState,
        batch: Batch,
        learning_rate: Float[Array, ""],
        remaining: Float[Array, ""],
        key: Key[Array, ""],
    ) -> tuple[MCPOState, Metrics]:
        """One minibatch: mix ψ, step θ and φ, write the memory."""
        new = evaluate(state.policy, batch)
        context = self._context(new, evaluate(state.virtual, batch), batch)
        virtual, attention_gradient = self._virtual_policy(state, context, batch, key)

        old_to_new = expectation(batch.old_distribution.kl(new.distribution), batch.weight)
        old_to_virtual = expectation(batch.old_distribution.kl(virtual.evaluation.distribution), batch.weight)
        alpha = self._alpha(virtual.evaluation, batch)
        beta = self._beta(state, old_to_new > old_to_virtual, remaining)

        def objective(new: Evaluation) -> tuple[Float[Array, ""], Metrics]:
            distance = self._distance(alpha, batch, virtual.evaluation, new)
            gain = surrogate(new.ratio, batch.advantage, batch.weight)
            return gain - beta * expectation(distance, batch.weight), {}  # Eq. 3

        policy, adam, metrics = ascend(self, objective, state.policy, state.adam, batch, learning_rate)
        attention, attention_adam, _ = adam_step(
            state.attention, attention_gradient, state.attention_adam, learning_rate, self.max_gradient_norm
        )
        new_to_virtual = expectation(
            evaluate(policy, batch).distribution.kl(virtual.evaluation.distribution), batch.weight
        )
        num_updates = state.num_updates + 1
        wanted = self._worth_writing(new_to_virtual, virtual, batch, num_updates)
        memory = state.memory.write(policy.parameters, num_updates, wanted)

        attended = jnp.argmax(virtual.attention)
        metrics |= {
            "mcpo/alpha": expectation(alpha, batch.weight),
            "mcpo/beta": beta,
            "mcpo/kl_old_new": old_to_new,
            "mcpo/kl_old_virtual": old_to_virtual,
            "mcpo/kl_new_virtual": new_to_virtual,
            "mcpo/written": wanted.astype(jnp.float32),
            "mcpo/memory_filled": memory.size.astype(jnp.float32),
            "mcpo/attended_rank": attended.astype(jnp.float32),
            "mcpo/attended_age": (state.num_updates - state.memory.written(attended)).astype(jnp.float32),
            "mcpo/attention_entropy": -jnp.sum(jax.scipy.special.xlogy(virtual.attention, virtual.attention)),
            "mcpo/return_virtual": surrogate(virtual.evaluation.ratio, batch.advantage, batch.weight),
            "mcpo/return_old": expectation(batch.advantage, batch.weight),
        }
        return MCPOState(
            policy, adam, attention, attention_adam, memory, virtual.policy, state.kl_cost, num_updates
        ), metrics

    def _context(self, new: Evaluation, virtual: Evaluation, batch: Batch) -> Float[Array, "context"]:
        """v: distances, returns, entropies and value errors of ψ_old, θ_old and θ (the paper's Table 5)."""
        weight, old = batch.weight, batch.old_distribution
        features = [
            expectation(new.distribution.kl(virtual.distribution), weight),
            expectation(old.kl(virtual.distribution), weight),
            expectation(old.kl(new.distribution), weight),
            surrogate(virtual.ratio, batch.advantage, weight),
            expectation(batch.advantage, weight),
            surrogate(new.ratio, batch.advantage, weight),
        ]
        if self.context_features == "all":
            features += [expectation(p.entropy(), weight) for p in (virtual.distribution, old, new.distribution)]
            values = (virtual.value, batch.old_value, new.value)
            features += [squared_error(value, batch.value_target, weight) for value in values]
        finite = jnp.nan_to_num(jnp.stack(features), posinf=CONTEXT_LIMIT, neginf=-CONTEXT_LIMIT)
        return stop_gradient(jnp.clip(finite, -CONTEXT_LIMIT, CONTEXT_LIMIT))

    def _virtual_policy(
        self, state: MCPOState, context: Float[Array, "context"], batch: Batch, key: Key[Array, ""]
    ) -> tuple[Virtual, Attention]:
        """ψ (Eq. 1), and the gradient of -Ê[τ(ψ) A] in φ (Eq. 5), which passes through the weights alone."""
        filled = state.memory.filled
        kept = dropout_mask(key, self.memory_size, self.dropout)

        def loss_of(attention: Attention) -> tuple[Float[Array, ""], Virtual]:
            mean = self.virtual_policy == "mean"
            weights = filled / jnp.sum(filled) if mean else attention(context, filled, kept)
            policy = Policy(state.memory.mix(weights), state.policy.architecture)  # Eq. 1
            evaluation = evaluate(policy, batch)
            return -surrogate(evaluation.ratio, batch.advantage, batch.weight), Virtual(policy, evaluation, weights)

        gradient, virtual = jax.grad(loss_of, has_aux=True)(state.attention)
        return virtual, gradient

    def _alpha(self, virtual: Evaluation, batch: Batch) -> Float[Array, "batch"]:
        """αₜ = exp R(ψ) / (exp R(ψ) + exp R(θ_old)) with R(x) = τ(x) A, as a sigmoid that cannot overflow."""
        if self.trust_region_weight == "adaptive":
            return jax.nn.sigmoid((virtual.ratio - 1) * batch.advantage)
        return jnp.full_like(batch.advantage, self.trust_region_weight)

    def _beta(self, state: MCPOState, outside: Bool[Array, ""], remaining: Float[Array, ""]) -> Float[Array, ""]:
        """β; `outside` says that the new policy has left the old one farther behind than ψ has (Eq. 4)."""
        rules = {
            "switching": jnp.where(outside, self.kl_cost_max, self.kl_cost_min),
            "annealed": remaining,
            "adaptive": state.kl_cost,
            "fixed": jnp.array(self.kl_cost),
        }
        return rules[self.kl_cost_rule].astype(jnp.float32)

    def _distance(
        self, alpha: Float[Array, "batch"], batch: Batch, virtual: Evaluation, new: Evaluation
    ) -> Float[Array, "batch"]:
        """(1-αₜ) KL(π_old‖π_θ) + αₜ KL(π_ψ‖π_θ), θ the only one that moves."""
        to_old = batch.old_distribution.kl(new.distribution)
        if self.trust_region_weight == 0.0:
            return to_old
        return (1 - alpha) * to_old + alpha * virtual.distribution.kl(new.distribution)

    def _worth_writing(
        self,
        new_to_virtual: Float[Array, ""],
        virtual: Virtual,
        batch: Batch,
        num_updates: Int[Array, ""],
    ) -> Bool[Array, ""]:
        """Eq. 2: does θ add something that ψ does not hold yet?"""
        if self.write_rule == "interval":
            return num_updates % self.write_interval == 0
        old_to_virtual = expectation(batch.old_distribution.kl(virtual.evaluation.distribution), batch.weight)
        return new_to_virtual >= old_to_virtual if self.write_ties else new_to_virtual > old_to_virtual
