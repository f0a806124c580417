"""What no kept version needs goes, and nothing else."""

from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.lease import acquire
from pipeline.run import refresh
from pipeline.upkeep.prune import prune, sweep
from schemas.errors import TransientError
from schemas.evidence import EVIDENCE
from schemas.ids import sha256
from schemas.retrieval import AnswerQuery, Query
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus
from tests.published_files import figure_of, page_of


@pytest.mark.slow
def test_a_document_that_went_away_goes_when_no_kept_version_needs_it(corpus_file: Path) -> None:
    folder = corpus_file.parent.parent
    file = write_corpus(folder, "retention: {versions: 2}\ntags: {pdf: true}\n")
    workspace = open_workspace(str(file))
    store = workspace.store
    refresh(workspace)
    nothing = prune(workspace, dry_run=True)
    assert (nothing.versions, nothing.objects, nothing.records) == ([], {}, {})

    winch = sha256((folder / "pdfs" / "winch.pdf").read_bytes())
    (folder / "pdfs" / "winch.pdf").unlink()
    refresh(workspace)
    assert prune(workspace, dry_run=False).objects == {}, "the version before the live one still has it"
    write_manual(folder / "pdfs" / "pump.pdf", "oil pump", seed=5)
    live = refresh(workspace)

    before, sizes = store.names(""), store.sizes("")
    would = prune(workspace, dry_run=True)
    assert not would.removed
    assert store.names("") == before, "a look removes nothing"
    assert would.objects["documents"] == 1
    assert would.objects["figures"] == would.objects["tagged"] * 2 == 2
    assert would.objects["vectors"] > 0

    pruned = prune(workspace, dry_run=False)
    assert (pruned.removed, pruned.objects, pruned.records) == (True, would.objects, would.records)
    assert pruned.bytes == would.bytes == sum(sizes[name] for name in sizes.keys() - set(store.names("")))
    assert not [name for name in store.names("") if winch in name]
    assert prune(workspace, dry_run=True).objects == prune(workspace, dry_run=True).records == {}
    published = PublishedCorpus(workspace)
    answer = published.answer(AnswerQuery("What does the oil pump look like from side 2?"))
    assert [figure_of(published, part.figure_id) for part in answer.parts if part.type == "figure"]
    published.close()
    assert not refresh(workspace).published, "what was pruned is missed by nobody"
    write_manual(folder / "pdfs" / "winch.pdf", "steel winch", seed=2)
    again = refresh(workspace)
    assert (again.published, again.counts.documents, live.counts.documents) == (True, 2, 1)


@pytest.mark.slow
def test_a_pinned_version_stays_with_all_it_needs(corpus_file: Path) -> None:
    folder = corpus_file.parent.parent
    workspace = open_workspace(str(corpus_file))
    first = refresh(workspace)
    for seed in (3, 4, 5):
        pin = f"retention: {{versions: 2, pinned: [{first.version}]}}\n"
        workspace = open_workspace(str(write_corpus(folder, pin)))
        write_manual(folder / "pdfs" / "winch.pdf", f"winch {seed}", seed=seed)
        refresh(workspace)
    pruned = prune(workspace, dry_run=False)
    assert pruned.objects["documents"] == 1
    published = PublishedCorpus(workspace)
    hits = published.search(Query("steel winch screws", version=first.version)).hits
    assert page_of(published, hits[0].doc_id, 1, dpi=36, version=first.version)
    published.close()


def test_a_refresh_that_runs_is_waited_for(corpus_file: Path) -> None:
    workspace = open_workspace(str(corpus_file))
    acquire(workspace.store, "a-run", tied_to_process=False)
    with pytest.raises(TransientError, match="a-run"):
        prune(workspace, dry_run=True)


def test_what_a_dead_writer_left_half_written_goes(published: Workspace) -> None:
    half = Path(published.store.root) / "figures" / ".part-x1y2"
    half.write_bytes(b"half a figure")
    assert prune(published, dry_run=True).objects == {"half written": 1}
    assert half.exists()
    assert prune(published, dry_run=False).objects == {"half written": 1}
    assert not half.exists()


@pytest.mark.parametrize("built", [True, False])
def test_a_version_that_a_dead_run_left_is_swept_to_the_last_folder(corpus_file: Path, built: bool) -> None:
    workspace = open_workspace(str(corpus_file))
    dead_version = "20260101T000000Z-00000000"
    workspace.store.replace(f"versions/{dead_version}/plan.json", b"{}")
    if built:
        schema = EVIDENCE.append(pa.field("search_text", pa.string()))
        workspace.index(dead_version).create(schema.append(pa.field("vector_text", pa.list_(pa.float32(), 4))), {"text": 4})
    (Path(workspace.store.root) / "versions" / dead_version / ".part-x1y2").write_bytes(b"half")
    assert sweep(workspace) == [dead_version]
    assert workspace.store.folders("versions") == []
    assert sweep(workspace) == []
