"""A forgotten document is nowhere: no version finds it, no object holds its words or bytes, no refresh takes it in again."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pymupdf
import pytest
from typer.testing import CliRunner

from backends.stores.objects import read_table
from cli.main import app
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records import access
from pipeline.records.descriptions import open_descriptions
from pipeline.records.ledger import read_forgotten, read_ledger
from pipeline.records.manifests import manifests
from pipeline.records.notes import DERIVATIONS, read_notes
from pipeline.records.publication import read_events, read_pointer, restore_pointer
from pipeline.run import RefreshRun, refresh
from pipeline.stages.plan import plan
from pipeline.stages.publish import roll_back_version
from pipeline.upkeep import forget as forgetting
from pipeline.upkeep.doctor import diagnose
from pipeline.upkeep.forget import forget, readmit
from pipeline.upkeep.prune import prune
from schemas.errors import NotFoundError, UserError
from schemas.ids import document_file, sha256
from schemas.models import Description
from schemas.reports import Finding, ListPart
from schemas.retrieval import Query
from schemas.rights import Rights
from schemas.stages import ON_A_VERSION, Stage
from tests.manuals import picture, write_manual
from tests.pipeline.conftest import write_corpus
from tests.published_files import page_of
from tests.versions import read_evidence
from tests.waiting import wait_for

SUBJECT = "steel winch"


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a corpus with three kept versions: two have the winch, each another; the last is derived, without it."""
    folder = tmp_path_factory.mktemp("forget")
    for number, subject in enumerate(["water pump", *(f"gear {name}" for name in "abcdefghij")]):
        write_manual(folder / "pdfs" / f"{subject.split()[-1]}.pdf", subject, seed=20 + number, pages=1)
    write_manual(folder / "pdfs" / "winch.pdf", SUBJECT, seed=2)
    settings = "retention: {versions: 5}\ntags: {pdf: true}\n"
    workspace = open_workspace(str(write_corpus(folder, settings)))
    assert refresh(workspace).published
    write_manual(folder / "pdfs" / "winch.pdf", SUBJECT, seed=4)
    assert refresh(workspace).published
    aside = (folder / "pdfs" / "winch.pdf").rename(folder / "winch.pdf")
    last = refresh(workspace)
    assert last.published
    assert read_notes(workspace.store, str(last.version))[Stage.BUILD].counts[DERIVATIONS] > 0
    aside.rename(folder / "pdfs" / "winch.pdf")
    prune(workspace, dry_run=False)
    return folder


@pytest.fixture
def three_versions(made_once: Path, tmp_path: Path) -> Workspace:
    """A copy of that corpus."""
    shutil.copytree(made_once, tmp_path, dirs_exist_ok=True)
    return open_workspace(str(tmp_path / "corpora" / "manuals.yaml"))


def _names(workspace: Workspace) -> list[str]:
    return [manifest.version for manifest in manifests(workspace.store)]


def _traces(workspace: Workspace, words: tuple[bytes, ...]) -> list[tuple[str, bytes]]:
    """Return the stored objects with some words in name or content, tables decoded."""
    store, traces = workspace.store, []
    for name in store.names(""):
        data = Path(store.root, name).read_bytes()
        texts = [name.encode(), data]
        if name.endswith(".parquet"):
            texts.append(json.dumps(read_table(store, name).to_pylist(), default=repr).encode())
        traces += [(name, word) for word in words if any(word in text.lower() for text in texts)]
    return traces


def _searched(workspace: Workspace, version: str) -> set[str]:
    published = PublishedCorpus(workspace)
    try:
        hits = published.search(Query(f"{SUBJECT} screws", k=50, version=version)).hits
        return {hit.source for hit in hits}
    finally:
        published.close()


def _ok(workspace: Workspace) -> None:
    diagnosis = diagnose([str(workspace.file)], deep=True)
    assert [finding for finding in diagnosis.findings if not finding.ok and finding.subject.startswith("corpus")] == []


