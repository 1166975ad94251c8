"""Networks: an actor and a critic whose parameters are one vector."""

from trustax.networks.actor_critic import Architecture, Policy, critic_of, flatten
from trustax.networks.cnn import ImageActorCritic, can_convolve, nature
from trustax.networks.impala import impala
from trustax.networks.layers import Conv, Dense, LayerNorm, action_distribution, log_std_for, orthogonal
from trustax.networks.mlp import SharedActorCritic, VectorActorCritic, mlp
from trustax.networks.registry import NETWORKS, Factory, register_network
from trustax.networks.settings import NetworkSettings, architecture_of

__all__ = [
    "NETWORKS",
    "Architecture",
    "Conv",
    "Dense",
    "Factory",
    "ImageActorCritic",
    "LayerNorm",
    "NetworkSettings",
    "Policy",
    "SharedActorCritic",
    "VectorActorCritic",
    "action_distribution",
    "architecture_of",
    "can_convolve",
    "critic_of",
    "flatten",
    "impala",
    "log_std_for",
    "mlp",
    "nature",
    "orthogonal",
    "register_network",
]
