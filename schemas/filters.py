"""Filters of a search: the one table of them, which engines, the HTTP API, the command line and the web page read."""

import contextlib
import datetime
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StringConstraints

from schemas.access import Allowed
from schemas.base import Frozen
from schemas.text import folded


class Modality(StrEnum):
    """The kinds of rows."""

    TEXT = "text"
    TABLE = "table"
    FIGURE = "figure"
    PAGE = "page"


MAX_PAGE = 2**31 - 1
"""The largest page number of an index."""


PageNumber = Annotated[int, Field(strict=True, ge=1, le=MAX_PAGE)]


def _day(raw_date: object) -> object:
    """Refuse numbers, which pydantic reads as seconds since 1970."""
    if isinstance(raw_date, str) and not _DAY.fullmatch(raw_date):
        raise ValueError("input should be a valid date, such as 2024-03-31")
    if isinstance(raw_date, int | float):
        raise ValueError("input should be a valid date in quotes, such as 2024-03-31")
    return raw_date


_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

Day = Annotated[datetime.date, BeforeValidator(_day)]


_AS_SENT = ConfigDict(json_schema_serialization_defaults_required=False)
"""Clients send filters, and leave out what they don't need, so one schema says both."""


class PageRange(Frozen):
    """An inclusive range of pages; empty if ``last`` is before ``first``."""

    model_config = _AS_SENT

    first: PageNumber = 1
    last: PageNumber | None = Field(None, description="null: to the end of the document.")


ACCESS = "access"
"""The column of an index with the principals that might read a row's document when the row was written."""

SUPERSEDED = "superseded"
"""The column of an index that says whether a newer revision replaces a row's document."""

MOST_NAMED = 1_000
"""Maximum documents, pages or rows that a filter lists, as many as engines compare in some 40 ms."""

MOST_WORDED = 50
"""Maximum sections, languages, document types or page ranges of a filter."""

MOST_GLOBS = 20
"""Maximum globs or phrases of a filter: each is compared with every source, or with thousands of texts."""

_Name = Annotated[str, AfterValidator(str)]
"""A string that may have a lone surrogate, as names of files that are not UTF-8 have: pydantic's own check refuses them."""

SourceName = Annotated[_Name, Field(max_length=1024)]
Glob = Annotated[_Name, Field(max_length=256)]
SectionName = Annotated[_Name, Field(max_length=500)]
PageLabel = Annotated[_Name, Field(max_length=100)]
DocumentType = Annotated[_Name, Field(max_length=500)]
LanguageCode = Annotated[_Name, Field(max_length=35)]
Phrase = Annotated[_Name, Field(max_length=500)]
EvidenceId = Annotated[_Name, Field(max_length=64)]


FieldName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
FieldType = Literal["keyword", "keywords", "number", "date", "boolean"]
Comparison = Literal[">=", "<=", ">", "<"]
_Word = Annotated[_Name, Field(max_length=500)]
_Number = Annotated[float, Field(allow_inf_nan=False)]
FieldTest = (
    bool
    | _Number
    | _Word
    | Annotated[list[_Word | _Number], Field(min_length=1, max_length=MOST_WORDED)]
    | Annotated[dict[Comparison, _Word | _Number], Field(min_length=1)]
)
"""What a field must be: a value, one of several, or within bounds."""

_COMPARED = re.compile(r"([a-z][a-z0-9_]*)\s*(>=|<=|>|<|=)\s*(.+)", re.DOTALL)


def field_column(name: str) -> str:
    """Return the column of an index with a field of one's own."""
    return f"field_{name}"


def where_of(texts: Iterable[str]) -> dict[str, Any]:
    """Return the conditions that texts such as ``product=PX-4`` and ``revision>=7`` say; equal names mean any of the values.

    Raises ``ValueError`` with what to write.
    """
    tests: dict[str, Any] = {}
    for text in texts:
        match = _COMPARED.fullmatch(text.strip())
        if match is None:
            raise ValueError("write a field and a value, such as product=PX-4 or revision>=7")
        name, comparison, value = match.groups()
        if comparison == "=":
            tests[name] = [*(tests[name] if isinstance(tests.get(name), list) else []), value.strip()]
        else:
            tests[name] = (tests[name] if isinstance(tests.get(name), dict) else {}) | {comparison: value.strip()}
    return tests


@dataclass(frozen=True)
class Condition:
    """How engines compare a filter with a column of the index; ``by`` turns each value into one that the column has.

    ``any``: the column has one of the values; ``shares``: its list has one of them; ``is``: it has the value; a comparison: it
    isn't null, and on that side of the value; ``valid``: it is false, or the row's document is one of the
    value; ``allows``: its list, or the row's document, is in an
    ``Allowed``.
    """

    column: str
    holds: Literal["any", "shares", "is", "valid", "allows"] | Comparison
    by: Callable[[Any], Any] = lambda value: value


@dataclass(frozen=True)
class Option:
    """How the command line spells a filter, ``--x/--no-x`` for true and false; ``parse`` raises ValueError with what to write."""

    spellings: tuple[str, ...]
    help: str
    parse: Callable[[str], Any] = str


