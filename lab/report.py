"""The report of an experiment: one HTML file without references to other hosts."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import jinja2

from lab.metrics import METRICS, Metric
from lab.results import COMPARED, Results
from lab.statistics import Estimate

PLOT_PX, LABEL_PX, ROW_PX = 460, 300, 24
"""Width of a plot's scale and of its labels, and height of a row."""

_COST = ("seconds", "calls", "money", "figures_shown")

_environment = jinja2.Environment(loader=jinja2.PackageLoader("lab"), autoescape=True, trim_blocks=True, lstrip_blocks=True)
_environment.filters |= {"number": lambda value: f"{value:,.3f}" if abs(value) < 100 else f"{value:,.0f}"}


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
    ran = [one for one in results.systems if one.means]
    used = {name for one in ran for name in one.means} | set(results.not_admitted)
    groups: dict[str, list[Metric]] = {}
    for name, metric in METRICS.items():
        if name in used:
            groups.setdefault(metric.group, []).append(metric)
    page = _environment.get_template("report.html").render(
        results=results,
        ran=ran,
        lacking=[one for one in results.systems if one.note],
        failed=[one for one in results.systems if one.failed],
        agreed=[METRICS[name] for name in METRICS if _is_compared(results, name)],
        plots=list(_plots({one.system.id: one.means for one in ran})),
        groups=groups,
        compared=[METRICS[name] for name in COMPARED if any(name in one.means for one in ran)],
        kinds=sorted({kind for one in ran for kind in one.kinds}),
        METRICS=METRICS,
        plot_px=PLOT_PX,
        label_px=LABEL_PX,
        row_px=ROW_PX,
    )
    out.write_text(page, encoding="utf-8")


def _is_compared(results: Results, metric: str) -> bool:
    return metric in results.agreement or any(metric in judge.people for judge in results.judges)


def _plots(means: Mapping[str, Mapping[str, Estimate]]) -> Iterator[Plot]:
    for name in (*COMPARED, *_COST):
        known = {system: one[name] for system, one in means.items() if name in one}
        if not known:
            continue
        most = max(one.high or 0.0 for one in known.values())
        top = _round_up(most) if name in _COST else 1.0
        scale = PLOT_PX / top
        dots = [
            Dot(
                label=system,
                x=(one.mean or 0.0) * scale,
                low=(one.low or 0.0) * scale,
                high=(one.high or 0.0) * scale,
                y=place * ROW_PX + ROW_PX // 2,
                words=f"{one.mean:.3f} ({one.low:.3f} to {one.high:.3f}), {one.n} questions",
            )
            for place, (system, one) in enumerate(known.items())
        ]
        yield Plot(METRICS[name], dots, [(PLOT_PX * part / 4, f"{top * part / 4:g}") for part in range(5)])


def _round_up(value: float) -> float:
    if value <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return math.ceil(value / unit) * unit
