"""What of the passages may answer a question: sentences, table rows and figures, each with a score."""

import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from schemas.filters import Modality
from schemas.tags import TagTemplate
from schemas.text import folded_words
from tasks.answering.highlight import content_words
from tasks.answering.passages import Passage, PassageBlock, is_table_caption, kept_blocks, runs

COMPARED = 5
"""Sentences compared with a question by their vectors, for each passage that an answer may show.

On the 68 example questions the sentence that wins is among the first 7 by words and rank for 95 of 100, and the three best are
among the first 15; comparing all of them, 75 in the mean, takes four times the CPU.
"""

MOST_TABLE_ROWS = 40
"""Rows of a table that are compared with a question."""

NEAR, WORDS, RANKED = 1.0, 0.4, 0.4
"""Weights of a sentence's cosine, its share of the question's words, and its passage's rank."""

STEPS = 1.2
"""Bonus of a step in a how-to question, times the share of the question's words in its heading."""

ASKS = 0.3
"""Penalty of a sentence that is itself a question or only repeats it, or the alternative text of an image."""

TYPED = 0.2
"""Bonus of a text with a number that the question lacks, if the question asks for one. Of 183 short answers 26 % instead of 24 %
are then among the first 60 words; 0.1 and 0.3 do the same or less."""

_HOW = re.compile(
    r"\bhow (?:do|can|to|should|must|would|does one)\b|\bsteps?\b|\bprocedure\b|\bin which order\b", re.IGNORECASE
)
DEFINES = 0.3
"""Bonus of a sentence that defines what a question "What is …?" asks about, and penalty of a figure there."""

_ASKS_NUMBER = re.compile(
    r"\b(?:how (?:much|many|long|far|high|large|big|old|fast|often|wide|deep|heavy)|(?:percentage|percent|number|proportion|"
    r"amount|year|rate|total|price|cost|ratio|date|payment) |when (?:did|was|were|is|will|does)|which year)\b|%",
    re.IGNORECASE,
)
_TYPES = (
    (
        r"\b(?:prices?|costs?|fees?|how much money)\b(?!.*\b(?:weigh|take)\b)",
        r"[$€£¥₹]|\b(?:USD|EUR|GBP|INR|Rs|dollars?|euros?|cents?|pounds?|free|no charge)\b",
    ),
    (
        r"\b(?:when (?:was|were|did)|(?:which|what) (?:year|date)|release date)\b",
        r"\b(?:1[5-9]|20)\d\d\b|\b(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)(?:[a-z]{3,6})?\b|\d[/.]\d",
    ),
    (r"\b(?:tele)?(?:phone|fax) number\b", r"\+\d|\(\d{2,5}\) ?\d|\b\d{3}[ .-]\d{3,4}\b"),
    (r"\be-?mail address\b", r"\w@\w"),
)
"""What a question asks for, and what an answer has then."""

TYPE_SENTENCES = 10
"""Number of the best sentences of which one should have what the question asks for."""

_YES_OR_NO = re.compile(
    r"\W*(?:is|are|was|were|do|does|did|can|could|may|must|should|will|would|has|have|had)\b", re.IGNORECASE
)
_PROBLEM = re.compile(r"\W*(?:problem|symptom|question|q)\s*:", re.IGNORECASE)
_DESCRIBES_IMAGE = re.compile(
    r"\s*(?:an? |the |this )?(?:image|picture|screen ?shot|photo(?:graph)?|illustration) (?:of|is|shows?)\b", re.IGNORECASE
)
_ASKS_DEFINITION = re.compile(r"\s*what (?:is|are) (?:an? |the )?((?:[\w-]+ ?){1,3})\?*\s*$", re.IGNORECASE)
_NUMBER = re.compile(r"\d[\d.,]*")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ies|ed|es|s|ly|y|e)$")


def _definition(question: str) -> re.Pattern[str] | None:
    """Return how a sentence or label begins that defines what a question asks about; None for other questions."""
    definition_question = _ASKS_DEFINITION.match(question)
    if definition_question is None:
        return None
    name = re.escape(definition_question[1].strip()).replace("\\ ", r"\s+")
    verbs = r"is|are|means?|refers? to|stands for|consists? of|describes?"
    # A few words may stand between name and verb, as in "A fuse (F1) is …"; a label is the name alone.
    defines = rf"\W*(?:(?:an?|the)\s+)?{name}s?\b[^.]{{0,30}}?\b(?:{verbs})\b"
    return re.compile(rf"{defines}|\W*{name}s?\W*$", re.IGNORECASE)


def lacks_asked_type(question: str, texts: Iterable[str]) -> bool:
    """Return whether a question asks for a price, date, phone number or e-mail address, and no text has one."""
    joined_texts = " ".join(texts)
    return any(
        re.search(in_question, question, re.IGNORECASE) and not re.search(in_answer, joined_texts, re.IGNORECASE)
        for in_question, in_answer in _TYPES
    )


def is_how_to(question: str) -> bool:
    """Return whether a question asks for a procedure."""
    return _HOW.search(question) is not None


class Candidate(NamedTuple):
    """A sentence, by its index in the block, table row or figure that may answer, with its section's heading, and without tags.

    ``is_step``: it is in a numbered list.
    """

    passage: int
    block: int
    sentence: int
    text: str
    heading: str = ""
    is_step: bool = False

    @property
    def context(self) -> str:
        """The text with its heading, which it need not repeat."""
        return f"{self.heading}: {self.text}" if self.heading else self.text


