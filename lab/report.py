"""The report of an experiment: one HTML file without references to other hosts."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import jinja2

from lab.experiment import PaperTable
from lab.metrics import METRICS, Metric
from lab.results import COMPARED, Results, SystemResult
from lab.statistics import DASH, Estimate

PLOT_PX, LABEL_PX, ROW_PX = 460, 300, 24
"""Width of a plot's scale and of its labels, and height of a row."""

_COST = ("seconds", "calls", "money", "figures_shown")

_environment = jinja2.Environment(loader=jinja2.PackageLoader("lab"), autoescape=True, trim_blocks=True, lstrip_blocks=True)
_environment.filters |= {"number": lambda value: f"{value:,.3f}" if abs(value) < 100 else f"{value:,.0f}"}


def paper_rows(results: Results, table: PaperTable) -> list[tuple[str, str, list[str]]]:
    """Return a paper's table as system, setup and cells; behind its figures of a system ours, for each generator and judge."""
    rows: list[tuple[str, str, list[str]]] = []
    for system in dict.fromkeys(row.system for row in table.rows):
        rows += [
            (system, row.setup, [DASH if value is None else f"{value:.2f}" for value in row.values])
            for row in table.rows
            if row.system == system
        ]
        for result in results.systems:
            if result.means and result.system.id.removesuffix(f" by {result.system.settings.get('model')}") == system:
                rows += ((system, setup, cells) for setup, cells in _ours(result, table))
    return rows


def _ours(result: SystemResult, table: PaperTable) -> Iterator[tuple[str, list[str]]]:
    """Yield our setup and cells in a paper's table: a row a judge where columns are judged."""
    by_kind = [result.kinds.get(f"documents: {column}", {}).get(table.metric or "") for column in table.columns]
    metrics = [column.replace(" ", "_") for column in table.columns]
    generator = f"ours, {result.system.settings['model']}" if "model" in result.system.settings else "ours"
    graded = {(one.metric, one.judge): one.mean for one in result.judged}
    judges = [] if table.metric else [*dict.fromkeys(judge for metric, judge in graded if metric in metrics)]
    for judge in judges or [""]:
        means = by_kind if table.metric else [graded.get((name, judge)) or result.means.get(name) for name in metrics]
        setup = f"{generator}, judged by {judge}" if judge else generator
        yield setup, [str(mean or Estimate(n=0)) for mean in means]


def paper_tables(results: Results) -> str:
    """Return the papers' tables in Markdown, ours behind each system's, to be copied."""
    lines = []
    for table in results.papers:
        lines += [f"## {table.title}", "", f"| {' | '.join(['system', 'setup', *table.columns])} |"]
        lines.append("|---" * (2 + len(table.columns)) + "|")
        lines += [f"| {' | '.join([system, setup, *cells])} |" for system, setup, cells in paper_rows(results, table)]
        lines.append("")
    return "\n".join(lines)


@dataclass(frozen=True)
class Dot:
    """A mean with its interval, in pixels from the left of the scale."""

    label: str
    x: float
    low: float
    high: float
    y: int
    words: str


@dataclass(frozen=True)
class Plot:
    """Means of one metric by system; ``ticks`` are places and labels on the scale."""

    metric: Metric
    dots: list[Dot]
    ticks: list[tuple[float, str]]

    @property
    def height(self) -> int:
        """Height of its rows in pixels."""
        return ROW_PX * len(self.dots)


def write_report(results: Results, out: Path) -> None:
    """Write the report."""
    ran = [system_result for system_result in results.systems if system_result.means]
    used_metrics = {name for system_result in ran for name in system_result.means} | set(results.not_admitted)
    groups: dict[str, list[Metric]] = {}
    for name, metric in METRICS.items():
        if name in used_metrics:
            groups.setdefault(metric.group, []).append(metric)
    page = _environment.get_template("report.html").render(
        results=results,
        ran=ran,
        lacking=[system_result for system_result in results.systems if system_result.note],
        failed=[system_result for system_result in results.systems if system_result.failed],
        agreed=[METRICS[name] for name in METRICS if _is_compared(results, name)],
        plots=list(_plots({system_result.system.id: system_result.means for system_result in ran})),
        groups=groups,
        compared=[METRICS[name] for name in COMPARED if any(name in system_result.means for system_result in ran)],
        kinds=sorted({kind for system_result in ran for kind in system_result.kinds}),
        METRICS=METRICS,
        paper_rows=paper_rows,
        plot_px=PLOT_PX,
        label_px=LABEL_PX,
        row_px=ROW_PX,
    )
    out.write_text(page, encoding="utf-8")


def _is_compared(results: Results, metric: str) -> bool:
    return metric in results.agreement or any(metric in judge.people for judge in results.judges)


def _plots(means: Mapping[str, Mapping[str, Estimate]]) -> Iterator[Plot]:
    for name in (*COMPARED, *_COST):
        estimates = {system: by_metric[name] for system, by_metric in means.items() if name in by_metric}
        if not estimates:
            continue
        highest = max(estimate.high or 0.0 for estimate in estimates.values())
        top = _round_up(highest) if name in _COST else 1.0
        scale = PLOT_PX / top
        dots = [
            Dot(
                label=system,
                x=(estimate.mean or 0.0) * scale,
                low=(estimate.low or 0.0) * scale,
                high=(estimate.high or 0.0) * scale,
                y=row_number * ROW_PX + ROW_PX // 2,
                words=f"{estimate.mean:.3f} ({estimate.low:.3f} to {estimate.high:.3f}), {estimate.n} questions",
            )
            for row_number, (system, estimate) in enumerate(estimates.items())
        ]
        yield Plot(METRICS[name], dots, [(PLOT_PX * part / 4, f"{top * part / 4:g}") for part in range(5)])


def _round_up(value: float) -> float:
    if value <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return math.ceil(value / unit) * unit
