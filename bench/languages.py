"""Packaged text models on documents in other languages: ``python -m bench.languages CORPUS``.

CORPUS is published, of ``maint-guide.LANGUAGE.pdf`` from Debian's packages ``maint-guide-de``, ``-fr``, ``-ja``, ``-ru`` and
``-zh-cn`` (``apt-get download``, ``dpkg-deb -x``). The questions of ``bench/questions/languages.jsonl`` are put to the texts and
tables of their own document, by vectors alone; one is answered if a page of its gold pages is among the first five.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from backends.models.registry import TEXT_EMBEDDERS
from bench.table import parser_of
from pipeline.corpus.workspace import open_workspace
from pipeline.records.evidence import evidence_parts
from pipeline.records.publication import read_pointer
from schemas.models import MINILM, MULTILINGUAL, ModelName

QUESTIONS = Path(__file__).parent / "questions" / "languages.jsonl"
FIRST = 5


def main() -> None:
    """Print recall@5 of both models by language, as each is done."""
    parser = parser_of("languages", __doc__)
    parser.add_argument("corpus")
    workspace = open_workspace(parser.parse_args().corpus)
    live = read_pointer(workspace.store)
    if live is None:
        raise SystemExit("the corpus has no live version; run: inset refresh CORPUS")
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for part in evidence_parts(workspace.store, live.version):
        for row in part.to_pylist():
            rows[row["sources"][0]].append(row)
    asked: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in QUESTIONS.read_text(encoding="utf-8").splitlines():
        question = json.loads(line)
        asked[question["doc"]].append(question)
    models = [TEXT_EMBEDDERS.find(ModelName(name)).load(32) for name in (MINILM, MULTILINGUAL)]
    print("| document | questions |", " | ".join(model.name for model in models), "|", flush=True)
    for doc, questions in asked.items():
        shares = (_recall(model, rows[doc], questions) for model in models)
        print(f"| {doc} | {len(questions)} |", " | ".join(f"{share:.2f}" for share in shares), "|", flush=True)


def _recall(model: Any, rows: list[dict[str, Any]], questions: list[dict[str, Any]]) -> float:
    """Return the share of questions with a gold page among the pages of the nearest rows, five pages at most."""
    texts = [" ".join(filter(None, (row["title"], *(row["section_path"] or ()), row["text"]))) for row in rows]
    vectors = model.embed_documents(texts)
    found = 0
    for question in questions:
        nearest = (vectors @ model.embed_query(question["question"])).argsort()[::-1]
        pages = dict.fromkeys(region["page"] for at in nearest for region in rows[at]["regions"] or ())
        found += bool(set(list(pages)[:FIRST]) & set(question["pages"]))
    return found / len(questions)


if __name__ == "__main__":
    main()