def candidates(passages: Sequence[Passage], template: TagTemplate) -> list[Candidate]:
    """Return the candidates: sentences, table rows and figures of the rows found, and of lists that cross their edges."""
    all_candidates: list[Candidate] = []
    for number, passage in enumerate(passages):
        steps = {block_number for run in runs(passage.blocks) if len(run) > 1 for block_number in run}
        for block_number in kept_blocks(passage):
            if is_table_caption(passage.blocks, block_number):
                continue
            block = passage.blocks[block_number]
            heading = next(iter(passage.rows[block.rows[0]].section_path[-1:]), "")
            is_step = block_number in steps and block.number is not None
            texts = enumerate(_texts(passage, block, template))
            all_candidates.extend(
                Candidate(number, block_number, sentence_number, text, heading, is_step)
                for sentence_number, text in texts
                if text
            )
    return all_candidates


def _texts(passage: Passage, block: PassageBlock, template: TagTemplate) -> Iterator[str]:
    row = passage.rows[block.rows[0]]
    if block.style == "figure":
        if row.modality is Modality.FIGURE:
            yield row.text or row.caption
    elif block.style == "table":
        header, *body = row.rows or [[]]
        for cells in [header, *body][:MOST_TABLE_ROWS]:
            # With the names of its columns, a row of numbers has words that a question may share.
            named_cells = (
                f"{name}: {cell}" if name and name != cell else cell for name, cell in zip(header, cells, strict=False)
            )
            yield " ".join(filter(None, (row.caption, *named_cells)))
    else:
        for start, end in block.sentences:
            yield template.without(block.text[start:end])


def scores(
    question: str,
    candidates: Sequence[Candidate],
    passages: Sequence[Passage],
    cosines: Callable[[Sequence[Candidate]], Sequence[float]],
    *,
    max_passages: int,
) -> tuple[list[float], dict[Candidate, float]]:
    """Return a score for each candidate, and the cosines of those compared.

    A score is by the question's words, weighted by rarity, by rank, and by the cosine of the sentence and the question. Only the
    best candidates by words and rank are compared, in one call of ``cosines``; the others count as far away as the farthest of
    those. ``max_passages`` are those that the answer may show.
    """
    by_words = _word_scores(question, candidates, passages)
    best = sorted(range(len(candidates)), key=lambda index: (-by_words[index], index))[: COMPARED * max_passages]
    compared_candidates = [candidates[index] for index in sorted(best)]
    similarity_by_candidate = (
        dict(zip(compared_candidates, cosines(compared_candidates), strict=True)) if compared_candidates else {}
    )
    farthest = min(similarity_by_candidate.values(), default=0.0)
    candidate_scores = [
        score + NEAR * similarity_by_candidate.get(candidate, farthest)
        for candidate, score in zip(candidates, by_words, strict=True)
    ]
    # What stands behind a question of the document, or behind the problem that is asked about, answers it.
    repeats = [
        bool(passages[candidate.passage].blocks[candidate.block].sentences) and repeats_question(candidate.text, question)
        for candidate in candidates
    ]
    for index, (candidate, following) in enumerate(pairwise(candidates)):
        if repeats[index] and following.passage == candidate.passage and not repeats[index + 1]:
            candidate_scores[index + 1] = max(candidate_scores[index : index + 2])
    candidate_scores = [score - ASKS * is_repeat for score, is_repeat in zip(candidate_scores, repeats, strict=True)]
    return candidate_scores, similarity_by_candidate


def repeats_question(text: str, question: str) -> bool:
    """Return whether a text asks something itself, states a problem, or says nothing beyond a question.

    A question for yes or no may be answered in its own words.
    """
    if text.rstrip().endswith("?") or _PROBLEM.match(text):
        return True
    words = stems(content_words(text))
    return bool(words) and words <= stems(question) and not _YES_OR_NO.match(question)


def _word_scores(question: str, candidates: Sequence[Candidate], passages: Sequence[Passage]) -> list[float]:
    terms = stems(content_words(question))
    shared_terms = [terms & stems(candidate.context) for candidate in candidates]
    frequency = Counter(word for candidate_terms in shared_terms for word in candidate_terms)
    rarity = rarity_of(frequency, frequency, len(candidates))
    total_rarity = math.fsum(rarity.values()) or 1.0
    is_how, asks_number = is_how_to(question), _ASKS_NUMBER.search(question) is not None
    question_numbers = set(_NUMBER.findall(question))
    definition = _definition(question)

    def share(candidate_terms: Iterable[str]) -> float:
        return math.fsum(sorted(rarity[word] for word in candidate_terms)) / total_rarity

    return [
        WORDS * share(candidate_terms)
        + RANKED / (1 + passages[candidate.passage].rank)
        + (STEPS * share(terms & stems(candidate.heading)) if is_how and candidate.is_step else 0.0)
        + (TYPED if asks_number and not question_numbers.issuperset(_NUMBER.findall(candidate.text)) else 0.0)
        + (DEFINES if definition and definition.match(candidate.text) else 0.0)
        - (DEFINES if definition and passages[candidate.passage].rows[0].modality is Modality.FIGURE else 0.0)
        - (ASKS if _DESCRIBES_IMAGE.match(candidate.text) else 0.0)
        for candidate, candidate_terms in zip(candidates, shared_terms, strict=True)
    ]


def rarity_of(frequency: Mapping[str, int], words: Iterable[str], texts: int) -> dict[str, float]:
    """Return the inverse frequency of words of which ``frequency`` of so many texts have each."""
    counts = {word: frequency.get(word, 0) for word in words}
    return {word: math.log(1 + (texts - count + 0.5) / (count + 0.5)) for word, count in counts.items()}


def stems(text: str) -> set[str]:
    """Return the words of a text without their endings."""
    return {_stem(word) for word in folded_words(text)}


@functools.lru_cache(10_000)
def _stem(word: str) -> str:
    return _ENDING.sub("", word)
