"""Enrich on two real nodes of Ray, its corpus in S3: a node dies, and nobody can see it in what was made."""

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.stores.object_store import open_store
from bench.pool import Sleeper
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.run import RefreshRun
from pipeline.stages.enrich.stage import enrich
from ray_jobs.cluster import actors, connected
from ray_jobs.pools import run_pool
from schemas.corpus.operations import RayOptions
from schemas.parquet import from_parquet
from schemas.ports import ObjectStore
from schemas.stages import Stage, Step
from tests import ray_cluster
from tests.dags.airflow_runs import dag_tests
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parent.parent.parent
MANUALS = REPOSITORY / "examples" / "manuals" / "pdfs" / "[ag]*.pdf"


@pytest.fixture
def cluster(s3_bucket: str) -> Iterator[ray_cluster.RayCluster]:
    """A head and a node, each with a CPU; they know where S3 is, as this process does."""
    assert s3_bucket
    with ray_cluster.running(1, 1) as started:
        yield started


def _corpus(folder: Path, store: str, extra: str = "") -> str:
    file = folder / "corpora" / "manuals.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(f"name: manuals\nsource: {MANUALS}\nstore: {store}\nparse: {{workers: 2, layout: never}}\n{extra}")
    return str(file)


def test_a_pool_waits_for_the_gpus_that_a_corpus_file_names(caplog: pytest.LogCaptureFixture) -> None:
    """The cluster has none when the work begins; its second node has them, as one has that an autoscaler starts."""
    with (
        ray_cluster.running(1, environment={"PYTHONPATH": str(REPOSITORY)}) as cluster,
        connected(RayOptions(address=cluster.client)),
    ):
        assert actors("auto", None, 3) == (3, 0.0)
        workers, gpus = actors(1.0, 2, 3)
        assert (workers, gpus) == (2, 1.0)
        batches = [[("a", b"1")], [("b", b"22")], [("c", b"")]]
        joined = threading.Timer(5, lambda: cluster.add(cpus=2, gpus=2))
        joined.start()
        results = [
            outcome for outcomes in run_pool(Sleeper, (0,), batches, workers=workers, num_gpus=gpus) for outcome in outcomes
        ]
        joined.join()
        assert {outcome.row_id: outcome.value for outcome in results} == {"a": 1, "b": 2, "c": 0}
        assert actors("auto", None, 3) == (2, 1.0)
    assert "no node of the Ray cluster has 1 CPU and 1 GPU; waiting 10 minutes for one" in caplog.text


def records(store: ObjectStore) -> dict[str, Counter[str]]:
    """Return every record of the caches of models, and how often it is there."""
    caches: dict[str, Counter[str]] = {}
    for folder in ("recognised", "vectors"):
        for name in store.names(folder):
            cache = caches.setdefault(name.rpartition("/")[0], Counter())
            rows = from_parquet(store.get(name)).to_pylist()
            cache.update(json.dumps(row, sort_keys=True) for row in rows)
    return caches


def _copy(source: ObjectStore, target: ObjectStore) -> None:
    for name in source.names(""):
        target.replace(name, source.get(name))


def test_a_node_dies_and_the_caches_are_those_of_an_undisturbed_run(
    cluster: ray_cluster.RayCluster, s3_bucket: str, tmp_path: Path
) -> None:
    alone = _corpus(tmp_path / "alone", str(tmp_path / "store"))
    run = RefreshRun(open_workspace(alone), "run")
    planned = run.plan()
    run.parse(planned.version)
    address = f"s3://{s3_bucket}/inset"
    _copy(open_workspace(alone).store, open_store(f"{address}/manuals"))
    run.work(Stage.ENRICH, planned.version)

    workspace = open_workspace(_corpus(tmp_path / "there", address, f"ray: {{address: '{cluster.client}'}}\n"))
    _enrich_and_lose_a_node(workspace, planned.version, cluster)
    cluster_records, expected = records(workspace.store), records(open_workspace(alone).store)
    assert cluster_records.keys() == expected.keys()
    for name, cache in expected.items():
        assert cluster_records[name] == cache, "record by record, and none made twice"


def _enrich_and_lose_a_node(workspace: Workspace, version: str, cluster: ray_cluster.RayCluster) -> None:
    """Enrich a version; the second node dies in the middle of the texts."""
    lost: list[int] = []

    def report(step: str, done: int, total: int, _note: str = "", /) -> None:
        if step == Step.EMBED and total / 4 < done < total and not lost:
            lost.append(done)
            cluster.kill(cluster.nodes[1])

    enrich(workspace, version, report)
    assert lost, "the node died while there was work"


def test_the_dag_enriches_on_the_cluster(
    cluster: ray_cluster.RayCluster, tmp_path: Path, airflow_database: dict[str, str]
) -> None:
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1)
    corpus = write_corpus(tmp_path, f"ray: {{address: '{cluster.client}'}}\n")
    with dag_tests(airflow_database | {"INSET_CORPORA": str(corpus.parent)}) as dags:
        task_states = dags.run("refresh_manuals")
    assert task_states.pop("approve") == "skipped"
    assert set(task_states.values()) == {"success"}, dags.output
    assert "progress: embed" in dags.output


def test_a_cluster_that_wants_another_token_says_so_in_one_line(
    cluster: ray_cluster.RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "another-token-than-that-of-the-cluster")
    script = (
        "from ray_jobs.cluster import connected; from schemas.corpus.operations import RayOptions\n"
        f"with connected(RayOptions(address='{cluster.address}')): pass"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert f"UserError: the Ray cluster at {cluster.address} requires a token, or another one" in process.stderr
