"""What a version has for a question: passages word for word, and the confidence that they answer."""

import functools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain

from pipeline.published.version import OpenVersion
from schemas.answers import AnswerResult
from schemas.evidence import Hit
from schemas.filters import Filters, Modality
from schemas.retrieval import Preset, Scored
from tasks.answering.asked_figures import asked_figures, speaks_of_pictures
from tasks.answering.candidates import Candidate, candidates, is_how_to, scores
from tasks.answering.confidence import NEARNESS, PASSAGES, Evidence, confidence, gather, thresholds
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.extract import Material, extract, rows_that_answer
from tasks.answering.narrow import NOTHING
from tasks.answering.passages import PROCEDURE_REACH, REACH, Passage, around, read_passage, text_before
from tasks.answering.retrievers import Search
from tasks.answering.rewrite import questions_in

RANKED = 3
"""Rows ranked for each passage of an answer: some rows overlap."""


MOST_PASSAGES = 4
"""Passages that an extractive answer shows at most."""


class QuestionEvidence:
    """The evidence of one version for a question: the rows of one search, and what is read from them on first use.

    ``filters`` are unresolved; ``k`` is the number of rows if an answer of passages needs fewer.
    """

    def __init__(
        self, opened: OpenVersion, search: Search, question: EmbeddedQuery, plan: Preset, filters: Filters, k: int = 0
    ) -> None:
        self._opened, self._search, self._question, self._plan, self._filters = opened, search, question, plan, filters
        self._resolved = opened.resolved_without_pages(filters)
        self._k = max(k, MOST_PASSAGES * RANKED)

    @functools.cached_property
    def hits(self) -> list[Hit]:
        """The best rows."""
        ranked = self._opened.ranked(self._search, self._question, self._plan, self._k, self._resolved)
        return self._opened.hits(ranked)

    @functools.cached_property
    def confidence(self) -> float:
        """The confidence that there is an answer, 0 to 1."""
        return confidence(self.features, self._opened.calibration)

    @property
    def features(self) -> Evidence:
        """What confidence is computed from; {} if the filters match nothing."""
        return self._read[1]

    @property
    def material(self) -> Material:
        """What an answer may show."""
        return self._read[0]

    def answer(self) -> AnswerResult:
        """Return the best passages, or the nearest one where confidence is low, or an abstention."""
        opened = self._opened
        abstain_below, sure_above = thresholds(opened.settings().answer, opened.calibration)
        materials = [] if self.confidence < abstain_below else self._materials
        with self._search.trace.step("extract", self._question.words):
            answer = extract(
                materials,
                opened.template,
                corpus=opened.workspace.corpus.name,
                version=opened.version,
                max_passages=MOST_PASSAGES,
            )
        unsure = abstain_below <= self.confidence < sure_above and not answer.abstained
        return answer.model_copy(update={"confidence": self.confidence, "unsure": unsure})

    def rows_that_answer(self) -> list[Hit]:
        """Return the rows of the best passages that answer, whole, for a model."""
        return [row for material in self._materials for row in rows_that_answer(material)]

    @functools.cached_property
    def _materials(self) -> list[Material]:
        """What an answer may show for each of the questions that were asked in one; each further one is a search."""
        questions = questions_in(self._question.words)
        if len(questions) == 1 or self._question.picture is not None:
            return [self.material]
        embedded_queries = (self._opened.question(words, stopped=self._search.trace.stopped) for words in questions)
        return [
            QuestionEvidence(self._opened, self._search, query, self._plan, self._filters).material
            for query in embedded_queries
        ]

    @functools.cached_property
    def _read(self) -> tuple[Material, Evidence]:
        opened, question, trace = self._opened, self._question, self._search.trace
        if self._resolved == NOTHING:
            return Material(question.words), {}
        hits = self.hits[: MOST_PASSAGES * RANKED]
        with trace.step("passages", question.words):
            passages = _passages(opened, hits, is_how_to(question.words))
            answer_candidates = candidates(passages, opened.template)
        with trace.step(f"compare: {NEARNESS.name}", question.words):

            def cosines(compared_candidates: Sequence[Candidate]) -> list[float]:
                vectors = opened.sentence_vectors([candidate.context for candidate in compared_candidates])
                return [float(cosine) for cosine in vectors @ question.vector(NEARNESS.name)]

            candidate_scores, similarities = scores(
                question.words, answer_candidates, passages, cosines, max_passages=MOST_PASSAGES
            )
        with trace.step("figures", question.words):
            scored_candidates = list(zip(answer_candidates, candidate_scores, strict=True))
            figures = _figures(opened, question, hits, passages, scored_candidates)
        # Only sentences of the passages that the other evidence is about count.
        near_similarities = [
            similarity for candidate, similarity in similarities.items() if passages[candidate.passage].rank < PASSAGES
        ]
        with trace.step("confidence", question.words):
            features = gather(
                question,
                opened.index,
                hits,
                self._resolved,
                word_score=opened.word_score,
                sentence=max(near_similarities, default=0.0),
                pictured=figures[0][1] if figures and speaks_of_pictures(question.words) else 0.0,
                judged=bool(self._plan.rerank) and isinstance(self._plan.rerank[-1], Scored),
            )
        return Material(question.words, passages, answer_candidates, candidate_scores, figures), features


