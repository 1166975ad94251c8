"""Trust-region policy optimisation.

    maximize over θ   Ê[τ(θ) A]   subject to   Ê[KL(π_old‖π_θ)] ≤ δ

One step an iteration, on the whole rollout: the natural gradient F⁻¹g, by conjugate gradients, goes to the boundary of
the region as its Fisher information F sees it, and back by halves until the surrogate has improved and the true
divergence is at most 1.5 δ. No optimiser and no minibatches for the policy; the critic is fitted afterwards.

Schulman, Levine, Moritz, Jordan, Abbeel: Trust Region Policy Optimization. ICML 2015. arXiv:1502.05477
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key

from trustax.algorithms.batch import Batch, Evaluation, evaluate, make_batch
from trustax.errors import TrustaxError
from trustax.networks import NetworkSettings, Policy, architecture_of, flatten
from trustax.ops.adam import AdamState, adam_init, adam_step
from trustax.ops.distributions import Distribution
from trustax.ops.minibatches import over_minibatches
from trustax.ops.natural_gradient import conjugate_gradient, fisher_product, line_search, step_to_boundary
from trustax.ops.objectives import explained_variance, mean_entropy, mean_kl, squared_error, surrogate
from trustax.settings import PerLearner, setting
from trustax.types import EnvSpec, Metrics, Progress, Rollout

KL_SLACK = 1.5
"""An accepted step has a divergence of at most this times δ; the quadratic form that sets its length is not exact."""

Vector = Float[Array, " parameter"]
Scalar = Float[Array, ""]
Network = Callable[[Any], tuple[Distribution, Scalar]]


class TRPOState(eqx.Module):
    policy: Policy
    critic_adam: AdamState
    """the moments of the critic's optimiser, where epochs fit it"""


