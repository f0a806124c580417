"""One reply from the replies of several corpora."""

from collections.abc import Mapping

import numpy as np
import scipy  # its submodules are loaded when they are used: one corpus needs none

from schemas.answers import AnswerCounts, AnswerResult, Citation, Part, TablePart, TextPart
from schemas.evidence import AskedCorpus, Hit, SearchResult, TraceStep
from schemas.versions import Spent


def merged(results: Mapping[str, SearchResult], problems: Mapping[str, str], offset: int, k: int) -> SearchResult:
    """Return the best hits of several corpora, from results whose scores are calibrated (``OpenVersion.calibrated``).

    A corpus's own order is kept: its scores are fitted by the nearest ones that fall with the rank. Ties go by rank, then by
    corpus.

    Source:
        Barlow, Bartholomew, Bremner and Brunk, "Statistical Inference under Order Restrictions", 1972 (isotonic regression).
    """
    ranked: list[tuple[float, int, str, Hit]] = []
    for name, result in results.items():
        scores = [hit.score for hit in result.hits]
        fitted = scipy.optimize.isotonic_regression(np.array(scores), increasing=False).x.tolist() if scores else []
        for rank, (score, hit) in enumerate(zip(fitted, result.hits, strict=True)):
            merged_hit = hit.model_copy(update={"score": score, "corpus": name, "version": result.version})
            ranked.append((-score, rank, name, merged_hit))
    ranked.sort(key=lambda entry: entry[:3])
    return SearchResult(
        version="",
        preset=" ".join(dict.fromkeys(result.preset for result in results.values())),
        hits=[hit for *_, hit in ranked[offset : offset + k]],
        more=len(ranked) > offset + k or any(result.more for result in results.values()),
        trace=_trace(results),
        corpora=_asked(results, problems),
    )


def composed(results: Mapping[str, AnswerResult], problems: Mapping[str, str]) -> AnswerResult:
    """Return one answer: that of the most confident corpus, and behind it, folded, those of others that are sure.

    Confidence is calibrated by version. Citations name corpus and version, and are numbered through.
    """
    ordered = sorted(
        results.items(), key=lambda item: (item[1].abstained, item[1].unsure, -(item[1].confidence or 0.0), item[0])
    )
    best = ordered[0][1]
    shown_results = [
        ordered[0],
        *((name, result) for name, result in ordered[1:] if not (result.abstained or result.unsure)),
    ]
    parts, citations = list[Part](), list[Citation]()
    for rank, (name, result) in enumerate(shown_results):
        if rank:
            parts.append(TextPart(text=name, citations=[], style="heading", folded=True))
        parts += [_renumbered(part, len(citations), folded=part.folded or rank > 0) for part in result.parts]
        citations += [
            citation.model_copy(update={"n": citation.n + len(citations), "corpus": name, "version": result.version})
            for citation in result.citations
        ]
    counts = [result.counts for _, result in shown_results]
    models = dict.fromkeys(result.model for _, result in shown_results if result.model is not None)
    return best.model_copy(
        update={
            "version": "",
            "parts": parts,
            "citations": citations,
            "model": ", ".join(models) or None,
            "counts": AnswerCounts(
                **{
                    name: sum(getattr(corpus_counts, name) for corpus_counts in counts)
                    for name in AnswerCounts.model_fields
                }
            ),
            "spent": sum((result.spent for result in results.values()), Spent()),
            "trace": _trace(results),
            "corpora": _asked(results, problems),
        }
    )


def _renumbered(part: Part, before: int, *, folded: bool) -> Part:
    update: dict[str, object] = {"citations": [number + before for number in part.citations], "folded": folded}
    if isinstance(part, TablePart):
        update["figures"] = [_renumbered(figure, before, folded=figure.folded) for figure in part.figures]
    return part.model_copy(update=update)


def _trace(results: Mapping[str, SearchResult] | Mapping[str, AnswerResult]) -> list[TraceStep] | None:
    """Return the steps of all corpora, each with its corpus's name; None if none were traced."""
    traced = [(name, step) for name, result in results.items() for step in result.trace or []]
    return [step.model_copy(update={"step": f"{name}: {step.step}"}) for name, step in traced] or None


def _asked(
    results: Mapping[str, SearchResult] | Mapping[str, AnswerResult], problems: Mapping[str, str]
) -> list[AskedCorpus]:
    """Return what was asked, by name: versions and presets of those that replied, and why others are left out."""
    replied = [AskedCorpus(name=name, version=result.version, preset=result.preset) for name, result in results.items()]
    left_out = [AskedCorpus(name=name, problem=problem) for name, problem in problems.items()]
    return sorted([*replied, *left_out], key=lambda asked: asked.name)
