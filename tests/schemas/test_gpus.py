"""The GPUs that a corpus file gives the models of a refresh."""

import pytest

from schemas.corpus import Corpus

LOCAL = {"kind": "local", "model": "tiny", "revision": "1"}
IMAGE = {"model": "ViT-B-32", "revision": "1"}


@pytest.mark.parametrize(
    ("section", "gpus"),
    [
        ({}, 0),
        ({"captions": {"models": {"small": LOCAL}}}, 0),
        ({"captions": {"models": {"small": LOCAL | {"gpus": 1}}}}, 1),
        ({"captions": {"models": {"small": LOCAL | {"gpus": 0.5, "workers": 3}}}}, 2),
        (
            {
                "captions": {
                    "models": {"vlm": {"kind": "vlm", "model": "m", "revision": "1", "endpoint": {"url": "http://x/v1"}}}
                }
            },
            0,
        ),
        ({"embeddings": {"image": IMAGE}}, 0),
        ({"embeddings": {"image": IMAGE | {"gpus": 0}, "late": IMAGE | {"gpus": 1, "workers": 4}}}, 4),
        ({"embeddings": {"gpus": 1, "workers": 2}}, 2),
        ({"embeddings": {"gpus": 1, "revision": "1", "endpoint": {"url": "http://x/v1", "dimension": 4}}}, 0),
    ],
)
def test_each_model_that_runs_here_counts_with_its_workers(section: dict[str, object], gpus: int) -> None:
    assert Corpus.model_validate({"name": "pumps", "source": "/pdfs"} | section).gpus == gpus
