"""The methods of the paper by the names of its tables, each with its signature hyperparameter.

>>> method("MCPO N=10").memory_size
10
>>> method("KL Adaptive d=0.01").kl_target
0.01
"""

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

METHODS: dict[str, Algorithm] = {
    **{f"KL Adaptive d={target}": KLAdaptive(kl_target=target) for target in (0.003, 0.01, 0.03)},
    **{f"KL Fixed β={cost:g}": KLFixed(kl_cost=cost) for cost in (0.01, 0.1, 1.0, 10.0)},
    # The value loss of the paper's code base is clipped at PPO's own ε.
    **{f"PPO ε={clip}": PPO(clip_range=clip, value_clip_range=clip) for clip in (0.1, 0.2, 0.3, 0.5, 0.8)},
    **{f"MDPO β₀={cost:g}": MDPO(kl_cost=cost) for cost in (0.5, 1.0, 2.0)},
    **{f"VMPO α₀={cost:g}": VMPO(initial_kl_cost=cost) for cost in (0.1, 1.0, 5.0)},
    **{f"TRPO δ={target}": TRPO(kl_target=target) for target in (0.005, 0.01)},
    "TRGPPO": TRGPPO(),
    "ACKTR δ=0.01": ACKTR(kl_target=0.01),
    **{f"MCPO N={size}": MCPO(memory_size=size) for size in MEMORY_SIZES},
    **{f"Mean ψ N={size}": MCPO(memory_size=size, virtual_policy="mean") for size in MEMORY_SIZES},
    "No ψ": MCPO(trust_region_weight=0.0),
    "α=0.5": MCPO(trust_region_weight=0.5),
    "α=1.0": MCPO(trust_region_weight=1.0),
    "Annealed β": MCPO(kl_cost_rule="annealed"),
    "Adaptive β": MCPO(kl_cost_rule="adaptive"),
    **{
        f"{name} writing": MCPO(write_rule="interval", write_interval=interval)
        for name, interval in (("Frequent", 1), ("Uniform", 10), ("Sparse", 100))
    },
    "Half feature": MCPO(context_features="half"),
}
"""Every configuration that the paper's tables, figures and ablations name."""

VARIANTS: dict[str, Algorithm] = {
    f"MCPO N={size} β_max=1": MCPO(memory_size=size, kl_cost_max=1.0) for size in MEMORY_SIZES
}
"""What we list beside the paper's rows: MCPO held less tightly than it says; docs/fidelity.md tells why."""


def method(name: str) -> Algorithm:
    """A method by its name in the paper, or a variant of ours."""
    known = METHODS | VARIANTS
    if name not in known:
        raise TrustaxError(f"the paper has no method {name!r}; {similar_or_all(name, known)}")
    return known[name]
