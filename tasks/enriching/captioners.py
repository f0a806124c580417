"""What composes the words of a figure's row. Each is a row of ``CAPTIONERS``, named in the corpus file. Light to import."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schemas.ports import Captioner


class Context:
    """What the document says of a figure, its section's title and the words inside it."""

    version = "1"

    def compose(self, caption: str, inner_text: str, section_path: Sequence[str]) -> str:
        """Return a part a line, empty parts left out."""
        section = section_path[-1] if section_path else ""
        parts = [part for part in (caption.strip(), section.strip(), " ".join(inner_text.split())) if part]
        return "\n".join(parts) or "Figure without caption or words"


CAPTIONERS: "dict[str, Captioner]" = {
    "context": Context(),
}
"""By the name that ``captions.captioner`` of a corpus file gives."""
