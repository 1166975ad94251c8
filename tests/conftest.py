"""Silent broadcasting, the favourite bug of reinforcement learning, is an error in every test."""

import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
