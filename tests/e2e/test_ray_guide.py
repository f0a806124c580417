"""The blocks of the guide on Ray clusters, each run on a cluster of two nodes with pretended GPUs."""

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from bench.pool import Sleeper
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records.notes import read_notes
from pipeline.run import RefreshRun
from ray_jobs.cluster import connected
from ray_jobs.pools import run_pool
from schemas.corpus import Corpus
from schemas.corpus.operations import RayOptions
from schemas.stages import Stage
from tests import ray_cluster
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus
from tests.tiny_models import write_clip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:ssl=None is deprecated:DeprecationWarning"),  # how Ray's client calls aiohttp
]

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "guides" / "run-on-a-ray-cluster.md").read_text(encoding="utf-8")
FENCED: list[dict[str, Any]] = [
    yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
]
INLINE = re.findall(r"`((?:ray: \{)?(?:runtime_env|address)[^`]*)`", TEXT)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ray_cluster.RayCluster]:
    """Two nodes whose image has Inset's code, with two pretended GPUs each."""
    with ray_cluster.running(3, 3, gpus=2, environment={"PYTHONPATH": str(ROOT)}) as started:
        yield started


def test_no_block_of_the_guide_is_left_out_here() -> None:
    assert [sorted(block) for block in FENCED] == [["embeddings", "models", "ray"], ["captions", "models"]]
    assert INLINE == ["ray: {address: auto}", "ray: {runtime_env: {pip: [...]}}", "runtime_env: {py_modules: []}"]
    for block in FENCED:
        Corpus.model_validate({"name": "a", "source": "b"} | block)


def _vectors(workspace: Workspace, space: str) -> int:
    names = [name for name in workspace.store.names(f"vectors/{space}") if name.endswith(".parquet")]
    return sum(pq.read_metadata(io.BytesIO(workspace.store.get(name))).num_rows for name in names)


def test_a_client_embeds_pictures_on_the_gpus_that_its_block_names(cluster: ray_cluster.RayCluster, tmp_path: Path) -> None:
    """With a tiny model in place of the block's, for four actors on two nodes."""
    block = FENCED[0]
    image = block["models"]["clip"]
    assert (image["gpus"], image["workers"], block["ray"]) == (1, 4, {"address": "ray://ray-head:10001"})
    image |= {"model": str(write_clip(tmp_path / "clip")), "revision": "1", "batch": 1}
    block["ray"]["address"] = cluster.client
    for number in range(3):
        write_manual(tmp_path / "pdfs" / f"{number}.pdf", f"water pump {number}", seed=number)
    corpus = str(write_corpus(tmp_path, yaml.safe_dump(block)))
    workspace = open_workspace(corpus)
    run = RefreshRun(workspace, "run")
    version = run.plan().version
    run.parse(version)
    run.work(Stage.ENRICH, version)
    assert read_notes(workspace.store, version)[Stage.ENRICH].counts["structured"] == 3
    assert _vectors(workspace, "image") >= 6


@pytest.mark.parametrize("text", [line for line in INLINE if "pip" not in line])
def test_lines_of_the_guide_join_a_cluster(
    cluster: ray_cluster.RayCluster, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    settings = yaml.safe_load(text)
    options = RayOptions.model_validate(settings.get("ray", settings))
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)  # where ``auto`` finds it: on a node, Ray itself would know
    joined = options if options.address else options.model_copy(update={"address": cluster.address})
    with connected(joined):
        results = [
            outcome for outcomes in run_pool(Sleeper, (0,), [[("a", b"12")]], workers=1, num_gpus=1) for outcome in outcomes
        ]
    assert [(outcome.row_id, outcome.value) for outcome in results] == [("a", 2)]
    assert os.environ["RAY_ADDRESS"] == cluster.address
