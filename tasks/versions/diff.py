"""Compare two versions, as data and as a release note."""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from schemas.printing import line, markdown_line
from schemas.reports import ChangedDocuments, ChangedFigure, ChangedQuestions, NumberChange, VersionDiff
from schemas.versions import LedgerRow, Manifest, Status

if TYPE_CHECKING:
    from jinja2 import Template

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
    settings = [f"{name}: {before} → {now}" for name, (before, now) in version_diff.settings.items()]
    return _note().render(diff=version_diff, settings=settings, line=line, markdown_line=markdown_line, most_named=_NAMED)


@functools.cache
def _note() -> "Template":
    from jinja2 import StrictUndefined, Template

    text = files("tasks.versions").joinpath("release_note.md.jinja").read_text(encoding="utf-8")
    note: Template = Template(
        text, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
    )
    return note