def _winches(workspace: Workspace) -> set[str]:
    rows = (row for version in _names(workspace) for row in read_ledger(workspace.store, version))
    return {row.doc_id for row in rows if row.source == "winch.pdf"}


@pytest.mark.slow
def test_nothing_of_a_forgotten_document_is_left(three_versions: Workspace) -> None:
    workspace, store = three_versions, three_versions.store
    versions, doc_ids = _names(workspace), _winches(workspace)
    assert (len(versions), len(doc_ids)) == (3, 2)
    words = (b"winch", *(doc_id.encode() for doc_id in sorted(doc_ids)))
    assert {name.split("/")[0] for name, _ in _traces(workspace, words)} >= {"documents", "parsed", "tagged", "versions"}
    rows = read_evidence(store, versions[0])
    pixels = store.names("figures")

    would = forget(workspace, "winch.pdf", dry_run=True)
    assert (would.removed, set(would.documents), would.sources) == (False, doc_ids, ["winch.pdf"])
    assert (would.versions, would.replaced, would.version, would.kept) == (versions, versions[0], None, [])
    assert _winches(workspace) == doc_ids, "a look deletes nothing"

    result = forget(workspace, "winch.pdf", dry_run=False, reason="erasure of winch.pdf, request 7", by="ann")
    assert (result.removed, result.versions) == (True, versions)
    # What stays of it: its digest in the list, and in the audit log.
    remaining = {name.split("/")[0] for name, _ in _traces(workspace, words)}
    assert remaining == {"FORGOTTEN.json", "audit", "LIVE"}
    assert not _traces(workspace, (b"winch",))
    assert len(pixels) - len(store.names("figures")) == 4, "two pictures of each of the two"

    assert _names(workspace) == [result.version]
    assert _searched(workspace, "live") >= {"pump.pdf", "a.pdf"}
    assert read_evidence(store, str(result.version)).equals(rows), "the rows of the others are the same"
    index = workspace.index(str(result.version))
    assert (index.count(), index.fetch([str(name) for name in rows.column("evidence_id").to_pylist()])) == (
        rows.num_rows,
        rows.to_pylist(),
    )
    _ok(workspace)
    event = read_events(store, 1)[0]
    assert (event.action, event.by, event.to_version, set(event.documents)) == ("forget", "ann", result.version, doc_ids)
    assert event.reason == "erasure of a forgotten document, request 7"
    assert not refresh(workspace).published


def test_versions_that_never_held_it_stay_and_pins_are_told(published: Workspace) -> None:
    (first,) = _names(published)
    write_manual(Path(published.corpus.source) / "crane.pdf", "tower crane", seed=7)
    second = refresh(published).version
    published.file.write_text(f"{published.file.read_text()}retention: {{pinned: [{second}]}}\n")
    workspace = open_workspace(str(published.file))
    would = forget(workspace, "crane.pdf", dry_run=True)
    assert (would.versions, would.replaced, would.pinned, would.kept) == ([second], second, [second], [first])
    printed = CliRunner().invoke(app, ["forget", str(workspace.file), "crane.pdf"]).output
    assert f"{second} is pinned, and goes all the same" in printed
    result = forget(workspace, "crane.pdf", dry_run=False)
    assert _names(workspace) == [result.version, first]
    roll_back_version(workspace)
    assert _searched(workspace, "live") == {"pump.pdf", "winch.pdf"}
    _ok(workspace)


def test_what_was_held_stays_held(published: Workspace) -> None:
    write_manual(Path(published.corpus.source) / "crane.pdf", "tower crane", seed=7)
    assert refresh(published).published
    roll_back_version(published, reason="the winch is wrong")
    result = forget(published, "winch.pdf", dry_run=False)
    pointer = read_pointer(published.store)
    assert pointer is not None
    assert (pointer.version, pointer.previous, pointer.held) == (result.version, None, True)
    assert [event.reason for event in read_events(published.store, 9)].count("the winch is wrong") == 1
    Path(published.store.root, "LIVE").unlink()
    restore_pointer(published.store, "manuals", fence=9)
    restored = read_pointer(published.store)
    assert restored is not None
    assert (restored.version, restored.held) == (result.version, True)


