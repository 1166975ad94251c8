"""Errors for names that users of other libraries know, and for arguments in the wrong place."""

import re
from collections.abc import Callable
from inspect import signature, unwrap
from typing import Any

import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import trustax as tx
from trustax.envs.engines import resolve
from trustax.envs.jax.pendulum import Pendulum
from trustax.settings import TRAIN_ARGUMENTS


class WithoutObserve:
    spec, time_limit, reset, step = Pendulum.spec, Pendulum.time_limit, Pendulum.reset, Pendulum.step


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tx.PPO(learning_rte=1e-3), "PPO has no argument 'learning_rte'; did you mean learning_rate"),
        (lambda: tx.PPO(n_steps=64), "PPO has no argument 'n_steps'; here it is called horizon, an argument of train"),
        (lambda: tx.PPO(num_envs=4), "PPO has no argument 'num_envs'; it is an argument of train"),
        (lambda: tx.PPO(batch_size=64), "here it is called num_minibatches: a minibatch holds num_envs * horizon"),
        (lambda: tx.PPO(target_kl=0.01), "PPO has no argument 'target_kl'; there is no early stop by KL; KLAd"),
        (lambda: tx.KLAdaptive(target_kl=0.01), "KLAdaptive has no argument 'target_kl'; here it is called kl_target"),
        (lambda: tx.PPO("MlpPolicy", "CartPole-v1"), "PPO takes keyword arguments only; the environment is an arg"),
        (lambda: tx.train("ppo", "CartPole-v1", env_kwargs={}), "'env_kwargs'; pass a function that makes the env"),
        (lambda: tx.train("ppo", "CartPole-v1", verbose=1), "here it is called quiet: verbose=0 is quiet=True"),
        (lambda: tx.Evaluate("Mine-v0"), 'Evaluate takes keyword arguments only, such as Evaluate(env="Mine-v0")'),
        (lambda: tx.train("ppo", "CartPole-v1", progress_bar=True), "progress is shown; quiet=True hides it"),
        (lambda: tx.PPO(normalize_advantage=True), "advantages are standardized once per rollout"),
        (lambda: tx.train("ppo", "CartPole-v1", reset_num_timesteps=False), "a run continues with resume=True"),
        (lambda: tx.train("ppo", "CartPole-v1", log_interval=1), "every iteration is logged"),
        (lambda: tx.PPO(policy="MlpPolicy"), "network and hidden_sizes change it"),
        (lambda: tx.train("ppo", "CartPole-v1", seeds=[0]), "here it is called num_seeds: they are seed, seed + 1"),
        (lambda: tx.tune("ppo", "CartPole-v1", {}, folder="x", n_trials=3), "it is the argument trials of tune"),
        (lambda: tx.sweep("ppo", CartPoleEnv, folder="sweep"), "sweep takes ids of environments, because its runs"),
        (lambda: tx.train(tx.PPO, "CartPole-v1"), "algorithm must be an object: PPO() or"),
        (lambda: tx.train("poo", "CartPole-v1"), "there is no algorithm 'poo'; did you mean ppo"),
        (lambda: tx.train("ppo", "CartPole-v1", total_timesteps=9), "total_timesteps is 9, but one iteration has"),
        (lambda: tx.train(tx.PPO(), "CartPole-v1", num_epochs=3), "'num_epochs'; it is a setting of the algorithm"),
        (lambda: tx.train(tx.PPO(), "CartPole-v1", gamma=0.9), "here it is called discount, a setting of the algor"),
        (lambda: unwrap(resolve)(CartPoleEnv()), "a function that makes one, for example lambda: CartPoleEnv()"),
        (lambda: unwrap(resolve)(Pendulum), "Pendulum is a class; an environment in JAX is an object"),
        (lambda: unwrap(resolve)(WithoutObserve()), "WithoutObserve has no observe, which a trustax.JaxEnv needs"),
        (lambda: unwrap(resolve)(3), "or a trustax.JaxEnv, not a int"),
        (lambda: tx.make("Mine-v0", [0], 1), "if a module of yours registers it, write my_module:Mine-v0"),
    ],
)
def test_an_error_says_what_to_write_instead(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(tx.TrustaxError, match=re.escape(message)):
        call()


def test_a_factory_in_place_of_the_name_of_a_network_is_refused() -> None:
    settings = tx.PPO()
    object.__setattr__(settings, "network", dict)  # the tests check the types of arguments before this
    with pytest.raises(tx.TrustaxError, match="network must be a name; give your factory one: register_network"):
        settings.__post_init__()


def test_train_has_the_arguments_that_errors_name() -> None:
    assert set(TRAIN_ARGUMENTS) <= set(signature(tx.train).parameters)
