"""Properties of all algorithms, tested for every entry of `ALGORITHMS`, so that new entries are covered.

Every method compiles many programs here. The fast half of the suite compiles three for each, on discrete actions, and
trains one probe, on continuous ones; the rest is slow.
"""

import dataclasses
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.probes import PROBES, QUICK_COMPILE, SPECS, operation_by_operation, random_rollout
from trustax.algorithms import ALGORITHMS, Algorithm
from trustax.algorithms.first_order import FirstOrder
from trustax.networks import mlp, register_network
from trustax.ops.distributions import DiagonalGaussian
from trustax.training import train
from trustax.types import EnvSpec, MultiDiscreteActions, Progress, Rollout

TINY = {"num_epochs": 1, "value_epochs": 1, "num_minibatches": 2, "hidden_sizes": (4,), "memory_size": 3}
HORIZON, NUM_ENVS = 6, 3
KEY = jax.random.key(0)
INHERITED = {field.name for field in dataclasses.fields(FirstOrder)}
FIELDS = [(name, field.name) for name, kind in ALGORITHMS.items() for field in dataclasses.fields(kind)]

register_network("contract", lambda key, spec, **settings: mlp(key, spec, **settings | {"activation": "elu"}))

UNLIKE = ("mcpo", "ppo", "trpo", "acktr")
"""Methods that use a distribution in different ways; the others use it as PPO does."""

every_algorithm = pytest.mark.parametrize("name", ALGORITHMS)
others_are_slow = pytest.mark.parametrize(
    "actions",
    [actions if actions == "discrete" else pytest.param(actions, marks=pytest.mark.slow) for actions in SPECS],
)


class Learner(NamedTuple):
    state: Any
    rollout: Rollout
    update: Callable[..., Any]
    traces: list[None]


class Change(NamedTuple):
    """Other values of a hyperparameter, and the settings under which it matters."""

    values: tuple[Any, ...]
    under: dict[str, Any] = {}
    actions: str = "discrete"
    iterations: int = 1


CHANGES = {
    "learning_rate": Change((1e-3,)),
    "learning_rate_schedule": Change(("constant", "cosine", "piecewise")),
    "schedule_boundaries": Change(((0.1,),), {"learning_rate_schedule": "piecewise"}),
    "clip_range_schedule": Change(("linear",), {"clip_range": 1e-3}),
    "num_epochs": Change((2,)),
    "num_minibatches": Change((1,)),
    "discount": Change((0.5,)),
    "gae_lambda": Change((0.5,)),
    "value_cost": Change((0.1,)),
    "value_clip_range": Change((1e-4,)),
    "entropy_cost": Change((0.1,)),
    "max_gradient_norm": Change((1e-4,)),
    "hidden_sizes": Change(((5,), (4, 4))),
    "network": Change(("contract",)),
    "activation": Change(("relu",)),
    "layer_norm": Change((True,)),
    "shared_torso": Change((True,)),
    "clip_range": Change((1e-4,)),
    "memory_size": Change((2,)),
    "virtual_policy": Change(("mean",)),
    "trust_region_weight": Change((0.0, 1.0)),
    "trust_region_sharpness": Change((1.0,)),
    "kl_cost_rule": Change(("annealed", "adaptive", "fixed")),
    "kl_cost_min": Change((1.0,), iterations=2),  # in the very first minibatch all three policies are equal
    "kl_cost_max": Change((1.0,), {"kl_cost_max_target": 0.0}),
    "kl_cost_max_target": Change((0.0, 1.0)),
    "kl_target_growth": Change((0.0,), {"kl_cost_max_target": 1e-3}),
    "kl_target_action_growth": Change((0.0,), {"kl_cost_max_target": 1e-3}, actions="box"),
    "switch_every": Change(("minibatch",), {"num_epochs": 2}),
    "unrewarded_advantages": Change(("standardized",)),
    "kl_cost": Change((5.0,), {"kl_cost_rule": "fixed"}),
    "kl_target": Change((1e-9,), {"kl_cost_rule": "adaptive"}),
    "write_rule": Change(("interval",), {"write_interval": 2}),
    "write_interval": Change((1, 2), {"write_rule": "interval"}),
    "write_ties": Change((True,), {"learning_rate": 0.0}),
    "context_features": Change(("half",)),
    "dropout": Change((0.0,)),
    "initial_kl_cost": Change((5.0,)),
    "initial_temperature": Change((5.0,)),
    "initial_log_std": Change((-1.0,), actions="box"),
    "initial_mean_scale": Change((0.01,), actions="box"),
    "temperature_target": Change((1.0,)),
    "reduction": Change(("mean",)),
    "schedule": Change(("original",)),
    "kl_estimator": Change(("k1", "k2", "k3")),
    "kl_radius": Change((1e-9,)),
    "trgppo.clip_range": Change((1e-4,), actions="box"),
    "trpo.learning_rate": Change((1e-2,)),
    "cg_iterations": Change((1,)),
    "line_search_steps": Change((1,), {"kl_target": 100.0}),
    "value_fit": Change(("lbfgs",)),
    "value_iterations": Change((2,), {"value_fit": "lbfgs"}),
    "value_weight_decay": Change((1.0,), {"value_fit": "lbfgs"}),
    "value_epochs": Change((2,)),
    "damping": Change((0.5,)),
    "momentum": Change((0.5,)),
    "statistics_decay": Change((0.5,)),
    "eigen_interval": Change((1,)),
    "value_noise": Change((0.5,)),
}
"""By the name of the field, or of a method and its field where methods differ."""


