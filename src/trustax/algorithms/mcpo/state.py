"""The state of an MCPO learner: θ, φ, the memory of past policies, and ψ."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from trustax.algorithms.first_order import ActorCritic
from trustax.algorithms.mcpo.attention import Attention
from trustax.algorithms.mcpo.memory import PolicyMemory
from trustax.networks import Policy
from trustax.ops.adam import AdamState
from trustax.types import Metrics


class MCPOState(eqx.Module):
    learner: ActorCritic
    """θ, actor and critic, with its optimizer"""
    attention: Attention
    """φ"""
    attention_adam: AdamState
    memory: PolicyMemory
    virtual: Policy
    """ψ of the last update, which is ψ_old of the next"""
    kl_cost: Float[Array, ""]
    """β_max (switching) or β (adaptive), if it adapts from iteration to iteration"""
    advantage_precision: Float[Array, ""] | None
    """1 / standard deviation of the advantages in the last rollout with a reward, 0 before it; None if not used"""

    @property
    def policy(self) -> Policy:
        return self.learner.policy

    @property
    def policies(self) -> dict[str, Policy]:
        """Every policy that can be taken out of a run, by name."""
        return {"policy": self.policy, "virtual": self.virtual}

    @property
    def num_updates(self) -> Int[Array, ""]:
        return self.learner.adam.count

    def with_policy(self, policy: Policy) -> "MCPOState":
        """The initial state with another initial policy, which is the only one in the memory."""
        memory = PolicyMemory.init(self.memory.capacity, policy.parameters)
        return eqx.tree_at(lambda s: (s.learner.policy, s.virtual, s.memory), self, (policy, policy, memory))

    def write_policy(self, should_write: Bool[Array, ""]) -> "MCPOState":
        """Write θ to the memory if `should_write`."""
        memory = self.memory.write(self.policy.parameters, self.num_updates, should_write)
        return eqx.tree_at(lambda s: s.memory, self, memory)

    def attention_metrics(self, attention: Float[Array, " rank"]) -> Metrics:
        """Which policy of the memory the attention prefers, how old it is, and how the weights are spread."""
        attended = jnp.argmax(attention)
        age = self.num_updates - self.memory.written(attended)
        return {
            "mcpo/attended_rank": attended.astype(jnp.float32),
            "mcpo/attended_age": age.astype(jnp.float32),
            "mcpo/attention_entropy": -jnp.sum(jax.scipy.special.xlogy(attention, attention)),
            "mcpo/memory_filled": self.memory.size.astype(jnp.float32),
        }
