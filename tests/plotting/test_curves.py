"""The plot shows the right numbers, explains its lines, and fails with a one-line error."""

import json
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from reliability.made import RUN

from trustax.algorithms import PPO
from trustax.errors import TrustaxError
from trustax.ops.metrics import RETURN, STEP
from trustax.plotting.curves import COLORS, MAX_POINTS, STYLE, draw, plot_curves, to_curve
from trustax.plotting.learners import by_setting
from trustax.plotting.tasks import draw_tasks, plot_tasks
from trustax.plotting.tuning import Point, draw_tuning
from trustax.run import Run, write_run
from trustax.storage.journal import METRICS_FILE, read_records
from trustax.storage.records import EVALUATIONS_FILE

NAN = float("nan")


def records(*returns: Any, metric: str = "rollout/ep_rew_mean") -> list[dict[str, Any]]:
    return [{"time/total_timesteps": 1000 * n, metric: value} for n, value in enumerate(returns, start=1)]


def drawn(**runs: list[dict[str, Any]]) -> Any:
    with matplotlib.rc_context(STYLE):
        figure = draw({name: to_curve(run) for name, run in runs.items()}, "title", "return")
        figure.draw_without_rendering()
    return figure


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".PDF", b"%PDF")])
def test_the_suffix_chooses_the_format(tmp_path: Path, suffix: str, start: bytes) -> None:
    path = tmp_path / "new" / f"curve{suffix}"
    plot_curves({"mcpo": records([1.0, 2.0], [2.0, 4.0])}, path)
    assert path.read_bytes().startswith(start)


def test_different_tasks_have_axes_of_their_own_and_a_method_has_one_color(tmp_path: Path) -> None:
    curves = {
        "Pendulum-v1": {"mcpo": to_curve(records([1.0, 2.0], [2.0, 4.0])), "ppo": to_curve(records(3.0, 4.0))},
        "CartPole-v1": {"ppo": to_curve(records(500.0, 400.0))},
    }
    with matplotlib.rc_context(STYLE):
        figure = draw_tasks(curves, "return")
    first, second = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(curves)
    assert second.lines[-1].get_color() == first.lines[-1].get_color() != first.lines[0].get_color()
    assert first.get_ylim()[1] < 5 < second.get_ylim()[0]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["mcpo", "ppo"]
    with pytest.raises(TrustaxError, match="no run has a metric"):
        plot_tasks({"a": {"ppo": records(1.0)}, "b": {"ppo": records(1.0)}}, tmp_path / "a.png", "rollout/ep_len")


def test_records_without_a_value_are_left_out() -> None:
    curve = to_curve([*records([None, None], [NAN, 2.0], [3.0, 4.0]), {"time/total_timesteps": 9000}])
    np.testing.assert_array_equal(curve.steps, [2000, 3000])
    np.testing.assert_array_equal(curve.values, [[NAN, 2.0], [3.0, 4.0]])
    assert to_curve(records(1.0, None, 3.0)).values.tolist() == [[1.0], [3.0]]
    assert to_curve([]).steps.size == 0


def test_mean_band_and_seeds_are_drawn() -> None:
    (axes,) = drawn(mcpo=records([1.0, 3.0], [None, 4.0], [5.0, 9.0])).axes
    first_seed, second_seed, mean = (line.get_ydata() for line in axes.lines)
    np.testing.assert_array_equal(first_seed, [1.0, NAN, 5.0])
    np.testing.assert_array_equal(second_seed, [3.0, 4.0, 9.0])
    np.testing.assert_array_equal(mean, [2.0, 4.0, 7.0])
    band = axes.collections[0].get_paths()[0].vertices
    assert {(2000.0, 4.0), (1000.0, 1.0), (1000.0, 3.0), (3000.0, 5.0), (3000.0, 9.0)} <= set(map(tuple, band))
    assert "mean over 2 seeds" in axes.texts[0].get_text()
    assert "thin lines" in axes.texts[0].get_text()


def test_one_seed_has_no_band_and_many_seeds_no_thin_lines() -> None:
    (axes,) = drawn(one=records(1.0, 2.0)).axes
    assert (len(axes.lines), len(axes.collections)) == (1, 0)
    (axes,) = drawn(many=records([1.0] * 11, [2.0] * 11)).axes
    assert (len(axes.lines), len(axes.collections)) == (1, 1)
    assert "thin" not in axes.texts[0].get_text()
    assert "1 to 11 seeds" in drawn(a=records([1.0] * 11), b=records(1.0)).axes[0].texts[0].get_text()


