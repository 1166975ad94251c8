"""A memory of past policies: one matrix with a policy's parameters in each row.

The rows form a ring buffer: a write replaces the oldest row, and no row is ever moved. Policies are read by *rank*, not
by row: rank 0 is the newest policy, rank 1 the one before it. So the meaning of a weight does not depend on the
position in the ring buffer.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class PolicyMemory(eqx.Module):
    """At most N policies: `size` rows are filled, and the next write goes to row `position`."""

    policies: Float[Array, "slot parameter"]
    written_at: Int[Array, " slot"]
    size: Int[Array, ""]
    position: Int[Array, ""]

    @classmethod
    def init(cls, capacity: int, parameters: Float[Array, " parameter"]) -> "PolicyMemory":
        """A memory that holds one policy, written at update 0."""
        rows = jnp.zeros((capacity, parameters.shape[0])).at[0].set(parameters)
        one = jnp.ones((), jnp.int32)
        return cls(rows, jnp.zeros(capacity, jnp.int32), one, one % capacity)

    @property
    def capacity(self) -> int:
        return self.policies.shape[0]

    def write(
        self, parameters: Float[Array, " parameter"], update: Int[Array, ""], should_write: Bool[Array, ""]
    ) -> "PolicyMemory":
        """Add a policy if `should_write`; it replaces the oldest one when the memory is full.

        If not, the row is overwritten with its own values, which avoids a branch.
        """
        current = jax.lax.dynamic_index_in_dim(self.policies, self.position, keepdims=False)
        row = jnp.where(should_write, parameters, current)
        policies = jax.lax.dynamic_update_index_in_dim(self.policies, row, self.position, axis=0)
        written = should_write & (jnp.arange(self.capacity) == self.position)
        increment = should_write.astype(jnp.int32)
        return PolicyMemory(
            policies,
            jnp.where(written, update, self.written_at),
            jnp.minimum(self.size + increment, self.capacity),
            (self.position + increment) % self.capacity,
        )

    @property
    def filled(self) -> Bool[Array, " rank"]:
        """Which ranks hold a policy."""
        return jnp.arange(self.capacity) < self.size

    @property
    def _slot_of_rank(self) -> Int[Array, " rank"]:
        return (self.position - 1 - jnp.arange(self.capacity)) % self.capacity

    def mix(self, weights: Float[Array, " rank"]) -> Float[Array, " parameter"]:
        """ψ = Σⱼ wⱼ θⱼ, over every parameter (Eq. 1)."""
        rank_of_slot = self._slot_of_rank  # the map is its own inverse
        return _permute(weights, rank_of_slot) @ self.policies

    def written(self, rank: Int[Array, ""]) -> Int[Array, ""]:
        """The update at which the policy of this rank was written."""
        return self.written_at[self._slot_of_rank[rank]]


@jax.custom_vjp
def _permute(values: Float[Array, " slot"], order: Int[Array, " slot"]) -> Float[Array, " slot"]:
    """`values[order]` for an order that is its own inverse, so the gradient is the same gather; JAX would scatter."""
    return values[order]


_permute.defvjp(lambda values, order: (values[order], order), lambda order, gradient: (gradient[order], None))
