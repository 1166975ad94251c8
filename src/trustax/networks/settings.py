"""The settings that choose a network, shared by all algorithms."""

from dataclasses import dataclass, fields
from typing import Literal

from trustax.errors import TrustaxError
from trustax.networks.actor_critic import Architecture
from trustax.settings import CheckedSettings, setting
from trustax.types import EnvSpec


@dataclass(frozen=True, kw_only=True)
class NetworkSettings(CheckedSettings):
    """The network of actor and critic."""

    network: str = "auto"
    """The network by name: mlp, nature, impala or a registered one; auto is nature for images and mlp otherwise."""
    hidden_sizes: tuple[int, ...] = setting((64, 64), minimum=1)
    """Widths of the hidden layers of actor and critic (mlp); image networks have their own."""
    activation: Literal["tanh", "relu", "gelu", "silu", "elu"] = "tanh"
    """Activation of the hidden layers (mlp)."""
    layer_norm: bool = False
    """Normalize the input of each activation over its features (mlp)."""
    shared_torso: bool = False
    """Let actor and critic share their hidden layers (mlp); image networks always do."""
    initial_log_std: float | Literal["auto"] = setting("auto", minimum=-20, maximum=20)
    """Box actions: initial log σ; auto is -½ log d for d action dimensions, so that their noise has the same size for
    any number. Stable-Baselines3 and CleanRL have 0."""
    initial_mean_scale: float = setting(1.0, minimum=0)
    """Box actions: size of the initial means (mlp). Stable-Baselines3 and CleanRL have 0.01."""

    def __post_init__(self) -> None:
        if callable(self.network):
            raise TrustaxError('network must be a name; give your factory one: register_network("mine", factory)')
        super().__post_init__()


def architecture_of(settings: NetworkSettings, spec: EnvSpec) -> Architecture:
    """The network that settings describe, for an environment."""
    return Architecture(spec, **{field.name: getattr(settings, field.name) for field in fields(NetworkSettings)})
