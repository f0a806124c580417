"""Options of filters: the table of filters makes them."""

from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cli.questions import takes_filters
from schemas.errors import UserError
from schemas.filters import NO_FILTERS, Filters, Modality, Option, PageRange

DAY = "2024-03-01"


def filters_of(*arguments: str) -> Filters:
    """Return the filters that a command receives with these arguments."""
    received: list[Filters] = []

    @takes_filters
    def search(query: str, *, filters: Filters) -> None:
        assert query == "winch"
        received.append(filters)

    app = typer.Typer()
    app.command()(search)
    outcome = CliRunner().invoke(app, ["winch", *arguments])
    if outcome.exception is not None:
        raise outcome.exception
    (filters,) = received
    return filters


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ((), {}),
        (("--document", "a.pdf", "--document", "b.pdf"), {"documents": ["a.pdf", "b.pdf"]}),
        (("--source", "phones/**"), {"sources": ["phones/**"]}),
        (("--pages", "3-9", "--page", "12-"), {"page_ranges": [PageRange(first=3, last=9), PageRange(first=12)]}),
        (("--page-label", "iv"), {"page_labels": ["iv"]}),
        (("--section", "Service > Filters"), {"sections": ["Service > Filters"]}),
        (("--modality", "table"), {"modalities": [Modality.TABLE]}),
        (("--has-figure",), {"has_figure": True}),
        (("--no-figure",), {"has_figure": False}),
        (("--since", "2024-03"), {"since": DAY}),
        (("--until", DAY), {"until": DAY}),
        (("--language", "de"), {"languages": ["de"]}),
        (("--type", "manual"), {"doc_types": ["manual"]}),
        (("--phrase", "oil filter"), {"phrases": ["oil filter"]}),
    ],
)
def test_each_option_is_a_filter(arguments: tuple[str, ...], fields: dict[str, Any]) -> None:
    assert filters_of(*arguments) == (Filters(**fields) if fields else NO_FILTERS)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--pages", "9-3"), "--pages 9-3: write a page such as 3"),
        (("--modality", "song"), "--modality song: use one of figure, page, table, text"),
        (("--until", "May"), "--until May: write a day such as 2024-03-31, a month or a year"),
        (("--phrase", "?!"), "--phrase ?!: write at least one letter or digit"),
        (("--document", "x" * 1025), "filters: documents.0: "),
    ],
)
def test_a_mistake_is_a_line(arguments: tuple[str, ...], line: str) -> None:
    with pytest.raises(UserError, match=f"^{line.replace('?', '[?]')}"):
        filters_of(*arguments)


def test_no_two_filters_have_the_same_option() -> None:
    options = [option for field in Filters.model_fields.values() for option in field.metadata if isinstance(option, Option)]
    spellings = [spelling for option in options for spellings in option.spellings for spelling in spellings.split("/")]
    assert len(spellings) == len(set(spellings)) > 12
