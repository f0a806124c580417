"""Which system is advised for which questions."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.quality import advice
from evaluation.questions import Question

METRIC = "page_ndcg@10"


def test_the_best_comes_first_and_only_what_is_surely_worse_is_called_so(tmp_path: Path) -> None:
    questions = [Question(id=str(n), question="Which?", evidence_types=["table" if n < 12 else "text"]) for n in range(14)]
    scored: dict[str, list[float | None]] = {
        "good": [*[1.0] * 12, 0.5, None],
        "nearly": [*[1.0] * 11, 0.8, 0.5, None],
        "bad": [*[0.1] * 12, 0.4, None],
        "repeated": [*[0.0] * 14],
    }
    rows = [
        {"system": system, "question_id": str(n), METRIC: value}
        for system, values in scored.items()
        for n, value in enumerate(values)
    ]
    rows += [{"system": "repeated", "question_id": str(n), METRIC: 0.2} for n in range(14)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "scores.parquet")
    _, _, everything, tables, texts, without = advice(tmp_path / "scores.parquet", questions, METRIC).splitlines()
    assert everything.startswith("| all | 13 | `good` 0.962 (")
    assert everything.endswith("| `nearly` 0.946 | `bad` 0.123, `repeated` 0.100 |")
    assert tables.startswith("| evidence: table | 12 | `good` 1.000 (1.00 to 1.00) |")
    assert texts.endswith("| `nearly` 0.500, `bad` 0.400, `repeated` 0.100 |  |"), "one question proves nothing"
    assert without.startswith("| without a figure | 13 |")
