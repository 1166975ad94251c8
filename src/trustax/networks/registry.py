"""The networks by name: the values of the setting `network`."""

import inspect
from collections.abc import Callable
from typing import Any, Protocol

import equinox as eqx
import jax
from jaxtyping import Array, Key

from trustax.errors import TrustaxError
from trustax.networks.cnn import nature
from trustax.networks.impala import impala
from trustax.networks.mlp import mlp
from trustax.settings import Registry
from trustax.types import EnvSpec

AUTO = "auto"
"""`nature` for images, `mlp` for everything else."""


class Factory(Protocol):
    """Makes a network: an Equinox module with the call `module(observation) -> (distribution, value)`.

    It takes those of the settings `hidden_sizes`, `activation`, `layer_norm`, `shared_torso`, `initial_log_std` (a
    number) and `initial_mean_scale` that it makes use of, as keywords. All array leaves of the module are parameters,
    in float32. Those of a field `critic` are the ones that only the value depends on.
    """

    def __call__(self, key: Key[Array, ""], spec: EnvSpec, **settings: Any) -> eqx.Module: ...


NETWORKS: Registry[Callable[..., Any]] = Registry(
    "network", "trustax.networks", {"mlp": mlp, "nature": nature, "impala": impala}
)
"""Factories of networks by name; `trustax.networks` is the entry-point group."""


def register_network(name: str, factory: Callable[..., Any]) -> None:
    """Give a network a name, so that settings and files can refer to it; see `Factory`."""
    if name == AUTO or not callable(factory):
        raise TrustaxError(f"a network is a name other than 'auto' and a callable, not {name!r} and {factory!r}")
    if name in NETWORKS:
        jax.clear_caches()  # compiled programs know a network by its name
    NETWORKS.register(name, factory)


def build(
    name: str, key: Key[Array, ""], spec: EnvSpec, settings: dict[str, Any], defaults: dict[str, Any]
) -> eqx.Module:
    """The network with a name, given the settings that its factory takes; the others must have their defaults."""
    name, factory = resolved(name, spec), factory_of(name, spec)
    parameters = inspect.signature(factory).parameters.values()
    takes_all = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
    known = {parameter.name for parameter in parameters}
    taken = {setting: value for setting, value in settings.items() if takes_all or setting in known}
    for setting, value in settings.items():
        if setting not in taken and value != defaults[setting]:
            raise TrustaxError(f"the network {name!r} has no setting {setting}; leave it at {defaults[setting]!r}")
    return factory(key, spec, **taken)


def factory_of(name: str, spec: EnvSpec) -> Callable[..., Any]:
    """The factory that makes the network with a name."""
    return NETWORKS.find(resolved(name, spec))


def resolved(name: str, spec: EnvSpec) -> str:
    """The network that `auto` stands for."""
    return name if name != AUTO else "nature" if spec.is_image else "mlp"
