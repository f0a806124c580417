"""Sections parse, tags and chunks: how PDFs are read, how tags are spelled, how documents are cut into rows."""

from typing import Literal

from pydantic import Field, field_validator

from schemas.corpus.fields import Section, Text, Variable, Workers
from schemas.tags import CANONICAL, DIGITS_DEFAULT, DIGITS_MOST, NAMED_TEMPLATES, TagTemplate

Layout = Literal["never", "doubtful", "every_page"]
"""The pages on which the layout model runs."""


class ParseOptions(Section):
    """How PDFs are read, and how much one document may cost."""

    timeout_s: float = Field(120, gt=0, le=1e6, description="Seconds one document may take before it goes to quarantine.")
    timeout_s_per_page: float = Field(1, ge=0, le=1e6, description="Seconds added to timeout_s for each page.")
    memory_mb: int = Field(2048, ge=256, le=1 << 24, description="Memory one parse process may take, in MiB.")
    max_pages: int = Field(10_000, ge=1, le=1_000_000, description="Pages beyond which a document goes to quarantine.")
    render_dpi: int = Field(150, ge=36, le=600, description="Resolution of figures that are more than one embedded image.")
    max_figure_pixels: int = Field(
        16_000_000, ge=10_000, le=1 << 30, description="Pixels one figure may have; larger ones are scaled."
    )
    layout: Layout = Field(
        "every_page",
        description="Pages on which PyMuPDF's layout model tells paragraphs, list items, headings and tables apart, at 0.2 "
        "CPU-seconds each. doubtful: those with drawings, pictures, or text side by side. Rules read the others.",
    )
    passwords_env: Variable | None = Field(
        None, description="Environment variable with passwords to try on encrypted documents, one a line."
    )
    workers: Workers | None = Field(None, description="Parse processes at once; default: one a CPU core.")
    shard_mb: float = Field(64, gt=0, le=1e6, description="Bytes of PDF one shard holds about, in MiB.")


class TagOptions(Section):
    """How tags are spelled."""

    template: Text = Field(
        CANONICAL,
        description="The spelling of a tag: canonical, paper, or one's own with {number} and any of {ext}, {width}, {height}, "
        "{kind}, {role}, {doc}, {title}, {page}, {bbox}.",
    )
    digits: int = Field(DIGITS_DEFAULT, ge=4, le=DIGITS_MOST, description="Digits of a tag's number before widening.")
    pdf: bool = Field(False, description="Make a copy of each PDF in which every figure's tag is written at its place.")

    @field_validator("template")
    @classmethod
    def _spelled(cls, template: str) -> str:
        return TagTemplate(NAMED_TEMPLATES.get(template, template)).template


class ChunkOptions(Section):
    """How documents are cut into rows."""

    tokens: int = Field(220, ge=32, le=8192, description="Tokens of the embedder one chunk may hold.")
    by: Literal["sections", "pages"] = Field(
        "sections",
        description="What text is grouped by. pages: whole consecutive pages as long as they fit, as in the code of Beyond Text; "
        "a page that doesn't fit alone is cut. Tables and figures have rows of their own either way.",
    )

    def shape(self) -> dict[str, object]:
        """Return what distinguishes chunks from others; a default that came later is left out."""
        return {"tokens": self.tokens} if self.by == "sections" else self.model_dump()
