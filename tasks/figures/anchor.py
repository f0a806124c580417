"""Link pictures with the captions, by position, and with the keys of callouts, which explain them."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from schemas.documents import LayoutLabel, Line, is_same_size
from schemas.geometry import BBox, distance, is_level, union
from schemas.text import LabelKind, caption_label

NEAR_PT = 60.0
"""Maximum distance from a caption to the nearest part of its picture, from its side to a part beside it, and between parts."""
GRAZE_PT = 3.0
"""Tolerated overlap of a part with its caption, and of other text with the path between them."""
LONG_LINE_CHARACTERS = 45
"""Minimum length of a line of a paragraph. Of 2,191 pages 55 change at 30 (labels of diagrams become paragraphs), 33 at 68
(paragraphs of narrow columns become labels).
"""
FEWEST_BLOCK_LINES = 3
"""Minimum lines of a paragraph of shorter lines."""
BLOCK_LINE_CHARACTERS = 25
"""Minimum average length of the lines of such a paragraph."""
_WORD = re.compile(r"[^\W\d_]{2}")
_OF_TEXT = frozenset({LayoutLabel.ITEM, LayoutLabel.HEADING, LayoutLabel.TITLE, LayoutLabel.FOOTNOTE})
"""What a layout model calls no label of a drawing."""


def anchor(
    captions: Sequence[BBox], parts: Sequence[BBox], barriers: Sequence[BBox], *, showing: Sequence[bool] | None = None
) -> dict[int, tuple[int, ...]]:
    """Assign to each caption the parts above it or below it.

    A document has its captions on one side of its figures: the side on which more captions find a figure, and nearer ones, goes
    first; captions left without one try the other.

    Args:
        captions: Boxes of captions.
        parts: Boxes of pictures and pieces of pictures.
        barriers: Boxes of running text, which no figure crosses.
        showing: Whether a part is a picture by itself; a caption needs one such part. Default: all are.

    Returns:
        Indices of ``parts`` by index of caption, the nearest first. Captions without parts are left out.
    """
    showing = showing or [True] * len(parts)
    sides = {above: _assigned(captions, parts, barriers, above=above) for above in (True, False)}
    shown_parts = {
        above: {number: members for number, members in choice.items() if any(showing[index] for index in members)}
        for above, choice in sides.items()
    }
    first = _rank(captions, parts, shown_parts[True]) <= _rank(captions, parts, shown_parts[False])
    parts_by_caption: dict[int, tuple[int, ...]] = {}
    assigned: set[int] = set()
    for above in (first, not first):
        for number, members in sorted(shown_parts[above].items()):
            # The second side may name a part that a caption of the first side has already.
            free = tuple(index for index in members if index not in assigned)
            if number not in parts_by_caption and any(showing[index] for index in free):
                parts_by_caption[number] = free
                assigned.update(free)
    return parts_by_caption


def running_text(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of paragraphs: blocks with a long line, or with several lines of some length. Labels are neither.

    A drawing beside a paragraph may have labels without a word, such as R1, in the paragraph's block.
    """
    blocks: dict[tuple[int, int], list[Line]] = {}
    for line in lines:
        blocks.setdefault((line.page, line.block), []).append(line)
    body: list[Line] = []
    for block in blocks.values():
        if block[0].label in _OF_TEXT:
            body.extend(block)
            continue
        lengths = [len(line.text.strip()) for line in block]
        if max(lengths) >= LONG_LINE_CHARACTERS:
            body += [line for line in block if _WORD.search(line.text)]
        elif len(block) >= FEWEST_BLOCK_LINES and sum(lengths) / len(block) >= BLOCK_LINE_CHARACTERS:
            body.extend(block)
    return body


def caption_lines(lines: Sequence[Line], kind: LabelKind) -> list[Line]:
    """Return the lines that begin a caption: at the head of their block, or set off from the line before."""
    first_lines: list[Line] = []
    previous: Line | None = None
    for line in lines:
        label = caption_label(line.text)
        if label is not None and label.kind is kind and is_set_off(line, previous):
            first_lines.append(line)
        previous = line
    return first_lines


def whole_caption(first: Line, lines: Sequence[Line]) -> list[Line]:
    """Return a caption's lines, given its first one and the lines of its page."""
    caption = [first]
    for line in lines[lines.index(first) + 1 :]:
        if is_set_off(line, caption[-1]):
            break
        caption.append(line)
    return caption


