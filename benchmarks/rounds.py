"""The readings of MCPO that were compared to choose its default, round by round.

The results: docs/readings.md and docs/readings-tables.md.

A reading differs from another in numbers alone, so that one program trains all of them: see readings.py.
"""

from typing import NamedTuple

from trustax.algorithms.mcpo.beta_max import REFERENCE_BATCH_SIZE
from trustax.algorithms.mcpo.mcpo import LARGE_MINIBATCH

EXACT, K1, K2, K3 = (tuple(float(i == j) for j in range(4)) for i in range(4))
"""How a divergence is estimated: exactly, or from the taken actions by -log r, ½ (log r)², r - 1 - log r."""


class Reading(NamedTuple):
    """The numbers in which readings differ. The defaults are the paper's values, with β held for an epoch."""

    kl_cost_max: float = 10.0
    each_minibatch: float = 0.0
    """decide β at every minibatch"""
    growth: float = 0.0
    """multiply β by this in each epoch that begins outside, up to β_max, in place of switching to β_max at once"""
    cap_target: float = 0.0
    """adapt β_max after each iteration, as KL Adaptive adapts β, to this divergence of old and new policy"""
    sharpness: float = 1.0
    """factor on what the sigmoid of α sees"""
    minibatch_advantages: float = 0.0
    """standardize advantages in each minibatch"""
    penalty: tuple[float, ...] = EXACT
    switch: tuple[float, ...] = EXACT
    """how the divergences that β compares are estimated"""
    clip: float = 0.0
    """PPO with this clip range instead of MCPO"""
    by_batch: float = 0.0
    """the power of the batch size, relative to 8,192 samples, that `cap_target` grows with is half of this"""
    small_means: float = 0.0
    """start with means of box actions of size 0.01 instead of 1"""
    floor: float = 0.0
    """divide advantages by at least this value, and do not lower β_max while their standard deviation is below it:
    where no reward is seen, the advantages are the noise of the critic"""
    normalized: float = 0.0
    """divide the objective of the policy by 1 + β, so that a large β does not use up the limit of the gradient norm"""
    root: float = 0.0
    """multiply β_max by the root of the divergence relative to its target, at most 10, in place of 2 or ½"""
    cap_min: float = 0.1
    """lower limit of an adaptive β_max"""
    hold: float = 0.0
    """decide β after this many samples, if an epoch has more of them"""
    auto: float = 0.0
    """1: decide β at every minibatch if it has 1,024 samples or more, else once an epoch; 2: also with box actions"""
    scale_decay: float = 0.0
    """divide advantages by a scale that falls at most by this factor in an iteration, and do not lower β_max while
    their standard deviation is below half of it: after a reward, batches without one count less"""
    unrewarded: float = 0.0
    """divide the advantages of a rollout without any reward by the standard deviation of the last one with a reward,
    and do not lower β_max then; before the first reward, such advantages are 0. That standard deviation is multiplied
    by this value in each rollout without a reward"""
    relative: float = 0.0
    """divide what the sigmoid of α sees by its root mean square in the minibatch"""
    small_std: float = 0.0
    """start with a log σ of -1 for box actions instead of 0"""
    shared_std: float = 0.0
    """start with σ = 1/√d for d box actions instead of 1, as the library does by default"""
    by_actions: float = 0.0
    """the power of the number of box actions that `cap_target` grows with"""


READINGS = {
    "minibatch 10": Reading(each_minibatch=1.0),
    "minibatch 1": Reading(each_minibatch=1.0, kl_cost_max=1.0),
    "epoch 10": Reading(),
    "epoch 3": Reading(kl_cost_max=3.0),
    "epoch 1": Reading(kl_cost_max=1.0),
    "epoch 10, sharp α": Reading(sharpness=100.0),
    "epoch 3, sharp α": Reading(kl_cost_max=3.0, sharpness=100.0),
    "epoch 1, sharp α": Reading(kl_cost_max=1.0, sharpness=100.0),
    "epoch 10, minibatch advantages": Reading(minibatch_advantages=1.0),
    "epoch 3, minibatch advantages": Reading(kl_cost_max=3.0, minibatch_advantages=1.0),
    "epoch 10, penalty k1": Reading(penalty=K1),
    "epoch 10, penalty k2": Reading(penalty=K2),
    "epoch 10, penalty k3": Reading(penalty=K3),
    "epoch 10, switch k1": Reading(switch=K1),
    "epoch 10, switch k2": Reading(switch=K2),
    "epoch 10, growing": Reading(growth=10.0),
    "cap to 0.003": Reading(kl_cost_max=1.0, cap_target=0.003),
    "cap to 0.01": Reading(kl_cost_max=1.0, cap_target=0.01),
    "cap to 0.03": Reading(kl_cost_max=1.0, cap_target=0.03),
    "PPO": Reading(clip=0.2),
}
"""The first round."""

