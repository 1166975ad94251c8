"""Callbacks: functions and objects that are called after every iteration and may stop a run.

A callback is a callable `f(iteration)`, or an object with any of the methods of `Hooks`. If a callback returns True
after an iteration, the run is saved and stops; it can be resumed. Callbacks never change the numbers of a run.
"""

from trustax.runtime.callbacks.evaluating import BEST_AGENT, Evaluate
from trustax.runtime.callbacks.hooks import HOOKS, Callback, Callbacks, Hooks
from trustax.runtime.callbacks.keeping import KeepAgents
from trustax.runtime.callbacks.printing import PrintProgress
from trustax.runtime.callbacks.registry import CALLBACKS, callback_from_text, register_callback
from trustax.runtime.callbacks.stopping import StopAtReturn, StopWithoutProgress

__all__ = [
    "BEST_AGENT",
    "CALLBACKS",
    "HOOKS",
    "Callback",
    "Callbacks",
    "Evaluate",
    "Hooks",
    "KeepAgents",
    "PrintProgress",
    "StopAtReturn",
    "StopWithoutProgress",
    "callback_from_text",
    "register_callback",
]
