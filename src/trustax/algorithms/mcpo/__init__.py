"""Memory-Constrained Policy Optimization: the algorithm, its attention network and its memory of past policies."""

from trustax.algorithms.mcpo.mcpo import MCPO, MCPOState

__all__ = ["MCPO", "MCPOState"]
