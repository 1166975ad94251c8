"""Where a run lives: learners on every device there is, seeds apart; environments where their engine runs.

The seed axis is what is divided, so devices never wait for each other. Environments of C++ step on the CPU, also where
the learners sit on a GPU.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from trustax.runtime.compilation import cache_compilations, compiler_options
from trustax.runtime.cores import available_cores

SEEDS = PartitionSpec("seed")
EVERYWHERE = PartitionSpec()


def use_cores(num_seeds: int) -> None:
    """Make a device of every core that a run of so many seeds can use, with one thread each.

    Small networks are computed faster by one thread than by several, and seeds share the cores better than the
    operations of one seed do. This can be settled only once, before JAX has started; users may settle it themselves.
    """
    if jax.config.values["jax_num_cpu_devices"] > 0 or "NPROC" in os.environ:
        return
    try:
        jax.config.update("jax_num_cpu_devices", min(num_seeds, len(available_cores())))
    except RuntimeError:  # JAX has started
        return
    with _variable("NPROC", "1"):
        jax.devices()


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """An environment variable that is set for a moment: processes started later shall not see it."""
    os.environ[name] = value
    yield
    del os.environ[name]


def configure_devices(num_seeds: int, large_network: bool = False) -> None:
    """Configure JAX for a run, which is possible only before its first use: compilation cache and CPU devices.

    A large network, one that sees images, keeps all cores busy by itself, so it gets one device with all of them.
    """
    cache_compilations()
    if not large_network:
        use_cores(num_seeds)


class Placement:
    """The devices of a run. `collect_on_cpu` keeps the environments together, on one CPU device."""

    def __init__(self, num_seeds: int, collect_on_cpu: bool = False) -> None:
        devices = jax.local_devices()[:num_seeds]
        self._mesh = Mesh(devices, ("seed",))
        self._missing = -num_seeds % len(devices)
        self._together = len(devices) == 1 or collect_on_cpu
        self._options = compiler_options(devices[0].platform)
        self.learners: Sharding = SingleDeviceSharding(devices[0])
        if len(devices) > 1:
            # What cannot be divided evenly is kept everywhere, and divided with some seeds doubled to fill up.
            self.learners = NamedSharding(self._mesh, EVERYWHERE if self._missing else SEEDS)
        self.environments = self.learners
        if collect_on_cpu:
            self.environments = SingleDeviceSharding(jax.local_devices(backend="cpu")[0])

    @property
    def is_split(self) -> bool:
        """Whether environments and learners are on different devices."""
        return self.environments != self.learners

    def learn(self, function: Callable[..., Any], donate: tuple[int, ...] = ()) -> Any:
        """A program for the learners' devices; all arguments have a seed axis but the last, which is for everyone."""

        def divided(*arguments: Any) -> Any:
            *mapped, shared = arguments
            specs = (*(SEEDS for _ in mapped), EVERYWHERE)
            return self._cut(self._divide(function, specs)(*map(self._filled, mapped), shared))

        return self._jit(divided if self._mesh.size > 1 else function, donate)

    def collect(self, function: Callable[..., Any], donate: tuple[int, ...] = ()) -> Any:
        """A program for the environments' devices; all arguments have a seed axis."""

        def divided(*arguments: Any) -> Any:
            return self._cut(self._divide(function, SEEDS)(*map(self._filled, arguments)))

        return self._jit(function if self._together else divided, donate)

    def _jit(self, function: Callable[..., Any], donate: tuple[int, ...]) -> Any:
        return jax.jit(function, donate_argnums=donate, compiler_options=self._options)

    def _divide(self, function: Callable[..., Any], specs: Any) -> Callable[..., Any]:
        """The function on every device's own share of the seeds."""
        return jax.shard_map(function, mesh=self._mesh, in_specs=specs, out_specs=SEEDS, check_vma=False)

    def _filled(self, tree: Any) -> Any:
        if not self._missing:
            return tree
        return jax.tree.map(lambda x: jnp.concatenate([x, x[: self._missing]]), tree)

    def _cut(self, tree: Any) -> Any:
        if not self._missing:
            return tree
        whole = jax.tree.map(lambda x: x[: x.shape[0] - self._missing], tree)
        return jax.lax.with_sharding_constraint(whole, self.learners)

    def __str__(self) -> str:
        device = next(iter(self._mesh.devices.flat))
        name = device.device_kind if device.platform != "cpu" else "CPU"
        return f"{self._mesh.size} × {name}" if self._mesh.size > 1 else name
