"""A corpus that lives in S3 alone: PDFs, store and index."""

from pathlib import Path

import pytest

from backends.stores.object_store import open_store
from backends.stores.objects import existing
from backends.stores.s3_store import s3_client
from bench.s3_requests import FIRST, refreshes
from pipeline.corpus.workspace import open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.lease import acquire
from pipeline.run import refresh
from pipeline.stages.publish import make_live, roll_back_version
from pipeline.upkeep.doctor import diagnose
from pipeline.upkeep.prune import prune
from schemas.errors import TransientError
from schemas.retrieval import AnswerQuery, Query
from tests.manuals import write_manual
from tests.published_files import figure_of, page_of, tagged_document_of
from tests.versions import ALWAYS

pytestmark = pytest.mark.slow


def _upload(folder: Path, bucket: str, name: str, subject: str, seed: int) -> None:
    s3_client().upload_file(str(write_manual(folder / name, subject, seed=seed)), bucket, f"pdfs/{name}")


def test_a_corpus_lives_in_s3(tmp_path: Path, s3_bucket: str) -> None:
    _upload(tmp_path, s3_bucket, "pump.pdf", "water pump", 1)
    _upload(tmp_path, s3_bucket, "winch.pdf", "steel winch", 2)
    file = tmp_path / "manuals.yaml"
    file.write_text(
        f"name: manuals\nsource: s3://{s3_bucket}/pdfs\nstore: s3://{s3_bucket}/inset\ncaptions: {{ocr: none}}\n"
        "parse: {workers: 2}\nretention: {versions: 2}\ntags: {pdf: true}\n"
    )
    workspace = open_workspace(str(file))
    first = refresh(workspace)
    assert first.published
    assert not refresh(workspace).published, "an ETag says that nothing changed"

    published = PublishedCorpus(workspace)
    for mode in ALWAYS:
        hits = published.search(Query("screws of the steel winch", preset=mode, k=3)).hits
        assert {hit.source for hit in hits} == {"winch.pdf"}
    answer = published.answer(AnswerQuery("How many bar does the steel winch take?"))
    assert all(figure_of(published, part.figure_id) for part in answer.parts if part.type == "figure")
    doc_id = answer.citations[0].doc_id
    assert page_of(published, doc_id, 1, dpi=36)
    assert tagged_document_of(published, doc_id)[0].startswith(b"%PDF")

    _upload(tmp_path, s3_bucket, "winch.pdf", "tower crane", 3)
    second = refresh(workspace)
    assert (second.plan.changed, second.plan.kept, second.plan.to_parse) == (1, 1, 1)
    assert published.search(Query("tower crane screws", k=1)).version == second.version
    assert roll_back_version(workspace).version == first.version
    assert published.search(Query("steel winch screws", k=1)).version == first.version
    make_live(workspace, str(second.version))
    published.close()

    s3_client().delete_object(Bucket=s3_bucket, Key="pdfs/pump.pdf")
    refresh(workspace)
    _upload(tmp_path, s3_bucket, "winch.pdf", "gear box", 4)
    refresh(workspace)
    pruned = prune(workspace, dry_run=False)
    assert pruned.objects["documents"] >= 1
    names = workspace.store.names("")
    assert not [name for name in names if str(first.version) in name]
    leftover = prune(workspace, dry_run=True)
    assert (leftover.versions, leftover.objects, leftover.records) == ([], {}, {})

    indexes = [name for name in workspace.store.names("versions") if "/_indices/" in name]
    last = max(name.rpartition("/")[2] for name in indexes)
    for name in indexes:  # a field each; a search reads some of them
        if name.endswith(f"/{last}"):
            _spoil_end(s3_bucket, name)
    published = PublishedCorpus(workspace)
    with pytest.raises(
        TransientError, match=r"try again, and if that doesn't help: inset doctor manuals --deep, then inset"
    ):
        published.search(Query("gear box", preset="bm25"))
    published.close()
    assert not diagnose([str(file)], deep=True).ok
    assert refresh(workspace).published


def _spoil_end(bucket: str, name: str) -> None:
    """Change the last bytes of an object, so that its size is what it was."""
    key = f"inset/manuals/{name}"
    data = s3_client().get_object(Bucket=bucket, Key=key)["Body"].read()
    s3_client().put_object(Bucket=bucket, Key=key, Body=data[:-4] + b"----")


def test_two_refreshes_of_a_corpus_in_s3_exclude_each_other(tmp_path: Path, s3_bucket: str) -> None:
    store = open_store(f"s3://{s3_bucket}/inset/manuals")
    acquire(store, "one", tied_to_process=False)
    with pytest.raises(TransientError, match="run 'one' is using this corpus"):
        acquire(store, "other", tied_to_process=False)


def test_a_document_takes_few_requests() -> None:
    documents = 12
    first, again, changed = refreshes(documents)
    assert first.name == FIRST
    folders = ("pdfs", *(f"inset/manuals/{kind}" for kind in ("documents", "figures", "parsed", "structured")))
    of_documents = [
        sum(refreshed.requests[f"{method} {folder}"] for method in ("GET", "HEAD", "PUT") for folder in folders)
        for refreshed in (first, again, changed)
    ]
    assert of_documents[0] <= 14 * documents
    assert of_documents[1] == 0, "nothing changed"
    assert of_documents[2] <= 50, "one changed"


def test_objects_are_found_one_by_one_or_by_a_listing(s3_bucket: str) -> None:
    store = open_store(f"s3://{s3_bucket}/inset/manuals")
    for name in ("parsed/a", "parsed/b", "figures/c"):
        store.put(name, b"1")
    assert existing(store, "parsed", {"parsed/b", "parsed/none"}) == {"parsed/b"}
    assert existing(store, "parsed", set()) == set()


def test_a_put_object_is_kept_unless_it_is_damaged(s3_bucket: str) -> None:
    store = open_store(f"s3://{s3_bucket}/inset/manuals")
    store.put("plan.json", b'{"first": 1}')
    store.put("plan.json", b'{"other": 2}')
    assert store.get("plan.json") == b'{"first": 1}'
    _spoil_end(s3_bucket, "plan.json")
    store.put("plan.json", b'{"again": 3}')
    assert store.get("plan.json") == b'{"again": 3}'