def is_set_off(line: Line, previous: Line | None) -> bool:
    """Return whether a line is set off from the one before, so that it doesn't continue a sentence."""
    if previous is None or previous.block != line.block or line.bbox.x0 > previous.bbox.x1:
        return True
    return not is_same_size(previous.size, line.size) or (line.bold and not previous.bold)


def _rank(captions: Sequence[BBox], parts: Sequence[BBox], choice: dict[int, tuple[int, ...]]) -> tuple[int, float]:
    gaps = [max(0.0, captions[number].gap_y(parts[members[0]])) for number, members in choice.items()]
    return len(captions) - len(gaps), sum(gaps)


def _assigned(
    captions: Sequence[BBox], parts: Sequence[BBox], barriers: Sequence[BBox], *, above: bool
) -> dict[int, tuple[int, ...]]:
    """Assign each part to the nearest caption below it (or above it) with no running text in between."""
    choice: dict[int, list[int]] = {}
    for index, part in enumerate(parts):
        costs: list[tuple[float, int]] = []
        for number, caption in enumerate(captions):
            down = caption.y0 - part.y1 if above else part.y0 - caption.y1
            across = max(0.0, part.gap_x(caption))
            # Captions are barriers, too: a part beyond another caption belongs to that one.
            if (
                down >= -GRAZE_PT
                and across <= NEAR_PT
                and not _are_separated(part, caption, (*captions, *barriers), above=above)
            ):
                costs.append((max(0.0, down) + across, number))
        if costs:
            choice.setdefault(min(costs)[1], []).append(index)
    connected = {number: _connected(captions[number], members, parts) for number, members in choice.items()}
    return {number: members for number, members in connected.items() if members}


def _are_separated(part: BBox, caption: BBox, barriers: Sequence[BBox], *, above: bool) -> bool:
    """Return whether something lies in the path from a part to a caption."""
    top, bottom = (part.y1, caption.y0) if above else (caption.y1, part.y0)
    path_x0, path_x1 = max(part.x0, caption.x0), min(part.x1, caption.x1)
    # Without a width in common, as of a part diagonally below its caption, the path spans both.
    if path_x1 <= path_x0:
        path_x0, path_x1 = min(part.x0, caption.x0), max(part.x1, caption.x1)
    # A box that only grazes the path is beside it.
    path = BBox(path_x0 + GRAZE_PT, top - GRAZE_PT, path_x1 - GRAZE_PT, bottom + GRAZE_PT)
    return any(
        box is not caption and box.y0 > path.y0 and box.y1 < path.y1 and box.x0 < path.x1 and box.x1 > path.x0
        for box in barriers
    )


def _connected(caption: BBox, members: Sequence[int], parts: Sequence[BBox]) -> tuple[int, ...]:
    """Keep the parts that are connected with the one nearest to the caption."""
    todo = sorted(members, key=lambda index: distance(parts[index], caption))
    connected: list[int] = []
    box = caption
    for index in todo:
        # The caption counts for the nearest part only: each further one must be near the parts so far.
        if distance(parts[index], box) <= NEAR_PT:
            box = box | parts[index] if connected else parts[index]
            connected.append(index)
        elif not connected:
            break
    return tuple(connected)


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
    # `names` are the items of the list so far; `key_lines` are all lines since its first item, wrapped ones included.
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
            # Items counted from the first again are another list; any other item out of turn is a line of this one.
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
    # A number alone in its block has its words in the next one, on the same row.
    row = [line for line in key_lines[end:] if is_level(line.bbox, key_lines[last].bbox)] if end == last + 1 else []
    return [CalloutKey(frozenset(names), (*key_lines[:end], *row))]


def _following(name: str) -> str:
    return str(int(name) + 1) if name.isdecimal() else chr(ord(name) + 1)


def match_keys(figures: Mapping[int, tuple[BBox, Collection[str]]], keys: Sequence[CalloutKey]) -> dict[int, CalloutKey]:
    """Return each figure's key: each key goes to the figure whose callouts it covers best."""
    # The best cover is taken first; of keys that cover a figure equally well, the nearer one.
    pairs = sorted(
        (-_share(names, key.names), distance(box, key.bbox), number, key_number)
        for number, (box, names) in figures.items()
        for key_number, key in enumerate(keys)
        if _share(names, key.names) >= COVERED_SHARE
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
