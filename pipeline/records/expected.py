"""What a refresh would ask generative models, before anything is asked."""

from collections.abc import Collection, Iterable
from itertools import islice

from pipeline.corpus.workspace import CaptionerInUse, Workspace
from pipeline.records.cache import ShardedCache
from pipeline.records.descriptions import captioner_of, figures_to_ask_about, open_descriptions, read_spent
from pipeline.records.likenesses import Likenesses
from ray_jobs.documents import is_finished, read_figures, structured_folder
from schemas.generation import Description
from schemas.parquet import rows_of
from schemas.versions import ExpectedCalls, Manifest, PlannedDocument, Spent
from tasks.enriching.spending import Budget, most, spent_on

FIGURES_A_MEBIBYTE = 12.0
"""Figures with a row that a PDF holds, where nothing of the corpus is known yet: 4,488 in 380 MiB of four corpora."""

DOCUMENTS_AT_ONCE = 64
"""Documents whose figures are looked up together."""


def expected_calls(
    workspace: Workspace, documents: Collection[PlannedDocument], live: Manifest | None
) -> dict[str, ExpectedCalls]:
    """Return what each captioner would be asked for documents that rows are made of.

    Figures of structured documents are counted. Those of others follow from their bytes, as many a byte as the live version has.
    """
    size = live.sizes.get("sources", 0) if live else 0
    a_byte = live.counts.rows_by_modality.get("figure", 0) / size if live and size else FIGURES_A_MEBIBYTE / (1 << 20)
    budget = Budget(workspace.corpus.budget, workspace.corpus.budget.corpus, read_spent(workspace.store))
    found = {}
    for name, used in workspace.captioners.items():
        sizes = {
            document.doc_id: document.size for document in documents if captioner_of(workspace, document.source) == name
        }
        read = sorted(doc_id for doc_id in sizes if is_finished(workspace.store, _folder(workspace, doc_id)))
        cache = open_descriptions(workspace.store, used.captions.key)
        counted = _missing(workspace, used, read, cache)
        estimated = round((sum(sizes.values()) - sum(sizes[doc_id] for doc_id in read)) * a_byte)
        each, figures = _a_call(used, cache), counted + estimated
        found[name] = ExpectedCalls(
            figures=figures,
            estimated=estimated,
            affordable=min(figures, budget.calls_left(each, figures)),
            spent=each.times(figures),
        )
    return found


def _missing(workspace: Workspace, used: CaptionerInUse, doc_ids: Iterable[str], cache: ShardedCache) -> int:
    """Count the figures of structured documents that the captioner hasn't described yet."""
    missing: set[str] = set()
    likenesses = Likenesses(workspace, used)
    coming = iter(doc_ids)
    while group := list(islice(coming, DOCUMENTS_AT_ONCE)):
        figures: set[str] = set()
        for doc_id in group:
            placed = read_figures(workspace.store, _folder(workspace, doc_id))
            figures |= figures_to_ask_about(placed, used.options.kind).keys()
        missing.update(cache.missing(likenesses.of(figures).values()))
    return len(missing)


def _a_call(used: CaptionerInUse, cache: ShardedCache) -> Spent:
    """Return what a call costs: on average where there were some, else at most."""
    made = rows_of(Description, next(cache.shards(), cache.schema.empty_table()))
    if not made:
        return most(used.options, used.prompt.body)
    return spent_on(made).times(1 / len(made))


def _folder(workspace: Workspace, doc_id: str) -> str:
    return structured_folder(doc_id, workspace.keys.structured)
