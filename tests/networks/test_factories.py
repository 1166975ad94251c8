"""Networks by settings and by name: those of Trustax, and a user's own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trustax as tx
from trustax.networks import (
    NETWORKS,
    Architecture,
    Dense,
    NetworkSettings,
    Policy,
    SharedActorCritic,
    action_distribution,
    architecture_of,
)
from trustax.networks.impala import Stage
from trustax.ops.distributions import Categorical
from trustax.ops.kfac import require_factors
from trustax.storage.manifest import CheckpointError
from trustax.types import EnvSpec

VECTOR = EnvSpec((3,), tx.DiscreteActions(4))
CONTINUOUS = EnvSpec((3,), tx.BoxActions((-1.0, -1.0), (1.0, 1.0)))
IMAGE = EnvSpec((4, 84, 84), tx.DiscreteActions(6), "uint8")
KEY = jax.random.key(0)


class Mine(eqx.Module):
    """Equinox's own perceptron, which has functions among its leaves."""

    body: eqx.nn.MLP
    critic: Dense
    actions: Any = eqx.field(static=True)

    def __call__(self, observation: Any) -> Any:
        outputs = self.body(observation)
        return action_distribution(self.actions, outputs, None), self.critic(outputs)[0]


def mine(key: Any, spec: EnvSpec, *, hidden_sizes: tuple[int, ...] = (5,)) -> Mine:
    width, depth = hidden_sizes[0], len(hidden_sizes)
    body = eqx.nn.MLP(spec.observation_size, spec.actions.num_outputs, width, depth, key=key)
    return Mine(body, Dense.init(key, spec.actions.num_outputs, 1, gain=1.0), spec.actions)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(NETWORKS, "_entries", dict(NETWORKS))
    tx.register_network("mine", mine)
    yield "mine"
    jax.clear_caches()


def policy_of(spec: EnvSpec, **settings: Any) -> Policy:
    """A policy whose parameters all differ, normalization included."""
    architecture = architecture_of(NetworkSettings(**settings), spec)
    size = jax.eval_shape(architecture.init, KEY).parameters.size
    return Policy(0.3 * jax.random.normal(KEY, (size,)), architecture)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("shared_torso", [False, True])
