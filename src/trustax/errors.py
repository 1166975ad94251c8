"""The exception for user errors."""

import difflib
from collections.abc import Collection, Iterable


class TrustaxError(Exception):
    """A user error. Its message says in one line what was expected, what was given and what to do.

    The command line prints the message without a traceback and exits with code 2.
    """


def similar_or_all(name: str, known: Iterable[str], count: int = 3, cutoff: float = 0.4) -> str:
    """A hint for the error message about an unknown name: similar known names, or all of them if none is similar.

    >>> similar_or_all("hoper", ["hopper", "ant"])
    'did you mean hopper?'
    >>> similar_or_all("PPO", ["trgppo", "ppo"], count=1)
    'did you mean ppo?'
    """
    known = list(known)
    lower = {one.lower(): one for one in known}
    similar = [lower[one] for one in difflib.get_close_matches(name.lower(), lower, n=count, cutoff=cutoff)]
    return f"did you mean {' or '.join(similar)}?" if similar else f"choose one of {', '.join(known)}"


OTHER_NAMES = {
    "gamma": "discount",
    "lr": "learning_rate",
    "n_steps": "horizon",
    "num_steps": "horizon",
    "n_envs": "num_envs",
    "n_epochs": "num_epochs",
    "update_epochs": "num_epochs",
    "batch_size": "num_minibatches",
    "minibatch_size": "num_minibatches",
    "ent_coef": "entropy_cost",
    "vf_coef": "value_cost",
    "clip_coef": "clip_range",
    "clip_range_vf": "value_clip_range",
    "max_grad_norm": "max_gradient_norm",
    "anneal_lr": "learning_rate_schedule",
    "target_kl": "kl_target",
    "log_std_init": "initial_log_std",
    "net_arch": "hidden_sizes",
    "policy_kwargs": "hidden_sizes",
    "activation_fn": "activation",
    "norm_obs": "normalize_observations",
    "norm_reward": "normalize_rewards",
    "tensorboard_log": "run_dir",
    "n_trials": "trials",
    "n_seeds": "num_seeds",
    "seeds": "num_seeds",
    "verbose": "quiet",
    "callback": "callbacks",
    "env_id": "env",
    "n_eval_episodes": "num_episodes",
    "eval_freq": "interval",
    "save_freq": "every",
    "reward_threshold": "value",
}
"""Names from Stable-Baselines3 and CleanRL, with our names for them."""
PREFERRED = {"target_kl": "kl_cost_max_target", "n_eval_episodes": "episodes"}
"""Our names for them where they are known: MCPO reads `kl_target` in one of its variants only."""
NOTES = {
    "num_minibatches": "a minibatch holds num_envs * horizon / num_minibatches samples",
    "value_cost": "Stable-Baselines3's 0.5 is 1.0 here, because the loss has a factor 1/2 (not with ACKTR)",
    "quiet": "verbose=0 is quiet=True",
    "num_seeds": "they are seed, seed + 1 and so on",
    "run_dir": "TensorBoard events are written there",
}
"""What to know about a setting that differs from the one it replaces."""
NOT_HERE = {
    "target_kl": "there is no early stop by KL; KLAdaptive, MCPO and TRPO limit the divergence",
    "env_kwargs": "pass a function that makes the environment: lambda: gymnasium.make(id, **env_kwargs)",
    "device": "JAX chooses it: set JAX_PLATFORMS=cpu for the CPU",
    "progress_bar": "progress is shown; quiet=True hides it",
    "normalize_advantage": "advantages are standardized once per rollout (not with ACKTR)",
    "reset_num_timesteps": "a run continues with resume=True, its run_dir and a larger total_timesteps",
    "log_interval": "every iteration is logged",
    "policy": "the network follows from the observations; network and hidden_sizes change it",
    "n_trials": "it is the argument trials of tune",
    "use_sde": "state-dependent exploration is not supported",
}
"""What to do instead of a setting of another library that has no counterpart."""


def our_name(name: str, known: Collection[str]) -> str:
    """Our name for a setting of another library, or the name itself.

    >>> our_name("target_kl", ["kl_target"]), our_name("target_kl", ["kl_target", "kl_cost_max_target"])
    ('kl_target', 'kl_cost_max_target')
    """
    preferred = PREFERRED.get(name, name)
    return preferred if preferred in known else OTHER_NAMES.get(name, name)


def suggestion(name: str, known: Iterable[str], elsewhere: Iterable[str] = (), where: str = "") -> str:
    """A hint for an unknown setting: our name for it, or the function that has it, or similar names.

    >>> suggestion("n_steps", ["learning_rate"], ["horizon"], "an argument of train")
    'here it is called horizon, an argument of train'
    """
    known, elsewhere = list(known), set(elsewhere)
    ours = our_name(name, known)
    if ours not in known and ours not in elsewhere:
        return NOT_HERE.get(name) or similar_or_all(name, known)
    place = "" if ours in known else where
    note = f": {NOTES[ours]}" if ours in NOTES and ours != name else ""
    return f"it is {place}" if ours == name else f"here it is called {ours}{place and f', {place}'}{note}"


def refuse_unknown(
    function: str, unknown: Iterable[str], known: Iterable[str], elsewhere: Iterable[str] = (), where: str = ""
) -> None:
    """Raise an error for an unknown keyword argument that suggests the name or the place that was probably meant.

    >>> refuse_unknown("train", ["n_envs"], ["num_envs"])
    Traceback (most recent call last):
    trustax.errors.TrustaxError: train has no argument 'n_envs'; here it is called num_envs
    """
    for name in unknown:
        raise TrustaxError(f"{function} has no argument {name!r}; {suggestion(name, known, elsewhere, where)}")
