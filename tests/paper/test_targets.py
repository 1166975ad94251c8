"""The paper's numbers have valid names, and are consistent with the paper's text."""

import pytest

from trustax.paper.experiments import ATARI, EXPERIMENTS
from trustax.paper.methods import METHODS
from trustax.paper.tables.targets import BEST_OF, CLASSIC_CONTROL, HUMAN_SCORES, TARGETS, Target
from trustax.paper.tasks import TASKS
from trustax.sweeps.statistics import Summary, cohens_d

MADE_OF_SEVERAL = {"mean", "median", "margin", "unlock success", "unlock-pickup success"}
# As printed in the appendix.
BEST = {"pendulum": "MCPO N=5", "lunar-lander": "MCPO N=40", "bipedal-walker": "MCPO N=10"}
UNDERLINED = {
    "pendulum": {"MDPO β₀=2", "MCPO N=40"},
    "lunar-lander": {"PPO ε=0.3", "MCPO N=5", "MCPO N=10"},
    "bipedal-walker": {"KL Fixed β=0.1", "PPO ε=0.3", "MCPO N=5"},
}


@pytest.mark.parametrize("name", TARGETS)
def test_experiments_methods_and_tasks_exist(name: str) -> None:
    rows = set(BEST_OF) if name == "table-2" else set(EXPERIMENTS[name].methods)
    assert TARGETS[name].keys() <= rows
    for columns in TARGETS[name].values():
        assert columns.keys() <= set(EXPERIMENTS[name].tasks) | MADE_OF_SEVERAL
        assert columns.keys() - MADE_OF_SEVERAL <= TASKS.keys()


@pytest.mark.parametrize("name", ["table-1", "table-1-full", "table-2"])
def test_a_printed_table_is_complete(name: str) -> None:
    rows = list(BEST_OF) if name == "table-2" else EXPERIMENTS[name].methods
    assert [*TARGETS[name]] == [*rows]
    assert all([*columns] == [*EXPERIMENTS[name].tasks] for columns in TARGETS[name].values())
    assert all(target.std is not None for columns in TARGETS[name].values() for target in columns.values())


def test_every_tuned_method_of_table_2_is_the_best_of_runs_that_exist() -> None:
    candidates = [method for methods in BEST_OF.values() for method in methods]
    assert sorted(candidates) == sorted(EXPERIMENTS["table-2"].methods)
    assert set(candidates) <= METHODS.keys()


@pytest.mark.parametrize(
    ("experiment", "method", "column", "target"),
    [
        ("table-1-full", "KL Adaptive d=0.003", "pendulum", Target(-407.74, 484.16)),
        ("table-1", "MCPO N=40", "bipedal-walker", Target(249.51, 12.75)),
        ("table-2", "MCPO", "humanoid-standup", Target(195404, 32801)),
        ("table-2", "TRGPPO", "half-cheetah", Target(2811, 114)),
        ("table-3", "ACKTR δ=0.01", "median", Target(25.30)),
        ("cost", "MCPO N=40", "pendulum", Target(560)),
    ],
)
def test_a_number_agrees_with_the_paper(experiment: str, method: str, column: str, target: Target) -> None:
    assert TARGETS[experiment][method][column] == target


@pytest.mark.parametrize("task", BEST)
def test_effect_sizes_agree_with_the_papers_underlines(task: str) -> None:
    numbers = {name: Summary(row[task].mean, std, 5) for name, row in CLASSIC_CONTROL.items() if (std := row[task].std)}
    best = max(numbers, key=lambda name: numbers[name].mean)
    close = {name for name, ours in numbers.items() if abs(cohens_d(ours, numbers[best])) < 0.5} - {best}
    assert best == BEST[task]
    # The paper does not underline this one, although its d is 0.41 (0.46 if ± divides by n - 1).
    assert close - {"MDPO β₀=0.5"} == UNDERLINED[task]


def test_the_papers_interval_comes_from_its_spread_or_from_the_last_digit() -> None:
    assert Target(263.04, 11.48).tolerance == pytest.approx(2.776 * 11.48 / 5**0.5)
    assert Target(0.9, step=0.1).tolerance == 0.05
    assert Target(131.19).tolerance is None


def test_every_game_has_human_and_random_scores() -> None:
    assert [*HUMAN_SCORES] == ATARI
    assert all(scores.human > scores.random for scores in HUMAN_SCORES.values())
    assert HUMAN_SCORES["breakout"] == (1.7, 30.5)
