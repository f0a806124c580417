"""What changed from one version to another: read from what both left in the store."""

from backends.stores.objects import read_model
from evaluation.golden import ModeReport
from pipeline.corpus.workspace import Workspace
from pipeline.records.evidence import placement_parts
from pipeline.records.ledger import read_ledger
from pipeline.records.publication import named_manifest, read_manifest
from schemas.differences import ChangedFigure, VersionDiff
from schemas.errors import DamagedError
from schemas.ids import version_file
from schemas.ports import ObjectStore
from schemas.versions import Manifest
from tasks.versions.diff import VersionFacts, diff, release_note

_METRICS = {"recall_at_1", "recall_at_10", "reciprocal_rank", "ndcg_at_10", "figure_recall_at_10"}


def compare_versions(workspace: Workspace, base: str, version: str) -> VersionDiff:
    """Return what changed from one finished version to another.

    Raises:
        UserError: There is no such version.
    """
    store, corpus = workspace.store, workspace.corpus.name
    one, other = (_facts(store, named_manifest(store, corpus, name)) for name in (base, version))
    return diff(one, other)


def write_diff(store: ObjectStore, manifest: Manifest) -> None:
    """Keep what changed from a version's parent beside the version: ``diff.json``, and ``release_note.md`` for people."""
    found = diff(_facts_of(store, manifest.parent), _facts(store, manifest))
    store.replace(version_file(manifest.version, "diff.json"), found.model_dump_json(indent=1).encode())
    store.replace(version_file(manifest.version, "release_note.md"), release_note(found).encode())


def _facts_of(store: ObjectStore, version: str | None) -> VersionFacts | None:
    """Return what a version left in the store; None where there is none, or not all of it can be read."""
    try:
        manifest = read_manifest(store, version) if version else None
        return _facts(store, manifest) if manifest else None
    except DamagedError:
        return None


def _facts(store: ObjectStore, manifest: Manifest) -> VersionFacts:
    report = _evaluation(store, manifest.version)
    ledger = read_ledger(store, manifest.version)
    return VersionFacts(
        manifest=manifest,
        ledger=ledger,
        figures=_figures(store, manifest.version, {row.doc_id: row.source for row in reversed(ledger)}),
        metrics=report.model_dump(include=_METRICS) if report else {},
        found={score.id: score.page_rank is not None for score in report.scores} if report else {},
    )


def _evaluation(store: ObjectStore, version: str) -> ModeReport | None:
    try:
        return read_model(store, version_file(version, "evaluation/hybrid.json"), ModeReport)
    except FileNotFoundError:
        return None


def _figures(store: ObjectStore, version: str, sources: dict[str, str]) -> dict[str, ChangedFigure]:
    figures: dict[str, ChangedFigure] = {}
    columns = ["figure_id", "tag", "doc_id", "page", "caption"]
    for row in (row for part in placement_parts(store, version) for row in part.select(columns).to_pylist()):
        if row["tag"] is not None:
            source = sources.get(row["doc_id"], row["doc_id"])
            figures.setdefault(
                row["figure_id"],
                ChangedFigure(
                    figure_id=row["figure_id"], tag=row["tag"], source=source, page=row["page"], caption=row["caption"]
                ),
            )
    return figures
