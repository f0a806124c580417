"""Tagged copies in processes of their own: limits hold."""

import multiprocessing
from collections.abc import Sequence
from pathlib import Path

import pytest

from backends.pdf.inscribe import Inscription
from backends.stores.object_store import open_store
from schemas.corpus import ParseOptions
from schemas.errors import Failure, FailureCode, UserError
from schemas.geometry import BBox
from schemas.ids import sha256
from schemas.ports import ObjectStore
from tests.manuals import endless, write_manual
from workers.tag_shard import TagJob, tag_documents

TAG = Inscription(1, BBox(180, 300, 420, 460), "<image:00000001.png>")


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path / "store"))


def _job(store: ObjectStore, tmp_path: Path, *inscriptions: Inscription, seed: int = 0) -> TagJob:
    data = write_manual(tmp_path / "manual.pdf", "pump", seed=seed).read_bytes()
    store.put(f"documents/{sha256(data)}.pdf", data)
    return TagJob(sha256(data), "manual.pdf", inscriptions)


def _tagged(store: ObjectStore, jobs: Sequence[TagJob], limits: ParseOptions | None = None) -> list[Failure]:
    options = limits or ParseOptions(workers=1)
    failures = list(tag_documents(jobs, store_address=store.root, limits=options, passwords=(), run_id="run-1"))
    assert multiprocessing.active_children() == []
    return failures


def test_a_copy_is_made(store: ObjectStore, tmp_path: Path) -> None:
    job = _job(store, tmp_path, TAG)
    assert _tagged(store, [job]) == []
    assert store.get(job.name).startswith(store.get(f"documents/{job.doc_id}.pdf"))
    assert job.name.startswith(f"tagged/{job.doc_id}/")


def test_other_tags_make_another_copy(store: ObjectStore, tmp_path: Path) -> None:
    wider = Inscription(1, TAG.bbox, "<image:1700000001.png>")
    moved = Inscription(1, TAG.bbox.grown(1), TAG.tag)
    names = {_job(store, tmp_path, item).name for item in (TAG, wider, moved, TAG)}
    assert len(names) == 3


def test_a_copy_that_fails_is_a_failure_and_the_others_are_made(store: ObjectStore, tmp_path: Path) -> None:
    good = _job(store, tmp_path, TAG)
    bad = _job(store, tmp_path, Inscription(1, BBox(900, 900, 950, 950), TAG.tag), seed=1)
    (failure,) = _tagged(store, [bad, good])
    assert failure.doc_id == bad.doc_id
    assert store.exists(good.name)
    assert (failure.step, failure.code, failure.page, failure.run_id) == ("tag", FailureCode.TAGGING_FAILED, 1, "run-1")
    assert "its tagged copy could not be made: page 1 of the copy lacks the tag" in failure.message
    assert not store.exists(bad.name)


def test_a_copy_that_takes_too_long_is_stopped(store: ObjectStore) -> None:
    data = endless()
    store.put(f"documents/{sha256(data)}.pdf", data)
    job = TagJob(sha256(data), "endless.pdf", (TAG,))
    (failure,) = _tagged(store, [job], ParseOptions(workers=1, timeout_s=0.5))
    assert failure.code is FailureCode.TIME_LIMIT


def test_without_its_original_there_is_no_copy(store: ObjectStore, tmp_path: Path) -> None:
    job = _job(store, tmp_path, TAG)
    store.delete(f"documents/{job.doc_id}.pdf")
    (failure,) = _tagged(store, [job])
    assert "the original is not in the store" in failure.message


def test_a_store_that_does_not_answer_is_nobodys_failure(store: ObjectStore, tmp_path: Path) -> None:
    job = _job(store, tmp_path, TAG)
    (tmp_path / "store" / "tagged").write_text("a file where a folder should be")
    with pytest.raises(UserError, match="this folder does not exist"):
        _tagged(store, [job])
