"""Say what changed between two versions, as data and as a note for people."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from schemas.differences import Change, ChangedDocuments, ChangedFigure, ChangedQuestions, VersionDiff
from schemas.printing import line, markdown_line
from schemas.versions import LedgerRow, Manifest, Status

_NAMED = 20


@dataclass(frozen=True)
class VersionFacts:
    """What a version says of itself.

    ``figures`` are its tagged figures by id; ``found`` says of each golden question whether its page was found.
    """

    manifest: Manifest
    ledger: Sequence[LedgerRow]
    figures: Mapping[str, ChangedFigure]
    metrics: Mapping[str, float | None]
    found: Mapping[str, bool]


def diff(base: VersionFacts | None, new: VersionFacts) -> VersionDiff:
    """Return what changed from one version to another.

    Args:
        base: The version before; None where there was none.
        new: The other one.
    """
    before, now = ({row.source: row for row in facts.ledger} if facts else {} for facts in (base, new))
    both = sorted(before.keys() & now.keys())
    had, has = (facts.figures if facts else {} for facts in (base, new))
    asked = sorted((base.found.keys() if base else set()) & new.found.keys())
    old_found = base.found if base else {}
    return VersionDiff(
        corpus=new.manifest.corpus,
        base=base.manifest.version if base else None,
        version=new.manifest.version,
        documents=ChangedDocuments(
            added=sorted(now.keys() - before.keys()),
            changed=[source for source in both if before[source].doc_id != now[source].doc_id],
            removed=sorted(before.keys() - now.keys()),
            lost=[source for source in both if _fell(before[source], now[source])],
            mended=[source for source in both if _fell(now[source], before[source])],
        ),
        figures_gained=_only(has, had),
        figures_lost=_only(had, has),
        questions=ChangedQuestions(
            asked=len(asked),
            won=[name for name in asked if new.found[name] and not old_found[name]],
            lost=[name for name in asked if old_found[name] and not new.found[name]],
        ),
        metrics=_changes(base.metrics if base else {}, new.metrics),
        counts=_changes(_counts(base), _counts(new)),
        work=_changes(_work(base), _work(new)),
        settings=_settings(base.manifest, new.manifest) if base else {},
    )


def _fell(before: LedgerRow, now: LedgerRow) -> bool:
    return before.status is Status.INDEXED and now.status is Status.QUARANTINED


def _only(one: Mapping[str, ChangedFigure], other: Mapping[str, ChangedFigure]) -> list[ChangedFigure]:
    return sorted((one[name] for name in one.keys() - other.keys()), key=lambda figure: (figure.source, figure.page))


def _changes(before: Mapping[str, float | None], now: Mapping[str, float | None]) -> dict[str, Change]:
    return {name: Change(before=before.get(name), now=now.get(name)) for name in sorted({*before, *now})}


def _counts(facts: VersionFacts | None) -> dict[str, float | None]:
    return {} if facts is None else facts.manifest.counts.model_dump(exclude={"rows_by_modality"})


def _work(facts: VersionFacts | None) -> dict[str, float | None]:
    if facts is None:
        return {}
    return {**facts.manifest.work, "seconds": round(sum(facts.manifest.timings_s.values()), 1)}


def _settings(before: Manifest, now: Manifest) -> dict[str, list[object]]:
    one, other = dict(_flat(before)), dict(_flat(now))
    return {name: [one.get(name), other.get(name)] for name in sorted({*one, *other}) if one.get(name) != other.get(name)}


def _flat(manifest: Manifest) -> Iterator[tuple[str, object]]:
    embedders = {name: space.model for name, space in manifest.spaces.items()}
    for name, model in (manifest.models | embedders).items():
        yield f"model {name}", f"{model.name} {model.revision}"
    for section, values in manifest.parameters.items():
        if isinstance(values, dict):
            yield from ((f"{section}.{name}", value) for name, value in values.items())
        else:
            yield section, values


def release_note(found: VersionDiff) -> str:
    """Return a diff as Markdown for people: what a downstream team would ask about a version."""
    return "\n".join(_note(found)) + "\n"


def _note(found: VersionDiff) -> Iterator[str]:
    yield f"# {found.corpus}: {found.version}"
    yield ""
    yield f"Compared with {found.base}." if found.base else "The first version."
    yield from _names("Documents added", found.documents.added)
    yield from _names("Documents changed", found.documents.changed)
    yield from _names("Documents removed", found.documents.removed)
    yield from _names("Documents that went to quarantine", found.documents.lost)
    yield from _names("Documents that came out of quarantine", found.documents.mended)
    if found.base:
        yield from _list("Figures gained", [_shown(figure) for figure in found.figures_gained])
        yield from _list("Figures lost", [_shown(figure) for figure in found.figures_lost])
        yield from _names("Golden questions won", found.questions.won)
        yield from _names("Golden questions lost", found.questions.lost)
        settings = [f"{name}: {before} → {now}" for name, (before, now) in found.settings.items()]
        yield from _names("Settings changed", settings)
    for title, changes in (("Golden questions", found.metrics), ("What it holds", found.counts), ("Work", found.work)):
        yield from _table(title, changes)


def _names(title: str, names: Sequence[str]) -> Iterator[str]:
    yield from _list(title, [markdown_line(name) for name in names])


def _list(title: str, items: Sequence[str]) -> Iterator[str]:
    if items:
        yield ""
        yield f"## {title}: {len(items)}"
        yield ""
        yield from (f"- {item}" for item in items[:_NAMED])
        if len(items) > _NAMED:
            yield f"- … and {len(items) - _NAMED} more"


def _shown(figure: ChangedFigure) -> str:
    caption = f" {markdown_line(figure.caption)}" if figure.caption else ""
    tag = line(figure.tag).replace("`", "'")
    return f"`{tag}` {markdown_line(figure.source)}, page {figure.page}:{caption}".rstrip(":")


def _table(title: str, changes: Mapping[str, Change]) -> Iterator[str]:
    if changes:
        yield ""
        yield f"| {title} | before | now |"
        yield "|---|---:|---:|"
        for name, change in changes.items():
            yield f"| {name.replace('_', ' ')} | {_number(change.before)} | {_number(change.now)} |"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3f}"
