"""Make an extractive answer of hits: read their rows with the neighbours, compare the sentences with the question."""

from collections import defaultdict
from collections.abc import Sequence
from typing import cast

from pipeline.published.version import OpenVersion
from schemas.answers import AnswerResult
from schemas.evidence import Hit, Modality
from schemas.ports import TextEmbedder
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.extract import candidates, extract, scores
from tasks.answering.passages import RowPosition, around, read_passage
from tasks.enriching.spaces import DEFAULT


def extracted(opened: OpenVersion, asked: EmbeddedQuery, hits: Sequence[Hit], *, passages: int) -> AnswerResult:
    """Answer out of hits; every word is the documents'.

    Args:
        opened: The version that they come from.
        asked: The question.
        hits: Best first; [] makes an abstention.
        passages: Passages at most.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for hit in hits:
        found[hit.doc_id].append(hit.evidence_id)
    runs: list[list[str]] = []
    tags: dict[str, str] = {}
    for doc_id, own in found.items():
        columns = ["evidence_id", "modality", "section_path", "figure_id", "tagged_text"]
        rows = opened.document_rows.of(doc_id).select(columns).to_pylist()
        runs += around([RowPosition(row["evidence_id"], row["modality"], tuple(row["section_path"])) for row in rows], own)
        for row in rows:
            if row["modality"] == Modality.FIGURE:
                tags.setdefault(row["figure_id"], opened.template.split(row["tagged_text"])[0][0])
    read = {hit.evidence_id: hit for hit in opened.hits([(name, 0.0) for run in runs for name in run])}
    ranks = {hit.evidence_id: rank for rank, hit in enumerate(hits)}
    texts = sorted(
        (read_passage([read[name] for name in run], ranks, opened.template) for run in runs),
        key=lambda passage: passage.rank,
    )
    some = candidates(texts, opened.template)
    near: list[float] = []
    if some:
        embedder = cast(TextEmbedder, opened.embedders[DEFAULT.name])
        vectors = embedder.embed_documents([candidate.context for candidate in some])
        near = (vectors @ asked.vector(DEFAULT.name)).tolist()
    return extract(
        asked.words,
        texts,
        some,
        scores(asked.words, some, near, texts),
        opened.template,
        corpus=opened.workspace.corpus.name,
        version=opened.version,
        most=passages,
        tags=tags,
    )