def test_its_rights_are_forgotten(published: Workspace) -> None:
    rows = read_ledger(published.store, _names(published)[0])
    rights = Rights({row.doc_id: frozenset({"everyone"}) for row in rows})
    access.apply_rights(published.store, lambda _: rights)
    (doc_id,) = forget(published, "winch.pdf", dry_run=False).documents
    now = access.read_rights(published.store, access.read_current(published.store).digest)
    assert [listed_id for listed_id, _ in now] == [row.doc_id for row in rows if row.doc_id != doc_id]
    assert len(published.store.names(access.FOLDER)) == 2


def test_its_failures_are_forgotten_too(published: Workspace) -> None:
    pdfs = Path(published.corpus.source)
    crane = write_manual(pdfs / "crane.pdf", "tower crane", seed=7)
    crane.write_bytes(crane.read_bytes()[: int(crane.stat().st_size * 0.7)])
    doc_id = sha256(crane.read_bytes())
    (failure,) = refresh(published).failures
    assert (failure.doc_id, failure.page) == (doc_id, 2)
    forget(published, "crane.pdf", dry_run=False)
    for name in published.store.names("quarantine"):
        rows = read_table(published.store, name)
        assert doc_id not in rows.column("doc_id").to_pylist()
        assert "crane.pdf" not in rows.column("source").to_pylist()
    assert published.store.names("quarantine"), "those of the kept versions' runs stay"


def test_the_source_that_still_holds_it_is_not_taken_in_unless_asked(published: Workspace) -> None:
    (doc_id,) = forget(published, "winch.pdf", dry_run=False).documents
    planned = plan(published, "look")
    assert (planned.outcome, planned.summary.forgotten, planned.summary.new) == ("unchanged", 1, 0)
    assert not refresh(published).published
    Path(published.corpus.source, "renamed.pdf").write_bytes(Path(published.corpus.source, "winch.pdf").read_bytes())
    assert plan(published, "look").summary.forgotten == 2, "another name is the same document"
    write_manual(Path(published.corpus.source) / "crane.pdf", "tower crane", seed=3)
    result = refresh(published)
    assert (result.published, result.counts.documents, result.plan.forgotten) == (True, 2, 2)
    assert not published.store.exists(document_file(doc_id))
    assert [finding.message for finding in _said_of_forgotten(published)] == [
        "1 documents are forgotten, and aren't taken in again"
    ]

    assert readmit(published, "winch.pdf") == [doc_id]
    result = refresh(published)
    assert (result.counts.documents, result.plan.forgotten) == (3, 0)
    with pytest.raises(UserError, match="isn't forgotten"):
        readmit(published, "winch.pdf")


def _said_of_forgotten(workspace: Workspace) -> list[Finding]:
    return [finding for finding in diagnose([str(workspace.file)]).findings if "forgotten" in finding.subject]


def _listed(service: PublishedCorpus, version: str) -> list[list[str]]:
    with service.opened(version) as opened:
        return [document.sources for document in opened.contents.documents(ListPart()).items]


def test_a_running_service_lets_go_of_it(published: Workspace) -> None:
    service = PublishedCorpus(published)
    query = Query(f"{SUBJECT} screws", k=50)
    version = service.search(query).version
    assert "winch.pdf" in {hit.source for hit in service.search(query).hits}
    assert len(_listed(service, version)) == 2
    (hit, *_) = (hit for hit in service.search(query).hits if hit.source == "winch.pdf")
    assert page_of(service, hit.doc_id, 1, dpi=36)
    forget(published, "winch.pdf", dry_run=False)
    assert {hit.source for hit in service.search(query).hits} == {"pump.pdf"}
    assert _listed(service, service.search(query).version) == [["pump.pdf"]]
    with pytest.raises(NotFoundError, match="there is no version"):
        _listed(service, version)
    with pytest.raises(NotFoundError):
        page_of(service, hit.doc_id, 1, dpi=36)
    service.close()


