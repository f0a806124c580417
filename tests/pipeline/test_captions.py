"""Captions are composed when rows are made."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records.notes import read_notes
from pipeline.records.publication import read_pointer
from pipeline.refresh import refresh
from schemas.stages import Stage
from tasks.enriching.captioners import CAPTIONERS
from tests.pipeline.conftest import write_corpus
from tests.versions import read_evidence


def test_another_captioner_makes_rows_anew_and_structures_nothing(
    published: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = read_pointer(published.store)
    assert live is not None
    before = read_evidence(published.store, live.version).to_pylist()

    class Pictures:
        version = "1"

        def compose(self, caption: str, inner_text: str, section_path: Sequence[str]) -> str:
            return f"A picture of {caption.strip()}"

    monkeypatch.setitem(CAPTIONERS, "pictures", Pictures())
    file = write_corpus(tmp_path)
    file.write_text(file.read_text().replace("{ocr: none}", "{ocr: none, captioner: pictures}"))
    workspace = open_workspace(str(file))
    made = refresh(workspace)
    assert made.published
    notes = read_notes(workspace.store, str(made.version))
    figures = [row for row in before if row["modality"] == "figure"]
    assert (notes[Stage.PARSE].counts["parsed"], notes[Stage.ENRICH].counts["structured"]) == (0, 0)
    assert notes[Stage.ENRICH].counts["embedded"] == len(figures) > 0
    after = read_evidence(workspace.store, str(made.version)).to_pylist()
    assert [row for row in after if row["modality"] != "figure"] == [row for row in before if row["modality"] != "figure"]
    assert {row["text"] for row in after if row["modality"] == "figure"} == {
        f"A picture of {row['caption']}" for row in figures
    }
