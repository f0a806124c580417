"""Hits to answer from."""

from typing import Any

from schemas.evidence import Hit
from schemas.filters import Modality
from schemas.tags import TagTemplate


def made_hit(name: str, tagged: str, **changes: Any) -> Hit:
    """Return a hit with a tagged text on page 1; ``changes`` are other fields."""
    fields = {
        "score": 1.0,
        "modality": Modality.TEXT,
        "doc_id": "d" * 64,
        "source": "manual.pdf",
        "page": 1,
        "bbox": (0, 0, 1, 1),
        "regions": [],
        "section_path": [],
        "text": TagTemplate().without(tagged),
        "figure_refs": [],
        "caption": "",
    }
    return Hit(evidence_id=name, tagged_text=tagged, **(fields | changes))
