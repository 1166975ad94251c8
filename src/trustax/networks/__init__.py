"""Networks: an actor and a critic whose parameters are one vector."""

from trustax.networks.actor_critic import Architecture, Policy, flatten
from trustax.networks.cnn import ImageActorCritic, can_convolve
from trustax.networks.layers import Conv, Dense, orthogonal
from trustax.networks.mlp import VectorActorCritic

__all__ = [
    "Architecture",
    "Conv",
    "Dense",
    "ImageActorCritic",
    "Policy",
    "VectorActorCritic",
    "can_convolve",
    "flatten",
    "orthogonal",
]