def tiny(name: str, **changes: Any) -> Algorithm:
    """The algorithm in its smallest form; settings that it does not have are left out."""
    kind = ALGORITHMS[name]
    known = {field.name for field in dataclasses.fields(kind)}
    # Adam's methods share one scale of learning rates.
    usual = TINY | ({"learning_rate": 3e-3} if issubclass(kind, FirstOrder) else {})
    return kind(**{key: value for key, value in (usual | changes).items() if key in known})


def progress(iteration: int) -> Progress:
    return Progress(jnp.array(iteration), jnp.array(4))


@lru_cache
def compiled(name: str, actions: str) -> Learner:
    """A first state, a rollout, the compiled update, which the tests share, and how often it was traced."""
    algorithm, spec, traces = tiny(name), SPECS[actions], []

    @partial(jax.jit, compiler_options=QUICK_COMPILE)
    def update(*arguments: Any) -> Any:
        traces.append(None)
        return algorithm.update(*arguments)

    state = jax.jit(partial(algorithm.init, spec=spec))(jax.random.key(0))
    return Learner(state, random_rollout(spec, HORIZON, NUM_ENVS), update, traces)


def shapes(tree: Any) -> Any:
    return jax.tree.structure(tree), [jax.typeof(leaf) for leaf in jax.tree.leaves(tree)]


