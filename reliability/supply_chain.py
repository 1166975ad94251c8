"""R20: nothing is downloaded or sent, no file can run code, and no dependency has a known vulnerability."""

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

from reliability.rows import Row
from reliability.runs import ROOT

FORBIDDEN_MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
GUARDED = """
import sys
found = []
sys.addaudithook(lambda event, arguments: found.append((event, str(arguments[1:])))
                 if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto", "urllib.Request") else None)
import trustax as tx
tx.train(tx.PPO(num_epochs=1, num_minibatches=1, hidden_sizes=(8,)), "native:CartPole-v1", num_envs=1, horizon=8,
         total_timesteps=16, quiet=True, run_dir=sys.argv[1])
tx.evaluate(tx.load(sys.argv[1]), "native:CartPole-v1", num_episodes=1)
sys.exit(f"network: {found}" if found else 0)
"""


def check(full: bool) -> Row:
    row = Row("R20", "no pickle, eval or exec in the source; no network at import or in training; pip-audit")
    for path in sorted((ROOT / "src").rglob("*.py")):
        found = dangerous(path.read_text(encoding="utf-8"))
        row.count(f"{path.name}: {', '.join(sorted(found))}" if found else None)
    with row.trial("network"):
        _assert_offline()
    _audit(row)
    return row


def dangerous(source: str) -> set[str]:
    """The modules and functions in a source text that can run code from data."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names} & FORBIDDEN_MODULES
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.module or "").split(".")[0]} & FORBIDDEN_MODULES
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found |= {node.func.id} & FORBIDDEN_CALLS
    return found


def _assert_offline() -> None:
    """Python reports every use of a socket to an audit hook; that of C++ libraries needs strace."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", GUARDED, str(Path(folder) / "run")]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-300:]


def _audit(row: Row) -> None:
    """Ask the registry of vulnerabilities about every installed package."""
    if importlib.util.find_spec("pip_audit") is None:
        row.not_run = "pip-audit, which is not installed"
        return
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--skip-editable"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    try:
        packages = [one for one in json.loads(done.stdout)["dependencies"] if "skip_reason" not in one]
    except (ValueError, KeyError):
        packages = []
    if not packages:
        row.not_run = "pip-audit, which could not reach the registry of vulnerabilities"
    for package in packages:
        known = [one["id"] for one in package.get("vulns", [])]
        row.count(f"{package['name']} {package.get('version')}: {', '.join(known)}" if known else None)


CHECKS = {"R20": check}
