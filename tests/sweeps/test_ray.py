"""The Ray engine says when no node is large enough for a run."""

import pytest

from trustax.sweeps.ray_engine import RayEngine


def test_a_run_that_is_larger_than_every_node_is_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [{"Alive": True, "Resources": {"CPU": 2.0}}] * 2 + [{"Alive": False, "Resources": {"CPU": 8.0}}]
    monkeypatch.setattr("ray.nodes", lambda: nodes)
    RayEngine(cpus=2).prepare(1)
    assert capsys.readouterr().out == ""
    RayEngine(cpus=3).prepare(1)
    assert capsys.readouterr().out == "no node of the Ray cluster has 3 CPU; the sweep waits for one\n"
