"""Where a run lives: learners on every device there is, seeds apart; environments where their engine runs.

The seed axis is what is divided, so devices never wait for each other. Environments of C++ step on the CPU, also where
the learners sit on a GPU.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

SEEDS = PartitionSpec("seed")
EVERYWHERE = PartitionSpec()


def num_shares(num_seeds: int, num_devices: int) -> int:
    """How many devices are used: as many as divide the seeds evenly.

    >>> [num_shares(num_seeds, 4) for num_seeds in (1, 2, 3, 4, 5, 6, 8)]
    [1, 2, 3, 4, 1, 3, 4]
    """
    return max(share for share in range(1, num_devices + 1) if num_seeds % share == 0)


class Placement:
    """The devices of a run.

    `collect_on_cpu` keeps the environments in this process, on one CPU device.
    """

    def __init__(self, num_seeds: int, collect_on_cpu: bool = False) -> None:
        available = jax.local_devices()
        width = num_shares(num_seeds, len(available))
        self._mesh = Mesh(available[:width], ("seed",))
        self._together = width == 1 or collect_on_cpu
        self.learners: Sharding = NamedSharding(self._mesh, SEEDS) if width > 1 else SingleDeviceSharding(available[0])
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
            specs = (SEEDS,) * (len(arguments) - 1) + (EVERYWHERE,)
            return self._divide(function, specs)(*arguments)

        return jax.jit(divided if self._mesh.size > 1 else function, donate_argnums=donate)

    def collect(self, function: Callable[..., Any], donate: tuple[int, ...] = ()) -> Any:
        """A program for the environments' devices; all arguments have a seed axis."""
        return jax.jit(function if self._together else self._divide(function, SEEDS), donate_argnums=donate)

    def _divide(self, function: Callable[..., Any], specs: Any) -> Callable[..., Any]:
        """The function on every device's own share of the seeds."""
        return jax.shard_map(function, mesh=self._mesh, in_specs=specs, out_specs=SEEDS, check_vma=False)

    def __str__(self) -> str:
        device = next(iter(self._mesh.devices.flat))
        name = device.device_kind if device.platform != "cpu" else "CPU"
        return f"{self._mesh.size} × {name}" if self._mesh.size > 1 else name
