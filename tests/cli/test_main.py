"""The command line as a user meets it: what it prints, where it writes, how it refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import trustax
from tests.envs.test_check import OutOfBounds
from trustax.algorithms import BUILTIN, PPO
from trustax.cli import names
from trustax.cli.commands import Plot
from trustax.cli.main import main
from trustax.cli.methods import method_named
from trustax.cli.parsing import _in_one_line
from trustax.cli.settings_file import read_settings
from trustax.cli.training import _new_folder
from trustax.ops.metrics import RETURN, STEP
from trustax.paper.reproduce.reproduce import NAMES
from trustax.paper.tasks import TASKS
from trustax.run import Run, write_run
from trustax.storage.journal import METRICS_FILE

QUICK = "--num-envs 2 --horizon 64 --total-timesteps 300 --num-minibatches 4 --num-epochs 1 --hidden-sizes 8 --quiet"


def run(arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int | str | None, str, str]:
    """Exit code, stdout and stderr of a command."""
    with pytest.raises(SystemExit) as leaving:
        main(arguments.split())
    said = capsys.readouterr()
    return leaving.value.code, said.out, said.err


def test_a_run_is_trained_evaluated_plotted_and_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    code, out, _ = run(f"train mcpo --env-id CartPole-v1 --num-seeds 2 --run-dir {folder} {QUICK}", capsys)
    assert code == 0
    assert str(folder / "curve.png") in out

    code, out, _ = run(f"evaluate {folder} --num-episodes 2", capsys)
    assert code == 0
    assert "over seeds" in out

    picture = tmp_path / "curves.svg"
    code, out, _ = run(f"plot {folder} --output {picture}", capsys)
    assert (code, out.strip()) == (0, str(picture))
    assert picture.stat().st_size > 0

    agent = tmp_path / "one.agent"
    trustax.load(folder).save(agent)
    code, out, _ = run(f"evaluate {agent} --num-episodes 2", capsys)
    assert (code, "over 2 episodes" in out) == (0, True)
    agent.rename(tmp_path / ".one.agent.old")  # as a killed save leaves it
    code, out, _ = run(f"evaluate {agent} --num-episodes 2", capsys)
    assert (code, "over 2 episodes" in out) == (0, True)

    policy = tmp_path / "policy.onnx"
    code, out, _ = run(f"export {folder} --learner 1 --output {policy}", capsys)
    assert (code, out.strip()) == (0, str(policy))
    assert policy.stat().st_size > 0

    code, _, err = run(f"resume {folder} --env-id gymnasium:CartPole-v1 --quiet", capsys)
    assert (code, "CartPole-v1 runs on gymnasium here; to resume, use the id native:CartPole-v1" in err) == (2, True)
    code, _, _ = run(f"resume {folder} --env-id native:CartPole-v1 --total-timesteps 512 --quiet", capsys)
    assert code == 0
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 4


def test_a_run_in_a_store_is_evaluated_plotted_recorded_exported_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"file://{tmp_path}/store/run"
    monkeypatch.chdir(tmp_path)
    assert run(f"train ppo --env-id CartPole-v1 --run-dir {url} {QUICK}", capsys)[0] == 0
    code, out, _ = run(f"evaluate {url} --num-episodes 2", capsys)
    assert (code, "learner" in out) == (0, True)
    for command, output in (("plot", "curves.png"), ("record", "recording.gif"), ("export", "policy.onnx")):
        limit = " --max-steps 3" if command == "record" else ""
        code, out, _ = run(f"{command} {url}{limit}", capsys)
        assert (code, output in out) == (0, True)
        assert (tmp_path / output).stat().st_size > 0
    assert run(f"resume {url} --total-timesteps 512 --quiet", capsys)[0] == 0
    for command in ("evaluate", "plot", "record", "export"):
        code, _, err = run(f"{command} {url}/nothing", capsys)
        assert (code, err) == (2, f"trustax: there is no run with a checkpoint at {url}/nothing\n")


def test_a_configuration_of_the_paper_can_be_selected_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["train", "MCPO N=5", *f"--env-id CartPole-v1 --run-dir {tmp_path / 'run'} {QUICK}".split()])
    assert leaving.value.code == 0
    assert '"memory_size": 5,' in (tmp_path / "run" / "run.json").read_text()


def test_a_run_gets_its_own_folder_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(f"train ppo --env-id native:CartPole-v1 --seed 3 {QUICK}", capsys)[0] == 0
    (folder,) = (tmp_path / "runs").glob("[!.]*")
    assert folder.name.startswith("native-CartPole-v1__ppo__3__")


def test_help_and_version_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version", capsys)[1].startswith("trustax 0.")
    code, out, _ = run("--help", capsys)
    assert code == 0
    assert "train METHOD" in out
    code, out, _ = run("train mcpo --help", capsys)
    assert code == 0
    assert "Number of past policies in the memory (N)." in out


def test_help_imports_neither_jax_nor_matplotlib() -> None:
    script = """
