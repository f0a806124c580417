"""Globs and page ranges become documents and pages."""

import random
from datetime import date
from fnmatch import fnmatchcase

import pytest

from schemas.filters import Filters, Modality, PageRange
from tasks.answering import narrow
from tasks.answering.narrow import NOTHING, both, resolve

SOURCES = {
    "d1": ["phones/a/one.pdf"],
    "d2": ["phones/a/two.pdf", "old/two.pdf"],
    "d3": ["phones/b/three.pdf"],
    "d4": ["pumps/four.pdf"],
}


@pytest.mark.parametrize(
    ("filters", "documents"),
    [
        (Filters(sources=["phones/**"]), ["d1", "d2", "d3"]),
        (Filters(sources=["phones/*"]), ["d1", "d2", "d3"]),  # as by_source has it: a star is any characters
        (Filters(sources=["*/t*.pdf"]), ["d2", "d3"]),
        (Filters(sources=["old/*", "pumps/fou?.pdf"]), ["d2", "d4"]),
        (Filters(sources=["phones/*"], documents=["two.pdf", "pumps/"]), ["d2"]),
        (Filters(sources=["*"]), []),  # all: nothing to narrow
        (Filters(sources=["*"], documents=["d3", "old/two.pdf"]), ["d2", "d3"]),
        (Filters(documents=["two.pdf"]), ["two.pdf"]),
    ],
)
def test_globs_become_documents(filters: Filters, documents: list[str]) -> None:
    resolved = resolve(filters, SOURCES, 10)
    assert (resolved.sources, resolved.documents) == ([], documents)


def test_what_is_left_of_a_glob_may_be_nothing_which_is_not_everything() -> None:
    assert resolve(Filters(sources=["pumps/*"], documents=["one.pdf"]), SOURCES, 10) == NOTHING
    assert resolve(Filters(sources=["Phones/*"]), SOURCES, 10) == NOTHING
    several = resolve(Filters(sources=["pumps/*", "Phones/*"]), SOURCES, 10)
    assert several == resolve(Filters(sources=["pumps/*"]), SOURCES, 10)


@pytest.mark.parametrize(
    ("filters", "pages"),
    [
        (Filters(page_ranges=[PageRange(first=3, last=5)]), [3, 4, 5]),
        (Filters(page_ranges=[PageRange(first=9)]), [9, 10]),
        (Filters(page_ranges=[PageRange(last=2), PageRange(first=2, last=2**31 - 1)]), list(range(1, 11))),
        (Filters(pages=[7], page_ranges=[PageRange(first=1, last=1)]), [1, 7]),
        (Filters(pages=[7], page_ranges=[PageRange(first=11)]), [7]),
        (Filters(pages=[3, *range(1, 1_000)]), [3, 1, 2, *range(4, 11)]),  # an engine takes its time for each
    ],
)
def test_ranges_become_pages_that_there_are(filters: Filters, pages: list[int]) -> None:
    resolved = resolve(filters, SOURCES, 10)
    assert (resolved.page_ranges, resolved.pages) == ([], pages)


def test_a_phrase_of_no_words_stands_everywhere() -> None:
    assert resolve(Filters(phrases=["?!", "oil filter", ""]), SOURCES, 10).phrases == ["oil filter"]


def test_pages_behind_the_last_one_are_nothing() -> None:
    for pages in (PageRange(first=11), PageRange(first=9, last=3)):
        assert resolve(Filters(page_ranges=[pages]), SOURCES, 10) == NOTHING
        assert resolve(Filters(pages=[12], page_ranges=[pages]), SOURCES, 10) == NOTHING
    assert resolve(Filters(pages=[12]), SOURCES, 10) == NOTHING


def test_what_is_named_twice_is_looked_for_once_and_languages_and_page_labels_in_any_case() -> None:
    filters = Filters(documents=["a", "b", "a"], phrases=["oil", "oil"], languages=["EN", "de"], page_labels=["iv", "IV"])
    expected = Filters(documents=["a", "b"], phrases=["oil"], languages=["en", "de"], page_labels=["iv"])
    assert resolve(filters, SOURCES, 10) == expected


def test_the_rest_stays_as_it_is() -> None:
    filters = Filters(sources=["pumps/*"], modalities=[Modality.TABLE], sections=["Service"], phrases=["a b"])
    assert resolve(filters, SOURCES, 10) == filters.model_copy(update={"sources": [], "documents": ["d4"]})


@pytest.mark.parametrize("glob", ["phones/**", "*/b/*", "*one.pdf", "phones/a/*"])
def test_many_documents_are_named_by_folders_that_hold_no_others(glob: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow, "LISTED", 0)
    drawn = random.Random(4)
    sources = {
        f"d{number}": [f"{top}/{drawn.choice('abc')}/{number}{drawn.choice(['', 'one'])}.pdf" for top in tops]
        for number, tops in enumerate(drawn.choices([["phones"], ["pumps"], ["pumps", "phones"]], k=60))
    }
    resolved = resolve(Filters(sources=[glob]), sources, 1).documents
    expected = {
        doc_id
        for doc_id, document_sources in sources.items()
        if any(fnmatchcase(source, glob) for source in document_sources)
    }
    below = {
        doc_id
        for doc_id, document_sources in sources.items()
        if doc_id in resolved
        or any(source.startswith(name) for name in resolved if name.endswith("/") for source in document_sources)
    }
    assert below == expected
    assert len(resolved) <= len(expected)


def test_a_folder_of_a_hundred_thousand_documents_is_one_name() -> None:
    sources = {
        f"d{number}": [f"{'phones' if number % 3 else 'pumps'}/{number % 50}/{number}.pdf"] for number in range(100_000)
    }
    assert resolve(Filters(sources=["phones/**"]), sources, 1).documents == ["phones/"]


@pytest.mark.parametrize(
    ("first_filters", "second_filters", "joined"),
    [
        (Filters(), Filters(pages=[3]), Filters(pages=[3])),
        (Filters(documents=[]), Filters(documents=["a"]), Filters(documents=["a"])),  # as a caller that always sends it
        (Filters(documents=["a", "b"]), Filters(documents=["c", "b"]), Filters(documents=["b"])),
        (Filters(documents=["a"]), Filters(documents=["b"]), None),
        (Filters(has_figure=True), Filters(has_figure=False), None),
        (Filters(has_figure=False), Filters(), Filters(has_figure=False)),
        (Filters(since=date(2024, 1, 1)), Filters(since=date(2023, 1, 1)), Filters(since=date(2024, 1, 1))),
        (
            Filters(until=date(2024, 1, 1)),
            Filters(until=date(2023, 1, 1), since=date(2022, 1, 1)),
            Filters(until=date(2023, 1, 1), since=date(2022, 1, 1)),
        ),
        (Filters(pages=[1]), NOTHING, Filters(pages=[1], evidence_ids=NOTHING.evidence_ids)),
        (Filters(evidence_ids=["a"]), NOTHING, None),
    ],
)
def test_both_let_through(first_filters: Filters, second_filters: Filters, joined: Filters | None) -> None:
    assert both(first_filters, second_filters) == both(second_filters, first_filters) == joined
