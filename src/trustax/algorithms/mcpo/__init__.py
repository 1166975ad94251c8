"""Memory-Constrained Policy Optimization: the algorithm, its attention network and its memory of past policies."""

from trustax.algorithms.mcpo.mcpo import MCPO
from trustax.algorithms.mcpo.state import MCPOState

__all__ = ["MCPO", "MCPOState"]
