"""Link the numbers that point into a figure, its callouts, with the list on its page that explains them: its key."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from schemas.documents import Line
from schemas.geometry import BBox, distance, is_level, union

_CALLOUT = re.compile(r"[(\[]?(\d{1,2}|[A-Za-z])[)\].:]?")
_ITEM = re.compile(rf"\s*{_CALLOUT.pattern}(?:\s+\S|\s*$)")
FEWEST_CALLOUTS = 3
"""Callouts that a figure has at least: one or two letters are as well a formula's."""
SPREAD_TIMES = 2
"""How many numbers there may be from the least callout to the greatest, for each that is found: page numbers spread wider."""
ITEM_LETTERS = 3
"""Letters that an item of a key has at least, on average: the ticks of an axis have none."""
COVERED_SHARE = 0.6
"""Share of the callouts that the list explains, and of the list that the callouts name: printing hides a few from OCR."""
AROUND_PT = 15.0
"""How far outside a picture its callouts stand."""


@dataclass(frozen=True, slots=True)
class Key:
    """A list whose items begin with numbers or letters in turn; ``lines`` are the page's lines that make it."""

    names: frozenset[str]
    lines: tuple[Line, ...]

    @property
    def bbox(self) -> BBox:
        """The box around it."""
        return union(line.bbox for line in self.lines)


def callouts(words: Iterable[str]) -> frozenset[str]:
    """Return the numbers and letters that stand alone among the words inside a figure; none where they are a chart's axis."""
    names = frozenset(found[1] for word in words if (found := _CALLOUT.fullmatch(word.strip())))
    numbers = [int(name) for name in names if name.isdecimal()]
    if len(names) < FEWEST_CALLOUTS or 0 in numbers:
        return frozenset()
    is_run = not numbers or max(numbers) - min(numbers) < SPREAD_TIMES * len(numbers)
    return names if is_run else frozenset()


def stray_callouts(picture: BBox, lines: Sequence[Line]) -> list[Line]:
    """Return the numbers and letters that stand on a picture or right beside it, with no text on their row.

    Args:
        picture: Its box.
        lines: Of the page, outside any figure.
    """
    around = picture.grown(AROUND_PT)
    near = [line for line in lines if _CALLOUT.fullmatch(line.text.strip()) and around.has_middle_of(line.bbox)]
    if len(near) < FEWEST_CALLOUTS:
        return []
    others = [line for line in lines if not _CALLOUT.fullmatch(line.text.strip())]
    stray = [
        line for line in near if picture.has_middle_of(line.bbox) or not any(is_level(line.bbox, o.bbox) for o in others)
    ]
    return stray if callouts(line.text for line in stray) else []


def find_keys(lines: Sequence[Line]) -> list[Key]:
    """Return the lists of a page that may explain callouts: items in turn, from 1 or a, each with its words.

    Args:
        lines: In reading order.
    """
    keys: list[Key] = []
    names: list[str] = []
    held: list[Line] = []
    for line in lines:
        found = _ITEM.match(line.text)
        name = found[1] if found else ""
        if name and (not names or name == _following(names[-1])):
            if not names:
                held.clear()
            names.append(name)
        elif name in ("1", "a", "A"):
            keys.extend(_key(names, held))
            names, held = [name], []
        if names:
            held.append(line)
    keys.extend(_key(names, held))
    return keys


def _key(names: Sequence[str], held: Sequence[Line]) -> list[Key]:
    """Return a list without what follows its last item, which ends with that item's block."""
    if len(names) < FEWEST_CALLOUTS:
        return []
    last = max(number for number, line in enumerate(held) if (found := _ITEM.match(line.text)) and found[1] == names[-1])
    block = held[last].block
    end = next((number for number in range(last, len(held)) if held[number].block != block), len(held))
    row = [line for line in held[end:] if is_level(line.bbox, held[last].bbox)] if end == last + 1 else []
    key = Key(frozenset(names), (*held[:end], *row))
    letters = sum(character.isalpha() for line in key.lines for character in line.text)
    return [key] if letters >= ITEM_LETTERS * len(names) else []


def _following(name: str) -> str:
    return str(int(name) + 1) if name.isdecimal() else chr(ord(name) + 1)


def explain(figures: Mapping[int, tuple[BBox, Collection[str]]], keys: Sequence[Key]) -> dict[int, Key]:
    """Give figures the keys that explain their callouts: each key to the figure whose callouts it names best.

    Args:
        figures: Box and callouts, by any number.
        keys: Of the same page.
    """
    pairs = sorted(
        (-_share(names, key.names), distance(box, key.bbox), number, place)
        for number, (box, names) in figures.items()
        for place, key in enumerate(keys)
        if names and _share(names, key.names) >= COVERED_SHARE
    )
    found: dict[int, Key] = {}
    taken: set[int] = set()
    for _, _, number, place in pairs:
        if number not in found and place not in taken:
            found[number] = keys[place]
            taken.add(place)
    return found


def _share(names: Collection[str], explained: frozenset[str]) -> float:
    both = len(explained.intersection(names))
    return min(both / len(set(names)), both / len(explained))
