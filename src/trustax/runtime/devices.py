"""The devices of a run: learners are distributed over all devices; environments run where their engine does.

Arrays are sharded along the seed axis, so devices never wait for each other. Environments in C++ step on the CPU, even
if the learners are on a GPU.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from trustax.errors import TrustaxError
from trustax.runtime.compilation import cache_compilations, compiler_options
from trustax.runtime.cores import available_cores

SEEDS = PartitionSpec("seed")
REPLICATED = PartitionSpec()


def use_cores(num_seeds: int) -> None:
    """Create one single-threaded CPU device per core, at most one per seed.

    Small networks run faster on one thread than on several, and the cores are used better by separate seeds than by the
    operations of one seed. This is possible only once, before JAX has started. Settings of the user are respected.
    """
    if jax.config.values["jax_num_cpu_devices"] > 0 or "NPROC" in os.environ:
        return
    try:
        jax.config.update("jax_num_cpu_devices", min(num_seeds, len(available_cores())))
    except RuntimeError:  # JAX has started
        return
    with _environment_variable("NPROC", "1"):
        require_backend()


def require_backend() -> None:
    """Start JAX; raise an error if the platform that the user has chosen cannot be used."""
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:
        platforms = jax.config.values["jax_platforms"]
        if not platforms:
            raise
        reason = " ".join(str(error).split()).partition(" (set JAX_PLATFORMS")[0][:200]
        raise TrustaxError(
            f"JAX cannot use JAX_PLATFORMS={platforms}{reason and f' ({reason})'}; "
            "install JAX for this platform, or unset the variable"
        ) from error


@contextmanager
def _environment_variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable temporarily, so that processes started later do not inherit it."""
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


def configure_devices(num_seeds: int, large_network: bool = False) -> None:
    """Configure JAX for a run, which is possible only before its first use: compilation cache and CPU devices.

    A large network, such as one for images, uses all cores by itself, so it gets one device with all of them.
    """
    cache_compilations()
    if not large_network:
        use_cores(num_seeds)
    require_backend()


class Placement:
    """The devices of a run. With `collect_on_cpu`, all environments are on one CPU device."""

    def __init__(self, num_seeds: int, collect_on_cpu: bool = False) -> None:
        devices = jax.local_devices()[:num_seeds]
        self._mesh = Mesh(devices, ("seed",))
        self._padding = -num_seeds % len(devices)
        self._collect_on_one_device = len(devices) == 1 or collect_on_cpu
        self._options = compiler_options(devices[0].platform)
        self.learners: Sharding = SingleDeviceSharding(devices[0])
        if len(devices) > 1:
            # If the devices cannot share the seeds evenly, arrays are replicated, and padded with copies to be sharded.
            self.learners = NamedSharding(self._mesh, REPLICATED if self._padding else SEEDS)
        self.environments = self.learners
        if collect_on_cpu:
            self.environments = SingleDeviceSharding(jax.local_devices(backend="cpu")[0])

    @property
    def is_split(self) -> bool:
        """Whether environments and learners are on different devices."""
        return self.environments != self.learners

    def put_learners(self, tree: Any) -> Any:
        """Move the state of the learners to its devices."""
        return jax.device_put(tree, self.learners)

    def put_environments(self, tree: Any) -> Any:
        """Move the state of the environments to its devices."""
        return jax.device_put(tree, self.environments)

    def scalar(self, value: Any) -> Any:
        """A number that all devices share."""
        return value

    def whole(self, tree: Any) -> Any:
        """The arrays of all devices."""
        return tree

    def learn(self, function: Callable[..., Any], donate: tuple[int, ...] = ()) -> Any:
        """Jit a function for the devices of the learners. All arguments except the last one have a seed axis."""

        def sharded(*arguments: Any) -> Any:
            *mapped, shared = arguments
            specs = (*(SEEDS for _ in mapped), REPLICATED)
            return self._unpad(self._shard(function, specs)(*map(self._pad, mapped), shared))

        return self._jit(sharded if self._mesh.size > 1 else function, donate)

    def collect(self, function: Callable[..., Any], donate: tuple[int, ...] = ()) -> Any:
        """Jit a function for the devices of the environments. All arguments have a seed axis."""

        def sharded(*arguments: Any) -> Any:
            return self._unpad(self._shard(function, SEEDS)(*map(self._pad, arguments)))

        return self._jit(function if self._collect_on_one_device else sharded, donate)

    log = collect
    """Jit a function that logs a rollout; all its arguments have a seed axis too."""

    def _jit(self, function: Callable[..., Any], donate: tuple[int, ...]) -> Any:
        return jax.jit(function, donate_argnums=donate, compiler_options=self._options)

    def _shard(self, function: Callable[..., Any], specs: Any) -> Callable[..., Any]:
        """Run the function on every device, each with its share of the seeds."""
        return jax.shard_map(function, mesh=self._mesh, in_specs=specs, out_specs=SEEDS, check_vma=False)

    def _pad(self, tree: Any) -> Any:
        if not self._padding:
            return tree
        return jax.tree.map(lambda x: jnp.concatenate([x, x[: self._padding]]), tree)

    def _unpad(self, tree: Any) -> Any:
        if not self._padding:
            return tree
        unpadded = jax.tree.map(lambda x: x[: x.shape[0] - self._padding], tree)
        return jax.lax.with_sharding_constraint(unpadded, self.learners)

    def __str__(self) -> str:
        device = next(iter(self._mesh.devices.flat))
        name = device.device_kind if device.platform != "cpu" else "CPU"
        return f"{self._mesh.size} × {name}" if self._mesh.size > 1 else name
