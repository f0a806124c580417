"""A corpus on a real Weaviate: refreshed, searched, answered, rolled back, swept."""

import contextlib
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from weaviate.classes.config import DataType, Property

from backends.engines.weaviate_index import WeaviateIndex
from backends.engines.weaviate_server import WeaviateServer
from pipeline.corpus.models import embedder
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.evidence import evidence_parts
from pipeline.records.indexing import rows_to_bring_back
from pipeline.records.ledger import read_ledger
from pipeline.records.manifests import manifests, read_manifest
from pipeline.records.notes import read_notes
from pipeline.run import RefreshRun, refresh
from pipeline.stages.publish import make_live, roll_back_version
from pipeline.upkeep.doctor import diagnose
from pipeline.upkeep.forget import forget
from pipeline.upkeep.prune import prune
from query_service.app import create_app
from schemas.answers import FigurePart
from schemas.errors import NotFoundError, TransientError
from schemas.evidence import Hit
from schemas.filters import Filters
from schemas.ports import SearchIndex
from schemas.retrieval import AnswerQuery, Query
from schemas.stages import Stage
from tasks.enriching.spaces import TEXT
from tests import weaviate_server
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus
from tests.pipeline.test_copies import copy_corpus
from tests.versions import ALWAYS

pytestmark = pytest.mark.live

SWITCHES = 20


@pytest.fixture
def corpus_file(tmp_path: Path, weaviate: WeaviateServer) -> Iterator[Path]:
    """Two manuals, two versions kept; the collections that come of it are removed in the end."""
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1)
    write_manual(tmp_path / "pdfs" / "winch.pdf", "steel winch", seed=2)
    existing = _collections(weaviate)
    yield _served(tmp_path, weaviate)
    weaviate.client().alias.delete(alias_name="Served")
    for name in _collections(weaviate) - existing:
        weaviate.client().collections.delete(name)


def _served(folder: Path, weaviate: WeaviateServer, extra: str = "") -> Path:
    address = f"url: '{weaviate.url}', grpc_port: {weaviate.grpc_port}"
    return _corpus(folder, f"index: {{engine: weaviate, {address}{extra}}}\nretention: {{versions: 2}}\n")


def _corpus(folder: Path, extra: str = "") -> Path:
    """Write a corpus whose name no other test of the server uses."""
    file = write_corpus(folder, extra)
    file.write_text(file.read_text().replace("name: manuals", "name: served"))
    return file


def _collections(weaviate: WeaviateServer) -> set[str]:
    return {name for name in weaviate.client().collections.list_all() if name.startswith("Served_")}


def test_a_corpus_lives_on_a_server(corpus_file: Path, weaviate: WeaviateServer) -> None:
    workspace = open_workspace(str(corpus_file))
    existing = _collections(weaviate)
    first = refresh(workspace)
    assert first.published
    assert [gate.message for gate in first.gates if not gate.passed] == []

    published = PublishedCorpus(workspace)
    try:
        for mode in ALWAYS:
            hits = published.search(Query("screws of the steel winch", preset=mode, k=3)).hits
            assert {hit.source for hit in hits} == {"winch.pdf"}
        assert published.search(Query("pump", filters=Filters(documents=["winch.pdf"], pages=[1]))).hits[0].page == 1
        answer = published.answer(AnswerQuery("How many bar does the steel winch take?"))
        assert any(isinstance(part, FigurePart) for part in answer.parts)
    finally:
        published.close()

    versions = [first.version]
    for number, subject in enumerate(("tower crane", "gear box", "oil filter"), 3):
        write_manual(corpus_file.parent.parent / "pdfs" / f"{number}.pdf", subject, seed=number)
        versions.append(refresh(workspace).version)
    assert _collections(weaviate) - existing == {workspace.collection(str(version)) for version in versions[-2:]}

    assert roll_back_version(workspace).version == versions[-2]
    assert diagnose([str(corpus_file)]).ok


