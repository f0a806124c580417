"""Answer many questions at once, for those who score retrieval."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.questions import load_questions
from pipeline.published.corpus import PublishedCorpus
from schemas.errors import UserError
from schemas.evidence import Filters, Hit
from schemas.progress import Report


def rank_questions(
    published: PublishedCorpus,
    questions: Path,
    rankings: Path,
    *,
    preset: str | None,
    steps: Mapping[str, Any],
    k: int,
    filters: Filters,
    version: str | None,
    report: Report,
) -> dict[str, object]:
    """Write a line a question: ``{id, ranking}``, best-first ``[source, page]`` pairs without repeats.

    A question's ``doc`` narrows its search to sources of that file name.

    Raises:
        UserError: The questions can't be read, or the rankings not be written.
    """
    asked = load_questions(str(questions))
    queries = [(one.question, filters.model_copy(update={"documents": [one.doc]}) if one.doc else filters) for one in asked]
    found = published.search_each(queries, preset=preset, steps=steps, k=k, version=version)
    lines: list[str] = []
    used, named = version, preset or ""
    for done, (question, result) in enumerate(zip(asked, found, strict=True), 1):
        used, named = result.version, result.preset
        if not lines:
            _write(rankings, [])  # what can't be written to is known before all others are searched
        lines.append(json.dumps({"id": question.id, "ranking": _pages(result.hits)}, ensure_ascii=False))
        report("search", done, len(asked))
    _write(rankings, lines)
    return {"version": used, "preset": named, "questions": len(asked), "rankings": str(rankings)}


def _write(rankings: Path, lines: Sequence[str]) -> None:
    try:
        rankings.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise UserError(f"can't write {rankings}: {error.strerror}") from error


def _pages(hits: list[Hit]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((hit.source, page) for hit in hits for page in hit.pages))
