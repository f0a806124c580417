"""Corrections: descriptions by people, read from text and matched with figures, pages and texts."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import yaml

from schemas.ids import key
from schemas.tags import TagTemplate

_LEAST_ID_DIGITS = 8
_ID_DIGITS = 64
_SHA1_DIGITS = 49
_ID = re.compile(rf"[0-9a-f]{{{_LEAST_ID_DIGITS},{_ID_DIGITS}}}")
_NUMBER = re.compile(rf"[0-9]{{4,{_SHA1_DIGITS}}}")
_MOST_CHARACTERS = 20_000
_MOST_MISTAKES = 10

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class CorrectionsError(ValueError):
    """A file of corrections is invalid; the arguments are its mistakes, a line each."""


@dataclass(frozen=True, slots=True)
class Correction:
    """A person's description of a figure: its id, a prefix of that, or its tag's number; ``line`` counts from 1."""

    figure: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Corrections:
    """A file of corrections, in its order; no two name a figure alike."""

    entries: tuple[Correction, ...] = ()

    @property
    def texts(self) -> dict[str, str]:
        """The descriptions by how the figures are named."""
        return {entry.figure: entry.text for entry in self.entries}

    @property
    def digest(self) -> str:
        """A digest that is independent of order."""
        return key(corrections=self.texts)


def parse_corrections(text: str, template: TagTemplate) -> Corrections:
    """Read corrections from a YAML mapping.

    Raises ``CorrectionsError`` if it isn't one, or a line names no figure, or one twice, or has no description.
    """
    text = text.removeprefix("\ufeff")
    corrections_by_figure: dict[str, Correction] = {}
    mistakes: list[str] = []
    for name, description, line in _from_yaml(text):
        try:
            entry = Correction(_named(name, template), _described(description), line)
            if (earlier := corrections_by_figure.setdefault(entry.figure, entry)) is not entry:
                raise CorrectionsError(f"figure {name.strip()} stands in line {earlier.line} already")
        except CorrectionsError as mistake:
            mistakes.append(f"line {line}: {mistake}")
    if mistakes:
        remaining_note = [f"{len(mistakes) - _MOST_MISTAKES} more mistakes"] if len(mistakes) > _MOST_MISTAKES else []
        raise CorrectionsError(*mistakes[:_MOST_MISTAKES], *remaining_note)
    return Corrections(tuple(corrections_by_figure.values()))


def match_corrections(corrections: Corrections, describable: Iterable[tuple[str, int | None]]) -> dict[str, str]:
    """Return descriptions by id: corrections matched with ids, perhaps repeated, of figures, pages and texts.

    Raises ``CorrectionsError`` if a name is ambiguous, or two names of one figure have different descriptions.
    """
    entries = {entry.figure: entry for entry in corrections.entries}
    # Names have few lengths: an id is looked up by its beginnings and ends of these, not compared with each name.
    beginnings = {len(name) for name in entries if _ID.fullmatch(name)}
    ends = {len(name) for name in entries if _NUMBER.fullmatch(name)}
    fitting: dict[str, dict[str, None]] = {}
    for describable_id, digest in describable:
        names = {describable_id[:size] for size in beginnings}
        if digest is not None:
            number = f"{digest:0{_SHA1_DIGITS}d}"
            names |= {number[-size:] for size in ends}
        for name in names & entries.keys():
            fitting.setdefault(name, {})[describable_id] = None
    by_id: dict[str, Correction] = {}
    mistakes: list[str] = []
    for name, matching_ids in sorted(fitting.items(), key=lambda item: entries[item[0]].line):
        entry, ids = entries[name], [*matching_ids]
        if len(ids) > 1:
            some = ", ".join(sorted(ids)[:3]) + (" and others" if len(ids) > 3 else "")
            mistakes.append(
                f"line {entry.line}: {name} may be any of {len(ids)} figures, pages or texts; write more of its id: {some}"
            )
            continue
        earlier = by_id.setdefault(ids[0], entry)
        if earlier.text != entry.text:
            mistakes.append(
                f"line {entry.line}: this is what line {earlier.line} names, with other words; leave one of them"
            )
    if mistakes:
        raise CorrectionsError(*mistakes[:_MOST_MISTAKES])
    return {describable_id: entry.text for describable_id, entry in by_id.items()}


def _named(name: str, template: TagTemplate) -> str:
    """Return a figure's name normalised: an id in lower case, or the digits of a number."""
    name = name.strip()
    if numbers := template.numbers(name):
        return numbers[0]
    if _NUMBER.fullmatch(name) or _ID.fullmatch(name.lower()):
        return name.lower()
    raise CorrectionsError(
        f"{name[:60]!r} names no figure; write its id, hexadecimal digits, {_LEAST_ID_DIGITS} or more from the first on, or the "
        f"number in its tag"
    )


def _described(text: str) -> str:
    words = " ".join(text.split())
    if not words:
        raise CorrectionsError("there is no description; write one, or leave the figure out")
    if len(words) > _MOST_CHARACTERS:
        raise CorrectionsError(
            f"the description has more than {_MOST_CHARACTERS:,} characters; is a quotation mark missing?"
        )
    return words


def _from_yaml(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield the entries of a YAML mapping as strings: 00012345 isn't a number."""
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        position = f"line {mark.line + 1}: " if mark else ""
        problem = str(getattr(error, "problem", None) or error).partition("\n")[0]
        raise CorrectionsError(f"{position}this is not YAML: {problem}") from error
    finally:
        loader.dispose()
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        raise CorrectionsError("this isn't a mapping; write a line a figure, such as 3f2a9c01: The pump from the side")
    for name, value in root.value:
        line = name.start_mark.line + 1
        if not isinstance(name, yaml.ScalarNode) or not isinstance(value, yaml.ScalarNode):
            raise CorrectionsError(f"line {line}: write a figure, a colon and its description, and nothing below that")
        yield name.value, "" if value.tag.endswith(":null") else value.value, line
