"""Question sets of people and public datasets, read as they are; the rows here are made up in each dataset's form."""

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation.questions import GoldPage, GoldRegion, Question, load_questions
from lab.question_files import FORMS, read_question_file, write_questions
from schemas.errors import UserError

ROWS: dict[str, dict[str, Any]] = {
    "mmlongbench": {
        "doc_id": "pump.pdf",
        "doc_type": "Guidebook",
        "question": "Which seal fits?",
        "answer": "['A3', 'B7']",
        "evidence_pages": "[4, 5]",
        "evidence_sources": "['Pure-text (Plain-text)', 'Chart']",
        "answer_format": "List",
    },
    "mmdocir": {
        "doc_name": "pump.pdf",
        "domain": "Guidebook",
        "page_indices": [0, 9],
        "layout_indices": [0, 99],
        "questions": [
            {
                "Q": "Which seal fits?",
                "A": "A3",
                "page_id": [3, 4],
                "type": "['Table', 'Generalized-text (Layout)']",
                "layout_mapping": [{"page": 3, "page_size": [612.0, 792.0], "bbox": [10, 20, 30, 40.5]}],
            },
            {"Q": "How heavy is it?", "A": "3 kg", "page_id": [0], "type": "multimodal-t", "layout_mapping": []},
        ],
    },
    "ohrbench": {
        "doc_name": "manual/pump",
        "ID": "0a1b",
        "questions": "Which seal fits?",
        "answers": "A3",
        "doc_type": "manual",
        "answer_form": "Short Answer",
        "evidence_source": "table",
        "evidence_context": "Seal & A3",
        "evidence_page_no": 3,
        "is_extra_qa": False,
    },
    "financebench": {
        "financebench_id": "id_1",
        "company": "Pumps",
        "doc_name": "PUMPS_2020_10K",
        "question": "How many were sold?",
        "answer": "7",
        "evidence": [
            {"doc_name": "PUMPS_2020_10K", "evidence_page_num": 3, "evidence_text": "7", "evidence_text_full_page": "7"},
            {"doc_name": "PUMPS_2020_10K", "evidence_page_num": 3, "evidence_text": "sold", "evidence_text_full_page": ""},
            {"doc_name": "PUMPS_2019_10K", "evidence_page_num": 0, "evidence_text": "6", "evidence_text_full_page": "6"},
        ],
    },
    "mmdocrag": {
        "q_id": 7,
        "doc_name": "pump",
        "domain": "Guidebook",
        "question": "Which seal fits?",
        "question_type": "Descriptive",
        "evidence_modality_type": ["Figure", "Text"],
        "text_quotes": [
            {"quote_id": "text1", "type": "text", "text": "A3", "page_id": 8, "layout_id": 1},
            {"quote_id": "text2", "type": "text", "text": "B7", "page_id": 1, "layout_id": 2},
        ],
        "img_quotes": [{"quote_id": "image1", "type": "image", "img_path": "a.jpg", "page_id": 3, "layout_id": 3}],
        "gold_quotes": ["text1", "image1"],
        "answer_short": "A3",
        "answer_interleaved": "A3 ![](image1)",
    },
}


def _pages(doc: str, *pages: int) -> list[GoldPage]:
    return [GoldPage(doc=doc, page=page) for page in pages]


