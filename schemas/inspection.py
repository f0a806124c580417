"""What Inset makes of a single PDF, and what is wrong with an installation: the JSON of ``inset parse`` and ``doctor``."""

from pydantic import BaseModel, ConfigDict

from schemas.errors import Failure


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class InspectedFigure(_Model):
    """A placement on a page; ``tag`` is null where its role gets none."""

    tag: str | None
    figure_id: str | None
    bbox: tuple[float, float, float, float]
    role: str
    kind: str
    caption: str
    reason: str


class InspectedPage(_Model):
    """A page: its text in reading order with tags, and its figures."""

    page: int
    width_pt: float
    height_pt: float
    tagged_text: str
    figures: list[InspectedFigure]


class InspectedDocument(_Model):
    """A PDF as Inset takes it in."""

    doc_id: str
    source: str
    pages: list[InspectedPage]
    failures: list[Failure]


class Finding(_Model):
    """One thing that was looked at, and how to mend it where it isn't well."""

    subject: str
    ok: bool
    message: str
    remedy: str = ""


class Diagnosis(_Model):
    """Everything that ``inset doctor`` looked at."""

    ok: bool
    findings: list[Finding]
