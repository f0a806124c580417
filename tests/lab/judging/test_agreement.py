"""Kappa by hand, and files of labels."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.judging.agreement import agreement
from lab.judging.labels import load_labels
from schemas.errors import UserError


def test_kappa_is_that_computed_by_hand() -> None:
    """20 times both yes, 15 both no, 5 and 10 apart: 0.7 alike, 0.5 expected by chance."""
    first = [True] * 25 + [False] * 25
    second = [True] * 20 + [False] * 5 + [True] * 10 + [False] * 15
    result = agreement(first, second)
    assert (result.share, result.kappa) == pytest.approx((0.7, 0.4))
    assert result.n == 50


def test_kappa_of_one_label_is_undefined_and_of_opposites_minus_one() -> None:
    assert agreement([True, True], [True, True]).kappa is None
    assert agreement([True, False], [False, True]).kappa == pytest.approx(-1.0)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1))
def test_agreement_has_no_direction_and_no_order(labels: list[tuple[bool, bool]]) -> None:
    first, second = ([pair[side] for pair in labels] for side in (0, 1))
    assert agreement(first, second) == agreement(second, first) == agreement(first[::-1], second[::-1])


def test_no_labels_have_no_agreement() -> None:
    with pytest.raises(ValueError, match="equally long"):
        agreement([], [])


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def test_labels_are_read_from_csv_and_jsonl_alike(tmp_path: Path) -> None:
    table = written(
        tmp_path,
        "labels.csv",
        "\ufeffquestion_id,system,metric,label,answer,annotator\n"
        'q1,answer ilt,answer_relevancy,yes,"Two\nlines",Ann\n2,answer ilt,answer_relevancy,0,,Ann\n',
    )
    lines = written(
        tmp_path,
        "labels.jsonl",
        '{"system": "answer ilt", "question_id": "q1", "metric": "answer_relevancy", "label": true, "answer": "Two\\nlines"}\n\n'
        '{"system": "answer ilt", "question_id": 2, "metric": "answer_relevancy", "label": "no", "answer": null}\n',
    )
    assert load_labels(table) == load_labels(lines)
    assert [(label.question_id, label.label) for label in load_labels(table)] == [("q1", True), ("2", False)]


ROW = "answer ilt,q1,answer_relevancy,"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", f"system,question_id,metric,label\n{ROW}perhaps\n", "a.csv: line 2: label: "),
        (
            "b.csv",
            "system,question_id,metric,label\nanswer ilt,q1,beauty,yes\n",
            "b.csv: line 2: metric: .*no judged metric 'beauty'",
        ),
        ("c.csv", f"system,question_id,metric\n{ROW[:-1]}\n", "c.csv: line 2: label: Field required"),
        (
            "d.csv",
            f"system,question_id,metric,label\n{ROW}yes\n{ROW}no\n",
            "d.csv: line 3 labels the same as a line before it",
        ),
        ("e.jsonl", "{}\n{\n", "e.jsonl: line 1: system: Field required"),
        ("f.jsonl", "\n{\n", "f.jsonl: line 2 is not JSON"),
        ("g.jsonl", "[1]\n", "g.jsonl: line 1: "),
    ],
)
def test_a_wrong_label_is_named_with_its_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_labels(written(tmp_path, name, text))


def test_labels_that_can_not_be_read_are_a_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"can't read .*missing\.csv: No such file"):
        load_labels(tmp_path / "missing.csv")
    (tmp_path / "latin.csv").write_bytes("system,Prüfer\n".encode("latin-1"))
    with pytest.raises(UserError, match="not UTF-8"):
        load_labels(tmp_path / "latin.csv")
