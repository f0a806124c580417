"""Tables as sequences of nouns."""

import pytest

from schemas.documents import FoundBy, TableRegion
from schemas.geometry import BBox
from schemas.parquet import Rows, rows_of, table_of
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


def test_a_field_that_an_earlier_release_did_not_write_has_its_default() -> None:
    region = TableRegion(1, BBox(0, 0, 10, 10), (("a", "b"),), FoundBy.RULED)
    old = table_of(TableRegion, [region]).drop_columns(["spans"])
    assert rows_of(TableRegion, old) == (region,)
    with pytest.raises(KeyError):
        rows_of(TableRegion, old.drop_columns(["rows"]))
