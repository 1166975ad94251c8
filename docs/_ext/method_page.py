"""The directive `settings-of`: where a method is defined, and its settings as a table made from its fields.

The defaults, the ranges and the explanations are those of the dataclass, so the table cannot be out of date.
"""

import dataclasses
import inspect
from math import inf
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

import trustax
from trustax.algorithms import ALGORITHMS
from trustax.settings import AllowedRange

ROOT = Path(trustax.__file__).parents[2]


def explanation(kind: type, name: str) -> str:
    """The docstring under a field, from the class that defines it."""
    for owner in kind.__mro__:
        if name in vars(owner).get("__annotations__", {}):
            documented = ModuleAnalyzer.for_module(owner.__module__).find_attr_docs()
            return " ".join(documented.get((owner.__name__, name), []))
    return ""


def allowed(field: dataclasses.Field) -> str:
    """The range of a setting in a few characters."""
    limits = field.metadata.get(AllowedRange)
    if limits is None:
        return choices_of(field.type)
    if limits.maximum < inf:
        return f"{limits.minimum:g} to {limits.maximum:g}"
    return f"≥ {limits.minimum:g}" + (f" and < {limits.below:g}" if limits.below < inf else "")


def choices_of(annotation: Any) -> str:
    choices = getattr(annotation, "__args__", ()) if "Literal" in str(annotation) else ()
    return ", ".join(f"`{choice}`" for choice in choices if isinstance(choice, str))


def settings_table(kind: type) -> list[str]:
    """A Markdown table of the settings of a method: its own first, then those that it shares with others."""
    own = vars(kind).get("__annotations__", {})
    fields = sorted(dataclasses.fields(kind), key=lambda field: field.name not in own)
    rows = [
        f"| `{field.name}` | `{field.default}` | {allowed(field)} | {explanation(kind, field.name)} |"
        for field in fields
    ]
    return ["| setting | default | values | meaning |", "|---|---|---|---|", *rows]


class Method(SphinxDirective):
    """`{settings-of} MCPO` writes the header and the table of settings of `trustax.MCPO`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        kind = getattr(trustax, self.arguments[0])
        name = ALGORITHMS.name_of(kind)
        source = Path(inspect.getfile(kind)).relative_to(ROOT)
        page = kind.__module__.replace(".", "/")
        target = self.env.app.builder.get_relative_uri(self.env.docname, f"_modules/{page}")
        lines = [
            f"In Python {{py:class}}`trustax.{kind.__name__}`, on the command line `trustax train {name}`, source",
            f'<a href="{target}"><code class="docutils literal">{source}</code></a>.',
            "",
            *settings_table(kind),
            "",
        ]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("settings-of", Method)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