def plain(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def same(a: Any, b: Any) -> bool:
    if jax.tree.structure(a) != jax.tree.structure(b):
        return False
    return all(np.array_equal(x, y) for x, y in zip(plain(a), plain(b), strict=True))


def assert_close(a: Any, b: Any, tolerance: float = 1e-5) -> None:
    for x, y in zip(plain(a), plain(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


@every_algorithm
@others_are_slow
def test_update_keeps_structure_shapes_and_dtypes(name: str, actions: str) -> None:
    state, rollout, update, _ = compiled(name, actions)
    after, metrics = update(state, rollout, progress(0), jax.random.key(1))
    assert shapes(after) == shapes(state)
    assert all(np.isfinite(leaf).all() for leaf in plain((after, metrics)))
    assert not same(after.policy, state.policy)


@every_algorithm
@others_are_slow
def test_same_key_gives_same_bits(name: str, actions: str) -> None:
    state, rollout, update, _ = compiled(name, actions)
    first, second = (update(state, rollout, progress(0), jax.random.key(1)) for _ in range(2))
    assert same(first, second)


@every_algorithm
def test_another_key_gives_another_order(name: str) -> None:
    if not hasattr(tiny(name), "num_minibatches"):
        pytest.skip("the method does not shuffle")
    state, rollout, update, _ = compiled(name, "discrete")
    first, second = (update(state, rollout, progress(0), jax.random.key(key)) for key in (1, 2))
    assert not same(first, second)


@every_algorithm
@others_are_slow
def test_rows_of_weight_zero_have_no_influence(name: str, actions: str) -> None:
    state, rollout, update, _ = compiled(name, actions)
    idle = np.asarray(rollout.weight) == 0
    # A truncated row bootstraps from the row after it; a terminated row does not.
    unseen = np.concatenate([np.zeros((1, NUM_ENVS), bool), np.asarray(rollout.terminated)])
    assert idle.sum() >= 4
    assert (unseen[:-1] & idle).any()
    garbage = 1e3 * np.random.default_rng(0).normal(size=rollout.observation.shape)
    action = np.asarray(rollout.action)
    other_action = action - 50 if actions == "box" else (action + 1) % 2
    spoilt = dataclasses.replace(
        rollout,
        observation=jnp.asarray(np.where(unseen[..., None], garbage, rollout.observation), jnp.float32),
        action=jnp.asarray(np.where(idle.reshape(idle.shape + (1,) * (action.ndim - 2)), other_action, action)),
        reward=jnp.where(idle, 1e4, rollout.reward),
        terminated=rollout.terminated | idle,
    )
    after, _ = update(state, rollout, progress(0), jax.random.key(1))
    spoilt_after, _ = update(state, spoilt, progress(0), jax.random.key(1))
    assert same(after, spoilt_after)


@pytest.mark.slow
@every_algorithm
@pytest.mark.parametrize("actions", SPECS)
def test_eager_equals_compiled(name: str, actions: str) -> None:
    state, rollout, update, _ = compiled(name, actions)
    with operation_by_operation(state.policy):
        eager = tiny(name).update(state, rollout, progress(1), jax.random.key(1))
    assert_close(eager, update(state, rollout, progress(1), jax.random.key(1)))


@every_algorithm
@others_are_slow
def test_seeds_side_by_side_equal_seeds_alone(name: str, actions: str) -> None:
    _, _, update, _ = compiled(name, actions)
    algorithm, spec = tiny(name), SPECS[actions]
    keys = jax.random.split(jax.random.key(3), 3)
    states = jax.jit(jax.vmap(partial(algorithm.init, spec=spec)))(keys)
    rollouts = [random_rollout(spec, HORIZON, NUM_ENVS, seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *rollouts)
    abreast = jax.jit(jax.vmap(algorithm.update, (0, 0, None, 0)), compiler_options=QUICK_COMPILE)
    together = abreast(states, stacked, progress(1), keys)
    for seed in range(3):
        own, state = (jax.tree.map(lambda x, seed=seed: np.asarray(x)[seed], tree) for tree in (together, states))
        assert_close(own, update(state, rollouts[seed], progress(1), keys[seed]))


@pytest.mark.parametrize(
    "name",
    [name if name in UNLIKE else pytest.param(name, marks=pytest.mark.slow) for name in ALGORITHMS],
)
def test_multi_discrete_with_one_part_equals_discrete(name: str) -> None:
    state, rollout, update, _ = compiled(name, "discrete")
    spec = EnvSpec((3,), MultiDiscreteActions((3,), (0,)))
    algorithm = tiny(name)
    several = jax.jit(algorithm.update, compiler_options=QUICK_COMPILE)(
        jax.jit(partial(algorithm.init, spec=spec))(jax.random.key(0)),
        dataclasses.replace(rollout, action=rollout.action[..., None]),
        progress(1),
        jax.random.key(1),
    )
    assert_close(several, update(state, rollout, progress(1), jax.random.key(1)))


@every_algorithm
def test_compiles_once(name: str) -> None:
    state, rollout, update, traces = compiled(name, "discrete")
    for iteration in range(3):
        state, _ = update(state, rollout, progress(iteration), jax.random.key(iteration))
    assert len(traces) == 1


def change_of(name: str, field: str) -> Change:
    change = CHANGES.get(f"{name}.{field}") or CHANGES.get(field)
    assert change is not None, f"say in CHANGES how {field} of {name} shows"
    return change


@lru_cache
def program(algorithm: Algorithm, actions: str, function: str) -> str:
    """What `init` or `update` computes, as text; settings may be in its operations or in its constants."""
    init = partial(algorithm.init, spec=SPECS[actions])
    rollout = random_rollout(SPECS[actions], HORIZON, NUM_ENVS)
    if function == "init":
        closed = jax.make_jaxpr(init)(KEY)
    else:
        closed = jax.make_jaxpr(algorithm.update)(jax.eval_shape(init, KEY), rollout, progress(1), KEY)
    constants = [np.asarray(constant).tolist() for constant in closed.consts]
    return re.sub("0x[0-9a-f]+", "", f"{closed.jaxpr} {constants}")


def is_tested_elsewhere(name: str, field: str) -> bool:
    """Whether a field is inherited from `FirstOrder`; such fields are tested with two of its methods."""
    return field in INHERITED and issubclass(ALGORITHMS[name], FirstOrder) and name not in ("mcpo", "ppo")


@pytest.mark.parametrize(
    ("name", "field"),
    [
        pytest.param(name, field, marks=[pytest.mark.slow] if is_tested_elsewhere(name, field) else [])
        for name, field in FIELDS
    ],
)
def test_every_hyperparameter_changes_the_program(name: str, field: str) -> None:
    """An initial value changes the program of `init`, every other field that of `update`."""
    values, under, actions, _ = change_of(name, field)
    function = "init" if field.startswith("initial_") else "update"
    usual = tiny(name, **under)
    for value in values:
        other = dataclasses.replace(usual, **{field: value})
        assert other != usual
        assert program(usual, actions, function) != program(other, actions, function), value


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if issubclass(ALGORITHMS[name], FirstOrder)])
def test_every_inherited_hyperparameter_is_read(name: str) -> None:
    reads: set[str] = set()

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Recorder(ALGORITHMS[name]):  # type: ignore[misc]
        unread: int = 0

        def __getattribute__(self, attribute: str) -> Any:
            reads.add(attribute)
            return super().__getattribute__(attribute)

    algorithm = Recorder(**vars(tiny(name)))
    rollout = random_rollout(SPECS["discrete"], HORIZON, NUM_ENVS)
    reads.clear()
    state = jax.eval_shape(lambda key: algorithm.init(key, SPECS["discrete"]), KEY)
    jax.eval_shape(lambda state: algorithm.update(state, rollout, progress(1), KEY), state)
    assert "unread" not in reads  # a hash or a comparison would read all fields
    assert reads >= INHERITED


@every_algorithm
def test_equal_settings_make_equal_programs(name: str) -> None:
    """Otherwise the test above would prove nothing."""
    program.cache_clear()
    first = program(tiny(name), "discrete", "update")
    program.cache_clear()
    assert program(tiny(name), "discrete", "update") == first


@lru_cache
def before_and_after(algorithm: Algorithm, actions: str, iterations: int) -> tuple[Any, Any]:
    """A learner before and after some updates. Running them eagerly is faster than compiling for every setting."""
    first = after = algorithm.init(KEY, SPECS[actions])
    rollout = random_rollout(SPECS[actions], HORIZON, NUM_ENVS)
    with operation_by_operation(first.policy):
        for iteration in range(1, 1 + iterations):
            after, _ = algorithm.update(after, rollout, progress(iteration), jax.random.key(iteration))
    return first, after


@pytest.mark.slow
@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_every_hyperparameter_matters(name: str, field: str) -> None:
    """Either it shapes the learner, or something that was equal before the update is no longer equal after it."""
    if field == "write_ties":
        pytest.skip("two computations of one distance need not round alike; test_mcpo.py makes the tie by hand")
    values, under, actions, iterations = change_of(name, field)
    usual = tiny(name, **under)
    for value in values:
        other = dataclasses.replace(usual, **{field: value})
        first = [shapes(jax.eval_shape(partial(a.init, spec=SPECS[actions]), KEY)) for a in (usual, other)]
        if first[0] == first[1]:
            learners = (*before_and_after(usual, actions, iterations), *before_and_after(other, actions, iterations))
            leaves = zip(*map(plain, learners), strict=True)
            assert any(np.array_equal(a, c) and not np.array_equal(b, d) for a, b, c, d in leaves), value


@pytest.mark.slow
@every_algorithm
@pytest.mark.parametrize("actions", SPECS)
def test_learns_from_images(name: str, actions: str) -> None:
    spec = EnvSpec((1, 36, 36), SPECS[actions].actions, "uint8")
    algorithm = tiny(name, num_minibatches=1, memory_size=2)
    state = jax.jit(partial(algorithm.init, spec=spec))(jax.random.key(0))
    rollout = random_rollout(spec, horizon=3)
    after, metrics = jax.jit(algorithm.update, compiler_options=QUICK_COMPILE)(
        state, rollout, progress(0), jax.random.key(1)
    )
    assert shapes(after) == shapes(state)
    assert all(np.isfinite(leaf).all() for leaf in plain((after, metrics)))
    assert not same(after.policy, state.policy)


@every_algorithm
@pytest.mark.parametrize(
    "probe", [pytest.param(p, marks=[] if p == "observed-action-reward-box" else [pytest.mark.slow]) for p in PROBES]
)
def test_solves_probe(name: str, probe: str) -> None:
    environment, discount = PROBES[probe], 0.5
    settings = {"num_epochs": 4, "value_epochs": 4, "num_minibatches": 4, "hidden_sizes": (16,), "discount": discount}
    if issubclass(ALGORITHMS[name], FirstOrder):
        settings["learning_rate"] = 1e-2
    algorithm = tiny(name, **settings)
    iterations = 60 if hasattr(algorithm, "num_minibatches") else 300  # a method without them takes one step in each
    result = train(
        algorithm,
        environment,
        quiet=True,
        total_timesteps=iterations * 256,
        num_envs=8,
        horizon=32,
        normalize_observations=False,
        normalize_rewards=False,
    )
    policy = jax.tree.map(lambda x: x[0], result.state.learner.policy)
    for known in environment.known(discount):
        distribution, value = policy(jnp.array([known.observation], jnp.float32))
        np.testing.assert_allclose(value, known.value, atol=0.05)
        if known.action is not None:
            best = jnp.asarray(known.action).reshape(environment.spec.actions.shape)
            np.testing.assert_allclose(distribution.mode(), best, atol=0.1)
            assert isinstance(distribution, DiagonalGaussian) or jnp.exp(distribution.log_prob(best)) > 0.9
