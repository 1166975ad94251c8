"""The specification of an environment in JSON values."""

from dataclasses import asdict
from typing import Any

from trustax.ops.observations import Part
from trustax.storage.atomic import jsonable
from trustax.types import Actions, BoxActions, DiscreteActions, EnvSpec, MultiDiscreteActions


def spec_to_json(spec: EnvSpec) -> dict[str, Any]:
    """Convert an EnvSpec to JSON values."""
    return jsonable(asdict(spec))


def spec_from_json(values: dict[str, Any]) -> EnvSpec:
    """Restore a spec from `spec_to_json`. The names of the action fields determine the kind of actions."""
    actions, parts = _with_tuples(values["actions"]), values.get("parts")
    return EnvSpec(
        tuple(values["observation_shape"]),
        _actions_from_json(actions),
        values["observation_dtype"],
        None if parts is None else tuple(Part(**_with_tuples(part)) for part in parts),
    )


def _actions_from_json(fields: dict[str, Any]) -> Actions:
    if "count" in fields:
        return DiscreteActions(**fields)
    if "counts" in fields:
        return MultiDiscreteActions(**fields)
    bounds = {name: tuple(map(float, fields[name])) for name in ("low", "high")}
    return BoxActions(**fields | bounds)


def _with_tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
