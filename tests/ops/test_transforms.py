"""A function of one learner, mapped over seeds."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trustax.ops.transforms import over_seeds


def draw(state: dict[str, jax.Array], key: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
    noise = jax.random.normal(key, state["x"].shape)
    return {"x": state["x"] + noise}, noise.sum()


def arguments(num_seeds: int) -> tuple[Any, jax.Array]:
    x = jnp.arange(4.0 * num_seeds).reshape(num_seeds, 4)
    return {"x": x}, jax.random.split(jax.random.key(0), num_seeds)


@pytest.mark.parametrize("num_seeds", [1, 3])
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_each_seed_gets_the_result_of_the_function(num_seeds: int, transform: Any) -> None:
    states, keys = arguments(num_seeds)
    new, sums = transform(over_seeds(draw))(states, keys)
    assert (new["x"].shape, sums.shape) == ((num_seeds, 4), (num_seeds,))
    for seed in range(num_seeds):
        alone, total = draw({"x": states["x"][seed]}, keys[seed])
        np.testing.assert_allclose(new["x"][seed], alone["x"], rtol=1e-6)
        np.testing.assert_allclose(sums[seed], total, rtol=1e-6)


@pytest.mark.parametrize("num_seeds", [1, 3])
def test_the_function_sees_no_seed_axis(num_seeds: int) -> None:
    seen = []

    def look(x: jax.Array, none: None, pair: tuple[jax.Array, jax.Array]) -> jax.Array:
        seen.append((x.shape, pair[0].shape))
        return x

    over_seeds(look)(jnp.ones((num_seeds, 2)), None, (jnp.ones((num_seeds, 5)), jnp.ones(num_seeds)))
    assert seen == [((2,), (5,))]


def test_a_single_seed_is_not_mapped() -> None:
    def program(num_seeds: int) -> str:
        x, index = jnp.ones((num_seeds, 4)), jnp.zeros(num_seeds, jnp.int32)
        return str(jax.make_jaxpr(over_seeds(jax.lax.dynamic_index_in_dim))(x, index))

    assert "gather" not in program(1)
    assert "gather" in program(2)


def test_gradients_pass_through() -> None:
    slope = jax.grad(lambda x: over_seeds(lambda y: (y**2).sum())(x).sum())
    for num_seeds in (1, 2):
        x = jnp.arange(3.0 * num_seeds).reshape(num_seeds, 3)
        np.testing.assert_array_equal(slope(x), 2 * x)
