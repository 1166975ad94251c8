"""Agents on the Hugging Face hub: the real client speaks to a small server on this machine."""

import base64
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import jax
import numpy as np
import pytest

import trustax as tx
from trustax.networks import Architecture
from trustax.run import write_run
from trustax.storage.manifest import ARRAYS, MANIFEST

huggingface_hub = pytest.importorskip("huggingface_hub")
constants = pytest.importorskip("huggingface_hub.constants")
OBSERVATIONS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
COMMIT = "1" * 40


class Hub(BaseHTTPRequestHandler):
    """The few endpoints of the hub that uploading and downloading a model need."""

    repositories: dict[str, dict[str, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Authorization") != "Bearer valid":
            return self.answer(401, {"error": "Invalid credentials"})
        if self.path == "/api/repos/create":
            value = json.loads(body)
            name = f"{value['organization']}/{value['name']}"
            self.repositories.setdefault(name, {})
            return self.answer(200, {"url": f"{self.address}/{name}"})
        if self.path == "/api/validate-yaml":
            return self.answer(200, {"errors": [], "warnings": []})
        found = re.fullmatch(r"/api/models/([^/]+/[^/]+)/(\w+)/main", self.path)
        if found is None:
            return self.answer(404, {"error": f"no {self.path}"})
        name, action = found.groups()
        if action == "preupload":
            modes = {"uploadMode": "regular", "shouldIgnore": False}
            return self.answer(200, {"files": [{"path": one["path"]} | modes for one in json.loads(body)["files"]]})
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                self.repositories[name][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        return self.answer(200, {"commitUrl": f"{self.address}/{name}/commit/{COMMIT}", "commitOid": COMMIT})

    def do_GET(self) -> None:
        if found := re.fullmatch(r"/api/models/([^/]+/[^/?]+)(\?.*)?", self.path):
            files = self.repositories.get(found[1])
            if files is None:
                return self.answer(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
            siblings = [{"rfilename": file, "size": len(content)} for file, content in files.items()]
            return self.answer(200, {"id": found[1], "sha": COMMIT, "siblings": siblings})
        found = re.fullmatch(rf"/([^/]+/[^/]+)/resolve/{COMMIT}/(.+)", self.path)
        if found is None:
            return self.answer(404, {"error": f"no {self.path}"})
        content = self.repositories[found[1]][found[2]]
        headers = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": COMMIT}
        return self.answer(200, content, headers)

    do_HEAD = do_GET  # noqa: N815

    @property
    def address(self) -> str:
        host, port = self.server.server_address[:2]
        return f"http://{host!s}:{port}"

    def answer(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, dict[str, bytes]]]:
    """The repositories of a server, and the client's settings for it."""
    repositories: dict[str, dict[str, bytes]] = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("OwnHub", (Hub,), {"repositories": repositories}))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", "valid")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield repositories
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def agent() -> tx.Agent:
    spec = tx.EnvSpec((3,), tx.BoxActions((-1.0,), (1.0,)))
    return tx.Agent(Architecture(spec, (4,)).init(jax.random.key(0)))


def test_an_agent_comes_back_as_it_was(hub: dict[str, dict[str, bytes]], agent: tx.Agent, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    write_run(tx.Run(algorithm=tx.PPO(clip_range=0.123), env_id="Pendulum-v1"), run_dir)
    (run_dir / "curve.png").write_bytes(b"a picture")
    evaluation = tx.EvaluationResult(np.array([1.0, 2.0]), np.array([200, 200]))
    address = agent.push_to_hub("someone/pendulum", run_dir, evaluation)
    assert address.endswith("/someone/pendulum")
    files = hub["someone/pendulum"]
    assert set(files) == {ARRAYS, MANIFEST, "README.md", "curve.png"}
    card = files["README.md"].decode()
    for part in ("0.123", "return 1.50 ± 0.50"[1:], "curve.png", 'tx.load("hf://someone/pendulum")', "mean_reward"):
        assert part in card
    loaded = tx.load("hf://someone/pendulum")
    for deterministic in (True, False):
        expected, _ = agent.predict(OBSERVATIONS, deterministic=deterministic)
        assert np.array_equal(loaded.predict(OBSERVATIONS, deterministic=deterministic)[0], expected)


def test_damage_is_an_error_of_one_line(hub: dict[str, dict[str, bytes]], agent: tx.Agent) -> None:
    agent.push_to_hub("someone/damaged")
    files = hub["someone/damaged"]
    files[ARRAYS] = files[ARRAYS][:-1] + bytes([files[ARRAYS][-1] ^ 1])
    with pytest.raises(tx.TrustaxError, match=r"^hf://someone/damaged/arrays.safetensors: damaged.*$"):
        tx.load("hf://someone/damaged")
    del files[MANIFEST]
    with pytest.raises(tx.TrustaxError, match=r"^someone/damaged .* has no manifest.json$"):
        tx.load("hf://someone/damaged")


def test_what_cannot_be_found_or_done_is_an_error_of_one_line(
    hub: dict[str, dict[str, bytes]], agent: tx.Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(tx.TrustaxError, match=r"^there is no model someone/nothing .*$"):
        tx.load("hf://someone/nothing")
    with pytest.raises(tx.TrustaxError, match=r"^a model .* has a name like user/name, not .*$"):
        tx.load("hf://too/many/parts")
    monkeypatch.setenv("HF_TOKEN", "expired")
    with pytest.raises(tx.TrustaxError, match=r"^someone/name .*: your login does not allow this.*$"):
        agent.push_to_hub("someone/name")
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    with pytest.raises(tx.TrustaxError, match=r"not logged in .*hf auth login"):
        agent.push_to_hub("someone/name")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(tx.TrustaxError, match=r'pip install "trustax\[hub\]"'):
        tx.load("hf://someone/name")
