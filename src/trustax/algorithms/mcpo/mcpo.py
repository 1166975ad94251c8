"""Memory-Constrained Policy Optimization.

    maximize over θ   Ê[τ(θ) A] - β Ê[(1-αₜ) KL(π_old‖π_θ) + αₜ KL(π_ψ‖π_θ)]          (Eq. 3)
    maximize over φ   Ê[τ(ψ) A]   with   ψ = Σⱼ f_φ(v)ⱼ θⱼ                             (Eqs. 5, 1)

Two trust regions constrain the new policy: one around the policy that collected the data, and one around a *virtual
policy* ψ, a mixture of past policies in a memory with weights from a learned attention network. If the estimated return
of ψ is higher than that of the old policy, α gives its region more weight; if the new policy is farther from the old
one than ψ is, β is large.

Le, George, Abdolshah, Nguyen, Do, Gupta, Venkatesh: Learning to Constrain Policy Optimization with Virtual Trust
Region. NeurIPS 2022. arXiv:2204.09315. For choices that the paper leaves open see docs/fidelity.md.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from trustax.algorithms.batch import Batch, Evaluation, count_samples, evaluate, is_continuous, make_batch
from trustax.algorithms.first_order import FirstOrder, ascend, batch_metrics, init_actor_critic
from trustax.algorithms.mcpo.attention import Attention, dropout_masks
from trustax.algorithms.mcpo.beta_max import kl_target_of, limits_of
from trustax.algorithms.mcpo.context import NUM_FEATURES, ContextFeatures, context_of
from trustax.algorithms.mcpo.memory import PolicyMemory
from trustax.algorithms.mcpo.state import MCPOState
from trustax.algorithms.mcpo.unrewarded import has_reward, scale_unrewarded
from trustax.networks import Policy
from trustax.ops.adam import adam_init, adam_step
from trustax.ops.distributions import Distribution
from trustax.ops.minibatches import over_minibatches
from trustax.ops.objectives import adapt_kl_cost, expectations, mean_kl, surrogate
from trustax.settings import PerLearner, setting
from trustax.types import EnvSpec, Metrics, Progress, Rollout

LARGE_MINIBATCH = 1024
"""With at least this many samples, β switches at every minibatch (`switch_every="auto"`)."""


class Virtual(NamedTuple):
    """The virtual policy of one update."""

    policy: Policy
    evaluation: Evaluation
    attention: Float[Array, " rank"]

    @property
    def distribution(self) -> Distribution:
        return self.evaluation.distribution


@dataclass(frozen=True, kw_only=True)
class MCPO(FirstOrder):
    """Memory-Constrained Policy Optimization (Le et al. 2022)."""

    memory_size: int = setting(10, minimum=1)
    """Number of past policies in the memory (N)."""
    virtual_policy: Literal["attention", "mean"] = "attention"
    """How past policies are combined into the virtual policy: by learned attention, or by their mean ("Mean ψ")."""
    trust_region_weight: Literal["adaptive"] | float = setting("adaptive", minimum=0, maximum=1)
    """α, the weight of the virtual trust region relative to the old policy's: per sample, or a constant in [0, 1]."""
    trust_region_sharpness: PerLearner = setting(100.0, minimum=0)
    """Factor on the difference of returns inside the sigmoid of an adaptive α; with the paper's 1, α stays near 0.5."""
    kl_cost_rule: Literal["switching", "annealed", "adaptive", "fixed"] = "switching"
    """β, the weight of both regions: switched (the paper), annealed from 1 to 0, adapted to a KL target, or fixed."""
    kl_cost_min: PerLearner = setting(0.01, minimum=0)
    """β while the new policy is closer to the old one than the virtual policy is (switching)."""
    kl_cost_max: PerLearner = setting(10.0, minimum=0, not_below="kl_cost_min")
    """β_max: β while the new policy is farther away (switching), or its initial value if it adapts."""
    kl_cost_max_target: float = setting(0.01, minimum=0)
    """KL divergence of old and new policy that β_max adapts to after each iteration; 0 keeps kl_cost_max."""
    kl_target_growth: float = setting(1.0, minimum=0)
    """Above 8,192 samples in a batch, kl_cost_max_target is multiplied by (batch size / 8,192) to this power."""
    kl_target_action_growth: float = setting(0.5, minimum=0)
    """kl_cost_max_target is multiplied by the number of action dimensions to this power; discrete actions have one."""
    switch_every: Literal["auto", "epoch", "minibatch"] = "auto"
    """When β switches: at every minibatch, or at the first one of an epoch, for all of it (a single epoch then stays at
    β_min); auto: at every minibatch if actions are continuous, it has 1,024 samples or more, or there is one epoch;
    else once an epoch."""
    unrewarded_advantages: Literal["scaled", "standardized"] = "scaled"
    """Advantages of a rollout without a reward: scaled by the last rollout with a reward, so that they stay small, or
    standardized as usual."""
    kl_cost: PerLearner = setting(1.0, minimum=0)
    """β with kl_cost_rule fixed, and its initial value with adaptive; otherwise unused."""
    kl_target: PerLearner = setting(0.03, minimum=0)
    """KL divergence of old and new policy that β adapts to with kl_cost_rule adaptive; otherwise unused."""
    write_rule: Literal["diversity", "interval"] = "diversity"
    """When to remember a policy: if it is farther from the virtual policy than the old one is, or at intervals."""
    write_interval: int = setting(10, minimum=1)
    """Updates between writes with write_rule interval."""
    write_ties: bool = False
    """Also write at equal distances, as in Eq. 2; Algorithm 1 does not."""
    context_features: ContextFeatures = "all"
    """Input of the attention network: all 12 features, or only the distances and returns."""
    dropout: float = setting(0.5, minimum=0, below=1)
    """Dropout rate of the attention network."""
    can_divide_envs: ClassVar[bool] = True

    def init(self, key: Key[Array, ""], spec: EnvSpec) -> MCPOState:
        learner = init_actor_critic(self, key, spec)  # unsplit key: the same initial policy for all algorithms
        attention = Attention.init(jax.random.fold_in(key, 1), NUM_FEATURES[self.context_features], self.memory_size)
        return MCPOState(
            learner=learner,
            attention=attention,
            attention_adam=adam_init(attention),
            memory=PolicyMemory.init(self.memory_size, learner.policy.parameters),
            virtual=learner.policy,
            kl_cost=jnp.array(self.kl_cost_max if self._adapts_kl_cost_max else self.kl_cost, jnp.float32),
            advantage_precision=jnp.zeros(()) if self.unrewarded_advantages == "scaled" else None,
        )

    def update(
        self, state: MCPOState, rollout: Rollout, progress: Progress, key: Key[Array, ""]
    ) -> tuple[MCPOState, Metrics]:
        """Algorithm 1, lines 4 to 13."""
        batch = make_batch(state.policy, rollout, self.discount, self.gae_lambda)
        rewarded = has_reward(rollout)
        if state.advantage_precision is not None:
            batch, precision = scale_unrewarded(batch, rewarded, state.advantage_precision)
            state = eqx.tree_at(lambda s: s.advantage_precision, state, precision)

        def step(carry: Any, minibatch: Batch, dropout_mask: Float[Array, " slot"]) -> tuple[Any, Metrics]:
            # Algorithm 1 writes at the end of an update. Writing at the start of the next one is equivalent, and allows
            # an update in place, because all reads of the memory come after the write.
            state, should_write, beta = carry
            return self._step(state.write_policy(should_write), beta, minibatch, progress, dropout_mask)

        draw = partial(dropout_masks, size=self.memory_size, rate=self.dropout)
        (state, should_write, _), metrics = over_minibatches(
            step, (state, jnp.zeros((), bool), state.kl_cost), batch, key, self.num_epochs, self.num_minibatches, draw
        )
        state = state.write_policy(should_write)
        metrics |= batch_metrics(self, batch, progress)
        if self._adapts_kl_cost_max:
            metrics |= {"mcpo/beta_max": state.kl_cost}
        if self._adapts_kl_cost_max or self.kl_cost_rule == "adaptive":
            kl_cost = self._adapted_kl_cost(state, batch)
            if state.advantage_precision is not None:  # without a reward, a small KL is no reason for a smaller β
                kl_cost = jnp.where(rewarded, kl_cost, jnp.maximum(kl_cost, state.kl_cost))
            state = eqx.tree_at(lambda s: s.kl_cost, state, kl_cost)
        return state, metrics

    @property
    def _adapts_kl_cost_max(self) -> bool:
        return self.kl_cost_rule == "switching" and self.kl_cost_max_target > 0

    def _adapted_kl_cost(self, state: MCPOState, batch: Batch) -> Float[Array, ""]:
        """β or β_max after an iteration, adapted to the KL divergence of that iteration."""
        kl = mean_kl(batch.old_distribution, evaluate(state.policy, batch).distribution, batch.weight)
        if not self._adapts_kl_cost_max:
            return adapt_kl_cost(state.kl_cost, kl, self.kl_target)
        target = kl_target_of(batch, self.kl_cost_max_target, self.kl_target_growth, self.kl_target_action_growth)
        return jnp.clip(adapt_kl_cost(state.kl_cost, kl, target), *limits_of(self.kl_cost_min, self.kl_cost_max))

    def _step(
        self,
        state: MCPOState,
        beta: Float[Array, ""],
        batch: Batch,
        progress: Progress,
        dropout_mask: Float[Array, " slot"],
    ) -> tuple[tuple[MCPOState, Bool[Array, ""], Float[Array, ""]], Metrics]:
        """Compute ψ, then update θ and φ. Also returns whether to write the new θ, and β for the next minibatch."""
        old, weight = batch.old_distribution, batch.weight
        new = evaluate(state.policy, batch)
        context = context_of(new, evaluate(state.virtual, batch), batch, self.context_features)
        virtual, attention_gradient = self._mix(state, context.features, batch, dropout_mask)
        alpha = self._alpha(virtual, batch)
        old_to_virtual, mean_alpha, return_virtual = expectations(
            [old.kl(virtual.distribution), alpha, virtual.evaluation.ratio * batch.advantage], weight
        )
        beta = self._switch_beta(state, beta, context.old_to_new > old_to_virtual, batch)

        def objective(
            new: Evaluation, batch: Batch, remaining: Float[Array, ""]
        ) -> tuple[Float[Array, " batch"], Metrics]:
            kl_cost = remaining if self.kl_cost_rule == "annealed" else beta
            distance = self._distance(alpha, batch, virtual, new)
            return new.ratio * batch.advantage - kl_cost * distance, {"mcpo/beta": kl_cost}  # Eq. 3

        learner, metrics = ascend(self, objective, state.learner, batch, progress)
        attention, moments, attention_norm = adam_step(
            state.attention,
            attention_gradient,
            state.attention_adam,
            self.learning_rate_at(progress),
            self.max_gradient_norm,
        )
        new_to_virtual = mean_kl(evaluate(learner.policy, batch).distribution, virtual.distribution, weight)
        should_write = self._should_write(new_to_virtual, old_to_virtual, learner.adam.count)
        # An update with a non-finite gradient is not written. This also makes the write depend on φ's gradient, which
        # reads the memory: without the dependency, the compiler copies the whole memory before each write.
        should_write &= jnp.isfinite(attention_norm)
        metrics |= {
            "mcpo/alpha": mean_alpha,
            "mcpo/kl_old_new": context.old_to_new,
            "mcpo/kl_old_virtual": old_to_virtual,
            "mcpo/kl_new_virtual": new_to_virtual,
            "mcpo/return_virtual": return_virtual,
            "mcpo/return_old": context.return_old,
            "mcpo/written": should_write.astype(jnp.float32),
        }
        metrics |= state.attention_metrics(virtual.attention)
        state = replace(state, learner=learner, attention=attention, attention_adam=moments, virtual=virtual.policy)
        return (state, should_write, beta), metrics

    def _mix(
        self, state: MCPOState, context: Float[Array, " context"], batch: Batch, dropout_mask: Float[Array, " slot"]
    ) -> tuple[Virtual, Attention]:
        """ψ (Eq. 1), and the gradient of -Ê[τ(ψ) A] with respect to φ (Eq. 5), which flows only through the weights."""
        filled = state.memory.filled

        def attention_loss(attention: Attention) -> tuple[Float[Array, ""], Virtual]:
            mean = self.virtual_policy == "mean"
            weights = filled / jnp.sum(filled) if mean else attention(context, filled, dropout_mask)
            policy = Policy(state.memory.mix(weights), state.policy.architecture)  # Eq. 1
            evaluation = evaluate(policy, batch)
            loss = -surrogate(evaluation.ratio, batch.advantage, batch.weight)  # Eq. 5
            return loss, Virtual(policy, evaluation, weights)

        gradient, virtual = jax.grad(attention_loss, has_aux=True)(state.attention)
        return virtual, gradient

    def _alpha(self, virtual: Virtual, batch: Batch) -> Float[Array, " batch"]:
        """αₜ = exp R(ψ) / (exp R(ψ) + exp R(θ_old)) with R(x) = τ(x) A, as a sigmoid that cannot overflow.

        Advantages have size 1 and τ(ψ) is close to 1, so that R(ψ) and R(θ_old) differ by a few percent. The factor
        `trust_region_sharpness` makes such a difference large enough for α to choose between the regions.
        """
        if self.trust_region_weight == "adaptive":
            difference = (virtual.evaluation.ratio - 1) * batch.advantage
            return jax.nn.sigmoid(self.trust_region_sharpness * difference)
        return jnp.full_like(batch.advantage, self.trust_region_weight)

    def _switch_beta(
        self, state: MCPOState, beta: Float[Array, ""], outside: Bool[Array, ""], batch: Batch
    ) -> Float[Array, ""]:
        """Eq. 4: β_max where the new policy is farther from the old one than ψ is (`outside`), else β_min.

        The paper does not say how often β switches. If it switches at every minibatch, it is almost always β_max,
        because ψ follows θ. If it switches once per epoch, epochs of exploration alternate with epochs that return
        into the two regions. The first is better with large minibatches, the second with small ones and discrete
        actions. Continuous actions move too far in an epoch of exploration: an adaptive β_max then rises until the
        policy hardly moves at all.
        """
        if self.kl_cost_rule != "switching":
            return jnp.array(self.kl_cost, jnp.float32) if self.kl_cost_rule == "fixed" else state.kl_cost
        beta_max = state.kl_cost if self._adapts_kl_cost_max else self.kl_cost_max
        switched = jnp.where(outside, beta_max, self.kl_cost_min).astype(jnp.float32)
        is_auto = self.switch_every == "auto"
        # With a single epoch, θ = θ_old at the first minibatch, so that β would never switch to β_max.
        if self.switch_every == "minibatch" or (is_auto and (is_continuous(batch) or self.num_epochs == 1)):
            return switched
        decides = state.num_updates % self.num_minibatches == 0  # an epoch begins
        if is_auto:
            decides |= count_samples(batch) >= LARGE_MINIBATCH
        return jnp.where(decides, switched, beta)

    def _distance(
        self, alpha: Float[Array, " batch"], batch: Batch, virtual: Virtual, new: Evaluation
    ) -> Float[Array, " batch"]:
        """(1-αₜ) KL(π_old‖π_θ) + αₜ KL(π_ψ‖π_θ), with a gradient only for θ."""
        to_old = batch.old_distribution.kl(new.distribution)
        if self.trust_region_weight == 0.0:
            return to_old
        return (1 - alpha) * to_old + alpha * virtual.distribution.kl(new.distribution)

    def _should_write(
        self, new_to_virtual: Float[Array, ""], old_to_virtual: Float[Array, ""], num_updates: Int[Array, ""]
    ) -> Bool[Array, ""]:
        """Eq. 2: whether θ is farther from ψ than the old policy is, so that it adds diversity to the memory."""
        if self.write_rule == "interval":
            return num_updates % self.write_interval == 0
        return new_to_virtual >= old_to_virtual if self.write_ties else new_to_virtual > old_to_virtual
