"""Formats a table of the paper: as Markdown for the documentation, and for a terminal of any width."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from trustax.paper.tables.cells import Entry
from trustax.paper.tables.targets import Target

NOT_IN_THE_PAPER = "not in the paper:"
STACKED = "In each cell: our mean, its interval, the paper's number."
VERDICT_STYLES = {"matches": "green", "differs, better": "cyan", "differs, worse": "red", "short": "yellow"}
MARKDOWN_MARKS = {"best": "**{}**", "close": "<u>{}</u>", "": "{}"}
TERMINAL_MARKS = {"best": "bold", "close": "underline", "": ""}


class Column(NamedTuple):
    """One number of each method."""

    key: str
    """the column of `TARGETS`"""
    heading: str
    digits: int = 0
    counted: bool = True
    """whether it has runs of its own, and is not derived from other columns"""


class Row(NamedTuple):
    """A method, with an entry for each column."""

    name: str
    entries: Sequence[Entry]
    is_variant: bool = False


class Estimate(NamedTuple):
    """A number with its 95% interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{number(self.value, 2)} [{number(self.low, 2)}, {number(self.high, 2)}]"


class Aggregate(NamedTuple):
    """A method over all tasks."""

    name: str
    interquartile_mean: Estimate
    improvement: Estimate | None
    """probability that a run of the reference beats a run of this method; None for the reference itself"""


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """One of the paper's tables, ours beside the paper's."""

    title: str
    setting: str
    """the protocol"""
    extent: str
    """how much of it was run"""
    columns: Sequence[Column]
    rows: Sequence[Row]
    notes: Sequence[str]
    aggregates: Sequence[Aggregate] = ()
    aggregate_headings: Sequence[str] = ()

    @property
    def state(self) -> str:
        """The protocol, and how much was run."""
        return f"{self.setting} {self.extent}"

    def markdown(self) -> str:
        """The table for a page of the documentation; rows and columns without any run are only named below it."""
        rows = [row for row in self.rows if any(cell.ours for cell in row.entries)]
        places = [place for place in range(len(self.columns)) if any(row.entries[place].ours for row in rows)]
        lines = [f"**{self.title}**", "", self.state, ""]
        if rows:
            headings = ["method", *(self.columns[place].heading for place in places)]
            lines += [*markdown_lines(headings, self._markdown_rows(rows, places)), "", " ".join(self.notes), ""]
        missing = [row.name for row in self.rows if row not in rows]
        missing += [column.heading for place, column in enumerate(self.columns) if rows and place not in places]
        if missing:
            lines += [f"Not run: {'; '.join(missing)}.", ""]
        if self.aggregates:
            lines += [*markdown_lines(self.aggregate_headings, map(_aggregate_texts, self.aggregates)), ""]
        return "\n".join(lines)

    def _markdown_rows(self, rows: Sequence[Row], places: Sequence[int]) -> Iterator[list[str]]:
        for label, part in _parts(rows):
            if label:
                yield [f"*{label}*", *("" for _ in places)]
            for row in part:
                yield [row.name, *(_markdown_cell(row.entries[place], self.columns[place]) for place in places)]

    def print(self, console: Console) -> None:
        """Print methods × tasks if the terminal is wide enough, else one task below the other, without intervals."""
        wide = _wide(self)
        unbounded = console.options.update(max_width=10_000)
        fits = Measurement.get(console, unbounded, wide).maximum <= console.width
        console.print(Text(self.title, style="bold"))
        console.print(Text(self.state))
        console.print(wide if fits else _narrow(self))
        console.print(Text(" ".join([*[STACKED] * fits, *self.notes]), style="dim"))
        if self.aggregates:
            small = _frame(*self.aggregate_headings)
            for aggregate in self.aggregates:
                small.add_row(*map(Text, _aggregate_texts(aggregate)))
            console.print(small)


def number(value: float, digits: int) -> str:
    """A number as the paper writes it.

    >>> number(-1051.14, 2), number(195404.0, 0), number(-0.01, 1)
    ('−1,051.14', '195,404', '0.0')
    """
    return f"{round(value, digits) + 0.0:,.{digits}f}".replace("-", "−")  # + 0.0 makes 0 of -0


def ours(cell: Entry, column: Column) -> str:
    """Our mean and standard deviation; a single run has no deviation.

    >>> from trustax.sweeps.statistics import Summary
    >>> ours(Entry(None, "", Summary(2.0, 0.25, 5)), Column("hopper", "hopper", digits=1))
    '2.0 ± 0.2'
    """
    if cell.ours is None:
        return ""
    spread = f" ± {number(cell.ours.std, column.digits)}" if cell.ours.count > 1 else ""
    return number(cell.ours.mean, column.digits) + spread