def test_a_forgotten_document_is_in_no_collection(corpus_file: Path, weaviate: WeaviateServer) -> None:
    workspace = open_workspace(str(corpus_file))
    refresh(workspace)
    write_manual(corpus_file.parent.parent / "pdfs" / "crane.pdf", "tower crane", seed=3)
    refresh(workspace)
    collections = _collections(weaviate)
    result = forget(workspace, "winch.pdf", dry_run=False)
    (live,) = manifests(workspace.store)
    assert live.version == result.version
    assert _collections(weaviate).isdisjoint(collections), "the collections that held it are gone"
    rows = [row.properties for row in weaviate.client().collections.use(live.collection).iterator()]
    assert len(rows) == live.counts.rows > 0
    assert not any(name in json.dumps(rows, default=str).lower() for name in (*result.documents, "winch"))
    assert weaviate.alias("Served") == live.collection
    assert diagnose([str(corpus_file)], deep=True).ok
    assert not refresh(workspace).published


def test_a_version_is_searched_where_it_was_built(corpus_file: Path, weaviate: WeaviateServer) -> None:
    refresh(open_workspace(str(corpus_file)))
    _corpus(corpus_file.parent.parent)  # LanceDB from now on
    workspace = open_workspace(str(corpus_file))
    published = PublishedCorpus(workspace)
    try:
        assert published.search(Query("steel winch", k=1)).hits[0].source == "winch.pdf"
        moved = refresh(workspace)
        assert moved.published
        result = published.search(Query("steel winch", k=1))
        assert (result.version, result.hits[0].source) == (moved.version, "winch.pdf")
    finally:
        published.close()


def test_a_copied_corpus_outlives_its_first_server(corpus_file: Path, weaviate: WeaviateServer, tmp_path: Path) -> None:
    folder, question = corpus_file.parent.parent, "How many bar does the steel winch take?"
    on_second_server = corpus_file.read_text()
    (tmp_path / "first").mkdir()
    with weaviate_server.running(tmp_path / "first") as first_server:
        first = open_workspace(str(_served(folder, first_server)))
        assert refresh(first).published
        (best, *_) = _hits(first, question)
    copy_corpus(Path(first.store.root), folder / "elsewhere" / "store" / "served")
    shutil.rmtree(first.store.root)
    (folder / "elsewhere" / "served.yaml").write_text(on_second_server + "store: store\n")
    copied = open_workspace(str(folder / "elsewhere" / "served.yaml"))
    with pytest.raises(TransientError, match=first_server.url):
        _hits(copied, question)
    moved = refresh(copied)
    assert (moved.published, moved.plan.to_parse) == (True, 0)
    manifest = read_manifest(copied.store, str(moved.version))
    assert manifest is not None
    assert weaviate.alias("Served") == manifest.collection
    assert _hits(copied, question)[0].evidence_id == best.evidence_id


def _hits(workspace: Workspace, question: str) -> list[Hit]:
    published = PublishedCorpus(workspace)
    try:
        return published.search(Query(question, k=3)).hits
    finally:
        published.close()


def test_the_command_line_answers(corpus_file: Path) -> None:
    for arguments in (["refresh"], ["search"]):
        words = ["steel winch", "--preset", "bm25"] if arguments == ["search"] else []
        command = [sys.executable, "-m", "cli.main", *arguments, str(corpus_file), *words, "--json"]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)["hits"][0]["source"] == "winch.pdf"
    assert "ResourceWarning" not in process.stderr


def test_the_alias_follows_the_pointer_and_is_repaired(corpus_file: Path, weaviate: WeaviateServer) -> None:
    workspace = open_workspace(str(corpus_file))
    collections = []
    for subject in ("tower crane", "gear box"):
        write_manual(corpus_file.parent.parent / "pdfs" / "other.pdf", subject, seed=5)
        manifest = read_manifest(workspace.store, str(refresh(workspace).version))
        assert manifest is not None
        collections.append(manifest.collection)
        assert weaviate.alias("Served") == manifest.collection
    roll_back_version(workspace)
    assert weaviate.alias("Served") == collections[0]

    # A crash after the commit and before the alias was moved:
    weaviate.point("Served", collections[1])
    diagnosis = diagnose([str(corpus_file)])
    assert any("was repaired" in finding.message for finding in diagnosis.findings)
    assert weaviate.alias("Served") == collections[0]
    weaviate.point("Served", collections[1])
    refresh(workspace)
    assert weaviate.alias("Served") == collections[0]