READ: dict[str, list[Question]] = {
    "mmlongbench": [
        Question(
            id="set-0001",
            question="Which seal fits?",
            answer="['A3', 'B7']",
            documents=["pump.pdf"],
            pages=_pages("pump.pdf", 4, 5),
            evidence_types=["text", "chart"],
            doc_types=["Guidebook"],
        )
    ],
    "mmdocir": [
        Question(
            id="set-0001",
            question="Which seal fits?",
            answer="A3",
            documents=["pump.pdf"],
            pages=_pages("pump.pdf", 4, 5),
            regions=[GoldRegion(doc="pump.pdf", page=4, bbox=(10, 20, 30, 40.5))],
            evidence_types=["table", "layout"],
            doc_types=["Guidebook"],
        ),
        Question(
            id="set-0002",
            question="How heavy is it?",
            answer="3 kg",
            documents=["pump.pdf"],
            pages=_pages("pump.pdf", 1),
            evidence_types=["table"],
            doc_types=["Guidebook"],
        ),
    ],
    "ohrbench": [
        Question(
            id="0a1b",
            question="Which seal fits?",
            answer="A3",
            documents=["pump.pdf"],
            pages=_pages("pump.pdf", 4),
            evidence_types=["table"],
            doc_types=["manual"],
        )
    ],
    "financebench": [
        Question(
            id="id_1",
            question="How many were sold?",
            answer="7",
            documents=["PUMPS_2020_10K.pdf", "PUMPS_2019_10K.pdf"],
            pages=[GoldPage(doc="PUMPS_2020_10K.pdf", page=4), GoldPage(doc="PUMPS_2019_10K.pdf", page=1)],
        )
    ],
    "mmdocrag": [
        Question(
            id="7",
            question="Which seal fits?",
            answer="A3",
            documents=["pump.pdf"],
            pages=_pages("pump.pdf", 4, 9),
            evidence_types=["figure", "text"],
            doc_types=["Guidebook"],
        )
    ],
}


@pytest.mark.parametrize("layout", ["array", "lines"])
@pytest.mark.parametrize("form", FORMS)
def test_a_public_dataset_is_recognised_and_read_as_it_is(tmp_path: Path, form: str, layout: str) -> None:
    row = ROWS[form]
    file = tmp_path / "set.json"
    file.write_text(json.dumps([row], indent=4) if layout == "array" else json.dumps(row) + "\n")
    read = read_question_file(file)
    assert (read.form, read.mistakes, read.questions) == (form, [], READ[form])


def test_mmlongbench_marks_what_no_document_answers(tmp_path: Path) -> None:
    row = ROWS["mmlongbench"] | {"answer": "Not answerable", "evidence_pages": "[]", "evidence_sources": "[]"}
    (tmp_path / "set.json").write_text(json.dumps([row]))
    (question,) = read_question_file(tmp_path / "set.json").questions
    assert not question.answerable
    assert question.pages == []


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_spreadsheet_saved_as_csv_is_read(tmp_path: Path, separator: str) -> None:
    rows = [
        ["id", "question", "answer", "doc", "pages", "evidence_types", "answerable", "figures", "note"],
        ["a", '"Which, of ""these""\nfits?"', "A3", "pump.pdf", '"3; 4"', '"text; table"', "yes", "", "seen"],
        ["", "", "", "", "", "", "", "", ""],
        ["b", "Both?", "", "", '"pump.pdf#3; winch.pdf#7"', "", "TRUE", '"[{""page"": 3, ""bbox"": [1, 2, 3, 4]}]"'],
        ["", "Neither?", "", "", "", "", "no", "", ""],
    ]
    text = "\r\n".join(separator.join(row) for row in rows)
    (tmp_path / "set.csv").write_text(text, encoding="utf-8-sig", newline="")
    read = read_question_file(tmp_path / "set.csv")
    assert read.mistakes == []
    assert read.unread == {"note"}
    first, second, third = read.questions
    assert first == Question(
        id="a",
        question='Which, of "these"\nfits?',
        answer="A3",
        documents=["pump.pdf"],
        pages=_pages("pump.pdf", 3, 4),
        evidence_types=["text", "table"],
    )
    assert second.documents == ["pump.pdf", "winch.pdf"]
    assert second.figures == [GoldRegion(page=3, bbox=(1, 2, 3, 4))]
    assert (third.id, third.answerable) == ("set-0003", False)


