"""Retrieve in several rounds: a judge says what the evidence lacks, and the next query searches for that.

The result is the union of all rounds, ranked against the original question: later rounds only add evidence.

Source:
    The multi-round agent of Nan et al., "OMG-QA: Building Open-Domain Multi-Modal Generative Question Answering Systems".
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schemas.answers import Round
from schemas.evidence import Hit
from schemas.versions import Spent

MOST_QUERY_CHARS = 400
"""Maximum characters of a judge's query; a longer one is ignored."""

_OBJECT = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True)
class Sufficiency:
    """A judge's verdict on the evidence so far: whether it is sufficient, what is missing, and the next query."""

    sufficient: bool
    missing: str = ""
    query: str = ""


def read_sufficiency(reply: str) -> Sufficiency | None:
    """Return the verdict in a judge's reply, a JSON object with ``sufficient``, ``missing`` and ``query``; None without one."""
    for match in _OBJECT.finditer(reply):
        try:
            verdict = json.loads(match[0])
        except ValueError:
            continue
        sufficient = verdict.get("sufficient")
        if isinstance(sufficient, str):
            sufficient = {"true": True, "yes": True, "false": False, "no": False}.get(sufficient.strip().lower())
        if isinstance(sufficient, bool):
            missing, query = (" ".join(str(verdict.get(name) or "").split()) for name in ("missing", "query"))
            return Sufficiency(sufficient, missing[:MOST_QUERY_CHARS], query if len(query) <= MOST_QUERY_CHARS else "")
    return None


def retrieve_in_rounds(
    question: str,
    search: Callable[[str], Sequence[Hit]],
    judge: Callable[[Sequence[str], Sequence[Hit]], Sufficiency | None],
    rank: Callable[[Sequence[Hit]], Sequence[Hit]],
    *,
    rounds: int,
    may_go_on: Callable[[], bool],
    spent_so_far: Callable[[], Spent],
    clock: Callable[[], float],
) -> tuple[list[Hit], list[Round]]:
    """Return the evidence of all rounds, best first, and a record of each round.

    It ends when the evidence is sufficient, the verdict unreadable, a round finds nothing new, a query repeats, or ``may_go_on``
    returns false. ``judge`` gets all queries and evidence so far; ``rank`` orders the union against the original question.
    """
    memory: dict[str, Hit] = {}
    queries: list[str] = []
    finished_rounds: list[Round] = []
    query = question
    while True:
        started, spent_before = clock(), spent_so_far()
        queries.append(query)
        hits = search(query)
        new_hits = [hit for hit in hits if hit.evidence_id not in memory]
        memory |= {hit.evidence_id: hit for hit in new_hits}
        verdict = None
        if len(queries) < rounds and new_hits and may_go_on():
            verdict = judge(queries, list(memory.values()))
        finished_rounds.append(
            Round(
                query=query,
                evidence_ids=[hit.evidence_id for hit in hits],
                new=len(new_hits),
                sufficient=verdict.sufficient if verdict else None,
                missing=verdict.missing if verdict else "",
                seconds=clock() - started,
                spent=spent_so_far() - spent_before,
            )
        )
        if verdict is None or verdict.sufficient:
            break
        query = verdict.query or f"{question} {verdict.missing}".strip()
        if query in queries or not may_go_on():
            break
    all_hits = list(memory.values())
    return (list(rank(all_hits)) if len(finished_rounds) > 1 else all_hits), finished_rounds