def _figures(
    opened: OpenVersion,
    question: EmbeddedQuery,
    hits: Sequence[Hit],
    passages: Sequence[Passage],
    scored_candidates: Sequence[tuple[Candidate, float]],
) -> list[tuple[Hit, float]]:
    """Return the figures of the pages found that a question may ask for."""
    page_ranks: dict[tuple[str, int], int] = {}
    for rank, hit in enumerate(hits):
        for page in hit.pages:
            page_ranks.setdefault((hit.doc_id, page), rank)
    rows = [
        position.evidence_id
        for doc_id in dict.fromkeys(hit.doc_id for hit in hits)
        for position in opened.reading_order(doc_id)
        if position.modality == Modality.FIGURE and (doc_id, position.page) in page_ranks
    ]
    page_scores: dict[tuple[str, int], float] = {}
    for candidate, score in scored_candidates:
        passage = passages[candidate.passage]
        for number in passage.blocks[candidate.block].rows:
            row = passage.rows[number]
            for page in row.pages:
                page_scores[row.doc_id, page] = max(score, page_scores.get((row.doc_id, page), score))
    vectors = opened.index.vectors(rows, NEARNESS.name) if rows else {}
    cosines = {name: float(vector @ question.vector(NEARNESS.name)) for name, vector in vectors.items()}
    by_id = _with_rows(opened, hits, rows)
    figures = [by_id[name] for name in rows if name in by_id]
    return asked_figures(question.words, figures, cosines, page_scores, page_ranks)


def _passages(opened: OpenVersion, hits: Sequence[Hit], is_how: bool) -> list[Passage]:
    """Return hits with their neighbouring rows, best first; ``is_how``: those of a procedure, also of its figures."""
    reach = PROCEDURE_REACH if is_how else REACH
    ranks = {hit.evidence_id: rank for rank, hit in enumerate(hits)}
    rows_of: dict[str, list[str]] = defaultdict(list)
    for hit in hits:
        rows_of[hit.doc_id].append(hit.evidence_id)
        # The step is the text before its picture, so it counts as found at the picture's rank.
        is_picture_of_step = is_how and hit.modality is Modality.FIGURE
        step = text_before(opened.reading_order(hit.doc_id), hit.evidence_id) if is_picture_of_step else None
        if step is not None and step not in ranks:
            ranks[step] = ranks[hit.evidence_id]
            rows_of[hit.doc_id].append(step)
    runs = [run for doc_id, rows in rows_of.items() for run in around(opened.reading_order(doc_id), rows, reach)]
    by_id = _with_rows(opened, hits, chain.from_iterable(runs))
    passages = (read_passage([by_id[name] for name in run], ranks, opened.template) for run in runs)
    return sorted(passages, key=lambda passage: passage.rank)


def _with_rows(opened: OpenVersion, hits: Sequence[Hit], names: Iterable[str]) -> dict[str, Hit]:
    """Return hits and further rows by id."""
    by_id = {hit.evidence_id: hit for hit in hits}
    return by_id | {hit.evidence_id: hit for hit in opened.hits([(name, 0.0) for name in names if name not in by_id])}