def test_an_mlp_follows_its_settings(activation: str, layer_norm: bool, shared_torso: bool) -> None:
    hidden: dict[str, Any] = {"activation": activation, "layer_norm": layer_norm, "shared_torso": shared_torso}
    policy = policy_of(VECTOR, hidden_sizes=(6, 5), **hidden)
    network = policy.architecture.unflatten(policy.parameters)
    seen = jnp.array([0.5, -1.0, 2.0])

    def forward(layers: tuple[Any, ...], x: Any) -> Any:
        for layer in layers:
            dense = layer.dense if layer_norm else layer
            x = x @ dense.weight + dense.bias
            if layer_norm:
                x = (x - x.mean()) / np.sqrt(x.var() + 1e-5) * layer.norm.scale + layer.norm.bias
            x = np.maximum(x, 0) if activation == "relu" else jax.nn.gelu(x)
        return x

    assert isinstance(network, SharedActorCritic) == shared_torso
    bodies = (network.torso,) * 2 if shared_torso else (network.actor[:-1], network.critic[:-1])
    heads = (network.actor, network.critic) if shared_torso else (network.actor[-1], network.critic[-1])
    logits, values = (forward(body, seen) @ head.weight + head.bias for body, head in zip(bodies, heads, strict=True))
    distribution, value = policy(seen)
    np.testing.assert_allclose(distribution.logits, logits, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(value, values[0], rtol=1e-4, atol=1e-5)


def test_the_stages_of_impala_halve_the_image() -> None:
    for shape in ((4, 84, 84), (84, 84, 4)):
        architecture = Architecture(EnvSpec(shape, tx.DiscreteActions(6), "uint8"), network="impala")
        network = jax.eval_shape(architecture._network, KEY)
        assert network.torso[0].conv.kernel.shape == (16, 4, 3, 3)
        assert network.hidden.weight.shape == (32 * 11 * 11, 256)
        policy = jax.eval_shape(architecture.init, KEY)
        distribution, value = jax.eval_shape(lambda policy, x: policy(x), policy, jnp.zeros(shape, jnp.uint8))
        assert (distribution.logits.shape, value.shape) == ((6,), ())


def test_a_residual_block_adds_to_its_input() -> None:
    stage = Stage.init(KEY, into=1, out=2)
    without = eqx.tree_at(lambda s: [block[1].kernel for block in s.blocks], stage, replace_fn=jnp.zeros_like)
    x = jax.random.normal(KEY, (1, 6, 6))
    convolved = stage.conv(jnp.pad(x, ((0, 0), (1, 1), (1, 1))))
    padded = jnp.pad(convolved, ((0, 0), (0, 1), (0, 1)), constant_values=-jnp.inf)
    pooled = [[padded[:, i : i + 3, j : j + 3].max((1, 2)) for j in (0, 2, 4)] for i in (0, 2, 4)]
    np.testing.assert_allclose(without(x), jnp.moveaxis(jnp.array(pooled), -1, 0), rtol=1e-5, atol=1e-6)
    assert not np.allclose(stage(x), without(x))


def test_a_user_defined_network_is_one_vector_and_is_saved_by_name(registered: str, tmp_path: Path) -> None:
    policy = architecture_of(NetworkSettings(network=registered, hidden_sizes=(7, 7)), VECTOR).init(KEY)
    network = mine(KEY, VECTOR, hidden_sizes=(7, 7))
    for observation in jax.random.normal(KEY, (3, 3)):
        expected, value = network(observation)
        np.testing.assert_allclose(policy(observation)[0].logits, expected.logits, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(policy(observation)[1], value, rtol=1e-5, atol=1e-6)
    tx.Agent(policy).save(tmp_path / "agent")
    loaded = tx.load(tmp_path / "agent")
    assert loaded.policy.architecture == policy.architecture
    np.testing.assert_array_equal(loaded.policy.parameters, policy.parameters)
    del NETWORKS[registered]
    with pytest.raises(CheckpointError, match="holds no agent: there is no network 'mine'"):
        tx.load(tmp_path / "agent")


def test_a_name_may_be_registered_again_for_another_network(registered: str) -> None:
    architecture = Architecture(VECTOR, network=registered)
    first = architecture.init(KEY)
    assert first(jnp.zeros(3))[0].logits.shape == (4,)
    tx.register_network(registered, lambda key, spec: mine(key, spec, hidden_sizes=(6,)))
    second = architecture.init(KEY)
    assert second.parameters.size < first.parameters.size
    assert second(jnp.zeros(3))[0].logits.shape == (4,)


def test_a_setting_that_a_network_does_not_have_is_refused(registered: str) -> None:
    for spec, settings, message in (
        (IMAGE, {"layer_norm": True}, "the network 'nature' has no setting layer_norm; leave it at False"),
        (IMAGE, {"hidden_sizes": (8,)}, r"the network 'nature' has no setting hidden_sizes; leave it at \(64, 64\)"),
        (IMAGE, {"network": "mlp"}, "the network 'mlp' takes vectors; choose 'nature' or 'impala'"),
        (VECTOR, {"network": "impala"}, r"'impala' takes images .* not float32 of shape \(3,\); choose 'mlp'"),
        (VECTOR, {"network": registered, "activation": "relu"}, "'mine' has no setting activation"),
    ):
        with pytest.raises(tx.TrustaxError, match=message):
            architecture_of(NetworkSettings(**settings), spec).init(KEY)
    with pytest.raises(tx.TrustaxError, match="there is no network 'naturee'; did you mean nature"):
        tx.Run(algorithm=tx.PPO(network="naturee"), env_id="CartPole-v1")


def test_a_network_with_other_outputs_is_refused(registered: str) -> None:
    def wider(key: Any, spec: EnvSpec) -> Any:
        return mine(key, EnvSpec(spec.observation_shape, tx.DiscreteActions(7)))

    tx.register_network("mine", wider)
    message = r"'mine' returns Categorical \(7,\), but the environment's actions need Categorical \(4,\)"
    with pytest.raises(tx.TrustaxError, match=message):
        Architecture(VECTOR, network="mine").unflatten(jnp.zeros(16))


class Rounded(eqx.Module):
    """A network that forgets to cast its value back to float32."""

    logits: Any

    def __call__(self, observation: Any) -> Any:
        return Categorical(self.logits), self.logits[0].astype(jnp.bfloat16)


def test_an_object_that_is_not_a_network_is_refused(registered: str) -> None:
    tx.register_network("half", lambda key, spec: Dense.init(key, 3, 4, gain=1.0))
    tx.register_network("whole-numbers", lambda key, spec: eqx.nn.Lambda(jnp.arange(3)))
    tx.register_network("brief", lambda key, spec: eqx.nn.Lambda(jnp.zeros(3, jnp.bfloat16)))
    tx.register_network("empty", lambda key, spec: eqx.nn.Identity())
    tx.register_network("rounded", lambda key, spec: Rounded(jnp.zeros(4)))
    for name, message in (
        ("half", "must return a distribution and a value"),
        ("whole-numbers", "'whole-numbers' has arrays of int32; its parameters must be float32"),
        ("brief", "arrays of bfloat16"),
        ("empty", "must be a callable module with arrays"),
        ("rounded", "'rounded' returns numbers of bfloat16; cast its outputs to float32"),
    ):
        architecture = Architecture(VECTOR, network=name)
        with pytest.raises(tx.TrustaxError, match=message):
            architecture.unflatten(jnp.zeros(16))
    with pytest.raises(tx.TrustaxError, match="'mlp' is built in"):
        tx.register_network("mlp", mine)


def test_acktr_takes_networks_of_its_own_layers_only(registered: str) -> None:
    for spec in (VECTOR, CONTINUOUS):
        settings = NetworkSettings(hidden_sizes=(6,), layer_norm=True, shared_torso=True, activation="silu")
        require_factors(architecture_of(settings, spec))
    require_factors(Architecture(IMAGE, network="impala"))
    with pytest.raises(tx.TrustaxError, match="acktr has no Kronecker factors for the network 'mine'"):
        jax.eval_shape(lambda key: tx.ACKTR(network=registered, hidden_sizes=(5,)).init(key, VECTOR), KEY)


def test_trpo_needs_to_know_the_critic(registered: str) -> None:
    class Headless(eqx.Module):
        layer: Dense

        def __call__(self, observation: Any) -> Any:
            return action_distribution(VECTOR.actions, self.layer(observation)[:4], None), self.critic(observation)

        def critic(self, observation: Any) -> Any:  # a method, not the parameters of a critic
            return self.layer(observation)[4]

    tx.register_network("headless", lambda key, spec: Headless(Dense.init(key, 3, 5, gain=1.0)))
    with pytest.raises(tx.TrustaxError, match="trpo needs a network with a field critic"):
        jax.eval_shape(lambda key: tx.TRPO(network="headless").init(key, VECTOR), KEY)
    assert not Architecture(VECTOR, network="headless").critic_mask().any()
    jax.eval_shape(lambda key: tx.TRPO(network=registered).init(key, VECTOR), KEY)