def test_the_alias_follows_a_pointer_that_moves_while_the_alias_does(
    corpus_file: Path, weaviate: WeaviateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = open_workspace(str(corpus_file))
    versions = []
    for subject in ("tower crane", "gear box"):
        write_manual(corpus_file.parent.parent / "pdfs" / "other.pdf", subject, seed=5)
        versions.append(str(refresh(workspace).version))
    roll_back_version(workspace)
    point, calls = WeaviateServer.point, []

    def moved_meanwhile(server: WeaviateServer, name: str, collection: str) -> None:
        point(server, name, collection)
        calls.append(collection)
        if len(calls) == 1:
            roll_back_version(workspace, versions[0])  # an operator, who moves the alias too

    monkeypatch.setattr(WeaviateServer, "point", moved_meanwhile)
    make_live(workspace, versions[1])
    manifest = read_manifest(workspace.store, versions[0])
    assert manifest is not None
    assert weaviate.alias("Served") == manifest.collection
    assert calls[0] != calls[-1] == manifest.collection


def test_switching_under_load_loses_no_request_and_mixes_no_versions(corpus_file: Path, weaviate: WeaviateServer) -> None:
    """Readers ask through the service and through the alias while the pointer goes back and forth."""
    workspace = open_workspace(str(corpus_file))
    holding: list[frozenset[str]] = []
    versions: list[str] = []
    for seed in (1, 3):  # the same file names, all bytes new: no document is in both
        for number, subject in enumerate(("pump", "winch")):
            write_manual(corpus_file.parent.parent / "pdfs" / f"{subject}.pdf", f"steel {subject}", seed=seed + number)
        versions.append(str(refresh(workspace).version))
        holding.append(frozenset(row.doc_id for row in read_ledger(workspace.store, versions[-1])))
    assert holding[0].isdisjoint(holding[1])

    published = PublishedCorpus(workspace)
    client = TestClient(create_app({"manuals": published}), base_url="http://localhost")
    question = "How many screws has the steel pump?"
    vector = embedder(TEXT, workspace.spaces[TEXT.name]).embed_query(question).tolist()
    alias = weaviate.client().collections.use("Served").query

    def through_the_service() -> set[str]:
        reply = client.post("/v1/corpora/manuals/search", json={"query": question, "k": 20}).raise_for_status().json()
        doc_ids = {hit["doc_id"] for hit in reply["hits"]}
        assert doc_ids <= holding[versions.index(reply["version"])]
        return doc_ids

    def by_words() -> set[str]:
        return {
            row.properties["doc_id"] for row in alias.bm25("steel pump", query_properties=["terms_search_text"]).objects
        }

    def by_vector() -> set[str]:
        return {row.properties["doc_id"] for row in alias.near_vector(vector, target_vector="text").objects}

    results: list[set[str]] = []
    stop = threading.Event()

    def read(ask: Callable[[], set[str]]) -> None:
        while not stop.is_set():
            results.append(ask())

    with ThreadPoolExecutor() as pool:
        readers = [pool.submit(read, ask) for ask in (through_the_service, by_words, by_vector)]
        try:
            for turn in range(SWITCHES):
                before = len(results)
                make_live(workspace, versions[turn % 2])
                while len(results) < before + 10 and not any(reader.done() for reader in readers):
                    stop.wait(0.01)
        finally:
            stop.set()
    published.close()
    for reader in readers:
        reader.result()  # raises what a reader saw
    assert len(results) >= 10 * SWITCHES
    assert all(doc_ids and any(doc_ids <= documents for documents in holding) for doc_ids in results)
    assert all(any(doc_ids <= documents for doc_ids in results) for documents in holding)


@pytest.fixture
def ten_manuals(tmp_path: Path, corpus_file: Path) -> Workspace:
    """A corpus of which one changed document is less than a fifth, two versions kept."""
    for number in range(8):
        write_manual(tmp_path / "pdfs" / f"{number}.pdf", f"device {number}", seed=10 + number)
    return open_workspace(str(corpus_file))


def _change(workspace: Workspace, seed: int) -> str:
    """Change one manual, refresh, and return the version that is live then."""
    write_manual(Path(workspace.corpus.source) / "0.pdf", f"machine {seed}", seed=seed)
    result = refresh(workspace)
    assert result.published
    return str(result.version)


def _written(workspace: Workspace, version: str) -> tuple[int, int]:
    counts = read_notes(workspace.store, version, [Stage.BUILD])[Stage.BUILD].counts
    return counts["rows_written"], counts["rows_built"]


def _assert_as_filled(workspace: Workspace, version: str) -> None:
    """Compare a collection with the rows of its version: the same ids, each row as it was written."""
    rows = {row["evidence_id"]: row for part in evidence_parts(workspace.store, version) for row in part.to_pylist()}
    index = workspace.index(version)
    assert index.count() == len(rows)
    assert {str(row["evidence_id"]): row for row in index.fetch(list(rows))} == rows
    assert index.vectors(list(rows), "text").keys() == rows.keys()


def test_collections_take_turns_and_cost_what_changed(ten_manuals: Workspace, weaviate: WeaviateServer) -> None:
    existing = _collections(weaviate)
    versions, collections = list[str](), list[str]()
    for seed in range(30, 36):
        versions.append(_change(ten_manuals, seed))
        collections.append(ten_manuals.collection(versions[-1]))
        rows_written, rows = _written(ten_manuals, versions[-1])
        assert rows_written < rows / 4 if len(versions) > 2 else rows_written == rows
    assert collections[2:] == collections[:2] * 2, "the live one and a spare"
    assert _collections(weaviate) - existing == {*collections[:2]}
    _assert_as_filled(ten_manuals, versions[-1])
    assert weaviate.alias("Served") == collections[-1]
    # The version before is as it was, and one step away.
    _assert_as_filled(ten_manuals, versions[-2])
    roll_back_version(ten_manuals)
    assert weaviate.alias("Served") == collections[-2]
    published = PublishedCorpus(ten_manuals)
    assert published.search(Query("machine 34")).hits[0].source == "0.pdf"
    with pytest.raises(NotFoundError):
        published.search(Query("machine", version=versions[2]))
    published.close()


@contextlib.contextmanager
def _killed_after_a_row(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kill what a block does once it has sent a row."""
    send = WeaviateIndex._send

    def killed(index: WeaviateIndex, batch: pa.RecordBatch, known: Collection[str]) -> int:
        send(index, batch.slice(0, 1), known)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(WeaviateIndex, "_send", killed)
        yield


def _rolled_back(workspace: Workspace, version: str) -> int:
    """Roll back to a version; return the rows that had to be brought back first."""
    manifest = read_manifest(workspace.store, version)
    assert manifest is not None
    rows = rows_to_bring_back(workspace, manifest)
    assert roll_back_version(workspace, version).version == version
    assert rows_to_bring_back(workspace, manifest) == 0
    _assert_as_filled(workspace, version)
    return rows


def test_a_kept_version_is_brought_back_when_it_is_gone_back_to(
    ten_manuals: Workspace, weaviate: WeaviateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    existing = _collections(weaviate)
    corpus = ten_manuals.corpus
    workspace = replace(
        ten_manuals, corpus=corpus.model_copy(update={"retention": corpus.retention.model_copy(update={"versions": 5})})
    )
    versions = [_change(workspace, seed) for seed in range(30, 35)]
    published = PublishedCorpus(workspace)
    for version in versions[:3]:
        with pytest.raises(NotFoundError, match=f"inset rollback served {version} --prepare"):
            published.search(Query("machine", version=version))
    assert _rolled_back(workspace, versions[3]) == 0, "the one before"
    rows = _rolled_back(workspace, versions[0])
    assert 0 < rows < _expected(workspace, versions[0]) / 4
    assert published.search(Query("machine 30")).hits[0].source == "0.pdf"
    assert weaviate.alias("Served") == workspace.collection(versions[0])

    # Killed half way, and then another one: the live one stays whole, and the next sweep removes what was begun.
    with _killed_after_a_row(monkeypatch), pytest.raises(KeyboardInterrupt):
        roll_back_version(workspace, versions[1])
    _assert_as_filled(workspace, versions[0])
    with pytest.raises(NotFoundError):
        published.search(Query("machine", version=versions[1]))
    assert _rolled_back(workspace, versions[4]) == _expected(workspace, versions[4]), "no spare one is whole"
    assert 0 < _rolled_back(workspace, versions[1]) < _expected(workspace, versions[1]) / 4
    prune(workspace, dry_run=False)
    assert len(_collections(weaviate) - existing) == 2
    _assert_as_filled(workspace, versions[1])
    assert diagnose([str(workspace.file)]).ok
    published.close()


def test_a_pinned_version_keeps_a_collection_of_its_own(ten_manuals: Workspace, weaviate: WeaviateServer) -> None:
    existing, corpus = _collections(weaviate), ten_manuals.corpus
    first = _change(ten_manuals, 30)
    retention = corpus.retention.model_copy(update={"pinned": [first]})
    workspace = replace(ten_manuals, corpus=corpus.model_copy(update={"retention": retention}))
    for seed in range(31, 35):
        _change(workspace, seed)
    assert len(_collections(weaviate) - existing) == 3
    _assert_as_filled(workspace, first)


def test_a_delta_that_was_killed_half_way_is_completed(
    ten_manuals: Workspace, weaviate: WeaviateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(30, 33):
        _change(ten_manuals, seed)
    write_manual(Path(ten_manuals.corpus.source) / "0.pdf", "machine 33", seed=33)
    run = RefreshRun(ten_manuals, "run")
    plan = run.plan()
    run.parse(plan.version)
    for stage in (Stage.ENRICH, Stage.ASSEMBLE, Stage.CHECK):
        run.work(stage, plan.version)
    with _killed_after_a_row(monkeypatch), pytest.raises(KeyboardInterrupt):
        run.work(Stage.BUILD, plan.version)
    assert ten_manuals.index(plan.version).count() < _expected(ten_manuals, plan.version)
    run.work(Stage.BUILD, plan.version)
    run.work(Stage.EVALUATE, plan.version)
    assert run.publish(plan.version)
    run.release()
    assert _written(ten_manuals, plan.version)[0] < _expected(ten_manuals, plan.version) / 4
    _assert_as_filled(ten_manuals, plan.version)
    assert weaviate.alias("Served") == ten_manuals.collection(plan.version)


def _expected(workspace: Workspace, version: str) -> int:
    return sum(part.num_rows for part in evidence_parts(workspace.store, version))


def _keep_gone(index: WeaviateIndex, earlier: SearchIndex, schema: pa.Schema, fields: Sequence[str], _: object) -> bool:
    return _DERIVE(index, earlier, schema, fields, ())


def _lose_a_row(index: WeaviateIndex, batches: Iterable[pa.RecordBatch]) -> int:
    return _ADD(index, (batch.slice(1) for batch in batches))


_DERIVE, _ADD = WeaviateIndex.derive, WeaviateIndex.add


@pytest.mark.parametrize(("method", "fault"), [("derive", _keep_gone), ("add", _lose_a_row)])
def test_a_collection_that_was_brought_forward_wrongly_is_filled(
    ten_manuals: Workspace, monkeypatch: pytest.MonkeyPatch, method: str, fault: Callable[..., object]
) -> None:
    for seed in range(30, 33):
        _change(ten_manuals, seed)
    faults = [fault]

    def once(index: WeaviateIndex, *arguments: object) -> object:
        real: Callable[..., object] = _DERIVE if method == "derive" else _ADD
        return (faults.pop() if faults else real)(index, *arguments)

    monkeypatch.setattr(WeaviateIndex, method, once)
    version = _change(ten_manuals, 33)
    assert not faults
    rows_written, rows = _written(ten_manuals, version)
    assert rows_written == rows
    _assert_as_filled(ten_manuals, version)


def test_a_collection_that_lost_rows_is_not_brought_forward(ten_manuals: Workspace, weaviate: WeaviateServer) -> None:
    versions = [_change(ten_manuals, seed) for seed in range(30, 33)]
    rows = [row for part in evidence_parts(ten_manuals.store, versions[-2]) for row in part.to_pylist()]
    for row in rows[:5]:
        weaviate.client().collections.use(ten_manuals.collection(versions[-2])).data.delete_by_id(str(row["evidence_id"]))
    version = _change(ten_manuals, 33)
    rows_written, rows_built = _written(ten_manuals, version)
    assert rows_written == rows_built
    _assert_as_filled(ten_manuals, version)


def test_more_than_a_fifth_is_filled_and_so_is_another_schema(ten_manuals: Workspace, weaviate: WeaviateServer) -> None:
    versions = [_change(ten_manuals, seed) for seed in range(30, 33)]
    spare = weaviate.client().collections.use(ten_manuals.collection(versions[-2]))
    spare.config.add_property(Property(name="another", data_type=DataType.TEXT))
    version = _change(ten_manuals, 33)
    rows_written, rows = _written(ten_manuals, version)
    assert rows_written == rows
    _assert_as_filled(ten_manuals, version)
    for number in range(1, 6):
        write_manual(Path(ten_manuals.corpus.source) / f"{number}.pdf", f"machine {number}", seed=40 + number)
    version = str(refresh(ten_manuals).version)
    rows_written, rows = _written(ten_manuals, version)
    assert rows_written == rows
    _assert_as_filled(ten_manuals, version)