def test_steps_are_abbreviated() -> None:
    run = [{"time/total_timesteps": n * 250_000, "rollout/ep_rew_mean": float(n)} for n in range(1, 9)]
    figure = drawn(mcpo=run)
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert "500k" in labels
    assert "1.5M" in labels


def test_any_name_is_shown_literally(tmp_path: Path) -> None:
    names = ["_hidden", "$x_{", "a_b", "runs/" + "long" * 40 + "seed0"]
    with matplotlib.rc_context(STYLE):
        figure = draw(dict.fromkeys(names, to_curve(records(1.0, 2.0))), "$", "$y")
        figure.savefig(tmp_path / "curve.png")
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown[:3] == names[:3]
    assert shown[3].startswith("runs/long…")
    assert shown[3].endswith("seed0")


GRID = [f"mcpo memory_size={size} learning_rate={rate}" for size in (5, 10, 40) for rate in ("0.0001", "0.0003")]


def legend_of(*names: str) -> list[str]:
    """The title and the names of a legend that lies inside its figure, beside the axes."""
    figure = drawn(**{name: records(1.0, 2.0) for name in names})
    (legend,), (axes,) = figure.legends, figure.axes
    box = legend.get_window_extent()
    assert axes.get_window_extent().x1 < box.x0
    assert figure.bbox.contains(box.x0, box.y0)
    assert figure.bbox.contains(box.x1, box.y1)
    return [legend.get_title().get_text(), *(text.get_text() for text in legend.get_texts())]


def test_a_legend_has_room_and_says_once_what_all_curves_share() -> None:
    assert legend_of(*GRID, "ppo learning_rate=0.0001") == ["", *GRID, "ppo learning_rate=0.0001"]
    assert legend_of(*GRID) == ["mcpo", *(name.removeprefix("mcpo ") for name in GRID)]
    assert legend_of(*GRID[::2])[:2] == ["mcpo\nlearning_rate=0.0001", "memory_size=5"]
    many = [f"{name} virtual_policy={number}" for name in GRID for number in range(8)]
    assert len(legend_of(*many)) == 1 + len(many)


def test_names_that_differ_in_their_middle_only_are_not_cut() -> None:
    names = ["runs/" + "long" * 20 + f"seed{number}" + "long" * 20 for number in range(2)]
    assert legend_of(*names)[1:] == names


def test_long_titles_are_wrapped() -> None:
    task = "gymnasium:my_package.environments:UnlockPickup-v0"
    curves = {f"{task}-{number}": {"ppo": to_curve(records(1.0, 2.0))} for number in range(3)}
    with matplotlib.rc_context(STYLE):
        figure = draw_tasks(curves, "return")
        figure.draw_without_rendering()
    boxes = [axes._left_title.get_window_extent() for axes in figure.axes]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_the_names_of_choices_do_not_overlap() -> None:
    choices = ["64x64", "128x128", "256x256x256", "32x32x32x32", "32x64x32x64"]
    points = [Point(number, 1.0, True, {"hidden_sizes": choice}) for number, choice in enumerate(choices)]
    with matplotlib.rc_context(STYLE):
        figure = draw_tuning(points, {"hidden_sizes": None}, "")
        figure.draw_without_rendering()
    labels = figure.axes[1].get_xticklabels()
    assert {(label.get_rotation(), label.get_ha()) for label in labels} == {(30.0, "right")}


def test_learners_with_other_settings_are_curves_of_their_own(tmp_path: Path) -> None:
    run = Run(algorithm=PPO(learning_rate=(1e-5, 1e-2, 1e-5)), env_id="A", num_seeds=3)
    lines = [{STEP: 8, RETURN: [1.0, 2.0, 3.0]}, {STEP: 16, RETURN: [None, 5.0, 6.0]}]
    curves = by_setting(run, lines)
    assert {name: [record[RETURN] for record in own] for name, own in curves.items()} == {
        "ppo learning_rate=1e-05": [[1.0, 3.0], [None, 6.0]],
        "ppo learning_rate=0.01": [[2.0], [5.0]],
    }
    assert list(by_setting(replace(run, algorithm=PPO()), lines)) == ["ppo"]
    (tmp_path / METRICS_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / EVALUATIONS_FILE).write_text(f'{{"{STEP}": 8, "eval/mean_reward": [1.0, 2.0, 3.0]}}\n')
    curves = by_setting(run, read_records(tmp_path))
    assert [to_curve(own, "eval/mean_reward").values.tolist() for own in curves.values()] == [[[1.0, 3.0]], [[2.0]]]


