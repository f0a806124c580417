"""The whole path with every model that a corpus file can name, over an example manual: nothing is asked or embedded twice."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.notes import read_notes
from pipeline.run import refresh
from schemas.retrieval import Query
from schemas.stages import Stage
from tests.endpoint_server import Call, EndpointServer
from tests.pipeline.conftest import named_models
from tests.tiny_models import write_clip, write_colqwen2

MANUAL = Path(__file__).parents[2] / "examples" / "manuals" / "pdfs" / "gnucash*.pdf"


def _write(folder: Path, endpoint: EndpointServer, **model: Any) -> Workspace:
    described = {"kind": "vlm", "model": "tiny-vlm", "revision": "1", "endpoint": {"url": endpoint.url}} | model
    image = {"model": str(folder / "clip"), "revision": "1"}
    late = {"model": str(folder / "late"), "revision": "1"}
    corpus = {
        "name": "manuals",
        "source": str(MANUAL),
        "parse": {"layout": "never"},
        "captions": {"ocr": "none", "captioner": "vlm"},
    }
    corpus |= named_models({"image": image, "unified": "mean", "late": late, "tables": "minilm"}, {"vlm": described})
    file = folder / "corpora" / "manuals.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(yaml.safe_dump(corpus))
    return open_workspace(str(file))


def _seen(call: Call) -> str:
    assert call.picture
    return f"A technical drawing of {len(call.picture)} bytes with labels, arrows and a frame around its parts."


@pytest.mark.slow
def test_every_model_works_once(tmp_path: Path, endpoint: EndpointServer) -> None:
    write_clip(tmp_path / "clip")
    write_colqwen2(tmp_path / "late")
    endpoint.replies = _seen
    workspace = _write(tmp_path, endpoint)
    result = refresh(workspace)
    assert result.published
    call_count = len(endpoint.calls)
    assert call_count > 20
    for mode in ("image", "late", "hybrid"):
        assert PublishedCorpus(workspace).search(Query("a line drawing with arrows", preset=mode, k=3)).hits

    assert refresh(workspace).version == result.version
    assert len(endpoint.calls) == call_count

    (tmp_path / "corpora" / "ours.md").write_text("Say in one sentence what the picture shows.\nCaption: $caption\n")
    endpoint.replies = lambda call: f"{_seen(call)} It is drawn to scale."
    again = refresh(_write(tmp_path, endpoint, prompt="ours.md"))
    assert again.published
    assert len(endpoint.calls) == 2 * call_count
    counts = {stage: note.counts for stage, note in read_notes(workspace.store, str(again.version)).items()}
    assert (counts[Stage.PARSE]["parsed"], counts[Stage.ENRICH]["structured"]) == (0, 0)
    # Figures' words again, as text and beside their pictures; no other text, and no picture by itself.
    figures = again.counts.rows_by_modality["figure"]
    assert 0 < counts[Stage.ENRICH]["embedded"] <= 2 * figures
