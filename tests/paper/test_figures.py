"""The figures show the given numbers, list missing runs, and cut no text off."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.axis import Tick
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from trustax.algorithms import MCPO
from trustax.cli.formatting import short_count
from trustax.errors import TrustaxError
from trustax.paper.experiments import EXPERIMENTS
from trustax.paper.figures import FIGURES, save_figure
from trustax.paper.figures.ablation import draw_ablation, groups
from trustax.paper.figures.captions import missing_text
from trustax.paper.figures.curves import draw_curves, draw_minigrid
from trustax.paper.figures.details import draw_alpha, draw_slots
from trustax.paper.figures.iteration_detail import at_beta_max, draw_iteration_detail, draw_iteration_details, smooth
from trustax.paper.figures.overview import draw_overview
from trustax.paper.figures.profiles import draw_profiles
from trustax.paper.figures.quality import draw_quality
from trustax.paper.figures.timeline import Query, draw_timeline, marks_of, window
from trustax.paper.methods import METHODS
from trustax.paper.results import Outcome, read, write
from trustax.paper.tables.scores import samples_of
from trustax.paper.tables.tables import complete_scores
from trustax.paper.tables.targets import TARGETS
from trustax.paper.tasks import task
from trustax.paper.trace.trace import Checkpoint, Segment, Trace
from trustax.plotting.curves import COLORS, STYLE

STEPS = 4
MCPO_DEFAULT = "MCPO N=10 default"


@pytest.fixture(autouse=True)
def style() -> Any:
    with matplotlib.rc_context(STYLE):
        yield


def outcomes_of(name: str, seed: int = 0, protocol: str = "paper", **settings: Any) -> list[Outcome]:
    """An outcome with random numbers for every cell of an experiment."""
    random = np.random.default_rng(seed)
    made = []
    for method, _, run in EXPERIMENTS[name].cells(protocol, **settings):
        returns = random.uniform(0.1, 0.9, (3, STEPS)).cumsum(axis=1) / STEPS
        steps = (np.arange(1, STEPS + 1) * run.total_timesteps // STEPS).tolist()
        returns[:, 0] = np.nan
        details = {key: random.random((2, STEPS)) for key in ("mcpo/attended_rank", "mcpo/alpha")}
        details = details if isinstance(run.algorithm, MCPO) else {}
        made.append(
            Outcome(replace(run, num_seeds=3), method, steps, returns, returns / 2, details, 1.0, 1.0, {}, "CPU")
        )
    return made


def segment(iteration: int, num_updates: int = 640, written: Sequence[int] = (3, 20), attended: int = 2) -> Segment:
    """An iteration whose updates attend to its policy number `attended`, or to the old policy before that exists."""
    number = np.arange(1, num_updates + 1)
    series = {
        "attended_rank": np.zeros(num_updates),
        "beta": np.where(number > num_updates // 4, 10.0, 0.01),
        "alpha": np.full(num_updates, 0.5),
        "kl_old_new": 1e-6 * (number - 1.0),
        "kl_old_virtual": 5e-7 * number,
        "kl_new_virtual": 2e-7 * number,
    }
    old = iteration * num_updates
    return Segment(iteration, old, old + np.array(written), old + np.where(number > attended, attended, 0), series)


def trace(method: str = "MCPO N=10", iterations: Sequence[int] = (0, 8, 9, 10, 11), **settings: Any) -> Trace:
    returns = np.arange(20.0).reshape(2, 10)
    return Trace(
        task="unlock",
        method=method,
        protocol="paper",
        run=task("unlock").run(MCPO(**settings), num_seeds=2),
        segments=[segment(number) for number in iterations],
        means={},
        checkpoints=[Checkpoint(8192 * n, returns, returns + n) for n in (1, 2, 3)],
        seconds=1.0,
        versions={},
        hardware="CPU",
    )


def caption(figure: Figure) -> str:
    return figure.get_supxlabel().replace("\n", " ").replace("\N{NO-BREAK SPACE}", " ")


def panel(figure: Figure, title: str) -> Any:
    (found,) = (axes for axes in figure.axes if axes.get_title(loc="left") == title)
    return found


def texts_outside(figure: Figure) -> list[str]:
    """The texts that exceed the edges of the figure. Ticks are excluded: those beyond an axis are never drawn."""
    figure.draw_without_rendering()
    ticks = {text for tick in figure.findobj(Tick) for text in tick.findobj(Text)}
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text() and text.get_visible()]
    edges = figure.bbox.padded(1)
    return [text.get_text() for text in texts if text not in ticks and not _within(text.get_window_extent(), edges)]


def _within(box: Any, edges: Any) -> bool:
    return edges.x0 <= box.x0 and box.x1 <= edges.x1 and edges.y0 <= box.y0 and box.y1 <= edges.y1


def test_the_timeline_shows_the_papers_window_and_three_queries() -> None:
    figure = draw_timeline(trace())
    whole, *zooms = figure.axes[::-1][:1] + figure.axes[:-1]
    assert whole.get_xlim() == (5160, 7070)
    assert [axes.get_title(loc="left") for axes in zooms] == ["θ_old = 5760", "θ_old = 6400", "θ_old = 7040"]
    arrows = [(text.xyann[0], text.xy[0]) for text in whole.texts]  # type: ignore[attr-defined]
    assert arrows == [(5770, 5762), (6410, 6402), (7050, 7042)]
    red, green = (_marks(whole, height) for height in (3, 2))
    assert {5763, 5780, 6403, 6420} <= red
    assert green == {5120, 5760, 6400, 7040}


def _marks(axes: Any, height: int) -> set[int]:
    """The positions of the marks in a row."""
    lines = [line for marks in axes.collections if isinstance(marks, LineCollection) for line in marks.get_segments()]
    return {round(start[0]) for start, end in lines if (start[1] + end[1]) / 2 == pytest.approx(height)}


def test_a_query_is_the_tenth_update_after_an_old_policy() -> None:
    marks = marks_of([segment(2, num_updates=100, attended=7), segment(3, num_updates=9)])
    assert marks.queries == [Query(old=200, update=210, attended=207)]
    assert marks.attended.tolist() == [27, 29, 200, 207]


def test_a_short_run_shows_its_last_iterations() -> None:
    short = trace(iterations=range(6))
    assert window(short) == (2 * 640, 6 * 640)
    assert len(draw_timeline(short).axes) == 4
    assert window(trace(iterations=[0])) == (0, 640)


def test_returns_are_averaged_over_episodes_and_seeds() -> None:
    figure = draw_quality([trace(), trace("MCPO N=10 literal")])
    above, below = panel(figure, "MCPO N=10"), figure.axes[2]
    virtual, old = (line.get_ydata() for line in above.lines[:2])
    np.testing.assert_allclose(old, [9.5, 9.5, 9.5])
    np.testing.assert_allclose(virtual, [10.5, 11.5, 12.5])
    assert [bar.get_height() for bar in below.patches] == [1.0, 2.0, 3.0]
    assert below.get_title(loc="left") == "+2.000 ± 0.000 over all points"
    assert "mean over 2 seeds" in caption(figure)


def test_iteration_detail_shows_distances_and_the_fraction_of_beta_max() -> None:
    figure = draw_iteration_detail([trace()])
    above, below = figure.axes
    assert "Iteration 10 of 12" in caption(figure)
    assert "75% (MCPO N=10)" in caption(figure)
    dots = above.lines[0].get_ydata()
    assert np.isnan(dots[0]), "no logarithm of zero"
    np.testing.assert_allclose(dots[1:], 1e-6 * np.arange(1, 640))
    assert _marks(below, 0) == {3, 20}
    assert _marks(below, -1) == set(range(161, 641))
    assert _marks(below, -2) == set(range(1, 161))


def test_iteration_detail_is_drawn_only_for_a_switching_beta() -> None:
    assert draw_iteration_details([trace(kl_cost_rule="annealed")]) == {}
    assert list(draw_iteration_details([trace(), trace(kl_cost_rule="annealed")])) == ["unlock"]
    loose = trace(kl_cost_max=0.02)
    assert at_beta_max(loose, loose.segments[0]).sum() == 480


def test_smoothing_preserves_the_first_updates_and_a_straight_line() -> None:
    line = np.arange(100.0)
    np.testing.assert_allclose(smooth(line)[:90], line[:90])
    jagged = np.array([5.0, 1.0] * 50)
    np.testing.assert_array_equal(smooth(jagged)[:10], jagged[:10])
    assert abs(smooth(jagged)[80] - 3.0) < 0.2


def test_a_task_has_one_panel_per_family_with_the_papers_final_values() -> None:
    outcomes = outcomes_of("table-1-full", tasks=["pendulum"])
    (name, figure), *others = draw_curves(outcomes, "paper").items()
    assert (name, others) == ("pendulum", [])
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    families = ["KL Adaptive", "KL Fixed", "PPO", "MDPO", "VMPO", "MCPO", "MCPO default", "MCPO literal"]
    assert titles == [*families, "VMPO sum", "KL Fixed k2", "KL Adaptive k2", "MDPO k2"]
    ppo = panel(figure, "PPO")
    expected = {outcome.method: outcome for outcome in outcomes}["PPO ε=0.2"]
    drawn = [line.get_ydata() for line in ppo.lines]
    assert any(len(y) == 3 and np.allclose(y, expected.returns[:, 1:].mean(axis=0)) for y in drawn)
    ends = {float(line.get_ydata()[0]) for line in ppo.lines if line.get_marker() == "D"}
    assert ends == {TARGETS["table-1-full"][f"PPO ε={clip}"]["pendulum"].mean for clip in (0.1, 0.2, 0.3)}
    assert "Mean over 3 seeds" in caption(figure)
    assert "Not run" not in caption(figure)


def test_the_papers_best_value_belongs_to_our_best_line() -> None:
    outcomes = outcomes_of("table-2", tasks=["hopper"], methods=["PPO ε=0.2", "PPO ε=0.5", "PPO ε=0.8"])
    figure = draw_curves(outcomes, "paper")["hopper"]
    (mark,) = [line for line in figure.axes[0].lines if line.get_marker() == "D"]
    assert mark.get_ydata()[0] == TARGETS["table-2"]["PPO"]["hopper"].mean
    best = max(outcomes, key=lambda outcome: outcome.final.mean())
    (line,) = [
        line for line in figure.axes[0].lines if line.get_linewidth() == STYLE["lines.linewidth"] and line is not mark
    ]
    np.testing.assert_allclose(line.get_ydata(), best.returns[:, 1:].mean(axis=0))
    assert mark.get_color() == line.get_color()
    assert "Not run yet: MDPO, TRPO, TRGPPO, Mean ψ, MCPO on hopper." in caption(figure)


def test_other_protocols_and_settings_are_excluded() -> None:
    assert draw_curves(outcomes_of("table-1", tasks=["pendulum"], protocol="bootstrapped"), "paper") == {}
    assert draw_alpha(outcomes_of("table-2", tasks=["half-cheetah"]), "paper") == {}


def test_a_shorter_run_is_drawn() -> None:
    outcomes = outcomes_of("table-1", tasks=["pendulum"], total_timesteps=100_000)
    assert draw_curves(outcomes, "paper")["pendulum"].axes[0].get_xlim()[1] == pytest.approx(110_000)


def test_navigation_shows_returns_and_success_rates() -> None:
    outcomes = outcomes_of("minigrid", tasks=["unlock"])
    figure = draw_minigrid(outcomes, "paper")[""]
    expected = outcomes[0].returns[:, 1:].mean(axis=0)
    np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), expected)
    np.testing.assert_allclose(figure.axes[2].lines[0].get_ydata(), expected / 2)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [outcome.method for outcome in outcomes]
    assert "Not run yet: all methods on unlock-pickup." in caption(figure)


def test_slots_and_alpha_show_the_details_of_the_outcomes() -> None:
    slots, alpha = outcomes_of("figure-1c", tasks=["hopper"]), outcomes_of("alpha")
    hopper = panel(draw_slots(slots, "paper")[""], "hopper")
    np.testing.assert_array_equal(hopper.lines[0].get_ydata(), slots[0].details["mcpo/attended_rank"][0])
    figure = draw_alpha(alpha, "paper")[""]
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), alpha[0].details["mcpo/alpha"][0])
    assert "rank 0 is the newest" in caption(draw_slots(slots, "paper")[""]).lower()


def test_the_overview_shows_the_default_of_mcpo_beside_ppo_and_the_best_other_method() -> None:
    outcomes = outcomes_of("table-1-full", tasks=["pendulum", "lunar-lander"])
    without = [outcome for outcome in outcomes if "PPO" not in outcome.method or "Lunar" not in outcome.run.env_id]
    figure = draw_overview(without, "paper")[""]
    assert [axes.get_title("left") for axes in figure.axes] == ["pendulum", "lunar-lander"]
    default, other = figure.axes[1].lines[:2]
    assert (default.get_color(), other.get_color()) == (COLORS[0], COLORS[2]), "without PPO, its color is not used"
    alone = [outcome for outcome in outcomes if outcome.method == "MCPO N=10 default"]
    assert draw_overview(alone, "paper") == {}
    others = [
        outcome
        for outcome in outcomes
        if "Pendulum" in outcome.run.env_id and outcome.method in METHODS and "MCPO" not in outcome.method
    ]
    ppo, other = (
        max((one for one in others if one.method.startswith("PPO") == is_ppo), key=lambda one: one.final.mean())
        for is_ppo in (True, False)
    )
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == ["MCPO()", ppo.method, other.method]
    assert "Stopped early" not in caption(figure)
    shorter = [replace(one, steps=[9 * step // 10 for step in one.steps]) for one in outcomes]
    assert f"Stopped early: MCPO N=10 default on pendulum at {short_count(shorter[0].steps[-1])}" in caption(
        draw_overview(shorter, "paper")[""]
    )


def test_the_ablation_shows_every_method_and_the_papers_margins() -> None:
    outcomes = outcomes_of("ablation")
    figures = draw_ablation([outcome for outcome in outcomes if outcome.method != "Half feature"], "paper")
    (axes,) = figures["finals"].axes
    rows = [label.get_text() for label in axes.get_yticklabels()]
    experiment = EXPERIMENTS["ablation"]
    assert sorted(rows) == sorted([*experiment.methods, *experiment.variants])
    assert [text.get_text() for text in axes.texts] == [*list(groups())[:5], "not run yet", "Other methods"]
    finals = {outcome.method: outcome.final.mean() for outcome in outcomes}
    heights = list(axes.get_yticks())
    points = [line for line in axes.lines if line.get_marker() == "o"]
    means = {rows[heights.index(point.get_ydata()[0])]: point.get_xdata()[0] for point in points}
    assert means == pytest.approx({name: final for name, final in finals.items() if name != "Half feature"})
    margins = sorted(float(line.get_xdata()[0]) for line in axes.lines if line.get_marker() == "D")
    assert margins == pytest.approx(sorted(finals["MCPO N=10"] + margin for margin in (-100, -50, -50, -50, -200, -50)))
    assert panel(figures["curves"], "Writing").lines


def test_the_ablation_marks_a_run_that_stopped_before_its_end() -> None:
    outcomes = outcomes_of("ablation")
    short = [
        replace(one, steps=one.steps[:-1], returns=one.returns[:, :-1]) if one.method == "No ψ" else one
        for one in outcomes
    ]
    (axes,) = draw_ablation(short, "paper")["finals"].axes
    (steps,) = (one.steps[-1] for one in short if one.method == "No ψ")
    assert f"stopped after {short_count(steps)} steps" in [text.get_text() for text in axes.texts]
    assert sorted({line.get_alpha() for line in axes.lines if line.get_marker() == "o"}) == [0.4, 1.0]


def test_an_ablation_shorter_than_the_papers_says_so_and_has_no_margins() -> None:
    short = [replace(one, run=replace(one.run, total_timesteps=5_000_000)) for one in outcomes_of("ablation")]
    for figure in draw_ablation(short, "paper").values():
        assert "Runs of 5M steps; the paper's have 50M." in " ".join(caption(figure).split())
        assert not any(line.get_marker() == "D" for axes in figure.axes for line in axes.lines)


def test_profiles_include_only_methods_that_ran_in_full_on_every_task() -> None:
    outcomes = outcomes_of("minigrid")
    left_out = [
        outcome for outcome in outcomes if (outcome.method, outcome.run.env_id) != ("PPO ε=0.2", "MiniGrid-Unlock-v0")
    ]
    scores = complete_scores("minigrid", samples_of("minigrid", "paper", left_out)[1])
    assert "PPO ε=0.2" not in scores
    assert scores.pop("MCPO N=10 literal")
    figure = draw_profiles(left_out, "paper")["minigrid"]
    assert "have not run in full: PPO ε=0.2." in caption(figure)
    left, right = figure.axes
    assert [line.get_label() for line in left.lines] == list(scores)
    assert [label.get_text() for label in right.get_yticklabels()] == [name for name in scores if name != MCPO_DEFAULT]
    runs = np.concatenate(scores[MCPO_DEFAULT])
    (profile,) = [line for line in left.lines if line.get_label() == MCPO_DEFAULT]
    assert profile.get_ydata()[0] == pytest.approx(np.mean(runs > profile.get_xdata()[0]))
    assert draw_profiles([outcome for outcome in outcomes if outcome.method != MCPO_DEFAULT], "paper") == {}


@pytest.mark.parametrize(
    "draw",
    [
        lambda: {"": draw_timeline(trace())},
        lambda: {"": draw_quality([trace(), trace("MCPO N=10 literal")])},
        lambda: {"": draw_quality([trace()])},
        lambda: {"": draw_iteration_detail([trace(), trace("MCPO N=10 literal")])},
        lambda: draw_curves(outcomes_of("table-1-full"), "paper"),
        lambda: draw_curves(outcomes_of("table-2", methods=["TRPO δ=0.01"]), "paper"),
        lambda: draw_minigrid(outcomes_of("minigrid"), "paper"),
        lambda: draw_slots(outcomes_of("figure-1c"), "paper"),
        lambda: draw_alpha(outcomes_of("alpha"), "paper"),
        lambda: draw_ablation(outcomes_of("ablation"), "paper"),
        lambda: draw_profiles(outcomes_of("table-2"), "paper"),
    ],
)
def test_no_text_is_cut_off(draw: Any) -> None:
    figures = draw()
    assert figures
    assert {name: texts_outside(figure) for name, figure in figures.items()} == {key: [] for key in figures}


def test_captions_list_missing_runs_by_task() -> None:
    rows = ["PPO ε=0.1", "PPO ε=0.2", "MCPO N=5", "MCPO N=10"]
    assert missing_text(rows, {"hopper": rows}) == ""
    told = missing_text(rows, {"hopper": ["PPO ε=0.1"], "ant": []}).replace("\N{NO-BREAK SPACE}", " ")
    assert told == " Not run yet: PPO ε=0.2, MCPO on hopper; all methods on ant."


def test_files_are_named_after_figure_part_and_protocol(tmp_path: Path) -> None:
    outcomes = outcomes_of("table-1", tasks=["pendulum"]) + outcomes_of("minigrid", tasks=["unlock"])
    for outcome in outcomes:
        write(outcome, tmp_path / "paper")
    before = dict(matplotlib.rcParams)
    saved = [path for name in FIGURES for path in save_figure(name, tmp_path, "paper", tmp_path / "figures")]
    assert [path.name for path in saved] == [
        "minigrid-paper.png",
        "overview-paper.png",
        "curves-pendulum-paper.png",
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in saved)
    assert dict(matplotlib.rcParams) == before
    assert len(read(tmp_path / "paper")) == len(outcomes)


def test_without_results_nothing_is_written(tmp_path: Path) -> None:
    for name in FIGURES:
        assert save_figure(name, tmp_path, "bootstrapped", tmp_path / "figures") == []
    assert list(tmp_path.iterdir()) == []


def test_a_drawing_error_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    write(outcomes_of("alpha")[0], tmp_path / "paper")
    for name, protocol, folder, reason in (
        ("figure-1", "paper", "figures", "did you mean figure-1c or figure-1b or figure-1a"),
        ("alpha", "papers", "figures", "did you mean paper"),
        ("alpha", "paper", "file", "could not save"),
    ):
        with pytest.raises(TrustaxError, match=reason) as caught:
            save_figure(name, tmp_path, protocol, tmp_path / folder)
        assert "\n" not in str(caught.value)