def test_more_runs_than_colors_are_distinguishable() -> None:
    figure = drawn(**{f"run {n}": records(float(n)) for n in range(len(COLORS) + 1)})
    styles = {(line.get_color(), line.get_linestyle()) for line in figure.axes[0].lines}
    assert len(styles) == len(COLORS) + 1
    assert all(line.get_marker() == "o" for line in figure.axes[0].lines)


def test_another_metric_can_be_drawn(tmp_path: Path) -> None:
    plot_curves({"ppo": records(0.1, 0.2, metric="train/approx_kl")}, tmp_path / "kl.svg", metric="train/approx_kl")
    assert "train/approx_kl" in (tmp_path / "kl.svg").read_text()


def test_the_global_style_is_unchanged(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    plot_curves({"mcpo": records(1.0, 2.0)}, tmp_path / "curve.png")
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(
    ("name", "runs", "reason"),
    [
        ("curve.jpg", {"mcpo": records(1.0)}, r"\.png, \.svg, \.pdf"),
        ("curve", {"mcpo": records(1.0)}, "must end in"),
        ("curve.png", {"mcpo": records([None, NAN], None)}, "no episode has finished"),
        ("curve.png", {}, "nothing to draw"),
        ("file/curve.png", {"mcpo": records(1.0)}, "could not save"),
    ],
)
def test_a_drawing_error_is_one_line(
    tmp_path: Path, name: str, runs: dict[str, list[dict[str, Any]]], reason: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrustaxError, match=reason) as caught:
        plot_curves(runs, tmp_path / name)
    assert "\n" not in str(caught.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_long_curve_is_thinned_with_its_first_and_last_point() -> None:
    curve = to_curve([{STEP: step, RETURN: [1.0 * step]} for step in range(20_000)])
    assert curve.steps.size == MAX_POINTS
    assert (curve.steps[0], curve.steps[-1]) == (0, 19_999)
    assert set(np.diff(curve.steps).tolist()) == {5, 6}


def test_no_evaluation_of_a_long_run_is_left_out(tmp_path: Path) -> None:
    steps = range(1, 10 * MAX_POINTS)
    (tmp_path / METRICS_FILE).write_text("".join(f'{{"{STEP}": {step}, "{RETURN}": [1.0]}}\n' for step in steps))
    lines = [f'{{"{STEP}": {step}, "eval/mean_reward": [{step}.0, null]}}\n' for step in (100, 200, 300)]
    (tmp_path / EVALUATIONS_FILE).write_text("".join(lines))
    curve = to_curve(read_records(tmp_path), "eval/mean_reward")
    np.testing.assert_array_equal(curve.steps, [100, 200, 300])
    np.testing.assert_array_equal(curve.values, [[100.0, NAN], [200.0, NAN], [300.0, NAN]])
    assert to_curve(read_records(tmp_path)).steps.size == MAX_POINTS


def test_enormous_values_are_drawn(tmp_path: Path) -> None:
    plot_curves({"a": [{STEP: step, RETURN: [1e308, -1e308, 5.0]} for step in (1, 2**62)]}, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 0


MEASURE = """
import resource, sys
from trustax.cli.main import main
try:
    main()
finally:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, file=sys.stderr)
"""


@pytest.mark.slow
def test_a_run_of_many_iterations_is_plotted_in_seconds(tmp_path: Path) -> None:
    """A quarter of a million lines; a million (2.1 GB) take 3 s and 220 MB."""
    write_run(RUN, tmp_path)
    others = json.dumps({f"train/metric_{number}": [0.1234567, -1.7654321e-05] for number in range(38)})[1:]
    with open(tmp_path / METRICS_FILE, "w") as file:
        for step in range(1, 250_001):
            file.write(f'{{"{STEP}": {step}, "{RETURN}": [{step / 2}, {step / 3}], {others}\n')
    command = [sys.executable, "-c", MEASURE, "plot", str(tmp_path), "--output", str(tmp_path / "curve.png")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (tmp_path / METRICS_FILE).unlink()
    seconds, megabytes = map(float, done.stderr.split())
    assert seconds < 5
    assert megabytes < 400
