"""The model card of an agent on the Hugging Face hub."""

import json
from typing import TYPE_CHECKING, Any

from trustax.run import Run, settings_of

if TYPE_CHECKING:
    from trustax.evaluation import EvaluationResult

CURVE = "curve.png"


def model_card(repo_id: str, run: Run | None, evaluation: "EvaluationResult | None", has_curve: bool) -> str:
    """The card in Markdown: how to load the agent, its evaluation, its learning curve and its settings."""
    title = "An agent of Trustax" if run is None else f"{run.algorithm_name} on {run.env_id}"
    sections = [_metadata(run, evaluation), f"# {title}", _usage(repo_id, run)]
    if evaluation is not None:
        sections += ["## Evaluation", f"{evaluation}."[:1].upper() + f"{evaluation}."[1:]]
    if has_curve:
        sections += ["## Learning curve", f"![Return over environment steps]({CURVE})"]
    if run is not None:
        sections += ["## Settings", _table(settings_of(run, without=("name",)))]
    return "\n\n".join(sections) + "\n"


def _metadata(run: Run | None, evaluation: "EvaluationResult | None") -> str:
    """The block of YAML that the hub reads; JSON strings are YAML strings."""
    tags = ["reinforcement-learning", "trustax", *([] if run is None else [run.env_id, run.algorithm_name])]
    lines = ["---", "library_name: trustax", "pipeline_tag: reinforcement-learning", f"tags: {json.dumps(tags)}"]
    if run is not None and evaluation is not None:
        score = f"{evaluation.returns.mean():.2f} +/- {evaluation.returns.std():.2f}"
        result = {
            "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
            "dataset": {"type": run.env_id, "name": run.env_id},
            "metrics": [{"type": "mean_reward", "value": score, "name": "mean_reward"}],
        }
        lines.append(f"model-index: {json.dumps([{'name': run.algorithm_name, 'results': [result]}])}")
    return "\n".join([*lines, "---"])


def _usage(repo_id: str, run: Run | None) -> str:
    lines = ["import trustax as tx", "", f'agent = tx.load("hf://{repo_id}")']
    if run is not None:
        lines.append(f'print(tx.evaluate(agent, "{run.env_id}", num_episodes=10))')
    else:
        lines.append("action, _ = agent.predict(observation, deterministic=True)")
    code = "\n".join(["```python", *lines, "```"])
    return f'It needs Trustax with the extra `hub`: `pip install "trustax[hub]"`.\n\n{code}'


def _table(settings: dict[str, Any]) -> str:
    rows = [f"| `{name}` | `{json.dumps(value)}` |" for name, value in settings.items()]
    return "\n".join(["| setting | value |", "|---|---|", *rows])
