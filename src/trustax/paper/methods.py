"""The methods of the paper by their names in its tables, each with the hyperparameter that the name gives.

>>> method("MCPO N=10").memory_size
10
>>> method("KL Adaptive d=0.01").kl_target
0.01
"""

from dataclasses import replace
from typing import Any

from trustax.algorithms import (
    ACKTR,
    MCPO,
    MDPO,
    PPO,
    TRGPPO,
    TRPO,
    VMPO,
    Algorithm,
    KLAdaptive,
    KLFixed,
)
from trustax.errors import TrustaxError, similar_or_all

MEMORY_SIZES = (5, 10, 40)


def paper_mcpo(**settings: Any) -> MCPO:
    """MCPO with the paper's own values of α and β_max; `MCPO()` has a sharper α and adapts β_max."""
    paper: dict[str, Any] = {
        "initial_log_std": 0.0,
        "trust_region_sharpness": 1.0,
        "kl_cost_min": 0.01,
        "kl_cost_max": 10.0,
        "kl_cost_max_target": 0.0,
        "kl_target_growth": 0.0,
        "kl_target_action_growth": 0.0,
        "switch_every": "epoch",
        "unrewarded_advantages": "standardized",
    }
    return MCPO(**paper | settings)


def with_unit_std(algorithms: dict[str, Any]) -> dict[str, Algorithm]:
    """Algorithms whose box actions start with σ = 1, as in the paper's code base."""
    return {name: replace(algorithm, initial_log_std=0.0) for name, algorithm in algorithms.items()}


METHODS: dict[str, Algorithm] = with_unit_std(
    {
        **{f"KL Adaptive d={target}": KLAdaptive(kl_target=target) for target in (0.003, 0.01, 0.03)},
        **{f"KL Fixed β={cost:g}": KLFixed(kl_cost=cost) for cost in (0.01, 0.1, 1.0, 10.0)},
        # The value loss of the paper's code base is clipped at PPO's own ε.
        **{f"PPO ε={clip}": PPO(clip_range=clip, value_clip_range=clip) for clip in (0.1, 0.2, 0.3, 0.5, 0.8)},
        **{f"MDPO β₀={cost:g}": MDPO(kl_cost=cost) for cost in (0.5, 1.0, 2.0)},
        # The code that the paper names averages the policy loss; `VMPO()` sums it.
        **{f"VMPO α₀={cost:g}": VMPO(initial_kl_cost=cost, reduction="mean") for cost in (0.1, 1.0, 5.0)},
        **{f"TRPO δ={target}": TRPO(kl_target=target) for target in (0.005, 0.01)},
        "TRGPPO": TRGPPO(),
        "ACKTR δ=0.01": ACKTR(kl_target=0.01),
    }
) | {
    **{f"MCPO N={size}": paper_mcpo(memory_size=size) for size in MEMORY_SIZES},
    **{f"Mean ψ N={size}": paper_mcpo(memory_size=size, virtual_policy="mean") for size in MEMORY_SIZES},
    "No ψ": paper_mcpo(trust_region_weight=0.0),
    "α=0.5": paper_mcpo(trust_region_weight=0.5),
    "α=1.0": paper_mcpo(trust_region_weight=1.0),
    "Annealed β": paper_mcpo(kl_cost_rule="annealed"),
    "Adaptive β": paper_mcpo(kl_cost_rule="adaptive"),
    **{
        f"{name} writing": paper_mcpo(write_rule="interval", write_interval=interval)
        for name, interval in (("Frequent", 1), ("Uniform", 10), ("Sparse", 100))
    },
    "Half feature": paper_mcpo(context_features="half"),
}
"""Every configuration that the paper's tables, figures and ablations name."""

MCPO_VARIANTS: dict[str, Algorithm] = {
    **{f"MCPO N={size} default": MCPO(memory_size=size) for size in MEMORY_SIZES},
    **{f"MCPO N={size} literal": paper_mcpo(memory_size=size, switch_every="minibatch") for size in MEMORY_SIZES},
}
"""`MCPO()` as it is by default, and MCPO with β decided at every minibatch."""

DEFAULT_ABLATIONS: dict[str, Algorithm] = {
    "No ψ default": MCPO(trust_region_weight=0.0),
    "α=0.5 default": MCPO(trust_region_weight=0.5),
    "Mean ψ default": MCPO(virtual_policy="mean"),
}
"""`MCPO()` with one part of its virtual trust region changed."""

EARLIER_DEFAULTS: dict[str, Algorithm] = {
    f"MCPO N={size} one target": MCPO(memory_size=size, kl_target_action_growth=0.0) for size in MEMORY_SIZES
}
"""`MCPO()` with one KL target for any number of action dimensions."""

BASELINE_VARIANTS: dict[str, Algorithm] = with_unit_std(
    {
        **{f"VMPO α₀={cost:g} sum": VMPO(initial_kl_cost=cost) for cost in (0.1, 1.0, 5.0)},
        **{f"KL Fixed β={cost:g} k2": KLFixed(kl_cost=cost, kl_estimator="k2") for cost in (0.01, 1.0)},
        "KL Adaptive d=0.01 k2": KLAdaptive(kl_target=0.01, kl_estimator="k2"),
        "MDPO β₀=0.5 k2": MDPO(kl_cost=0.5, kl_estimator="k2"),
    }
)
"""Baselines in another form that public code has: see docs/findings.md."""

SMALL_STEPS: dict[str, Algorithm] = with_unit_std({"ACKTR δ=0.001": ACKTR(kl_target=0.001)})
"""ACKTR with the trust region of its code bases: with the paper's, convolutions die on Atari (docs/findings.md)."""

BASELINE_DEFAULTS: dict[str, Algorithm] = {"PPO ε=0.2 default": PPO()}
"""Baselines as they are by default, with the initial σ of `MCPO()`."""

VARIANTS = MCPO_VARIANTS | DEFAULT_ABLATIONS | EARLIER_DEFAULTS | BASELINE_VARIANTS | SMALL_STEPS | BASELINE_DEFAULTS
"""Rows that the paper does not have, beside its own."""


def method(name: str) -> Algorithm:
    """A method by its name in the paper, or by the name of a variant."""
    known = METHODS | VARIANTS
    if name not in known:
        raise TrustaxError(f"the paper has no method {name!r}; {similar_or_all(name, known)}")
    return known[name]