MALFORMED = {
    "a page of words": ("set.csv", "question,pages\nWhy?,3\nWhy?,three\n", 3, "pages.0", "counted from 1"),
    "a page of many digits": (
        "set.csv",
        f"question,pages\nWhy?,3\nWhy?,{'9' * 5000}\n",
        3,
        "ValueError",
        "correct the row",
    ),
    "after a cell of two lines": ("set.csv", 'question,pages\n"Why\nso?",3\nWhy?,0\n', 4, "pages.0", "counted from 1"),
    "too many cells": ("set.csv", "question,answer\nWhy?,\nWhy, though?,yes\n", 3, "it has 3 cells", "into quotes"),
    "no such truth": ("set.csv", "question,answerable\nWhy?,no\nWho?,perhaps\n", 3, "answerable", "write true or false"),
    "a broken list": ("set.csv", "question,figures\nWhy?,\nWho?,[3\n", 3, "is not JSON", "correct the row"),
    "a cell too large": ("set.csv", f"question\nWhy?\n{'x' * 200_000}\n", 3, "it is not CSV", "correct the row"),
    "no question": (
        "set.jsonl",
        '{"id": "a", "question": "Why?"}\n\n{"id": "b"}\n',
        3,
        "question: Field required",
        "its words",
    ),
    "an id twice": (
        "set.jsonl",
        '{"id": "a", "question": "1"}\n{"id": "a", "question": "2"}',
        2,
        "id of line 1",
        "its own",
    ),
    "no object": ("set.jsonl", '{"question": "Why?"}\n[3]\n', 2, "isn't a JSON object", "correct the row"),
    "not JSON": ("set.jsonl", '{"question": "Why?"}\nWhy?\n', 2, "is not JSON", "correct the row"),
    "a key of the form": (
        "set.json",
        json.dumps([ROWS["ohrbench"], {"ID": "b", "questions": "Why?"}], indent=1),
        14,
        "answers is missing, which rows of ohrbench have",
        "correct the row",
    ),
    "a value of the form": (
        "set.json",
        f"[{json.dumps(ROWS['ohrbench'])},\n{json.dumps(ROWS['ohrbench'] | {'ID': 'b', 'evidence_page_no': 'x'})}]",
        2,
        "it is not in the form of ohrbench",
        "correct the row",
    ),
    "a list of the form": (
        "set.jsonl",
        json.dumps(ROWS["mmlongbench"]) + "\n" + json.dumps(ROWS["mmlongbench"] | {"evidence_pages": "[4"}),
        2,
        "it is not in the form of mmlongbench",
        "correct the row",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_row_is_one_line_and_the_others_are_read(tmp_path: Path, case: str) -> None:
    name, text, line, problem, remedy = MALFORMED[case]
    file = tmp_path / name
    file.write_text(text)
    read = read_question_file(file)
    (mistake,) = read.mistakes
    assert mistake.startswith(f"{file}: line {line}")
    assert problem in mistake
    assert remedy in mistake
    assert "\n" not in mistake
    assert len(read.questions) == 1


def test_a_bad_question_of_a_document_spares_the_others_and_their_numbers(tmp_path: Path) -> None:
    row = ROWS["mmdocir"]
    bad = row | {"questions": [row["questions"][0] | {"Q": " "}, row["questions"][1]]}
    (tmp_path / "set.jsonl").write_text(json.dumps(bad))
    read = read_question_file(tmp_path / "set.jsonl")
    assert len(read.mistakes) == 1
    assert read.questions == READ["mmdocir"][1:]


@pytest.mark.parametrize(
    ("name", "content", "pattern"),
    [
        ("set.xlsx", b"PK\x03\x04\xff", "save it, or the sheet of a workbook, as CSV in UTF-8"),
        ("set.csv", b"caf\xe9", "it is not UTF-8; save it"),
        ("set.json", b'[{"question": "Why?"},\n', "line 2 is not JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_the_users_mistake(tmp_path: Path, name: str, content: bytes, pattern: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=pattern):
        read_question_file(tmp_path / name)
    with pytest.raises(UserError, match="can't read"):
        read_question_file(tmp_path / "missing.csv")


def test_what_is_written_is_what_was_read(tmp_path: Path) -> None:
    questions = [question for form in READ.values() for question in form if not question.id.startswith("set")]
    write_questions(questions, tmp_path / "out.jsonl")
    assert load_questions(str(tmp_path / "out.jsonl")) == questions
    assert read_question_file(tmp_path / "out.jsonl").questions == questions
