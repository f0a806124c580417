"""Follow-up questions beside the same questions asked in full: ``python -m bench.dialogues CORPUS [DIALOGUES]``.

CORPUS is a published corpus. DIALOGUES is JSONL with ``turns``, of which the last one is measured, ``alone``, the same question
asked in full, ``doc`` and ``pages``; by default 90 dialogues about the example manuals, of which 20 go back to an earlier topic.
Each turn has the extractive answers before it as its history. Measured: the share of last turns whose answer cites a right page
among its first five citations.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from pipeline.published.corpus import PublishedCorpus, open_published
from schemas.answers import AnswerResult
from schemas.retrieval import AnswerQuery, Turn

DIALOGUES = Path(__file__).parent / "questions" / "dialogues.jsonl"
CITED = 5
"""Citations that are looked at."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="?")
    parser.add_argument("dialogues", type=Path, nargs="?", default=DIALOGUES)
    arguments = parser.parse_args()
    if arguments.corpus is None:
        print("dialogues: name a published corpus")
        return
    corpus = open_published(arguments.corpus)
    dialogues = [json.loads(line) for line in arguments.dialogues.read_text(encoding="utf-8").splitlines()]
    print("| dialogues | right page, asked in full | as a follow-up | without history |")
    print("|---:|---:|---:|---:|")
    shares = (sum(column) / len(dialogues) for column in zip(*(_cites(corpus, each) for each in dialogues), strict=True))
    print(f"| {len(dialogues)} | {' | '.join(f'{share:.1%}' for share in shares)} |")


def _cites(corpus: PublishedCorpus, dialogue: dict[str, Any]) -> tuple[bool, bool, bool]:
    *earlier, last = dialogue["turns"]
    history: list[Turn] = []
    for question in earlier:
        result = _answer(corpus, question, history)
        history.append(Turn(question=question, evidence_ids=[citation.evidence_id for citation in result.citations]))
    results = (_answer(corpus, dialogue["alone"], []), _answer(corpus, last, history), _answer(corpus, last, []))
    full, follow_up, bare = (
        any(
            region.page in dialogue["pages"] and citation.source.endswith(dialogue["doc"])
            for citation in result.citations[:CITED]
            for region in citation.regions
        )
        for result in results
    )
    return full, follow_up, bare


def _answer(corpus: PublishedCorpus, question: str, history: list[Turn]) -> AnswerResult:
    return corpus.answer(AnswerQuery(question, answer="extractive", history=history))


if __name__ == "__main__":
    main()