@dataclass(frozen=True)
class Input:
    """How the web page asks for a filter, which its address calls ``parameter``.

    ``shown_as`` has {} where the value stands; ``label`` is "" if the page sets it elsewhere; of a ``choice`` and a ``language``
    the overview of a corpus counts the documents; ``title`` is shown beside the pointer.
    """

    parameter: str
    shown_as: str
    label: str = ""
    kind: Literal["text", "file", "pages", "figures", "day", "language", "choice", "fields", "superseded"] = "text"
    hint: str = ""
    title: str = ""


def _page_range(text: str) -> PageRange:
    first, dash, last = (part.strip() for part in text.partition("-"))
    try:
        pages = PageRange(first=int(first), last=int(last or first) if last or not dash else None)
    except ValueError:
        pages = None
    if pages is None or (pages.last is not None and pages.last < pages.first):
        raise ValueError("write a page such as 3, or pages such as 3-9 or 12-, counted from 1")
    return pages


def _modality(text: str) -> Modality:
    if text not in set(Modality):
        raise ValueError(f"use one of {', '.join(sorted(Modality))}")
    return Modality(text)


def _phrase(text: str) -> str:
    if not any(map(str.isalnum, text)):
        raise ValueError("write at least one letter or digit")
    return text


def _first_day(text: str) -> datetime.date:
    for date_format in ("%Y-%m-%d", "%Y-%m", "%Y"):
        with contextlib.suppress(ValueError):
            return datetime.datetime.strptime(text, date_format).date()
    raise ValueError("write a day such as 2024-03-31, a month or a year")


_DATED = "By the date in the PDF; documents without one are left out"


