"""Tables as sequences of nouns."""

import pytest

from schemas.parquet import Rows
from schemas.versions import PlannedDocument


def _document(number: int) -> PlannedDocument:
    return PlannedDocument(f"{number:05}.pdf", f"{number:064}", number, "1")


DOCUMENTS = [_document(number) for number in range(2_500)]


def test_rows_are_a_sequence_of_what_they_were_made_of() -> None:
    rows = Rows.of(PlannedDocument, iter(DOCUMENTS))
    assert (len(rows), list(rows), list(reversed(rows))) == (2_500, DOCUMENTS, DOCUMENTS[::-1])
    assert (rows[0], rows[-1], rows[1_700]) == (DOCUMENTS[0], DOCUMENTS[-1], DOCUMENTS[1_700])
    assert list(rows[999:1_002]) == DOCUMENTS[999:1_002]
    assert (DOCUMENTS[7] in rows, _document(9_999) in rows) == (True, False)
    with pytest.raises(IndexError):
        rows[2_500]


def test_no_rows_are_a_sequence_too() -> None:
    rows = Rows.of(PlannedDocument, [])
    assert (len(rows), list(rows), list(reversed(rows)), list(rows[:3])) == (0, [], [], [])
