"""Compare two versions, as data and as a release note."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from schemas.printing import line, markdown_line
from schemas.reports import ChangedDocuments, ChangedFigure, ChangedQuestions, NumberChange, VersionDiff
from schemas.versions import LedgerRow, Manifest, Status

_NAMED = 20
FIGURES_NAMED = 10_000
"""Maximum number of figures named of each kind."""

FiguresFound = tuple[Sequence[ChangedFigure], int]
"""Some figures, each at its first place, by source and page, and how many there are."""

NO_FIGURES: FiguresFound = ((), 0)


@dataclass(frozen=True)
class VersionFacts:
    """The compared facts of a version; ``sources`` by name, ``found``: whether each golden question's page was found.

    ``complaints``: how many golden questions made of feedback are answered, and of how many; None for none.
    """

    manifest: Manifest
    sources: Iterable[LedgerRow]
    metrics: Mapping[str, float | None]
    found: Mapping[str, bool]
    complaints: tuple[int, int] | None = None


def diff(
    base: VersionFacts | None, current: VersionFacts, gained: FiguresFound = NO_FIGURES, lost: FiguresFound = NO_FIGURES
) -> VersionDiff:
    """Return the differences from ``base``, None for a first version, to ``current``, with figures that only one has."""
    common = sorted((base.found.keys() if base else set()) & current.found.keys())
    old_found = base.found if base else {}
    return VersionDiff(
        corpus=current.manifest.corpus,
        base=base.manifest.version if base else None,
        version=current.manifest.version,
        documents=_documents(base.sources if base else (), current.sources),
        figures_gained=[*gained[0]],
        figures_lost=[*lost[0]],
        more_figures_gained=gained[1] - len(gained[0]),
        more_figures_lost=lost[1] - len(lost[0]),
        questions=ChangedQuestions(
            asked=len(common),
            won=[name for name in common if current.found[name] and not old_found[name]],
            lost=[name for name in common if old_found[name] and not current.found[name]],
        ),
        complaints=current.complaints,
        metrics=_changes(base.metrics if base else {}, current.metrics),
        counts=_changes(_counts(base), _counts(current)),
        work=_changes(_work(base), _work(current)),
        settings=_settings(base.manifest, current.manifest) if base else {},
    )


def _documents(before: Iterable[LedgerRow], now: Iterable[LedgerRow]) -> ChangedDocuments:
    rows_before, rows_now = ({row.source: row for row in rows} for rows in (before, now))
    in_both = [(rows_before[source], row) for source, row in rows_now.items() if source in rows_before]
    moved = [(row_before, row_now) for row_before, row_now in in_both if row_before.status is not row_now.status]
    return ChangedDocuments(
        added=[source for source in rows_now if source not in rows_before],
        changed=[row_now.source for row_before, row_now in in_both if row_before.doc_id != row_now.doc_id],
        removed=[source for source in rows_before if source not in rows_now],
        lost=[row_now.source for row_before, row_now in moved if row_before.status is Status.INDEXED],
        recovered=[row_now.source for _, row_now in moved if row_now.status is Status.INDEXED],
        quarantined=[source for source, row in rows_now.items() if row.status is Status.QUARANTINED],
    )


def _changes(before: Mapping[str, float | None], now: Mapping[str, float | None]) -> dict[str, NumberChange]:
    return {name: NumberChange(before=before.get(name), now=now.get(name)) for name in sorted({*before, *now})}


def _counts(facts: VersionFacts | None) -> dict[str, float | None]:
    return {} if facts is None else {**facts.manifest.counts.totals()}


def _work(facts: VersionFacts | None) -> dict[str, float | None]:
    if facts is None:
        return {}
    return {**facts.manifest.work, "seconds": round(sum(facts.manifest.timings_s.values()), 1)}


def _settings(before: Manifest, now: Manifest) -> dict[str, list[object]]:
    settings_before, settings_now = dict(_flat_settings(before)), dict(_flat_settings(now))
    return {
        name: [settings_before.get(name), settings_now.get(name)]
        for name in sorted({*settings_before, *settings_now})
        if settings_before.get(name) != settings_now.get(name)
    }


def _flat_settings(manifest: Manifest) -> Iterator[tuple[str, object]]:
    embedders = {name: space.model for name, space in manifest.spaces.items()}
    for name, model in (manifest.models | embedders).items():
        yield f"model {name}", f"{model.name} {model.revision}"
    for section, values in manifest.parameters.items():
        if isinstance(values, dict):
            yield from ((f"{section}.{name}", value) for name, value in values.items())
        else:
            yield section, values


def release_note(version_diff: VersionDiff) -> str:
    """Return a diff as Markdown."""
    return "\n".join(_note(version_diff)) + "\n"


def _note(version_diff: VersionDiff) -> Iterator[str]:
    yield f"# {version_diff.corpus}: {version_diff.version}"
    yield ""
    yield f"Compared with {version_diff.base}." if version_diff.base else "The first version."
    if version_diff.complaints:
        yield ""
        yield "{} of {} complaints answered.".format(*version_diff.complaints)
    yield from _name_list("Documents added", version_diff.documents.added)
    yield from _name_list("Documents changed", version_diff.documents.changed)
    yield from _name_list("Documents removed", version_diff.documents.removed)
    yield from _name_list("Documents that went to quarantine", version_diff.documents.lost)
    yield from _name_list("Documents that came out of quarantine", version_diff.documents.recovered)
    yield from _name_list("Documents in quarantine", version_diff.documents.quarantined)
    if version_diff.base:
        yield from _figures("Figures gained", version_diff.figures_gained, version_diff.more_figures_gained)
        yield from _figures("Figures lost", version_diff.figures_lost, version_diff.more_figures_lost)
        yield from _name_list("Golden questions won", version_diff.questions.won)
        yield from _name_list("Golden questions lost", version_diff.questions.lost)
        settings = [f"{name}: {before} → {now}" for name, (before, now) in version_diff.settings.items()]
        yield from _name_list("Settings changed", settings)
    for title, changes in (
        ("Golden questions", version_diff.metrics),
        ("What it holds", version_diff.counts),
        ("Work", version_diff.work),
    ):
        yield from _table(title, changes)


def _name_list(title: str, names: Sequence[str]) -> Iterator[str]:
    return _list(title, [markdown_line(name) for name in names[:_NAMED]], len(names))


def _figures(title: str, figures: Sequence[ChangedFigure], uncounted: int) -> Iterator[str]:
    return _list(title, [_figure_line(figure) for figure in figures[:_NAMED]], len(figures) + uncounted)


def _list(title: str, items: Sequence[str], total: int) -> Iterator[str]:
    if items:
        yield ""
        yield f"## {title}: {total}"
        yield ""
        yield from (f"- {item}" for item in items)
        if total > len(items):
            yield f"- … and {total - len(items)} more"


def _figure_line(figure: ChangedFigure) -> str:
    caption = f" {markdown_line(figure.caption)}" if figure.caption else ""
    tag = line(figure.tag).replace("`", "'")
    return f"`{tag}` {markdown_line(figure.source)}, page {figure.page}:{caption}".rstrip(":")


def _table(title: str, changes: Mapping[str, NumberChange]) -> Iterator[str]:
    if changes:
        yield ""
        yield f"| {title} | before | now |"
        yield "|---|---:|---:|"
        for name, change in changes.items():
            yield f"| {name.replace('_', ' ')} | {_number(change.before)} | {_number(change.now)} |"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3f}"
