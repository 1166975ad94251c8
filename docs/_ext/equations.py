"""Equations as SVG that Matplotlib draws when the site is built: a page needs no script, no font and no network."""

import io
from html import escape

from docutils import nodes
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser
from sphinx.application import Sphinx

FONT = FontProperties(size=13)
MARGIN = 2.0


def svg(formula: str) -> str:
    """One line of LaTeX, as far as Matplotlib knows it, in the color of the text around it."""
    text = f"${' '.join(formula.split())}$"
    with rc_context({"mathtext.fontset": "stix", "svg.fonttype": "path", "svg.hashsalt": "trustax"}):
        width, height, depth, *_ = MathTextParser("path").parse(text, dpi=72, prop=FONT)
        width, height = width + 2 * MARGIN, height + 2 * MARGIN
        figure = Figure(figsize=(width / 72, height / 72))
        figure.text(MARGIN / width, (depth + MARGIN) / height, text, fontproperties=FONT)
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    drawing = file.getvalue()
    drawing = drawing[drawing.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{escape(formula)}"', 1)
    lower = f"vertical-align: -{depth + MARGIN:.1f}pt"
    return drawing.replace("<svg", f'<svg class="formula" style="{lower}"', 1)


def inline(translator, node: nodes.math) -> None:
    translator.body.append(svg(node.astext()))
    raise nodes.SkipNode


def block(translator, node: nodes.math_block) -> None:
    lines = [f"<div>{svg(line)}</div>" for line in node.astext().replace("&", "").split(r"\\")]
    translator.body.append(f'<div class="equation">{"".join(lines)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("svg", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
