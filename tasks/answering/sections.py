"""Find evidence by the table of contents: a generative model picks the sections that answer.

Source:
    The generative retriever of OMG-QA, "OMG-QA: Building Open-Domain Multi-Modal Generative Question Answering Systems".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

MOST_SECTIONS = 400
"""Maximum lines of the contents shown to a model: some 6,000 tokens."""


@dataclass(frozen=True, slots=True)
class ContentsRow:
    """The columns of a row that a table of contents needs."""

    evidence_id: str
    doc_id: str
    title: str
    section_path: tuple[str, ...]


@dataclass(slots=True)
class SectionEntry:
    """A document (depth 0) or one of its sections; ``rows`` are those directly in it, in reading order."""

    number: int
    path: tuple[str, ...]
    title: str
    rows: list[str] = field(default_factory=list)


def contents_of(rows: Iterable[ContentsRow]) -> list[SectionEntry]:
    """Return the contents of documents, numbered from 1, from their rows by document and in reading order."""
    entries: dict[tuple[str, ...], SectionEntry] = {}
    for row in rows:
        path = (row.doc_id, *row.section_path)
        for depth in range(1, len(path) + 1):
            if path[:depth] not in entries:
                title = path[depth - 1] if depth > 1 else row.title
                entries[path[:depth]] = SectionEntry(len(entries) + 1, path[:depth], title)
        entries[path].rows.append(row.evidence_id)
    return list(entries.values())


def printed(entries: Sequence[SectionEntry]) -> str:
    """Return the first ``MOST_SECTIONS`` entries as indented lines."""
    return "\n".join(
        f"{'  ' * (len(entry.path) - 1)}- {entry.title or 'untitled'} [{entry.number}]" for entry in entries[:MOST_SECTIONS]
    )


def rows_under(entries: Sequence[SectionEntry], numbers: Sequence[int]) -> list[str]:
    """Return the rows of chosen sections, in the order of choice and then in reading order, each once.

    A section is skipped if one inside it is chosen too.
    """
    paths_by_number = {entry.number: entry.path for entry in entries}
    paths = [paths_by_number[number] for number in numbers if number in paths_by_number]
    smallest = [
        path for path in paths if not any(_is_within(other_path, path) and other_path != path for other_path in paths)
    ]
    rows = (row for path in smallest for entry in entries if _is_within(entry.path, path) for row in entry.rows)
    return list(dict.fromkeys(rows))


def _is_within(path: tuple[str, ...], around: tuple[str, ...]) -> bool:
    return path[: len(around)] == around
