"""The day that a PDF names itself."""

import pytest

from tasks.reading.parse import date_of


@pytest.mark.parametrize(
    ("modified", "created", "expected"),
    [
        ("D:20240331120000+02'00'", "D:20190101", "2024-03-31"),
        ("", "D:20190102030405Z", "2019-01-02"),
        ("20240229", "", "2024-02-29"),
        ("D:2024", "", "2024-01-01"),
        ("D:202406", "", "2024-06-01"),
        ("D:20240230", "D:20190101", "2019-01-01"),  # no such day
        ("D:19700101000000", "D:19040101", None),  # a clock that was never set
        ("D:191010203", "", None),  # how 2001 was written by programs that counted from 1900
        ("Mon Mar 4 2024", "yesterday", None),
        ("", "", None),
        ("D:99999999", "D:00000000", None),
    ],
)
def test_it_is_when_it_was_changed_or_else_made(modified: str, created: str, expected: str | None) -> None:
    assert date_of(modified, created) == expected
