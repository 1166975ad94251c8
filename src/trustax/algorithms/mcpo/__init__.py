"""Memory-Constrained Policy Optimization: the method, its attention and its memory of past policies."""

from trustax.algorithms.mcpo.mcpo import MCPO, MCPOState

__all__ = ["MCPO", "MCPOState"]
