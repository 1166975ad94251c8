"""Tunes Stable-Baselines3's PPO with RL Zoo and Optuna, in the peers' environment.

usage: zoo_tuning.py '{"env_id": ..., "steps": ..., "trials": ..., "folder": ...}'
Prints one JSON object: the duration in seconds, an estimate of the steps of all trials, and the best mean return of the
evaluations that RL Zoo maximizes. The steps of a pruned trial are those up to its last evaluation.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import optuna

SETTINGS = json.loads(sys.argv[1])
EVALUATIONS = 9
FOLDER = Path(SETTINGS["folder"])
STORAGE, NAME = f"sqlite:///{FOLDER / 'study.db'}", "zoo"

FOLDER.mkdir(parents=True, exist_ok=True)
options = {
    "--algo": "ppo",
    "--env": SETTINGS["env_id"],
    "--n-timesteps": SETTINGS["steps"],
    "--n-trials": SETTINGS["trials"],
    "--n-evaluations": EVALUATIONS,
    "--n-jobs": 1,
    "--sampler": "tpe",
    "--pruner": "median",
    "--seed": 0,
    "--device": "cpu",
    "--storage": STORAGE,
    "--study-name": NAME,
    "--log-folder": FOLDER,
}
words = [str(word) for option in options.items() for word in option]
began = time.perf_counter()
subprocess.run(
    [sys.executable, "-m", "rl_zoo3.train", "-optimize", "--no-optim-plots", *words], check=True, stdout=sys.stderr
)
seconds = time.perf_counter() - began
study = optuna.load_study(study_name=NAME, storage=STORAGE)
shares = [
    1.0 if trial.state == optuna.trial.TrialState.COMPLETE else len(trial.intermediate_values) / EVALUATIONS
    for trial in study.trials
]
print(
    json.dumps(
        {
            "seconds": round(seconds, 1),
            "steps": round(sum(shares) * SETTINGS["steps"]),
            "best": study.best_value,
            "settings": study.best_params,
        }
    )
)