SECOND_ROUND = {
    "cap to 0.005": Reading(kl_cost_max=1.0, cap_target=0.005),
    **{f"cap to {target} from 10": Reading(cap_target=target) for target in (0.003, 0.005, 0.01)},
    **{
        f"cap to {target} from 10, minibatch advantages": Reading(cap_target=target, minibatch_advantages=1.0)
        for target in (0.003, 0.005, 0.01)
    },
}
"""Around what the first round picked: a β_max that adapts, and begins at the paper's value."""
READINGS |= SECOND_ROUND

ADAPTIVE = Reading(cap_target=0.01)
"""`MCPO()` after the second round."""
VARIATIONS = {
    "": {},
    ", √batch": {"by_batch": 1.0},
    ", √batch, normalized": {"by_batch": 1.0, "normalized": 1.0},
    ", √batch, each minibatch": {"by_batch": 1.0, "each_minibatch": 1.0},
    ", √batch, each minibatch, normalized": {"by_batch": 1.0, "each_minibatch": 1.0, "normalized": 1.0},
    ", √batch, minibatch advantages": {"by_batch": 1.0, "minibatch_advantages": 1.0},
    ", √batch, start at 100": {"by_batch": 1.0, "kl_cost_max": 100.0},
}
THIRD_ROUND = {
    f"adaptive{name}{means}": ADAPTIVE._replace(**values, small_means=float(bool(means)))
    for name, values in VARIATIONS.items()
    for means in ("", ", small means")
} | {"PPO, small means": Reading(clip=0.2, small_means=1.0)}
"""Around what the second round picked."""
FOURTH_ROUND = {
    f"adaptive, √batch, floor {floor}": ADAPTIVE._replace(by_batch=1.0, floor=floor) for floor in (0.03, 0.1, 0.3)
}
"""Planned after the third round, to see whether the noise of the critic makes seeds fail on UnlockPickup."""
FIFTH_ROUND = {
    f"adaptive, {name}": ADAPTIVE._replace(**{"by_batch": 1.0} | values)
    for name, values in {
        "∝batch": {"by_batch": 2.0},
        "∝batch, each minibatch": {"by_batch": 2.0, "each_minibatch": 1.0},
        "∝batch, root": {"by_batch": 2.0, "root": 1.0},
        "√batch, root": {"root": 1.0},
        "√batch, root, floor 0.1": {"root": 1.0, "floor": 0.1},
        "√batch, root, start at 100": {"root": 1.0, "kl_cost_max": 100.0},
        "√batch, root, start at 100, floor 0.1": {"root": 1.0, "kl_cost_max": 100.0, "floor": 0.1},
        "√batch, low limit": {"cap_min": 0.01},
    }.items()
}
"""How far the target grows with the batch, and how fast β_max adapts."""
EACH_MINIBATCH = ADAPTIVE._replace(by_batch=2.0, each_minibatch=1.0)
SIXTH_ROUND = {
    f"adaptive, ∝batch, each minibatch, {name}": EACH_MINIBATCH._replace(**values)
    for name, values in {
        "target 0.005": {"cap_target": 0.005},
        "target 0.02": {"cap_target": 0.02},
        "start at 100": {"kl_cost_max": 100.0},
        "floor 0.1": {"floor": 0.1},
        "floor 0.1, start at 100": {"floor": 0.1, "kl_cost_max": 100.0},
        "minibatch advantages": {"minibatch_advantages": 1.0},
        "small means": {"small_means": 1.0},
        "sharp α": {"sharpness": 100.0},
    }.items()
} | {
    "adaptive, ∝batch, sharp α": ADAPTIVE._replace(by_batch=2.0, sharpness=100.0),
    "adaptive, ∝batch, auto": ADAPTIVE._replace(by_batch=2.0, auto=1.0),
    **{
        f"adaptive, ∝batch, hold {hold}{sharp}": ADAPTIVE._replace(
            by_batch=2.0, hold=float(hold), sharpness=100.0 if sharp else 1.0
        )
        for hold in (1024, 2048, 8192)
        for sharp in ("", ", sharp α")
    },
}
"""Around the reading of the fifth round that does best on BipedalWalker, with 40 or more seeds on the tasks in JAX."""
AUTO = ADAPTIVE._replace(by_batch=2.0, auto=1.0)
SEVENTH_ROUND = {
    "auto, sharp α": AUTO._replace(sharpness=100.0),
    "auto, floor 0.3": AUTO._replace(floor=0.3),
    "auto, scale 0.97": AUTO._replace(scale_decay=0.97),
    "auto, scale 0.97, sharp α": AUTO._replace(scale_decay=0.97, sharpness=100.0),
    "auto, unrewarded": AUTO._replace(unrewarded=1.0),
    "auto, unrewarded 0.97": AUTO._replace(unrewarded=0.97),
    "auto, unrewarded, sharp α": AUTO._replace(unrewarded=1.0, sharpness=100.0),
}
"""Around `MCPO()` ("adaptive, ∝batch, auto"): α and the scale of the advantages, with 16 to 100 seeds."""
UNREWARDED = AUTO._replace(unrewarded=0.97)
EIGHTH_ROUND = {
    "auto, unrewarded 0.97, sharp α": UNREWARDED._replace(sharpness=100.0),
    "auto, unrewarded 0.97, relative α": UNREWARDED._replace(relative=1.0, sharpness=3.0),
    "auto, unrewarded 0.97, small σ": UNREWARDED._replace(small_std=1.0),
}
"""Around what the seventh round picked: a sharper α, and the initial σ."""
SHARP = "auto, unrewarded 0.97, sharp α"
NINTH_ROUND = {f"{SHARP}, σ = 1/√d": EIGHTH_ROUND[SHARP]._replace(shared_std=1.0)}
"""The initial σ again: with one box action it is 1, with several it is smaller."""
SHARED = f"{SHARP}, σ = 1/√d"
TENTH_ROUND = {
    f"{SHARED}, target ∝ √d": NINTH_ROUND[SHARED]._replace(by_actions=0.5),
    f"{SHARED}, target ∝ d": NINTH_ROUND[SHARED]._replace(by_actions=1.0),
}
"""The KL target of several box actions, whose divergence is a sum over them."""
THIRTEENTH_ROUND = {
    f"{SHARED}, target ∝ √d, each minibatch with box actions": TENTH_ROUND[f"{SHARED}, target ∝ √d"]._replace(auto=2.0)
}
"""When β is decided with box actions and small minibatches."""
READINGS |= THIRTEENTH_ROUND | (
    TENTH_ROUND | NINTH_ROUND | EIGHTH_ROUND | THIRD_ROUND | FOURTH_ROUND | FIFTH_ROUND | SIXTH_ROUND | SEVENTH_ROUND
)


def scaled(reading: Reading, batch_size: int, num_minibatches: int, num_box_actions: int) -> Reading:
    """The reading with the KL target and the switch that it has for a batch and a number of box actions, or none."""
    by_batch = (batch_size / REFERENCE_BATCH_SIZE) ** (0.5 * reading.by_batch)
    factor = by_batch * max(num_box_actions, 1) ** reading.by_actions
    each = batch_size // num_minibatches >= LARGE_MINIBATCH or (reading.auto == 2 and num_box_actions > 0)
    switch = {"auto": 0.0, "each_minibatch": float(each)} if reading.auto else {}
    return reading._replace(cap_target=reading.cap_target * factor, **switch)
