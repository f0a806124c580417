"""Resolve filters into what every engine can compare: documents, pages and rows."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fnmatch import translate
from typing import TypeVar

from schemas.evidence import NO_FILTERS, Filters
from schemas.retrieval import Retriever, Steps
from schemas.words import folded

LISTED = 1_000
"""Maximum number of documents listed by name: each costs an engine 10 to 40 µs a search."""

NOTHING = Filters(evidence_ids=["none"])
"""Filters that match no row of any version."""

Plan = TypeVar("Plan", bound=Steps)

_Sources = Mapping[str, Sequence[str]]


def resolve(filters: Filters, sources: _Sources, longest: int) -> Filters:
    """Return equivalent filters without globs and page ranges; ``NOTHING`` if they match no row.

    ``sources`` are those of each document, by its id; ``longest`` is the number of pages of the longest one.
    """
    # A phrase of no words stands everywhere.
    changes: dict[str, object] = {
        "phrases": list(dict.fromkeys(phrase for phrase in filters.phrases if folded(phrase))),
        "documents": list(dict.fromkeys(filters.documents)),
        "languages": [language.lower() for language in filters.languages],
        "page_labels": list(dict.fromkeys(label.casefold() for label in filters.page_labels)),
    }
    there = [page for page in dict.fromkeys(filters.pages) if page <= longest]
    if filters.pages and not (there or filters.page_ranges):
        return NOTHING
    changes["pages"] = there
    if filters.sources:
        found = _fitting(filters.sources, sources)
        if filters.documents:
            wanted = set(filters.documents)
            found = {doc_id for doc_id in found if not wanted.isdisjoint(names_of(doc_id, sources[doc_id]))}
        if not found:
            return NOTHING
        names = [] if len(found) == len(sources) else sorted(found)
        changes |= {"sources": [], "documents": _gathered(found, sources) if len(names) > LISTED else names}
    if filters.page_ranges:
        pages = {*there}
        for pages_wanted in filters.page_ranges:
            pages.update(range(pages_wanted.first, min(pages_wanted.last or longest, longest) + 1))
        if not pages:
            return NOTHING
        changes |= {"page_ranges": [], "pages": sorted(pages)}
    return filters.model_copy(update=changes)


def both(one: Filters, other: Filters) -> Filters | None:
    """Return the intersection of two resolved filters; None if it is empty."""
    joined: dict[str, object] = {}
    for name in Filters.model_fields:
        here, there = getattr(one, name), getattr(other, name)
        match name:
            case "since":
                joined[name] = max(filter(None, (here, there)), default=None)
            case "until":
                joined[name] = min(filter(None, (here, there)), default=None)
            case _ if here == there or not _narrows(there):
                joined[name] = here
            case _ if not _narrows(here):
                joined[name] = there
            case "has_figure":
                return None
            case _:
                joined[name] = [value for value in here if value in there]
                if not joined[name]:
                    return None
    return one.model_copy(update=joined)


def with_filters(plan: Plan, resolved: Callable[[Filters], Filters]) -> Plan:
    """Return a plan with the filters of its steps replaced by ``resolved`` of them."""

    def narrowed(retriever: Retriever) -> Retriever:
        filters = retriever.filters
        return retriever if filters == NO_FILTERS else retriever.model_copy(update={"filters": resolved(filters)})

    changes: dict[str, object] = {"retrieve": [narrowed(retriever) for retriever in plan.retrieve]}
    if plan.documents is not None:
        changes["documents"] = plan.documents.model_copy(update={"by": narrowed(plan.documents.by)})
    return plan.model_copy(update=changes)


def _narrows(value: object) -> bool:
    return value is not None and value != []


def _fitting(globs: Sequence[str], sources: _Sources) -> set[str]:
    found: set[str] = set()
    for glob in globs:
        fits = re.compile(translate(glob)).match
        found |= {doc_id for doc_id, named in sources.items() if any(map(fits, named))}
    return found


def names_of(doc_id: str, sources: Sequence[str]) -> Iterator[str]:
    """Yield the names of a document: its id, its sources, and their file names."""
    yield doc_id
    for source in sources:
        yield source
        yield source.rpartition("/")[2]
        yield from _folders(source)


def _gathered(found: Collection[str], sources: _Sources) -> list[str]:
    """Name many documents briefly: by the outermost folders that hold no others, else by id."""
    mixed = {
        folder
        for doc_id, named in sources.items()
        if doc_id not in found
        for source in named
        for folder in _folders(source)
    }
    return sorted(
        {
            next((folder for source in sources[doc_id] for folder in _folders(source) if folder not in mixed), doc_id)
            for doc_id in found
        }
    )


def _folders(source: str) -> Iterator[str]:
    """Yield the folders around a source, outermost first, each with a final slash."""
    for place, character in enumerate(source):
        if character == "/":
            yield source[: place + 1]
