"""What is true of a synthetic manual. Coordinates are those of ``schemas.geometry``; pages count from 1."""

from pydantic import BaseModel, ConfigDict

from schemas.documents import Kind, Role
from schemas.geometry import BBox


class _Fact(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Placed(_Fact):
    id: str
    page: int
    bbox: BBox


class TrueBlock(_Placed):
    """A run of text in one column of one page. ``kind`` is heading, paragraph, step, caption, listing, note or contents.

    ``section`` are the titles over it, its own included where it is a heading; ``mentions`` the figures that it speaks of.
    """

    kind: str
    text: str
    section: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()


class TruePlace(_Fact):
    """Where the tag of a picture without a caption is read, as far as that is certain: no other words come between.

    Attributes:
        after: The block that it follows.
        before: The block that it precedes.
        beside: The block that it follows or precedes, which of both isn't certain.
        row: The table's row in which it stands, and the cell there, from 0.
        within: The block in which it stands, behind ``words`` of it.
    """

    after: str = ""
    before: str = ""
    beside: str = ""
    row: tuple[str, int, int] | None = None
    within: str = ""
    words: str = ""


class TrueFigure(_Placed):
    """A picture as a reader sees it, whatever it was made of (``art``). ``label`` is "" for one without a number.

    ``stands`` is None where a caption, or nothing that is certain, says where its tag is read.
    """

    kind: Kind
    role: Role
    art: str
    caption: str = ""
    label: str = ""
    stands: TruePlace | None = None


class TrueRegion(_Fact):
    """A table's part on one page, or in one column."""

    page: int
    bbox: BBox


class TrueTable(_Fact):
    """A table. A repeated header counts once; ``pictures`` are figures by ``(row, column)``."""

    id: str
    regions: tuple[TrueRegion, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str
    label: str
    section: tuple[str, ...] = ()
    pictures: tuple[tuple[int, int, str], ...] = ()


class TruePage(_Fact):
    """A page at rotation 0, crop box applied. ``order`` are ids of blocks, figures and tables as they are read."""

    page: int
    width_pt: float
    height_pt: float
    rotation: int
    scanned: bool
    order: tuple[str, ...]
    margins: tuple[str, ...]


class TrueSection(_Fact):
    """A heading of the section tree; levels count from 1."""

    level: int
    title: str
    page: int
    path: tuple[str, ...]


class Truth(_Fact):
    """Everything that is true of a manual; ``tags`` are its content figures and icons as they are read."""

    name: str
    seed: int
    pages: tuple[TruePage, ...]
    blocks: tuple[TrueBlock, ...]
    figures: tuple[TrueFigure, ...]
    tables: tuple[TrueTable, ...]
    sections: tuple[TrueSection, ...]
    tags: tuple[str, ...]
