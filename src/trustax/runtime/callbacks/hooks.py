"""What a callback is: the methods that it may have, and several callbacks called as one."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import jax
import numpy as np

from trustax.errors import TrustaxError
from trustax.run import Run
from trustax.runtime.distributed import Group

if TYPE_CHECKING:
    from trustax.runtime.iteration import Iteration
    from trustax.runtime.result import Result

HOOKS = ("on_start", "on_resume", "on_iteration", "on_checkpoint", "on_stop", "on_end")


class Hooks(Protocol):
    """The methods that a callback may have; all are optional.

    In a distributed run, process 0 calls the callbacks. Those with an attribute `in_every_process = True` are called in
    every process, each with its own `iteration.learners`. A run has at most one of those with `is_unique = True`.
    """

    def on_start(self, run: Run, run_dir: Path | None, timesteps: int) -> Any:
        """Called before the first iteration. A resumed run starts at `timesteps`."""
        ...

    def on_resume(self, iteration: "Iteration") -> Any:
        """Called after `on_start` with the iteration from which a run resumes.

        The run may have been killed after this iteration was saved and before `on_iteration` was called.
        """
        ...

    def on_iteration(self, iteration: "Iteration") -> Any:
        """Called after an iteration; True stops the run."""
        ...

    def on_checkpoint(self, iteration: "Iteration") -> Any:
        """Called after an iteration that was saved: before `on_iteration`, or after it if a callback stops the run."""
        ...

    def on_stop(self, iteration: "Iteration") -> Any:
        """Called with the last iteration if a callback stops the run before its end."""
        ...

    def on_end(self, result: "Result") -> Any:
        """Called when the run has ended or a callback has stopped it, with the result that `train` returns."""
        ...


Callback = Callable[["Iteration"], Any] | Any
"""A callable, or an object with any of the methods of `Hooks`."""


class Callbacks:
    """Several callbacks as one."""

    def __init__(self, callbacks: Iterable[Callback]) -> None:
        self._callbacks = list(callbacks)
        for callback in self._callbacks:
            if isinstance(callback, type):
                raise TrustaxError(f"a callback must be an object, not a class: {callback.__name__}(...)")
            if not callable(callback) and not any(hasattr(callback, hook) for hook in HOOKS):
                raise TrustaxError(
                    f"a callback must be a function of an iteration or have one of the methods {', '.join(HOOKS)}; "
                    f"{callback!r} has none"
                )
        unique = [type(callback).__name__ for callback in self._callbacks if getattr(callback, "is_unique", False)]
        for name in unique:
            if unique.count(name) > 1:
                raise TrustaxError(f"a run can have one {name} callback, not {unique.count(name)}: they share files")

    def of_process(self, group: Group) -> "Callbacks":
        """The callbacks that a process of a distributed run calls."""
        if group.is_first:
            return self
        called = self._callbacks if group.reports_learners else []
        return Callbacks(one for one in called if getattr(one, "in_every_process", False))

    def have(self, kind: type) -> bool:
        """Whether one of them is of a kind."""
        return any(isinstance(callback, kind) for callback in self._callbacks)

    def start(self, run: Run, run_dir: Path | None, timesteps: int) -> None:
        self._call("on_start", run, run_dir, timesteps)

    def resume(self, iteration: "Iteration") -> None:
        self._call("on_resume", iteration)

    def iteration(self, iteration: "Iteration") -> bool:
        """Call every callback, and return whether one of them stops the run."""
        answers = [
            callback.on_iteration(iteration) if hasattr(callback, "on_iteration") else callback(iteration)
            for callback in self._callbacks
            if hasattr(callback, "on_iteration") or callable(callback)
        ]
        return any(map(_is_true, answers))

    def checkpoint(self, iteration: "Iteration") -> None:
        self._call("on_checkpoint", iteration)

    def stop(self, iteration: "Iteration") -> None:
        self._call("on_stop", iteration)

    def end(self, result: "Result") -> None:
        self._call("on_end", result)

    def _call(self, hook: str, *arguments: Any) -> None:
        for callback in self._callbacks:
            if hasattr(callback, hook):
                getattr(callback, hook)(*arguments)


def _is_true(answer: Any) -> bool:
    """Whether a callback returned True, also as a boolean of NumPy or JAX; other values do not count."""
    is_boolean = isinstance(answer, bool | np.bool_ | jax.Array) and np.asarray(answer).dtype == bool
    return is_boolean and np.ndim(answer) == 0 and bool(answer)
