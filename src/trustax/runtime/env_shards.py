"""The environments of each learner divided over devices, for rollouts that do not fit one device.

Every device has all learners and some of the environments of each. It collects from its own environments and takes its
share of every minibatch; gradients, expectations and the statistics of observations are those of all environments, by
sums over the devices (see `trustax.ops.transforms`). Results differ from those of an undivided run: each device draws
its own actions and shuffles its own samples.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from trustax.algorithms import name_of
from trustax.envs import CompiledEnvironment, HostEnvironment
from trustax.errors import TrustaxError
from trustax.ops.transforms import ENVS
from trustax.run import Run
from trustax.runtime.collector_state import CollectorState
from trustax.runtime.compilation import compiler_options
from trustax.runtime.devices import REPLICATED, Placement
from trustax.runtime.episodes import EpisodeWindow

STATE = PartitionSpec(None, ENVS)
"""`seed env ...`"""
ROLLOUT = PartitionSpec(None, None, ENVS)
"""`seed time env ...`"""


def check_env_shards(run: Run, environment: CompiledEnvironment | HostEnvironment, num_processes: int = 1) -> None:
    """Raise an error if the environments of a run cannot be divided as its settings say."""
    if run.env_shards == 1:
        return
    if getattr(environment, "on_cpu", False) or not isinstance(environment, CompiledEnvironment):
        raise TrustaxError(f"env_shards needs an environment written in JAX; {run.env_id} is not, so leave it at 1")
    if not getattr(run.algorithm, "can_divide_envs", False):
        raise TrustaxError(
            f"{name_of(run.algorithm)} cannot divide its environments over devices; leave env_shards at 1, or use a "
            "method of first order such as ppo or mcpo"
        )
    available = jax.local_device_count() * num_processes
    if available < run.env_shards:
        raise TrustaxError(
            f"env_shards is {run.env_shards}, but the number of devices is {available}; with fewer devices the "
            "results would differ"
        )


def placement_of(run: Run, environment: CompiledEnvironment | HostEnvironment) -> "Placement | EnvPlacement":
    """The devices of a run."""
    if run.env_shards > 1:
        return EnvPlacement(run.env_shards)
    return Placement(run.num_seeds, collect_on_cpu=getattr(environment, "on_cpu", False))


class EnvPlacement:
    """The devices of a run whose environments are divided; it has the methods of `Placement`."""

    is_split = False

    def __init__(self, num_shards: int) -> None:
        own = num_shards // jax.process_count()
        processes = [jax.local_devices(process) for process in range(jax.process_count())]
        devices = [device for of_process in processes for device in of_process[:own]]
        self._mesh = Mesh(devices, (ENVS,))
        self._options = compiler_options(devices[0].platform)
        self.learners = NamedSharding(self._mesh, REPLICATED)
        self.environments = NamedSharding(self._mesh, STATE)

    def put_learners(self, tree: Any) -> Any:
        """Copy arrays to all devices."""
        return jax.tree.map(lambda leaf: _put(leaf, self.learners), tree)

    def put_environments(self, tree: Any) -> Any:
        """Divide the state of the environments over the devices."""
        return jax.tree.map(lambda leaf, spec: _put(leaf, NamedSharding(self._mesh, spec)), tree, _specs(tree))

    def scalar(self, value: Any) -> Any:
        """A number in a form that every process can pass to a program of all processes."""
        return value if jax.process_count() == 1 else np.asarray(value)

    def whole(self, tree: Any) -> Any:
        """The arrays of all devices on this host; every process must call it."""
        if jax.process_count() == 1:
            return tree
        plain = jax.jit(partial(jax.tree.map, _plain), out_shardings=self.learners)(tree)
        on_host = jax.tree.map(np.asarray, plain)
        return jax.tree.map(
            lambda leaf, found: jax.random.wrap_key_data(jnp.asarray(found)) if _is_key(leaf) else found, tree, on_host
        )

    def collect(self, function: Callable[..., Any], donate: tuple[int, ...] = ()) -> Any:
        """Jit a function of policies, a collector state, environments and keys."""

        def sharded(*arguments: Any) -> Any:
            observer = _specs(arguments[1])
            specs, out_specs = (REPLICATED, observer, STATE, REPLICATED), (observer, STATE, ROLLOUT, ROLLOUT)
            return self._shard(function, specs, out_specs)(*arguments)

        return self._jit(sharded, donate)

    def log(self, function: Callable[..., Any], donate: tuple[int, ...] = ()) -> Any:
        """Jit a function of windows of episodes, a rollout, finished episodes and statistics."""
        return self._jit(self._shard(function, (REPLICATED, ROLLOUT, ROLLOUT, REPLICATED), REPLICATED), donate)

    def learn(self, function: Callable[..., Any], donate: tuple[int, ...] = ()) -> Any:
        """Jit a function of learners, a rollout, keys, values and the progress."""
        specs = (REPLICATED, ROLLOUT, REPLICATED, REPLICATED, REPLICATED)
        return self._jit(self._shard(function, specs, REPLICATED), donate)

    def _shard(self, function: Callable[..., Any], specs: Any, out_specs: Any) -> Callable[..., Any]:
        return jax.shard_map(function, mesh=self._mesh, in_specs=specs, out_specs=out_specs, check_vma=False)

    def _jit(self, function: Callable[..., Any], donate: tuple[int, ...]) -> Any:
        return jax.jit(function, donate_argnums=donate, compiler_options=self._options)

    def __str__(self) -> str:
        device = next(iter(self._mesh.devices.flat))
        name = device.device_kind if device.platform != "cpu" else "CPU"
        return f"{self._mesh.size} × {name} that share environments"


def _is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _put(leaf: Any, sharding: NamedSharding) -> Any:
    """Put an array, which every process has, on the devices of all processes."""
    if jax.process_count() == 1:
        return jax.device_put(leaf, sharding)
    if _is_key(leaf):
        return jax.random.wrap_key_data(_put(jax.random.key_data(leaf), sharding))
    host = np.asarray(leaf)
    return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])


def _specs(tree: Any) -> Any:
    """How each array is divided: by environments, except statistics and the window of the last episodes."""

    def of(part: Any) -> Any:
        if isinstance(part, CollectorState):
            return jax.tree_util.tree_map_with_path(
                lambda path, _: REPLICATED if path[0].name.endswith("statistics") else STATE, part
            )
        return jax.tree.map(lambda _: REPLICATED if isinstance(part, EpisodeWindow) else STATE, part)

    return tuple(map(of, tree)) if type(tree) is tuple else of(tree)
