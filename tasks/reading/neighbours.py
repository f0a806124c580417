"""Check whether each picture without a caption is read with text beside it on the page.

This checks the outcome only: the picture's position in reading order, and the text around it on the page.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from schemas.documents import Block, BlockKind, Page, PlacedFigure
from schemas.gates import EXAMPLES, FEWEST_PICTURES, PICTURES_BY_TEXT, Bounds, GateResult
from schemas.geometry import BBox, gap, is_level
from tasks.reading.picture_places import OWN_COLUMN_PT, TOUCH_PT, shares_column
from tasks.tables.rows import upright

_SIDE_PT = 200.0
"""Maximum distance of text beside a picture that it may be read with: rows of name, text and picture are as wide as the page."""


def read_with_neighbours(
    pages: Sequence[Page], blocks: Sequence[Block], figures: Sequence[PlacedFigure]
) -> dict[int, bool]:
    """Return whether the block before or after each picture is next to it on the page, by the order of its placement.

    Left out are pictures with a caption, in a line or a table, and those with no text next to them.
    """
    rotations = {page.page: page.rotation for page in pages}
    captions = {figure.placement.order: figure.caption for figure in figures}
    text = [block for block in blocks if block.kind is not BlockKind.MARGIN]
    on_page: dict[int, list[Block]] = defaultdict(list)
    for block in text:
        if block.kind is not BlockKind.FIGURE:
            on_page[block.page].append(block)
    adjacency_by_picture: dict[int, bool] = {}
    for number, block in enumerate(text):
        if block.kind is not BlockKind.FIGURE or block.placement is None or captions.get(block.placement):
            continue
        box = upright(block.bbox, rotations[block.page])
        near = [
            text_block.order
            for text_block in on_page[block.page]
            if _is_next_to(upright(text_block.bbox, rotations[block.page]), box)
        ]
        if near:
            before = next(
                (text_block for text_block in reversed(text[:number]) if text_block.kind is not BlockKind.FIGURE), None
            )
            after = next((text_block for text_block in text[number + 1 :] if text_block.kind is not BlockKind.FIGURE), None)
            adjacency_by_picture[block.placement] = any(
                text_block is not None and text_block.order in near for text_block in (before, after)
            )
    return adjacency_by_picture


def pictures_by_their_text(documents: Iterable[tuple[str, Mapping[int, bool]]], bounds: Bounds) -> GateResult:
    """Check that enough pictures without a caption are read with text next to them.

    Args:
        documents: Sources with the results of ``read_with_neighbours``.
        bounds: The required share of pictures. With fewer than 20 pictures the gate always passes.
    """
    answers: Counter[bool] = Counter()
    away: Counter[str] = Counter()
    for source, adjacency_by_picture in documents:
        answers.update(adjacency_by_picture.values())
        away.update([source] * sum(not answer for answer in adjacency_by_picture.values()))
    right, total = answers[True], answers.total()
    share = right / total if total else 1.0
    counted = f"{right} of {total} pictures without a caption are read with text next to them"
    message = f"{counted} ({share:.0%}), {bounds.of(PICTURES_BY_TEXT):.0%} asked for"
    passed = PICTURES_BY_TEXT.holds(share, bounds) or total < FEWEST_PICTURES
    worst_sources = ", ".join(f"{count} in {source}" for source, count in away.most_common(EXAMPLES))
    return PICTURES_BY_TEXT.judge(share, bounds, message, passed=passed, most=worst_sources)


def _is_next_to(text: BBox, picture: BBox) -> bool:
    if is_level(text, picture) and gap(text.x0, text.x1, picture.x0, picture.x1) <= _SIDE_PT:
        return True
    return shares_column(text, picture) and -TOUCH_PT <= gap(text.y0, text.y1, picture.y0, picture.y1) <= OWN_COLUMN_PT
