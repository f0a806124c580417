"""How hard a synthetic manual is made."""

from dataclasses import dataclass, field, replace

RASTERS = ("photo", "screenshot", "masked", "strips", "tiles", "inline")
VECTORS = ("plot", "bars", "diagram", "flowchart", "circuit")
OVERLAID = ("callouts", "pair")
LAYOUTS = ("left", "ruled", "right", "rows", "alternating", "pair", "span", "list", "margin", "boxed", "between")
STEP_ARTS = ("photo", "circuit", "masked", "strips")
"""What pictures at steps are made of; they may be small."""
STREAMS = ("page", "last", "first", "random")


@dataclass(frozen=True, slots=True)
class Options:
    """The knobs; a share lies between 0 and 1 and is met as evenly as the number of its occasions allows.

    Attributes:
        arts: What figures are made of; each is used in turn.
        tables: What tables look like: ruled, shaded, long (over two pages), pictured (pictures in cells).
        languages: Of chapters, in turn.
        two_columns: Share of chapters in two columns.
        floats: Share of figures that leave their place in the text for the top or the foot of a page.
        wide: Share of two-column floats that span both columns.
        above: Share of captions over their figure.
        unnumbered: Share of captions without a number.
        uncaptioned: Share of figures without a caption.
        icons: Share of paragraphs with an icon in a line.
        far: Share of paragraphs that mention a figure of another chapter.
        lookalikes: Share of paragraphs and listings with words that look like a tag.
        boxes: Listings and notes for each section.
        turned: Share of pages with a page rotation, read upright.
        cropped: Share of pages with a crop box, and things outside it.
        scanned: Share of pages that are an image without text.
        backed: Share of pages with an image behind their text.
        stray: Share of pages whose content is drawn in another order than it is read.
        logo: Whether a logo stands on each page.
        outline: Whether the PDF has an outline.
        steps: How pictures without a caption stand by steps, each in turn: left or right of them or in turn (alternating),
            right of a numbered step (list), in a box with the step (boxed), at the side of several (span), in the cells of a
            ruled table (ruled) or of rows without rules (rows), in the page's margin (margin), two beside each other between
            paragraphs (pair), one between paragraphs (between).
        stream: When the PDF draws pictures: where the page has them (page), after all text (last), before it (first), or
            anywhere among it (random). It changes nothing that is read, and so no seed.
    """

    arts: tuple[str, ...] = ("photo", "plot", "screenshot", "diagram")
    tables: tuple[str, ...] = ("ruled",)
    languages: tuple[str, ...] = ("en",)
    two_columns: float = 0.0
    floats: float = 0.0
    wide: float = 0.0
    above: float = 0.0
    unnumbered: float = 0.0
    uncaptioned: float = 0.0
    icons: float = 0.0
    far: float = 0.1
    lookalikes: float = 0.0
    boxes: float = 0.0
    turned: float = 0.0
    cropped: float = 0.0
    scanned: float = 0.0
    backed: float = 0.0
    stray: float = 0.0
    logo: bool = True
    outline: bool = True
    # Not shown, since what is random comes from the seed and from what is shown: manuals without steps stay as they were.
    steps: tuple[str, ...] = field(default=(), repr=False)
    stream: str = field(default="page", repr=False)


_EASY = Options()
_MEDIUM = replace(
    _EASY,
    arts=(*_EASY.arts, "masked", "bars", "callouts", "flowchart"),
    tables=("ruled", "shaded"),
    two_columns=0.34,
    floats=0.4,
    icons=0.1,
    boxes=0.5,
)
_HARD = Options(
    arts=(*RASTERS, *VECTORS, *OVERLAID),
    tables=("ruled", "shaded", "long", "pictured"),
    languages=("en", "en", "de", "en", "zh"),
    two_columns=0.4,
    floats=0.6,
    wide=0.3,
    above=0.2,
    unnumbered=0.1,
    uncaptioned=0.1,
    icons=0.15,
    far=0.15,
    lookalikes=0.05,
    boxes=0.8,
    turned=0.08,
    cropped=0.08,
    scanned=0.05,
    backed=0.05,
    stray=0.1,
    outline=False,
)

_PICTURES = replace(
    _EASY,
    arts=("photo", "screenshot", "plot", "masked", "diagram", "strips"),
    languages=("en", "en", "he", "de"),
    two_columns=0.3,
    icons=0.1,
    uncaptioned=0.4,
    turned=0.1,
    steps=LAYOUTS,
)

PRESETS = {"easy": _EASY, "medium": _MEDIUM, "hard": _HARD, "pictures": _PICTURES}
