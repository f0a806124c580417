"""What of the passages may answer a question: sentences, table rows and figures, each with a score."""

import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
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

WORDS, RANKED = 0.4, 0.4
"""Weights of a sentence's share of the question's words, and of its passage's rank, beside its cosine."""

_HOW = re.compile(
    r"\bhow (?:do|can|to|should|must|would|does one)\b|\bsteps?\b|\bprocedure\b|\bin which order\b", re.IGNORECASE
)
_YES_NO = re.compile(
    r"(?:[^,?]*,\s+)?(?:is|are|was|were|does?|did|can|could|has|have|had|will|would|should|must|may|might)\b", re.IGNORECASE
)
_SYMBOL = re.compile(r"(?<!\S)[^\w\s\"'“”„‘’().,;:?!]+\w*")
"""An operator, an option, or a name with a sign before it."""
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ies|ed|es|s|ly|y|e)$")


def is_how_to(question: str) -> bool:
    """Return whether a question asks for a procedure."""
    return _HOW.search(question) is not None


def is_yes_no(question: str) -> bool:
    """Return whether a question begins with an auxiliary verb, or has one behind its first comma."""
    return _YES_NO.match(question) is not None


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
        for cells in row.rows:
            # With the names of its columns, a row of numbers has words that a question may share.
            named_cells = (
                f"{name}: {cell}" if name and name != cell else cell for name, cell in zip(row.rows[0], cells, strict=False)
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
        score + similarity_by_candidate.get(candidate, farthest)
        for candidate, score in zip(candidates, by_words, strict=True)
    ]
    return candidate_scores, similarity_by_candidate


def _word_scores(question: str, candidates: Sequence[Candidate], passages: Sequence[Passage]) -> list[float]:
    terms = stems(content_words(question)) | {*_SYMBOL.findall(question)}
    shared_terms = [terms & (stems(candidate.context) | {*_SYMBOL.findall(candidate.context)}) for candidate in candidates]
    frequency = Counter(word for candidate_terms in shared_terms for word in candidate_terms)
    rarity = {word: math.log(1 + (len(candidates) - count + 0.5) / (count + 0.5)) for word, count in frequency.items()}
    total_rarity = math.fsum(rarity.values()) or 1.0

    def share(candidate_terms: Iterable[str]) -> float:
        return math.fsum(sorted(rarity[word] for word in candidate_terms)) / total_rarity

    return [
        WORDS * share(candidate_terms) + RANKED / (1 + passages[candidate.passage].rank)
        for candidate, candidate_terms in zip(candidates, shared_terms, strict=True)
    ]


def stems(text: str) -> set[str]:
    """Return the words of a text without their endings."""
    return {_stem(word) for word in folded_words(text)}


@functools.lru_cache(10_000)
def _stem(word: str) -> str:
    return _ENDING.sub("", word)
