"""Score the answers of an experiment with RAGAS.

``.venv-ragas/bin/python lab/ragas/score.py FOLDER QUESTIONS --url URL --model MODEL``: FOLDER is what ``inset evaluate`` wrote,
QUESTIONS the question set. The model answers at an OpenAI-compatible address; ``OPENAI_API_KEY`` holds its key. Prints the mean
and the number of scores for each system and metric, and writes ``ragas.parquet`` to FOLDER. A reply that RAGAS can't read has no
score.

It imports nothing of Inset, since RAGAS needs an environment of its own: ``make ragas``.
"""

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

METRICS = {
    "faithfulness": ("Faithfulness", ("user_input", "response", "retrieved_contexts")),
    "context_precision": ("ContextPrecision", ("user_input", "reference", "retrieved_contexts")),
    "context_recall": ("ContextRecall", ("user_input", "reference", "retrieved_contexts")),
    "answer_accuracy": ("AnswerAccuracy", ("user_input", "response", "reference")),
}
"""RAGAS's class of each metric, and what it needs."""


def main() -> None:
    """Score every answer that has what a metric needs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="what inset evaluate wrote")
    parser.add_argument("questions", type=Path, help="the question set, JSONL")
    parser.add_argument("--url", required=True, help="address of the model, such as http://localhost:8000/v1")
    parser.add_argument("--model", required=True)
    parser.add_argument("--max-tokens", type=int, default=4096, help="length of a reply")
    options = parser.parse_args()
    try:
        rows = pq.read_table(options.folder / "outcomes.parquet").to_pylist()
        lines = options.questions.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        sys.exit(f"{error.filename or options.folder}: {error.strerror or error}")
    os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")  # ragas reads it when it is imported
    from openai import AsyncOpenAI
    from ragas.llms import llm_factory

    questions_by_id = {question["id"]: question for question in map(json.loads, filter(None, lines))}
    client = AsyncOpenAI(base_url=options.url, api_key=os.environ.get("OPENAI_API_KEY", "none"))
    llm = llm_factory(options.model, client=client, max_tokens=options.max_tokens)
    scored_rows = asyncio.run(
        _scores([row for row in rows if row["answer"] and row["question_id"] in questions_by_id], questions_by_id, llm)
    )
    pq.write_table(pa.Table.from_pylist(scored_rows), options.folder / "ragas.parquet")
    for system in dict.fromkeys(row["system"] for row in scored_rows):
        sys.stdout.write(f"{system}\n")
        for name in METRICS:
            scores_or_none = [row[name] for row in scored_rows if row["system"] == system]
            values = [value for value in scores_or_none if value is not None]
            mean = f"{sum(values) / len(values):.3f}" if values else "–"
            sys.stdout.write(f"  {name:20}{mean:>7}  n {len(values)} of {len(scores_or_none)}\n")


async def _scores(rows: list[dict[str, Any]], questions_by_id: dict[str, dict[str, Any]], llm: Any) -> list[dict[str, Any]]:
    from ragas.metrics import collections

    scored_rows = []
    for row in rows:
        question = questions_by_id[row["question_id"]]
        inputs = {
            "user_input": question["question"],
            "reference": question.get("answer"),
            "response": row["answer"],
            "retrieved_contexts": row["contexts"],
        }
        scores: dict[str, float | None] = {}
        for name, (kind, needs) in METRICS.items():
            scores[name] = None
            if all(inputs[need] for need in needs):
                try:
                    value = float(
                        (await getattr(collections, kind)(llm=llm).ascore(**{need: inputs[need] for need in needs})).value
                    )
                    # RAGAS gives nan if no reply fits, and passes on nonsense such as 2.
                    scores[name] = value if 0 <= value <= 1 else None
                except Exception as error:  # noqa: BLE001  a reply that doesn't fit, or a call that failed
                    sys.stderr.write(f"{row['question_id']}: {name}: {' '.join(str(error).split())[:200]}\n")
        scored_rows.append({"system": row["system"], "question_id": row["question_id"], **scores})
    return scored_rows


if __name__ == "__main__":
    main()
