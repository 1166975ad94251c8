"""Settings: the types and ranges of their values, and the registries of the objects that they refer to by name."""

from trustax.settings.checked import TRAIN_ARGUMENTS, CheckedSettings, per_learner_values, validated, with_values
from trustax.settings.kinds import PerLearner
from trustax.settings.ranges import AllowedRange, setting
from trustax.settings.registry import Registry

__all__ = [
    "TRAIN_ARGUMENTS",
    "AllowedRange",
    "CheckedSettings",
    "PerLearner",
    "Registry",
    "per_learner_values",
    "setting",
    "validated",
    "with_values",
]