def theirs(target: Target, column: Column) -> str:
    """The paper's number, as it gives it."""
    if target.step is not None:
        return f"about {number(target.mean, 0 if target.step >= 1 else 1)}"
    spread = "" if target.std is None else f" ± {number(target.std, column.digits)}"
    return number(target.mean, column.digits) + spread


def seeds(cell: Entry, column: Column) -> str:
    """The number of runs, or how many of them solve the task.

    >>> from trustax.sweeps.statistics import Summary
    >>> seeds(Entry(None, "", Summary(2.0, 0.25, 10), solved=9), Column("unlock", "unlock"))
    ' (9/10)'
    """
    if cell.ours is None or not column.counted:
        return ""
    return f" ({cell.ours.count})" if cell.solved is None else f" ({cell.solved}/{cell.ours.count})"


def interval(cell: Entry, column: Column) -> str:
    """The interval of our mean, where there are several runs."""
    if cell.ours is None or cell.ours.count < 2 or cell.interval is None or not column.counted:
        return ""
    low, high = (number(end, column.digits) for end in cell.interval)
    return f"[{low}, {high}]"


def _parts(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """The paper's rows and, under a label, rows of our own."""
    paper, variants = ([row for row in rows if row.is_variant is own] for own in (False, True))
    return [(label, part) for label, part in (("", paper), (NOT_IN_THE_PAPER, variants)) if part]


def _markdown_cell(cell: Entry, column: Column) -> str:
    mean = MARKDOWN_MARKS[cell.mark].format(ours(cell, column)) + seeds(cell, column) if cell.ours else ""
    paper = f"paper {theirs(cell.target, column)}" if cell.target else ""
    return "<br>".join(filter(None, [mean, interval(cell, column), cell.choice, paper, cell.says()]))


def markdown_lines(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table.

    >>> markdown_lines(["method", "return"], [["PPO", "500"]])
    ['| method | return |', '| --- | --- |', '| PPO | 500 |']
    """
    return [f"| {' | '.join(cells)} |" for cells in (headings, ["---"] * len(headings), *rows)]


def _aggregate_texts(aggregate: Aggregate) -> list[str]:
    improvement = aggregate.improvement
    return [aggregate.name, str(aggregate.interquartile_mean), "" if improvement is None else str(improvement)]


def _frame(*headings: str) -> Table:
    frame = Table(box=box.HORIZONTALS, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in headings:
        frame.add_column(heading, overflow="fold")  # wrap, because a number that is cut off reads as another number
    return frame


def _wide(table: PaperTable) -> Table:
    drawn = _frame("method", *(column.heading.replace(", ", "\n") for column in table.columns))
    for label, rows in _parts(table.rows):
        drawn.add_section()
        if label:
            drawn.add_row(Text(label, style="italic"))
        for index, row in enumerate(rows):
            if index:
                drawn.add_row()
            cells = (_stacked(cell, column) for cell, column in zip(row.entries, table.columns, strict=True))
            drawn.add_row(Text(row.name), *cells)
    return drawn


def _stacked(cell: Entry, column: Column) -> Text:
    paper = Text(theirs(cell.target, column) if cell.target else "", style="dim")
    choice = Text(cell.choice, style="dim")
    between = Text(interval(cell, column), style="dim")
    lines = [_ours(cell, column), between, paper, _verdict(cell), choice] if cell.ours else [_verdict(cell), paper]
    return Text("\n").join(line for line in lines if line.plain)


def _narrow(table: PaperTable) -> Table:
    drawn = _frame("method", "ours", "paper", "")
    for index, column in enumerate(table.columns):
        drawn.add_section()
        drawn.add_row(Text(column.heading, style="bold"))
        for label, rows in _parts(table.rows):
            if label:
                drawn.add_row(Text(label, style="italic"))
            for row in rows:
                drawn.add_row(*_in_line(row.name, row.entries[index], column))
    return drawn


def _in_line(name: str, cell: Entry, column: Column) -> list[Text]:
    return [
        Text(f"{name} {cell.choice}".rstrip()),
        _ours(cell, column),
        Text(theirs(cell.target, column) if cell.target else "", style="dim"),
        _verdict(cell),
    ]


def _ours(cell: Entry, column: Column) -> Text:
    return Text.assemble((ours(cell, column), TERMINAL_MARKS[cell.mark]), (seeds(cell, column), "dim"))


def _verdict(cell: Entry) -> Text:
    return Text(cell.says(), style=VERDICT_STYLES.get(cell.verdict, "dim"))
