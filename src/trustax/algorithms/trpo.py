"""Trust-region policy optimization.

    maximize over θ   Ê[τ(θ) A]   subject to   Ê[KL(π_old‖π_θ)] ≤ δ

Each iteration takes one step on the whole rollout. Conjugate gradients compute the natural gradient F⁻¹g, which is
scaled to the boundary of the trust region; there, the quadratic form of the Fisher information F stands in for the
divergence. A line search then halves the step until the surrogate has improved and the exact divergence is at most
1.5 δ. The policy needs no optimizer and no minibatches; the critic is fitted afterwards.

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
from trustax.networks import NetworkSettings, Policy, architecture_of, critic_of, flatten
from trustax.ops.adam import AdamState, adam_init, adam_step
from trustax.ops.distributions import Distribution
from trustax.ops.minibatches import over_minibatches
from trustax.ops.natural_gradient import conjugate_gradient, fisher_product, line_search, step_to_boundary
from trustax.ops.objectives import explained_variance, mean_entropy, mean_kl, squared_error, surrogate
from trustax.settings import PerLearner, setting
from trustax.types import EnvSpec, Metrics, Progress, Rollout

KL_SLACK = 1.5
"""The divergence of an accepted step is at most this factor times δ; the quadratic form is only an approximation."""

Vector = Float[Array, " parameter"]
Scalar = Float[Array, ""]
Network = Callable[[Any], tuple[Distribution, Scalar]]


class TRPOState(eqx.Module):
    policy: Policy
    critic_adam: AdamState
    """the state of the critic's optimizer (epochs)"""


@dataclass(frozen=True, kw_only=True)
class TRPO(NetworkSettings):
    """Trust-region policy optimization (Schulman et al. 2015)."""

    kl_target: PerLearner = setting(0.01, minimum=0)
    """The KL divergence of old and new policy that one step aims at (δ)."""
    damping: PerLearner = setting(0.1, minimum=0)
    """Added to the diagonal of the Fisher information (λ)."""
    cg_iterations: int = setting(10, minimum=1)
    """Iterations of the conjugate gradient method."""
    line_search_steps: int = setting(10, minimum=1)
    """Maximum number of step lengths to try, each half of the one before."""
    value_fit: Literal["lbfgs", "epochs"] = "epochs"
    """How the critic is fitted: by L-BFGS on the whole rollout, or, in a quarter of the time, by epochs of Adam on
    minibatches."""
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
    """λ of generalized advantage estimation."""

    def init(self, key: Key[Array, ""], spec: EnvSpec) -> TRPOState:
        policy = architecture_of(self, spec).init(key)
        critic, _ = _split(policy)
        return TRPOState(policy, adam_init(critic))

    def update(
        self, state: TRPOState, rollout: Rollout, progress: Progress, key: Key[Array, ""]
    ) -> tuple[TRPOState, Metrics]:
        """Compute advantages with the old critic, then update the policy, then the critic.

        The critic comes last because in an image network the policy step changes the features that the critic reads.
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
        """Update the parameters that affect the distribution: the actor and the shared torso of an image network.

        Parameters that only the critic uses have zero gradient and curvature, so they stay unchanged without a mask.
        """
        weight = batch.weight

        def evaluate_at(parameters: Vector) -> Evaluation:
            return evaluate(Policy(parameters, old.architecture), batch)

        def surrogate_gain(parameters: Vector) -> Scalar:
            return surrogate(evaluate_at(parameters).ratio, batch.advantage, weight)

        old_gain, gradient = jax.value_and_grad(surrogate_gain)(old.parameters)
        product = fisher_product(lambda x: evaluate_at(x).distribution, old.parameters, weight, self.damping)
        direction = conjugate_gradient(product, gradient, self.cg_iterations)
        step = step_to_boundary(direction, product, self.kl_target)

        def measure(parameters: Vector) -> tuple[Scalar, Scalar]:
            kl = mean_kl(batch.old_distribution, evaluate_at(parameters).distribution, weight)
            return surrogate_gain(parameters) - old_gain, kl

        result = line_search(
            measure, old.parameters, step, gradient @ step, KL_SLACK * self.kl_target, self.line_search_steps
        )
        new = evaluate_at(result.parameters)
        return Policy(result.parameters, old.architecture), {
            "train/policy_gradient_loss": -surrogate(new.ratio, batch.advantage, weight),
            "train/entropy_loss": -mean_entropy(new.distribution, weight),
            "train/approx_kl": mean_kl(batch.old_distribution, new.distribution, weight),
            "train/step_fraction": result.fraction,
            "train/gradient_norm": jnp.linalg.norm(gradient),
        }

    def _fit_by_lbfgs(
        self, policy: Policy, adam: AdamState, batch: Batch, key: Key[Array, ""]
    ) -> tuple[Policy, AdamState]:
        """minimize over the critic's c   Ê[(V_c - G)²] + d ‖c‖²"""
        import optax  # only used here, and slow to import

        critic, with_critic = _split(policy)

        def critic_loss(critic: Vector) -> Scalar:
            error = _value_loss(with_critic(critic), batch)
            return error + self.value_weight_decay * jnp.sum(critic**2)

        optimizer = optax.lbfgs()
        value_and_gradient = optax.value_and_grad_from_state(critic_loss)

        def iterate(_: Any, carry: tuple[Vector, Any]) -> tuple[Vector, Any]:
            critic, state = carry
            value, gradient = value_and_gradient(critic, state=state)
            step, state = optimizer.update(gradient, state, critic, value=value, grad=gradient, value_fn=critic_loss)
            return critic + step, state

        critic, _ = jax.lax.fori_loop(0, self.value_iterations, iterate, (critic, optimizer.init(critic)))
        return Policy(flatten(with_critic(critic)), policy.architecture), adam

    def _fit_by_epochs(
        self, policy: Policy, adam: AdamState, batch: Batch, key: Key[Array, ""]
    ) -> tuple[Policy, AdamState]:
        """minimize over the critic's c   Ê[(V_c - G)²]"""
        critic, with_critic = _split(policy)

        def step(carry: tuple[Vector, AdamState], minibatch: Batch, noise: None) -> tuple[Any, Metrics]:
            critic, adam = carry
            gradient = jax.grad(lambda critic: _value_loss(with_critic(critic), minibatch))(critic)
            critic, adam, _ = adam_step(critic, gradient, adam, self.learning_rate, max_gradient_norm=inf)
            return (critic, adam), {}

        (critic, adam), _ = over_minibatches(step, (critic, adam), batch, key, self.value_epochs, self.num_minibatches)
        return Policy(flatten(with_critic(critic)), policy.architecture), adam


def _split(policy: Policy) -> tuple[Vector, Callable[[Vector], Network]]:
    """The parameters that only the critic uses, and the network as a function of them.

    In an image network they are those of the critic's head: the torso belongs to the trust region.
    """
    network = policy.architecture.unflatten(policy.parameters)
    if (part := critic_of(network)) is None:
        raise TrustaxError(
            f"trpo needs a network with a field critic, the part that only the value depends on; "
            f"{policy.architecture.network!r} has none"
        )
    arrays, others = eqx.partition(part, eqx.is_array)
    critic, restore = ravel_pytree(arrays)
    return critic, lambda critic: eqx.tree_at(lambda n: n.critic, network, eqx.combine(restore(critic), others))


def _value_loss(network: Network, batch: Batch) -> Scalar:
    """Ê[(V - G)²]"""
    _, value = jax.vmap(network)(batch.observation)
    return squared_error(value, batch.value_target, batch.weight)
