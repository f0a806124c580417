"""Date a document."""

import datetime
import re

_WRITTEN = re.compile(r"(?:D:)?(\d{4})(\d{2})?(\d{2})?")

FIRST_YEAR = 1993
"""Year of the first PDF: an earlier date is an unset clock (1970, 1904, 1601)."""


def date_of(modified: str, created: str) -> str | None:
    """Return the day when a PDF was last changed, or else created, such as ``2024-03-31``; None without either.

    Args:
        modified: ModDate of its metadata, such as ``D:20240331120000+02'00'``; the time zone is ignored.
        created: CreationDate.
    """
    return next((day for timestamp in (modified, created) if (day := _day(timestamp)) is not None), None)


def _day(timestamp: str) -> str | None:
    date_parts = _WRITTEN.match(timestamp.strip())
    if date_parts is None:
        return None
    year, month, day = (int(part or 1) for part in date_parts.groups())
    try:
        return datetime.date(year, month, day).isoformat() if year >= FIRST_YEAR else None
    except ValueError:
        return None
