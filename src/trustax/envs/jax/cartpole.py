"""Gymnasium's CartPole-v1 in JAX: push a cart left or right so that the pole on it stays up."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Integer, Key

from trustax.envs.jax.canvas import GRAY, INK, Canvas
from trustax.types import DiscreteActions, EnvSpec

GRAVITY = 9.8
POLE_MASS = 0.1
TOTAL_MASS = 1.0 + POLE_MASS
HALF_LENGTH = 0.5
FORCE = 10.0
TIME_DELTA = 0.02
MAX_POSITION = 2.4
MAX_ANGLE = math.radians(12)
POLE = (202, 152, 101)


class CartPoleState(NamedTuple):
    """The cart's position and velocity, the pole's angle from upright and its velocity."""

    position: Float[Array, ""]
    velocity: Float[Array, ""]
    angle: Float[Array, ""]
    angular_velocity: Float[Array, ""]


@dataclass(frozen=True)
class CartPole:
    """CartPole-v1: a reward of 1 per step, until the pole leans too far or the cart leaves the track."""

    time_limit: int = 500
    frames_per_second: ClassVar[float] = 1 / TIME_DELTA
    spec: ClassVar[EnvSpec] = EnvSpec((4,), DiscreteActions(2))

    def reset(self, key: Key[Array, ""]) -> CartPoleState:
        return CartPoleState(*jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05))

    def step(
        self, state: CartPoleState, action: Integer[Array, ""]
    ) -> tuple[CartPoleState, Float[Array, ""], Bool[Array, ""]]:
        position, velocity, angle, angular_velocity = state
        force = jnp.where(action == 1, FORCE, -FORCE)
        cosine, sine = jnp.cos(angle), jnp.sin(angle)
        push = (force + POLE_MASS * HALF_LENGTH * angular_velocity**2 * sine) / TOTAL_MASS
        inertia = HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cosine**2 / TOTAL_MASS)
        angular_acceleration = (GRAVITY * sine - cosine * push) / inertia
        acceleration = push - POLE_MASS * HALF_LENGTH * angular_acceleration * cosine / TOTAL_MASS
        # The old velocities move the positions: explicit Euler.
        new = CartPoleState(
            position + TIME_DELTA * velocity,
            velocity + TIME_DELTA * acceleration,
            angle + TIME_DELTA * angular_velocity,
            angular_velocity + TIME_DELTA * angular_acceleration,
        )
        terminated = (jnp.abs(new.position) > MAX_POSITION) | (jnp.abs(new.angle) > MAX_ANGLE)
        return new, jnp.ones(()), terminated

    def observe(self, state: CartPoleState) -> Float[Array, "4"]:
        return jnp.stack(state)

    def render(self, state: CartPoleState) -> np.ndarray:
        canvas, scale, ground = Canvas(600, 300), 600 / (2 * MAX_POSITION), 230.0
        x, angle, length = 300 + scale * float(state.position), float(state.angle), 2 * HALF_LENGTH * scale
        canvas.line((0, ground), (600, ground), 1.5, GRAY)
        canvas.rectangle((x - 25, ground - 15), (50, 30), INK)
        axle = x, ground - 12
        canvas.line(axle, (x + length * math.sin(angle), axle[1] - length * math.cos(angle)), 10, POLE)
        canvas.disk(axle, 4, GRAY)
        return canvas.picture()
