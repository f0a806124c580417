"""What readers asked and didn't find, as operators see it."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from pipeline.records.feedback import read_asked
from pipeline.records.ledger import indexed_sources, read_ledger
from pipeline.records.publication import read_pointer
from schemas.asked import AskedOfDay, UnansweredQuestion
from schemas.base import Frozen
from schemas.ports import ObjectStore

DAYS = 30
"""Days that are summed up."""

NAMED = 10
"""Groups of questions, and documents, that are named."""

ALIKE = 0.75
"""Least cosine of questions in a group: 28 of 30 paraphrases are, and 21 of 30 questions about something else nearby."""


class QuestionGroup(Frozen):
    """Questions that mean about the same, the most frequent first, and how often they were asked."""

    questions: list[str]
    times: int


class AskedOfVersion(Frozen):
    """Questions to a version, and how many of them got no answer, or an unsure one."""

    version: str
    asked: int
    abstained: int
    unsure: int


class AskedSummary(Frozen):
    """What was asked in the last ``DAYS`` days.

    Attributes:
        versions: Newest first.
        unanswered: What got no answer or an unsure one, the most frequent first; [] where words aren't kept.
        unfound: Documents of the live version that no answer cites and nobody opened, and how many there are.
        opened: Documents whose citations were opened most, and how often.
    """

    versions: list[AskedOfVersion]
    unanswered: list[QuestionGroup]
    unfound: list[str]
    unfound_count: int
    opened: list[tuple[str, int]]


def asked_summary(store: ObjectStore) -> AskedSummary:
    """Return what was asked of a corpus; without numbers where its service counts no questions."""
    days = [*read_asked(store, DAYS)]
    cited, opened = Counter[str](), Counter[str]()
    for day in days:
        cited.update(day.cited)
        opened.update(day.opened)
    pointer = read_pointer(store)
    sources = indexed_sources(read_ledger(store, pointer.version)) if pointer and days else {}
    unfound = sorted(sources[doc_id][0] for doc_id in sources.keys() - cited.keys() - opened.keys())
    return AskedSummary(
        versions=[_of_version(version, days) for version in sorted({day.version for day in days}, reverse=True)],
        unanswered=_groups([question for day in days for question in day.unanswered])[:NAMED],
        unfound=unfound[:NAMED],
        unfound_count=len(unfound),
        opened=[(sources[doc_id][0], times) for doc_id, times in opened.most_common() if doc_id in sources][:NAMED],
    )


def _of_version(version: str, days: Sequence[AskedOfDay]) -> AskedOfVersion:
    of_version = [day for day in days if day.version == version]
    counts = {name: sum(getattr(day, name) for day in of_version) for name in ("asked", "abstained", "unsure")}
    return AskedOfVersion(version=version, **counts)


def _groups(questions: Sequence[UnansweredQuestion]) -> list[QuestionGroup]:
    """Return questions by meaning: each joins the first group whose most frequent question is near enough."""
    times, vectors = Counter[str](), {question.text: np.array(question.vector) for question in questions}
    for question in questions:
        times[question.text] += question.times
    groups: dict[str, list[str]] = {}
    for text, _ in times.most_common():
        vector = vectors[text]
        near = (first for first in groups if len(vectors[first]) == len(vector) > 0 and vectors[first] @ vector >= ALIKE)
        groups.setdefault(next(near, text), []).append(text)
    question_groups = [
        QuestionGroup(questions=texts, times=sum(times[text] for text in texts)) for texts in groups.values()
    ]
    return sorted(question_groups, key=lambda group: -group.times)
