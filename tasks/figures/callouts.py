"""Link a figure's callouts (numbers that point into it) with its key: the list on its page that explains them."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from schemas.documents import Line
from schemas.geometry import BBox, distance, is_level, union

_CALLOUT = re.compile(r"[(\[]?(\d{1,2}|[A-Za-z])[)\].:]?")
_ITEM = re.compile(rf"\s*{_CALLOUT.pattern}(?:\s+\S|\s*$)")
FEWEST_CALLOUTS = 3
"""Minimum callouts of a figure: one or two letters may be a formula's."""
COVERED_SHARE = 0.6
"""Minimum share of the callouts that the list explains, and of the list's items that the callouts name: OCR misses a few."""


@dataclass(frozen=True, slots=True)
class CalloutKey:
    """A list whose items begin with consecutive numbers or letters; ``lines`` are its lines on the page."""

    names: frozenset[str]
    lines: tuple[Line, ...]

    @property
    def bbox(self) -> BBox:
        """The box around it."""
        return union(line.bbox for line in self.lines)


def callouts(words: Iterable[str]) -> frozenset[str]:
    """Return the numbers and letters that are alone on a line inside a figure; none if they may be a chart's axis."""
    names = frozenset(callout[1] for word in words if (callout := _CALLOUT.fullmatch(word.strip())))
    return names if len(names) >= FEWEST_CALLOUTS and not {"0", "00"} & names else frozenset()


def find_keys(lines: Sequence[Line]) -> list[CalloutKey]:
    """Return the lists of a page that may explain callouts: consecutive items from 1 or a, with their words."""
    keys: list[CalloutKey] = []
    names: list[str] = []
    key_lines: list[Line] = []
    for line in lines:
        list_item = _ITEM.match(line.text)
        name = list_item[1] if list_item else ""
        if name and (not names or name == _following(names[-1])):
            if not names:
                key_lines.clear()
            names.append(name)
        elif name in ("1", "a", "A"):
            keys.extend(_key(names, key_lines))
            names, key_lines = [name], []
        if names:
            key_lines.append(line)
    keys.extend(_key(names, key_lines))
    return keys


def _key(names: Sequence[str], key_lines: Sequence[Line]) -> list[CalloutKey]:
    """Return a list up to the end of its last item's block."""
    if len(names) < FEWEST_CALLOUTS:
        return []
    last = max(
        number for number, line in enumerate(key_lines) if (entry := _ITEM.match(line.text)) and entry[1] == names[-1]
    )
    block = key_lines[last].block
    end = next((number for number in range(last, len(key_lines)) if key_lines[number].block != block), len(key_lines))
    row = [line for line in key_lines[end:] if is_level(line.bbox, key_lines[last].bbox)] if end == last + 1 else []
    return [CalloutKey(frozenset(names), (*key_lines[:end], *row))]


def _following(name: str) -> str:
    return str(int(name) + 1) if name.isdecimal() else chr(ord(name) + 1)


def match_keys(figures: Mapping[int, tuple[BBox, Collection[str]]], keys: Sequence[CalloutKey]) -> dict[int, CalloutKey]:
    """Return each figure's key: each key goes to the figure whose callouts it covers best."""
    pairs = sorted(
        (-_share(names, key.names), distance(box, key.bbox), number, key_number)
        for number, (box, names) in figures.items()
        for key_number, key in enumerate(keys)
        if names and _share(names, key.names) >= COVERED_SHARE
    )
    keys_by_figure: dict[int, CalloutKey] = {}
    assigned: set[int] = set()
    for _, _, number, key_number in pairs:
        if number not in keys_by_figure and key_number not in assigned:
            keys_by_figure[number] = keys[key_number]
            assigned.add(key_number)
    return keys_by_figure


def _share(names: Collection[str], explained: frozenset[str]) -> float:
    common = len(explained.intersection(names))
    return min(common / len(set(names)), common / len(explained))
