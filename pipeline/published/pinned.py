"""Pinned answers: those that the corpus file gives to questions that mean the same, with citations and figures of the version."""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from backends.engines.analyser import query_terms
from pipeline.published.answering import streamed
from pipeline.published.version import OpenVersion
from pipeline.records.ledger import document_of
from schemas.answers import AnswerEvent, AnswerResult, Citation, Part, TextPart
from schemas.corpus import PinnedAnswer
from schemas.evidence import CitedFigure
from schemas.filters import NO_FILTERS
from schemas.ports import Vector
from schemas.retrieval import AnswerQuery
from schemas.tags import escape
from schemas.text import folded_words
from tasks.answering.cite import citation, figure_part
from tasks.answering.confidence import NEARNESS
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.highlight import content_words
from tasks.answering.rewrite import refers_back

SAME_MEANING = 0.8
"""Least cosine of a question and a pinned one that mean the same, which also needs ``_says_all``.

Of 30 paraphrases and 30 questions about something else nearby, 15 and 0 get the answer; by the cosine alone 25 and 13, and at
0.9 still 16 and 4.
"""

NOTE = "pinned: the people who keep this corpus wrote this answer"

_TURNING = frozenset(
    re.findall(
        r"\w+",
        "not no never without often much many where when who why long far nicht kein keine nie ohne pas jamais sans non mai "
        "senza nunca sin",
    )
)
"""Words that make another question of the same words."""
_CITATION = re.compile(r"\s*\[([^\[\]]+?), page (\d{1,6})\]")
_STYLES = (
    (re.compile(r"#{1,6}\s+"), "heading", ""),
    (re.compile(r"[-*]\s+"), "item", "• "),
    (re.compile(r"(\d{1,3}[.)])\s+"), "item", r"\1 "),
)


_Citations = dict[tuple[str, int], Citation]
"""By document and page."""


class UnresolvedError(ValueError):
    """A pinned answer names what the version, as its reader sees it, doesn't have; the argument says what."""


class PinnedQuestions:
    """Matches questions with pinned ones, whose vectors are kept while neither they nor the model change."""

    def __init__(self) -> None:
        self._vectors: tuple[object, list[str], list[Vector]] = (None, [], [])

    def match(self, opened: OpenVersion, answers: Sequence[PinnedAnswer], question: EmbeddedQuery) -> PinnedAnswer | None:
        """Return the answer that is pinned to a question: to the same words, or else to the nearest that mean the same."""
        pinned = [(wording, answer) for answer in answers for wording in answer.questions]
        if not pinned or not question.words:
            return None
        same = next((answer for wording, answer in pinned if folded_words(wording) == folded_words(question.words)), None)
        if same is not None:
            return same
        cosines = np.stack(self._embedded(opened, [wording for wording, _ in pinned])) @ question.vector(NEARNESS.name)
        languages = {"en", *opened.counts.documents_by_language}
        for position in map(int, np.argsort(-cosines)):
            wording, answer = pinned[position]
            if cosines[position] < SAME_MEANING:
                return None
            if _says_all(question.words, wording, languages):
                return answer
        return None

    def events(
        self, opened: OpenVersion, answers: Sequence[PinnedAnswer], query: AnswerQuery, preset: str
    ) -> Iterator[AnswerEvent] | None:
        """Return the stream of the answer that is pinned to a question, and resolves for its reader; None without one.

        Questions with filters or a picture, and those that refer to a turn before, ask for something else.
        """
        refers = bool(query.history) and refers_back(query.question)
        if not answers or query.filters != NO_FILTERS or query.picture is not None or refers:
            return None
        pinned = self.match(opened, answers, opened.question(query.question))
        if pinned is None:
            return None
        try:
            return streamed(pinned_result(opened, pinned.answer, preset))
        except UnresolvedError:
            return None

    def _embedded(self, opened: OpenVersion, wordings: list[str]) -> list[Vector]:
        embedder, embedded_wordings, vectors = self._vectors
        if embedder is not opened.embedders[NEARNESS.name] or embedded_wordings != wordings:
            vectors = [opened.question(wording).vector(NEARNESS.name) for wording in wordings]
            self._vectors = opened.embedders[NEARNESS.name], wordings, vectors
        return vectors


def pinned_result(opened: OpenVersion, answer: str, preset: str) -> AnswerResult:
    """Return a pinned answer with its citations and figures, or raise ``UnresolvedError``."""
    citations: _Citations = {}
    parts: list[Part] = []
    for line in filter(None, map(str.strip, answer.splitlines())):
        style, text = _styled(line)
        numbers = [_cited(opened, citations, source, int(page)).n for source, page in _CITATION.findall(text)]
        for words, tag in opened.template.split(_CITATION.sub("", text)):
            if tag is not None:
                parts.append(_figure(opened, citations, words, tag))
            elif words.strip():
                parts.append(TextPart.model_validate({"text": escape(words.strip()), "style": style, "citations": numbers}))
    return AnswerResult(
        version=opened.version,
        abstained=False,
        preset=preset,
        note=NOTE,
        pinned=True,
        parts=parts,
        citations=[*citations.values()],
    )


def _says_all(question: str, wording: str, languages: set[str]) -> bool:
    """Return whether a question has all words with content of a pinned wording, and no more words that turn its meaning."""
    question_words, pinned_words = folded_words(question), folded_words(wording)
    if not {word for word in question_words if word in _TURNING} <= {*pinned_words}:
        return False
    terms = {*query_terms(" ".join(question_words), languages)}
    return all(terms.intersection(query_terms(word, languages)) for word in content_words(" ".join(pinned_words)).split())


def _styled(line: str) -> tuple[str, str]:
    for pattern, style, mark in _STYLES:
        if mark_match := pattern.match(line):
            return style, mark_match.expand(mark) + line[mark_match.end() :]
    return "prose", line


def _cited(opened: OpenVersion, citations: _Citations, source: str, page: int) -> Citation:
    """Return the citation of a page, which is added where there is none yet."""
    doc_id = document_of(source, opened.sources)
    if doc_id is None:
        raise UnresolvedError(f"there is no document {source}")
    if (doc_id, page) not in citations:
        rows = opened.rows_of(doc_id, ["evidence_id", "page", "regions"]).to_pylist()
        on_page = [row for row in rows if any(region["page"] == page for region in row["regions"])]
        if not on_page:
            raise UnresolvedError(f"{source} has nothing on page {page}")
        first = min(on_page, key=lambda row: row["page"] != page)
        (hit,) = opened.hits([(first["evidence_id"], 0.0)])
        box = next(region.bbox for region in hit.regions if region.page == page)
        hit = hit.model_copy(update={"page": page, "bbox": box})
        corpus = opened.workspace.corpus.name
        citations[doc_id, page] = citation(hit, len(citations) + 1, corpus=corpus, version=opened.version)
    return citations[doc_id, page]


def _figure(opened: OpenVersion, citations: _Citations, tag: str, number: str) -> Part:
    """Return a figure by its tag: where a cited page or document has it, or at its first place."""
    placements = [row for row in opened.tagged_figures.to_pylist() if row["number"] == number]
    if not placements:
        raise UnresolvedError(f"there is no figure {tag}")
    cited = {doc_id for doc_id, _ in citations}
    row = min(placements, key=lambda row: ((row["doc_id"], row["page"]) not in citations, row["doc_id"] not in cited))
    source = opened.sources[row["doc_id"]][0]
    figure = CitedFigure.model_validate({name: row[name] for name in ("figure_id", "number", "caption", "page", "bbox")})
    return figure_part(figure, row["tag"], [_cited(opened, citations, source, row["page"]).n])