import sys, trustax
from trustax.cli.main import main
for arguments in (["--help"], ["train"], ["--version"]):
    try:
        main(arguments)
    except SystemExit:
        pass
assert {"PPO", "train", "networks", "__version__"} <= set(dir(trustax))
heavy = {"jax", "jaxlib", "equinox", "numpy", "matplotlib", "gymnasium", "tyro", "rich"} & set(sys.modules)
sys.exit(f"imported: {sorted(heavy)}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_help_lists_the_existing_names() -> None:
    assert [method.name for method in names.METHODS] == [*BUILTIN, "mean-psi"]
    assert all(method_named(method.name) for method in names.METHODS)
    assert (list(names.TASKS), list(names.EXPERIMENTS)) == (list(TASKS), NAMES)


def test_every_public_name_can_be_imported_lazily() -> None:
    assert set(trustax.__all__) == set(trustax._MODULES)
    assert all(getattr(trustax, name) is not None for name in dir(trustax))
    with pytest.raises(AttributeError, match="module 'trustax' has no attribute 'PP0'"):
        _ = trustax.PP0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("tran", "there is no command 'tran'; did you mean train?"),
        ("train mcpoo", "there is no method 'mcpoo'; did you mean mcpo?"),
        ("train sac", "mean-psi; a configuration of the paper has its name there, such as 'KL Fixed β=0.1'"),
        ("train mcpo", "--env-id is missing"),
        ("train mcpo --task hoper", "the paper has no task 'hoper'; did you mean hopper"),
        (
            "train mcpo --env-id CartPole-v1 --memory-sise 3",
            "unknown option '--memory-sise'; did you mean --memory-size?",
        ),
        ("train ppo --env-id CartPole-v1 --memory-size 3", "unknown option '--memory-size'"),
        ("train ppo CartPole-v1", "unexpected argument 'CartPole-v1'; did you mean --env-id CartPole-v1?"),
        ("train ppo pole --quiet", "unexpected argument 'pole'; see trustax train ppo --help"),
        ("train ppo --env-id CartPole-v1 --n-steps=64", "unknown option '--n-steps'; here it is called --horizon"),
        ("train ppo --env-id CartPole-v1 --total-timesteps 9", "or raise --total-timesteps to at least that"),
        (
            "sweep mcpo --env-id CartPole-v1 --memory-sise 3 4",
            "unknown option '--memory-sise'; did you mean --memory-size?",
        ),
        ("sweep ppo --env-id CartPole-v1 --run-dir x", "'--run-dir'; trustax sweep has --folder for all its runs"),
        ("tune ppo --env-id CartPole-v1 --tune clip_range:0.1..0.4 --quiet", "redirect the output of trustax tune"),
        ("sweep ppo --env-id CartPole-v1 --total-timesteps 5000", "steps; lower horizon, or raise total_timesteps to"),
        (
            "tune ppo --env-id CartPole-v1 --tune horizon:128..3000 --total-timesteps 10000",
            "cannot be tuned like this: total_timesteps is 10,000, but one iteration has",
        ),
        ("sweep ppo --env-id CartPole-v1 --num-seeds 1 2", "--num-seeds must have one value in a sweep, not 2"),
        ("sweep ppo --env-id CartPole-v1 --folder s4://bucket/x", "cannot be opened: Protocol not known: s4"),
        ("tune ppo --env-id CartPole-v1 --tune clip_range:0.1..0.4 --folder s3://b/x", "not an object store"),
        ("train mcpo --env-id CartPole-v1 --num-seeds many", "--num-seeds must be a whole number, not 'many'"),
        ("train mcpo --env-id CartPole-v1 --num-seeds 2 --num-seeds few", "must be a whole number, not 'few'"),
        ("train mcpo --env-id CartPole-v1 --num-seeds 1.5e0", "--num-seeds must be a whole number, not '1.5e0'"),
        ("train mcpo --env-id CartPole-v1 --num-seeds", "--num-seeds needs a value: a whole number"),
        (
            "train ppo --env-id Pendulum-v1 --learning_rate abc",
            "--learning_rate must be a number, or one for each learner, not 'abc'",
        ),
        ("train ppo --env-id Pendulum-v1 --learning-rate -1", "--learning-rate must be at least 0, not -1"),
        ("train ppo --env-id Pendulum-v1 --hidden-sizes a 8", "--hidden-sizes must be whole numbers, not 'a 8'"),
        ("train mcpo --env-id CartPole-v1 --kl-cost-rule free", "adaptive or fixed, not 'free'"),
        ("train mcpo --env-id CartPole-v1 --num-seeds 0", "--num-seeds must be at least 1, not 0"),
        ("train ppo --env-id nomodule:Foo-v0", "there is no engine and no module 'nomodule'; the engines are native"),
        ("train ppo --env-id CartPole-v1 --callbacks stop-at-return", "needs a value for value; write stop-at-return:"),
        ("train ppo --env-id CartPole-v1 --callbacks evaluate:interval=0", "callback evaluate: interval must be"),
        ("train mcpo --env-id CartPool-v1", "there is no environment 'CartPool-v1'; did you mean CartPole-v1"),
        ("train mcpo --env-id CartPole-v1 --kl-cost-min 20", "--kl-cost-min must not be above --kl-cost-max"),
        ("train mcpo --env-id gymnasium:MountainCar-v0 --run-dir /proc/run", "/proc/run cannot be written"),
        ("check CartPool-v1", "there is no environment 'CartPool-v1'; did you mean CartPole-v1"),
        ("check", "ENV is missing: an id, with an engine"),
        ("evaluate", "RUN is missing: the folder of the run or of the agent, or its URL; see trustax evaluate --help"),
        ("evaluate nowhere", "there is no run at nowhere"),
        ("export nowhere", "there is no agent at nowhere"),
        ("evaluate runs --num-episodes few", "--num-episodes must be a whole number, not 'few'"),
        ("train ppo --task hopper --env-id Ant-v5", "--task hopper and --env-id Ant-v5 both name an environment"),
        ("plot", "plot needs the folder of at least one run"),
        (
            "tune ppo --env-id CartPole-v1 --tune clip_range:0.1..0.4 --minutes 9",
            "of the engine local; its options: --jobs",
        ),
        ("reproduce cost --engine slurm --partition gpu", "--engine changes nothing in cost: its runs train on this"),
        ("reproduce within --jobs 2", "--jobs changes nothing in within: its runs train on this machine"),
        ("reproduce table-1 --render-only --methods nonsense", "this experiment has no method 'nonsense'"),
        ("reproduce table-1 --render-only --tasks hoper", "this experiment has no task 'hoper'"),
        ("reproduce table-1 --render-only --steps 9", "--steps changes nothing in table-1: nothing is run"),
        ("reproduce curves --seeds 3", "--seeds changes nothing in curves: nothing is run; leave it out"),
        ("reproduce curves --address nowhere:1", "--address changes nothing in curves"),
        ("reproduce curves --methods nonsense", "--methods changes nothing in curves"),
        ("zoo evaluate --num-episodes 0", "--num-episodes must be at least 1, not 0"),
        ("sweep ppo --env-id CartPole-v1 --env_id=Pendulum-v1", "--env-id is given twice; give it once with all its"),
        ("tune ppo --env-id CartPole-v1 --tune clip_range:0.1..0.4 --tune num_epochs:1,2", "--tune is given twice"),
        ("reproduce table-1 --tasks pendulum --tasks lunar-lander", "--tasks is given twice"),
        ("train ppo --env-id CartPole-v1 --callbacks evaluate --callbacks progress", "--callbacks is given twice"),
    ],
)
def test_a_mistake_gets_a_one_line_error(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(arguments, capsys)
    assert code == 2
    assert "defaults from the paper" not in out
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("trustax: ")


def test_ctrl_c_is_not_lost_in_a_callback_of_the_garbage_collector() -> None:
    script = """
import gc, os, signal, sys, time
from trustax.cli import main as cli
def interrupt(phase, info):
    gc.callbacks.remove(interrupt)
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):  # Python handles the signal here, and drops the exception
        pass
def dispatch(arguments):
    gc.callbacks.append(interrupt)
    gc.collect()
    time.sleep(60)
cli._dispatch = dispatch
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (130, "trustax: interrupted\n")


def test_a_warning_of_trustax_is_one_line(tmp_path: Path) -> None:
    arguments = "train ppo --env-id CartPole-v1 --total-timesteps 128 --horizon 32 --num-minibatches 4 --quiet"
    script = f"""
import trustax as tx
from trustax.cli import main as cli
class Broken:
    def start(self, run, run_dir, resume_at): raise OSError("the server is gone")
    def log(self, record): pass
    def close(self): pass
tx.register_logger("broken", Broken)
import sys
sys.argv = ["trustax", *"{arguments} --loggers broken --run-dir {tmp_path / "run"}".split()]
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "trustax: Broken failed and is now disabled: the server is gone\n"


def test_runs_of_a_sweep_are_plotted_by_setting(tmp_path: Path) -> None:
    rate = (1e-4, 1e-4, 1e-3, 1e-3)
    run = Run(algorithm=PPO(learning_rate=rate), env_id="A", num_seeds=4, repeat_seeds=2)
    write_run(run, tmp_path / "sweep")
    (tmp_path / "sweep" / METRICS_FILE).write_text(json.dumps({STEP: 8, RETURN: [1.0, 3.0, 10.0, 30.0]}) + "\n")
    plot = Plot(run_dirs=(str(tmp_path / "sweep"),), output=tmp_path / "curves.png")
    with pytest.MonkeyPatch.context() as patch:
        seen: dict[str, Any] = {}
        patch.setattr("trustax.plotting.tasks.plot_curves", lambda curves, *_: seen.update(curves))
        plot()
    assert {label: records[0][RETURN] for label, records in seen.items()} == {
        "ppo learning_rate=0.0001": [1.0, 3.0],
        "ppo learning_rate=0.001": [10.0, 30.0],
    }


def test_a_settings_file_may_have_the_name_of_the_zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("zoo").write_text("horizon = 64\n")
    assert read_settings("./zoo") == {"horizon": 64}
    assert read_settings("zoo") == {}
    asked: list[Any] = []
    monkeypatch.setattr("trustax.cli.training.Train.__call__", lambda command: asked.append(command.run))
    with pytest.raises(SystemExit):
        main(["train", "ppo", "--env-id", "CartPole-v1", "--settings", "./zoo"])
    assert asked[0].horizon == 64


def test_only_whole_numbers_are_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("trustax.cli.training.Train.__call__", lambda command: asked.append(command))
    options = "--total-timesteps 1.5e6 --horizon=1e3 --hidden-sizes 1e1 2e1 --learning-rate 1e-3 --run-dir 2e3"
    with pytest.raises(SystemExit):
        main(["train", "ppo", "--env-id", "CartPole-v1", *options.split()])
    run = asked[0].run
    assert (run.total_timesteps, run.horizon, run.algorithm.hidden_sizes) == (1_500_000, 1_000, (10, 20))
    assert (run.algorithm.learning_rate, asked[0].output.run_dir) == (1e-3, "2e3")
    monkeypatch.setattr("trustax.cli.commands.Evaluate.__call__", lambda command: asked.append(command))
    with pytest.raises(SystemExit):
        main(["evaluate", "--num-episodes", "1e1", "2e3"])
    assert (asked[1].num_episodes, asked[1].run_dir) == (10, "2e3")


def test_the_message_of_the_parser_is_found_with_and_without_a_frame() -> None:
    rule = "─" * 13
    framed = f"╭─ Value error ─╮\n│ Error parsing │\n│ --x: bad.     │\n│ {rule} │\n│ For help      │\n╰─{rule}─╯"
    plain = " Value error\n ------------\n  Error parsing\n  --x: bad.\n  ------------\n  For help\n"
    assert _in_one_line(framed) == _in_one_line(plain) == "Error parsing --x: bad"


def test_an_unknown_environment_prints_nothing_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run("train mcpo --env-id native:Pendulum-v2", capsys)
    assert (code, out) == (2, "")
    assert "native has no environment 'Pendulum-v2'; did you mean Pendulum-v1?" in err


def test_an_environment_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("check gymnasium:MountainCar-v0", capsys)
    assert code == 0
    assert "fit for training" in out
    gymnasium.register("TrustaxOutOfBounds-v0", OutOfBounds)
    try:
        code, out, _ = run("check TrustaxOutOfBounds-v0", capsys)
    finally:
        del gymnasium.registry["TrustaxOutOfBounds-v0"]
    assert code == 1
    assert "✗  observation values" in out


def test_an_existing_run_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"train ppo --env-id CartPole-v1 --run-dir {tmp_path / 'run'} {QUICK}"
    assert run(command, capsys)[0] == 0
    code, _, err = run(command, capsys)
    assert code == 2
    assert "already holds a run; resume it with resume=True (--resume) or choose another folder" in err
    assert run(f"{command} --resume", capsys)[0] == 0


def test_a_run_file_cannot_import_a_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"train ppo --env-id CartPole-v1 --run-dir {tmp_path / 'run'} {QUICK}", capsys)[0] == 0
    definition = tmp_path / "run" / "run.json"
    definition.write_text(definition.read_text().replace('"CartPole-v1"', '"gymnasium:os:CartPole-v1"'))
    for command in ("evaluate", "resume"):
        code, _, err = run(f"{command} {tmp_path / 'run'}", capsys)
        assert code == 2
        assert "imports a module; to allow this, add --env-id" in err


