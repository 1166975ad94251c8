"""Gymnasium's Pendulum-v1 in JAX: swing a pendulum up with a weak motor and hold it there."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from trustax.envs.jax.canvas import INK, Canvas
from trustax.types import BoxActions, EnvSpec

MAX_TORQUE = 2.0
MAX_VELOCITY = 8.0
TIME_DELTA = 0.05
GRAVITY = 10.0
ROD = (205, 80, 80)


class PendulumState(NamedTuple):
    """The angle is 0 at the top and grows without bound, as in Gymnasium."""

    angle: Float[Array, ""]
    velocity: Float[Array, ""]


@dataclass(frozen=True)
class Pendulum:
    """Pendulum-v1 of mass 1 and length 1. Episodes never terminate; they are truncated at the time limit."""

    time_limit: int = 200
    frames_per_second: ClassVar[float] = 1 / TIME_DELTA
    spec: ClassVar[EnvSpec] = EnvSpec((3,), BoxActions((-MAX_TORQUE,), (MAX_TORQUE,)))

    def reset(self, key: Key[Array, ""]) -> PendulumState:
        angle_key, velocity_key = jax.random.split(key)
        angle = jax.random.uniform(angle_key, minval=-math.pi, maxval=math.pi)
        return PendulumState(angle, jax.random.uniform(velocity_key, minval=-1.0, maxval=1.0))

    def step(
        self, state: PendulumState, action: Float[Array, "1"]
    ) -> tuple[PendulumState, Float[Array, ""], Bool[Array, ""]]:
        torque = jnp.clip(action[0], -MAX_TORQUE, MAX_TORQUE)
        from_top = jnp.mod(state.angle + math.pi, 2 * math.pi) - math.pi
        cost = from_top**2 + 0.1 * state.velocity**2 + 0.001 * torque**2
        velocity = state.velocity + (1.5 * GRAVITY * jnp.sin(state.angle) + 3.0 * torque) * TIME_DELTA
        velocity = jnp.clip(velocity, -MAX_VELOCITY, MAX_VELOCITY)
        # The new velocity moves the angle: semi-implicit Euler.
        angle = state.angle + velocity * TIME_DELTA
        return PendulumState(angle, velocity), -cost, jnp.zeros((), bool)

    def observe(self, state: PendulumState) -> Float[Array, "3"]:
        return jnp.stack([jnp.cos(state.angle), jnp.sin(state.angle), state.velocity])

    def render(self, state: PendulumState) -> np.ndarray:
        canvas, pivot, length = Canvas(400, 400), (200.0, 200.0), 150
        angle = float(state.angle)
        end = pivot[0] - length * math.sin(angle), pivot[1] - length * math.cos(angle)
        canvas.line(pivot, end, 30, ROD)
        canvas.disk(pivot, 6, INK)
        return canvas.picture()