class Filters(Frozen):
    """Filters of a search, combined by AND. Empty and null ones are ignored."""

    # A filter that engines apply has its condition; tasks.answering.narrow resolves the others into those.
    model_config = _AS_SENT

    documents: Annotated[
        list[SourceName],
        Condition("filter_names", "shares"),
        Option(("--document",), "Only this document: id, source or file name."),
        Input("document", "Only {}", kind="file"),
    ] = Field([], max_length=MOST_NAMED, description="Document ids, sources, or file names of sources.")
    sources: Annotated[
        list[Glob],
        Option(("--source",), "Only sources that match this glob, such as 'phones/**'."),
        Input("source", "Only {}"),
    ] = Field(
        [],
        max_length=MOST_GLOBS,
        description="Globs of sources, such as phones/**: * is any characters, / among them, ? one, [ab] one of those; "
        "upper and lower case differ.",
    )
    pages: Annotated[list[PageNumber], Condition("filter_pages", "shares")] = Field(
        [], max_length=MOST_NAMED, description="Pages of those documents, counted from 1, whatever is printed on them."
    )
    page_ranges: Annotated[
        list[PageRange],
        Option(("--pages", "--page"), "Only these pages, as the PDF counts them: 3, 3-9 or 12-.", _page_range),
        Input(
            "pages", "{}", "Pages", "pages", "3-9", "A page such as 3, or pages such as 3-9 or 12-, as the PDF counts them"
        ),
    ] = Field([], max_length=MOST_WORDED, description="More pages of those documents.")
    page_labels: Annotated[
        list[PageLabel],
        Condition("filter_labels", "shares"),
        Option(("--page-label",), "Only the page on which this is printed, or that the PDF calls so: iv, A-12."),
        Input(
            "label", "Printed page {}", "Printed page", hint="iv", title="What is printed on a page, such as iv, 12 or A-3"
        ),
    ] = Field(
        [],
        max_length=MOST_WORDED,
        description="Pages by what is printed on them, such as iv or A-12, in any case; a page without a label by its number. "
        "Combined with pages by AND.",
    )
    sections: Annotated[
        list[SectionName],
        Condition("filter_sections", "shares", folded),
        Option(("--section",), "Only this section: its title, or its path such as 'Service > Filters'."),
        Input("section", "Section {}", "Section", hint="Maintenance", title="A title, or a path such as Service > Filters"),
    ] = Field(
        [],
        max_length=MOST_WORDED,
        description="Sections with all below them, by title (Maintenance) or by their path from the top (Service > Filters); "
        "case and a title's number don't matter.",
    )
    modalities: Annotated[
        list[Modality],
        Condition("modality", "any", str),
        Option(("--modality",), "Only text, table, figure or page.", _modality),
    ] = Field(
        [],
        max_length=len(Modality),
        description="text, table, figure, page. Rows of pages repeat what others say: if none is named, modes that look "
        "at words leave them out.",
    )
    has_figure: Annotated[
        bool | None,
        Condition("filter_figures", "is"),
        Option(("--has-figure/--no-figure",), "Only hits with a figure, or without."),
        Input("figures", "{}", "Figures", "figures"),
    ] = Field(
        None, strict=True, description="true: rows that are a figure, or show or mention one; false: rows that don't."
    )
    since: Annotated[
        Day | None,
        Condition("date", ">=", str),
        Option(("--since",), "Only PDFs whose metadata says changed, or else made, that day or later.", _first_day),
        Input("since", "From {}", "Dated from", "day", title=_DATED),
    ] = Field(
        None,
        description="Documents of that day or later, by the date in the PDF: when it was changed last, or else made. Those "
        "without a date are left out.",
    )
    until: Annotated[
        Day | None,
        Condition("date", "<=", str),
        Option(("--until",), "Only PDFs of that day or earlier.", _first_day),
        Input("until", "To {}", "to", "day", title=_DATED),
    ] = Field(None, description="Documents of that day or earlier, in the same way.")
    languages: Annotated[
        list[LanguageCode],
        Condition("language", "any"),
        Option(("--language",), "Only documents in this language: en, de."),
        Input("language", "{}", "Language", "language"),
    ] = Field([], max_length=MOST_WORDED, description="Documents in these languages, in ISO 639-1: en, de.")
    doc_types: Annotated[
        list[DocumentType],
        Condition("doc_type", "any"),
        Option(("--type",), "Only documents of this type, by doc_types of the corpus file."),
        Input("type", "Only {}", "Type of document", "choice"),
    ] = Field(
        [],
        max_length=MOST_WORDED,
        description="Documents of these types, as doc_types of the corpus file names them: manual.",
    )
    phrases: Annotated[
        list[Phrase],
        Option(("--phrase",), "Only hits with this exact phrase.", _phrase),
        Input("phrase", "“{}”", "Exact phrase", hint="oil filter"),
    ] = Field(
        [],
        max_length=MOST_GLOBS,
        description="Rows whose text has each of these phrases, word for word; case, punctuation and white space don't matter.",
    )
    evidence_ids: Annotated[list[EvidenceId], Condition("evidence_id", "any")] = Field(
        [], max_length=MOST_NAMED, description="Rows, by id."
    )

    where: Annotated[
        dict[FieldName, FieldTest],
        Option(("--where",), "Only documents with this field of the corpus: product=PX-4, revision>=7; repeat for more."),
        Input("where", "{}", kind="fields"),
    ] = Field(
        {},
        max_length=MOST_GLOBS,
        description="Fields of the corpus's own, by name: a value, a list of which one fits, or bounds such as "
        '{">=": 7}; dates such as 2024-03-31.',
        json_schema_extra={"additionalProperties": False},
    )
    superseded: Annotated[
        Literal["exclude", "include"] | None,
        Condition(SUPERSEDED, "valid", lambda _: ()),
        Option(("--superseded",), "include: also documents that a newer revision replaces."),
        Input("superseded", "With superseded documents", "Superseded documents", "superseded"),
    ] = Field(
        None,
        description="include: also documents that a newer revision replaces, by supersedes of the corpus file. By default they "
        "are left out, unless documents, rows or the revision are named.",
    )

    def __hash__(self) -> int:
        """Filters are keys of caches."""
        return hash(repr(self))

    def conditions(self) -> Iterator[tuple[Condition, Any]]:
        """Yield the conditions of the filters that narrow a search, each with its value, or its values."""
        for name, field in type(self).model_fields.items():
            setting = getattr(self, name)
            for condition in field.metadata:
                if isinstance(condition, Condition) and setting is not None and setting != []:
                    yield (condition, [*map(condition.by, setting)] if isinstance(setting, list) else condition.by(setting))
        for name, test in self.where.items():
            yield from _conditions_of(field_column(name), test)


def _conditions_of(column: str, test: FieldTest) -> Iterator[tuple[Condition, Any]]:
    """Yield the conditions of a resolved test: texts are of columns with lists."""
    if isinstance(test, dict):
        yield from ((Condition(column, comparison), bound) for comparison, bound in test.items())
    elif isinstance(test, list):
        yield Condition(column, "shares" if isinstance(test[0], str) else "any"), test
    else:
        yield Condition(column, "is"), test


NO_FILTERS = Filters()


class ReaderFilters(Filters):
    """Resolved filters that also leave out what a reader may not see. Requests never hold them."""

    allowed: Annotated[Allowed, Condition(ACCESS, "allows")]
    valid: Annotated[tuple[str, ...] | None, Condition(SUPERSEDED, "valid")] = None

    @classmethod
    def of(cls, filters: Filters, allowed: Allowed, valid: Sequence[str] = ()) -> "ReaderFilters":
        """Return filters narrowed to what a reader may see.

        ``valid`` are superseded documents of whose newer revisions the reader may see none, so that they are valid for it.
        """
        fields = dict(filters)
        if valid and filters.superseded is not None:
            fields |= {"superseded": None, "valid": tuple(valid)}
        return cls.model_construct(**fields, allowed=allowed)


def inputs() -> list[dict[str, Any]]:
    """Return what the web page asks for: the fields of each ``Input``, the filter's name, and whether it takes several values."""
    return [
        {"name": name, "several": field.default in ([], {}), **asdict(how)}
        for name, field in Filters.model_fields.items()
        for how in field.metadata
        if isinstance(how, Input)
    ]
