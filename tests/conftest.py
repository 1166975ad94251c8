"""Silent broadcasting, the favourite bug of reinforcement learning, is an error in every test."""

from collections.abc import Iterator

import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def quick_compilation() -> Iterator[None]:
    """Programs that run for a moment need no optimized machine code."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