@pytest.mark.parametrize(
    "step",
    [
        "write_version_rows",
        "put_into_engine",
        "write_inventory",
        "replace_forgotten",
        "remove_versions",
        "rewrite_reasons",
        "prune_all",
    ],
)
def test_a_killed_deletion_is_finished_by_the_next_refresh(
    three_versions: Workspace, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    workspace, doc_ids = three_versions, _winches(three_versions)

    class KilledError(Exception):
        pass

    def killed(*_args: object, **_named: object) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(forgetting, step, killed)
        with pytest.raises(KilledError):
            forget(workspace, "winch.pdf", dry_run=False)
    assert read_forgotten(workspace.store).pending == sorted(doc_ids)
    assert [finding.ok for finding in _said_of_forgotten(workspace)] == [False]
    assert not refresh(workspace).published
    words = (b"winch", *(doc_id.encode() for doc_id in sorted(doc_ids)))
    assert {name.split("/")[0] for name, _ in _traces(workspace, words)} == {"FORGOTTEN.json", "audit", "LIVE"}
    assert len(_names(workspace)) == 1
    assert [event.action for event in read_events(workspace.store, 9)].count("forget") == 1
    _ok(workspace)


def test_the_last_document_may_be_forgotten(corpus_file: Path) -> None:
    workspace = open_workspace(str(corpus_file))
    Path(workspace.corpus.source, "pump.pdf").unlink()
    refresh(workspace)
    forget(workspace, "winch.pdf", dry_run=False)
    assert _searched(workspace, "live") == set()
    assert plan(workspace, "look").outcome == "unchanged"
    _ok(workspace)


def test_what_another_document_shares_stays(published: Workspace) -> None:
    """Two documents with one picture: it stays until both are gone."""
    source = Path(published.corpus.source)
    with pymupdf.open(source / "winch.pdf") as file:
        page = file.new_page()
        page.insert_image((180, 300, 420, 460), stream=picture(101))
        page.insert_text((200, 478), "Figure 3: The water pump seen from side 1", fontsize=10)
        file.save(source / "both.pdf")
    refresh(published)
    figures = set(published.store.names("figures"))
    forget(published, "pump.pdf", dry_run=False)
    assert len(figures) - len(published.store.names("figures")) == 1
    _ok(published)


def test_paid_replies_about_it_go(published: Workspace) -> None:
    """Replies that no kept version needs may be about it, whatever made them."""
    cache = open_descriptions(published.store, "0123456789abcdef")
    cache.append([Description("x", "A steel winch.", "m", 1, 9, 9)])
    published.store.put("looks/0123/records.parquet", b"hashes that an earlier release kept")
    forget(published, "winch.pdf", dry_run=False)
    assert published.store.names("captions") == []
    assert published.store.names("looks") == []


def test_a_document_is_known_by_its_digest_and_before_any_version_has_it(published: Workspace) -> None:
    secret_pdf = write_manual(Path(published.corpus.source) / "secret.pdf", "secret crane", seed=9)
    forget(published, sha256(secret_pdf.read_bytes()), dry_run=False)
    assert not refresh(published).published
    with pytest.raises(UserError, match="neither a kept version nor the source has nothing"):
        forget(published, "nothing.pdf", dry_run=True)


def test_a_refresh_that_runs_is_waited_for(published: Workspace) -> None:
    write_manual(Path(published.corpus.source) / "crane.pdf", "tower crane", seed=7)
    run = RefreshRun(published, "a-run")
    version = run.plan().version
    with ThreadPoolExecutor(1) as pool:
        deletion = pool.submit(forget, open_workspace(str(published.file)), "winch.pdf", dry_run=False)
        wait_for(lambda: bool(read_forgotten(published.store).pending), "the deletion is noted")
        run.parse(version)
        for stage in ON_A_VERSION:
            run.work(stage, version)
        assert run.publish(version)
        assert not deletion.done()
        run.release()
        result = deletion.result()
    assert _names(published) == [read_pointer(published.store).version]  # type: ignore[union-attr]
    assert result.removed
    assert _searched(published, "live") == {"pump.pdf", "crane.pdf"}
    _ok(published)
