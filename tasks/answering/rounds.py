"""Retrieve in several rounds: a judge says what the evidence lacks, and the next query looks for that.

Memory holds every query and all evidence. The evidence returned is the union of all rounds, ranked against the original
question: a later round adds evidence and never displaces what an earlier one found.

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
"""Characters of a query that a judge proposes; a longer reply is no query."""

_OBJECT = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True)
class Sufficiency:
    """What a judge says of the evidence so far: whether it is sufficient, what is missing, and what to look for next."""

    sufficient: bool
    missing: str = ""
    query: str = ""


def read_sufficiency(reply: str) -> Sufficiency | None:
    """Return the verdict in a judge's reply; None where it holds none.

    The reply holds a JSON object with ``sufficient``, ``missing`` and ``query``, perhaps between other words.
    """
    for found in _OBJECT.finditer(reply):
        try:
            said = json.loads(found[0])
        except ValueError:
            continue
        sufficient = said.get("sufficient")
        if isinstance(sufficient, str):
            sufficient = {"true": True, "yes": True, "false": False, "no": False}.get(sufficient.strip().lower())
        if isinstance(sufficient, bool):
            missing, query = (" ".join(str(said.get(name) or "").split()) for name in ("missing", "query"))
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
    used: Callable[[], Spent],
    clock: Callable[[], float],
) -> tuple[list[Hit], list[Round]]:
    """Return the evidence of all rounds, best first for the question, and what each round did.

    It ends when the judge finds the evidence sufficient or says nothing that can be read, when a round finds nothing new, when
    the judge repeats a query, and when ``may_go_on`` says no.

    Args:
        question: The original question, which is the first query.
        search: Returns the best rows for a query.
        judge: Gets all queries and all evidence so far; None where it said nothing that can be read.
        rank: Orders the union against the original question.
        rounds: Rounds at most, ≥ 1; with one, no judge is asked.
        may_go_on: Whether budget and caller allow another call.
        used: What models have used so far.
        clock: Returns seconds.
    """
    memory: dict[str, Hit] = {}
    queries: list[str] = []
    done: list[Round] = []
    query = question
    while True:
        started, before = clock(), used()
        queries.append(query)
        hits = search(query)
        new = [hit for hit in hits if hit.evidence_id not in memory]
        memory |= {hit.evidence_id: hit for hit in new}
        verdict = None
        if len(queries) < rounds and new and may_go_on():
            verdict = judge(queries, list(memory.values()))
        done.append(
            Round(
                query=query,
                evidence_ids=[hit.evidence_id for hit in hits],
                new=len(new),
                sufficient=verdict.sufficient if verdict else None,
                missing=verdict.missing if verdict else "",
                seconds=clock() - started,
                spent=used() - before,
            )
        )
        if verdict is None or verdict.sufficient:
            break
        query = verdict.query or f"{question} {verdict.missing}".strip()
        if query in queries or not may_go_on():
            break
    found = list(memory.values())
    return (list(rank(found)) if len(done) > 1 else found), done