@pytest.mark.parametrize("option", ["--task pendulum", "--env-id Pendulum-v1", "--env-id=native:Pendulum-v1"])
def test_a_task_uses_the_settings_of_the_paper(
    option: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("trustax.cli.training.Train.__call__", lambda command: asked.append(command.run))
    code, out, _ = run(f"train ppo {option} --horizon 64", capsys)
    assert code == 0
    assert "defaults from the paper: 4 environments × 2048 steps" in out
    assert asked[0].env_id.endswith("Pendulum-v1")
    assert (asked[0].horizon, asked[0].total_timesteps) == (64, 1_000_000)


def test_a_task_prints_only_the_settings_that_it_changes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trustax.cli.training.Train.__call__", lambda command: None)
    _, out, _ = run("train acktr --task breakout", capsys)
    assert out == "defaults from the paper: 32 environments × 128 steps per iteration\n"


def test_output_is_written_in_an_encoding_that_lacks_some_characters() -> None:
    command = [sys.executable, "-m", "trustax.cli.main", "train", "mcpo", "--help"]
    environment = os.environ | {"PYTHONIOENCODING": "cp1252"}
    out = subprocess.run(command, env=environment, capture_output=True, check=True).stdout.decode("cp1252")
    assert "Number of past policies in the memory (N)" in out


def test_plot_finds_runs_among_other_folders_and_selects_a_metric_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, other = tmp_path / "run", tmp_path / "notes"
    other.mkdir()
    assert run(f"train ppo --env-id CartPole-v1 --run-dir {folder} {QUICK}", capsys)[0] == 0
    code, out, err = run(f"plot {folder} {other} --output {tmp_path / 'a.png'}", capsys)
    assert (code, out.strip(), err) == (0, str(tmp_path / "a.png"), f"skipped: {other} is not a run folder\n")
    assert run(f"plot {tmp_path} --output {tmp_path / 'all.png'}", capsys)[0] == 0
    code, _, err = run(f"plot {other} --output {tmp_path / 'b.png'}", capsys)
    assert (code, "is not a run folder" in err) == (2, True)
    code, _, err = run(f"plot {folder} --output {tmp_path / 'c.png'} --metric train/aprox_kl", capsys)
    assert code == 2
    assert "no run has a metric train/aprox_kl; did you mean train/approx_kl" in err


def test_plot_draws_the_evaluations_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = f"--env-id CartPole-v1 --num-seeds 2 --callbacks evaluate:interval=1,episodes=2 {QUICK}"
    for method in ("mcpo", "ppo"):
        assert run(f"train {method} --run-dir {tmp_path / method} {options}", capsys)[0] == 0
    picture = tmp_path / "evaluations.svg"
    assert run(f"plot {tmp_path} --metric eval/mean_reward --output {picture}", capsys)[0] == 0
    for text in ("episode return in evaluations", "mean over 2 seeds", ">mcpo<", ">ppo<"):
        assert text in picture.read_text()
    code, _, err = run(f"plot {tmp_path} --metric mean_reward --output {picture}", capsys)
    assert (code, "no run has a metric mean_reward; did you mean eval/mean_reward" in err) == (2, True)
    code, _, err = run(f"plot {tmp_path} --metric xyz --output {picture}", capsys)
    assert (code, "choose one of eval/mean_ep_length, eval/mean_reward, mcpo/" in err) == (2, True)
    (tmp_path / "ppo" / "evaluations.jsonl").unlink()
    code, _, err = run(f"plot {tmp_path / 'ppo'} --metric eval/mean_reward --output {picture}", capsys)
    assert (code, "no run folder has eval/mean_reward; train with --callbacks evaluate" in err) == (2, True)


def test_a_run_whose_environment_imports_a_module_resumes_if_the_user_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env_id, folder = "gymnasium:tests.envs.test_check:Lazy-v0", tmp_path / "run"
    gymnasium.register("Lazy-v0", lambda: gymnasium.make("CartPole-v1"))
    code, out, _ = run(f"train ppo --env-id {env_id} --run-dir {folder} {QUICK}", capsys)
    assert code == 0
    assert f"next            trustax evaluate {folder} --env-id {env_id}" in out
    code, _, err = run(f"resume {folder} --quiet", capsys)
    assert (code, f"to allow this, add --env-id {env_id}" in err) == (2, True)
    assert run(f"resume {folder} --env-id {env_id} --total-timesteps 4e2 --quiet", capsys)[0] == 0
    code, _, err = run(f"resume {folder} --env-id CartPole-v1 --quiet", capsys)
    assert (code, f"holds a run on {env_id}, not on CartPole-v1" in err) == (2, True)


def test_resume_needs_a_run_folder(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(f"train ppo --env-id CartPole-v1 --resume {QUICK}", capsys)
    assert (code, "--resume needs --run-dir" in err) == (2, True)


def test_runs_started_in_the_same_second_get_separate_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda form: "20260101-000000")
    folders = []
    for _ in range(3):
        folders.append(_new_folder(Run(algorithm=PPO(), env_id="ALE/Pong-v5")))
        folders[-1].mkdir(parents=True)
    name = "ALE-Pong-v5__ppo__0__20260101-000000"
    assert [folder.name for folder in folders] == [name, f"{name}-2", f"{name}-3"]


@pytest.mark.parametrize("page", ["page.md", "page.html"])
def test_a_report_of_a_missing_folder_is_refused(page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(f"report {tmp_path / 'nowhere'} --output {tmp_path / page}", capsys)
    assert (code, "is not a folder" in err) == (2, True)
    assert not (tmp_path / page).exists()


def test_an_environment_without_a_task_keeps_the_defaults(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("trustax.cli.training.Train.__call__", lambda command: asked.append(command.run))
    _, out, _ = run("train ppo --env-id CartPole-v1", capsys)
    assert out == ""
    assert asked == [Run(algorithm=PPO(), env_id="CartPole-v1")]
