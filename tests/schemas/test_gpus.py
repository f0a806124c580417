"""The GPUs that a corpus file gives the models of a refresh."""

import pytest

from schemas.corpus import Corpus

LOCAL = {"kind": "local", "model": "tiny", "revision": "1"}
IMAGE = {"kind": "image_embedder", "model": "ViT-B-32", "revision": "1"}
LATE = {"kind": "late_embedder", "model": "tiny", "revision": "1"}
TEXT = {"kind": "text_embedder", "model": "tiny", "revision": "1"}
ENDPOINT = {"endpoint": {"url": "http://x/v1"}}


@pytest.mark.parametrize(
    ("models", "gpus"),
    [
        ({}, 0),
        ({"captioner": LOCAL}, 0),
        ({"captioner": LOCAL | {"gpus": 1}}, 1),
        ({"unused": LOCAL | {"gpus": 1}}, 0),
        ({"captioner": LOCAL | {"gpus": 0.5, "workers": 3}}, 2),
        ({"captioner": LOCAL | {"kind": "vlm"} | ENDPOINT}, 0),
        ({"image": IMAGE}, 0),
        ({"image": IMAGE | {"gpus": 0}, "late": LATE | {"gpus": 1, "workers": 4}}, 4),
        ({"text": TEXT | {"gpus": 1, "workers": 2}}, 2),
        ({"text": TEXT | {"gpus": 1, "dimension": 4} | ENDPOINT}, 0),
    ],
)
def test_each_model_that_runs_here_counts_with_its_workers(models: dict[str, object], gpus: int) -> None:
    captions = {"captioner": "captioner"} if "captioner" in models else {}
    embeddings = {space: space for space in ("text", "image", "late") if space in models}
    sections = {"models": models, "captions": captions, "embeddings": embeddings}
    assert Corpus.model_validate({"name": "pumps", "source": "/pdfs"} | sections).gpus == gpus