@dataclass(frozen=True, kw_only=True)
class TRPO(NetworkSettings):
    """Trust-region policy optimisation (Schulman et al. 2015)."""

    kl_target: PerLearner = setting(0.01, minimum=0)
    """The KL divergence of old and new policy that one step aims at (δ)."""
    damping: PerLearner = setting(0.1, minimum=0)
    """Added to the diagonal of the Fisher information (λ)."""
    cg_iterations: int = setting(10, minimum=1)
    """Iterations of conjugate gradients."""
    line_search_steps: int = setting(10, minimum=1)
    """How many lengths of the step are tried, each half of the one before, until it is given up."""
    value_fit: Literal["lbfgs", "epochs"] = "epochs"
    """How the critic is fitted: by L-BFGS on the whole rollout, or by epochs of Adam on minibatches. Epochs ended
    level on Pendulum, were steadier on CartPole, and an update of three seeds took a quarter of the time."""
    value_iterations: int = setting(25, minimum=1)
    """Iterations of L-BFGS (lbfgs)."""
    value_weight_decay: PerLearner = setting(1e-3, minimum=0)
    """Weight of the critic's squared parameters in its loss (lbfgs)."""
    value_epochs: int = setting(10, minimum=1)
    """Passes over each rollout (epochs)."""
    num_minibatches: int = setting(64, minimum=1)
    """Minibatches in each pass; one holds num_envs * horizon / num_minibatches samples (epochs)."""
    learning_rate: PerLearner = setting(1e-3, minimum=0)
    """Step size of Adam for the critic (epochs)."""
    discount: float = setting(0.99, minimum=0, maximum=1)
    """Discount factor γ."""
    gae_lambda: PerLearner = setting(0.95, minimum=0, maximum=1)
    """λ of generalised advantage estimation."""

    def init(self, key: Key[Array, ""], spec: EnvSpec) -> TRPOState:
        policy = architecture_of(self, spec).init(key)
        critic, _ = _split(policy)
        return TRPOState(policy, adam_init(critic))

    def update(
        self, state: TRPOState, rollout: Rollout, progress: Progress, key: Key[Array, ""]
    ) -> tuple[TRPOState, Metrics]:
        """Advantages by the critic as it was; then the policy; then the critic.

        The critic comes last because a step of an image network moves the features that it reads.
        """
        batch = make_batch(state.policy, rollout, self.discount, self.gae_lambda)
        policy, metrics = self._step(state.policy, batch)
        fit = self._fit_by_lbfgs if self.value_fit == "lbfgs" else self._fit_by_epochs
        policy, critic_adam = fit(policy, state.critic_adam, batch, key)

        value_loss = _value_loss(policy, batch)
        metrics |= {
            "train/loss": metrics["train/policy_gradient_loss"] + value_loss,
            "train/value_loss": value_loss,
            "train/explained_variance": explained_variance(batch.old_value, batch.value_target, batch.weight),
        }
        return TRPOState(policy, critic_adam), metrics

    def _step(self, old: Policy, batch: Batch) -> tuple[Policy, Metrics]:
        """Move all that reaches the distribution: the actor, and the torso that an image network shares.

        What only the critic reads has gradient and curvature zero, so it rests without being masked.
        """
        weight = batch.weight

        def of(parameters: Vector) -> Evaluation:
            return evaluate(Policy(parameters, old.architecture), batch)

        def gain_of(parameters: Vector) -> Scalar:
            return surrogate(of(parameters).ratio, batch.advantage, weight)

        old_gain, gradient = jax.value_and_grad(gain_of)(old.parameters)
        product = fisher_product(lambda x: of(x).distribution, old.parameters, weight, self.damping)
        direction = conjugate_gradient(product, gradient, self.cg_iterations)
        step = step_to_boundary(direction, product, self.kl_target)

        def measure(parameters: Vector) -> tuple[Scalar, Scalar]:
            kl = mean_kl(batch.old_distribution, of(parameters).distribution, weight)
            return gain_of(parameters) - old_gain, kl

        found = line_search(
            measure, old.parameters, step, gradient @ step, KL_SLACK * self.kl_target, self.line_search_steps
        )
        new = of(found.parameters)
        return Policy(found.parameters, old.architecture), {
            "train/policy_gradient_loss": -surrogate(new.ratio, batch.advantage, weight),
            "train/entropy_loss": -mean_entropy(new.distribution, weight),
            "train/approx_kl": mean_kl(batch.old_distribution, new.distribution, weight),
            "train/step_fraction": found.fraction,
            "train/gradient_norm": jnp.linalg.norm(gradient),
        }

    def _fit_by_lbfgs(
        self, policy: Policy, adam: AdamState, batch: Batch, key: Key[Array, ""]
    ) -> tuple[Policy, AdamState]:
        """minimize over the critic's c   Ê[(V_c - G)²] + d ‖c‖²"""
        import optax  # for this alone, and slow to import

        critic, with_critic = _split(policy)

        def loss_of(critic: Vector) -> Scalar:
            error = _value_loss(with_critic(critic), batch)
            return error + self.value_weight_decay * jnp.sum(critic**2)

        optimiser = optax.lbfgs()
        value_and_gradient = optax.value_and_grad_from_state(loss_of)

        def iterate(_: Any, carry: tuple[Vector, Any]) -> tuple[Vector, Any]:
            critic, state = carry
            value, gradient = value_and_gradient(critic, state=state)
            move, state = optimiser.update(gradient, state, critic, value=value, grad=gradient, value_fn=loss_of)
            return critic + move, state

        critic, _ = jax.lax.fori_loop(0, self.value_iterations, iterate, (critic, optimiser.init(critic)))
        return Policy(flatten(with_critic(critic)), policy.architecture), adam

    def _fit_by_epochs(
        self, policy: Policy, adam: AdamState, batch: Batch, key: Key[Array, ""]
    ) -> tuple[Policy, AdamState]:
        """minimize over the critic's c   Ê[(V_c - G)²]"""
        critic, with_critic = _split(policy)

        def step(carry: tuple[Vector, AdamState], rows: Batch, chance: None) -> tuple[Any, Metrics]:
            critic, adam = carry
            gradient = jax.grad(lambda critic: _value_loss(with_critic(critic), rows))(critic)
            critic, adam, _ = adam_step(critic, gradient, adam, self.learning_rate, max_gradient_norm=inf)
            return (critic, adam), {}

        (critic, adam), _ = over_minibatches(step, (critic, adam), batch, key, self.value_epochs, self.num_minibatches)
        return Policy(flatten(with_critic(critic)), policy.architecture), adam


def _split(policy: Policy) -> tuple[Vector, Callable[[Vector], Network]]:
    """The numbers that the critic alone reads, and the network as a function of them.

    In an image network they are those of its head: the torso belongs to the trust region.
    """
    network = policy.architecture.unflatten(policy.parameters)
    if not hasattr(network, "critic"):
        raise TrustaxError(
            f"trpo needs a network with an attribute critic, the part that only the value depends on; "
            f"{policy.architecture.network!r} has none"
        )
    arrays, others = eqx.partition(network.critic, eqx.is_array)
    critic, restore = ravel_pytree(arrays)
    return critic, lambda critic: eqx.tree_at(lambda n: n.critic, network, eqx.combine(restore(critic), others))


def _value_loss(network: Network, batch: Batch) -> Scalar:
    """Ê[(V - G)²]"""
    _, value = jax.vmap(network)(batch.observation)
    return squared_error(value, batch.value_target, batch.weight)
