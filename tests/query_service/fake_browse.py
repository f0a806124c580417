"""The browse routes of the HTTP API with fixed replies."""

from typing import Any

from fastapi import APIRouter

from tests.query_service.fake_corpus import DOC_ID, FIGURE_ID, LIVE, OTHER_ID

SOURCE = "manuals/<b>pump</b>.pdf"
DOCUMENT = {
    "doc_id": DOC_ID,
    "sources": [SOURCE],
    "title": "Pump <7>",
    "pages": 4,
    "size": 1000,
    "date": "2026-01-31",
    "language": "en",
    "rows": 9,
    "tables": 1,
    "figures": 2,
}
OUTLINE = [
    {"path": ["Service"], "title": "Service", "level": 1, "page": 3, "label": "iv", "rows": 2},
    {"path": ["Parts"], "title": "Parts", "level": 1, "page": None, "label": None, "rows": 0},
    {"path": ["Service", "Valves"], "title": "Valves", "level": 2, "page": 4, "label": None, "rows": 1},
]
FIGURES = [
    {
        "figure_id": figure_id,
        "role": "content",
        "number": "12345678",
        "caption": caption,
        "doc_id": DOC_ID,
        "source": SOURCE,
        "page": 4,
        "bbox": [5, 6, 7, 8],
        "width": 60,
        "height": 40,
    }
    for figure_id, caption in ((FIGURE_ID, "The <i>valve</i>"), (OTHER_ID, ""))
]
TABLE = {
    "evidence_id": "t1",
    "doc_id": DOC_ID,
    "source": SOURCE,
    "page": 3,
    "label": "iv",
    "bbox": [1, 2, 3, 4],
    "caption": "Table <1>",
    "section_path": ["Service"],
}
CELLS = [["Key", "Does"], ["1", "<b>stops</b>"], ["2", "runs"]]
PAGES = [{"page": page, "label": {3: "iv"}.get(page)} for page in range(1, 5)]


def _listed(items: list[Any]) -> dict[str, Any]:
    return {"version": LIVE, "total": len(items), "items": items, "next": None}


class FakeBrowse:
    """Routes below one corpus, and what was asked of its documents.

    Figures come one at a time, so that a list has several pages.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str | None, str | None, str | None]] = []
        self.router = APIRouter(prefix="/v1/corpora/pumps")
        get = self.router.get
        get("/documents")(self._documents)
        get(f"/documents/{DOC_ID}")(lambda: {"version": LIVE, **DOCUMENT})
        get(f"/documents/{DOC_ID}/outline")(lambda: _listed(OUTLINE))
        get(f"/documents/{DOC_ID}/pages")(lambda: _listed(PAGES))
        for prefix in ("", f"/documents/{DOC_ID}"):
            get(f"{prefix}/figures")(self._figures)
        get(f"/documents/{DOC_ID}/tables")(lambda: _listed([TABLE]))
        get("/tables/t1")(lambda: {"version": LIVE, **TABLE, "rows": CELLS})

    def _documents(
        self, contains: str | None = None, sort: str | None = None, version: str | None = None
    ) -> dict[str, Any]:
        self.asked.append((contains, sort, version))
        return _listed([DOCUMENT] if contains != "nothing" else [])

    def _figures(self, cursor: str | None = None, role: str | None = None) -> dict[str, Any]:
        if role:
            return _listed([FIGURES[1] | {"role": role, "number": None}])
        position = int(cursor or 0)
        following = str(position + 1) if position + 1 < len(FIGURES) else None
        return {**_listed(FIGURES), "items": FIGURES[position : position + 1], "next": following}
