"""Rank the evidence of many questions, to score retrieval."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from evaluation.questions import load_questions
from pipeline.published.corpus import PublishedCorpus
from schemas.base import batched
from schemas.errors import UserError
from schemas.evidence import Hit, SearchResult
from schemas.filters import Filters
from schemas.retrieval import Query
from schemas.stages import Report

_EMBEDDED_AT_ONCE = 256


def rank_questions(
    published: PublishedCorpus, questions: Path, rankings: Path, query: Query, report: Report
) -> dict[str, object]:
    """Write a line a question: ``{id, ranking}``, best-first ``[source, page]`` pairs without repeats, to a JSONL file.

    The documents of a question narrow its search. Raises ``UserError`` if one of the files can't be read, or written.
    """
    loaded_questions = load_questions(str(questions))
    filters = query.filters
    queries = [
        (
            loaded_question.question,
            filters.model_copy(update={"documents": loaded_question.documents}) if loaded_question.documents else filters,
        )
        for loaded_question in loaded_questions
    ]
    lines: list[str] = []
    version, preset = query.version, query.preset or ""
    for number, (question, result) in enumerate(zip(loaded_questions, _results(published, query, queries), strict=True), 1):
        version, preset = result.version, result.preset
        if not lines:
            _write(rankings, [])  # fail now, not after the last search
        lines.append(json.dumps({"id": question.id, "ranking": _pages(result.hits)}, ensure_ascii=False))
        report("search", number, len(loaded_questions))
    _write(rankings, lines)
    return {"version": version, "preset": preset, "questions": len(loaded_questions), "rankings": str(rankings)}


def _results(published: PublishedCorpus, query: Query, questions: Sequence[tuple[str, Filters]]) -> Iterator[SearchResult]:
    """Yield the result of each question with its filters, all from one version, in the way of ``query``.

    Questions are embedded in batches.
    """
    plan, version = published.plan(query), query.version
    for batch in batched(questions, _EMBEDDED_AT_ONCE):
        with published.opened(version) as opened:
            version = opened.version  # even if another is published meanwhile
            embedded = opened.questions([text for text, _ in batch], plan)
            for (text, filters), question in zip(batch, embedded, strict=True):
                yield opened.search(replace(query, query=text, filters=filters), plan, question)


def _write(rankings: Path, lines: Sequence[str]) -> None:
    try:
        rankings.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise UserError(f"can't write {rankings}: {error.strerror}") from error


def _pages(hits: list[Hit]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((hit.source, page) for hit in hits for page in hit.pages))
