"""A corpus whose folder is copied answers alike elsewhere, and goes on from there: the guide "Copy a corpus"."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from backends.stores.s3_store import s3_client
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.notes import read_notes
from pipeline.records.publication import read_pointer, roll_back
from pipeline.run import refresh
from pipeline.upkeep.doctor import diagnose
from schemas.retrieval import AnswerQuery, Query
from schemas.stages import Stage
from tests.manuals import write_manual
from tests.published_files import figure_of

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "copy-a-corpus.md"
LAST, LEFT_OUT = "LIVE", ("LIVE", "LEASE")
QUESTION = "What does the water pump look like from side 2?"


def copy_corpus(source: Path, target: Path) -> None:
    """Copy a corpus's folder by the commands of the guide."""
    commands = re.findall(r"^\$ ((?:mkdir|for|cp) .*)$", GUIDE.read_text(), re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        folders = command.replace(".inset/store/manuals", str(source)).replace("second/store/manuals", str(target))
        subprocess.run(folders, shell=True, check=True)


def _upload(source: Path, bucket: str) -> None:
    """Do as the guide's ``aws s3 sync`` and ``aws s3 cp``."""
    files = [path for path in source.rglob("*") if path.is_file() and str(path.relative_to(source)) not in LEFT_OUT]
    for path in [*files, source / LAST]:
        s3_client().upload_file(str(path), bucket, f"inset/manuals/{path.relative_to(source)}")


def _elsewhere(workspace: Workspace, store: str) -> Workspace:
    file = workspace.file.parent.parent / "elsewhere" / "manuals.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"{workspace.file.read_text()}store: {store}\n")
    return open_workspace(str(file))


def _answer(workspace: Workspace) -> tuple[object, list[tuple[str, float]], list[bytes]]:
    published = PublishedCorpus(workspace)
    answer = published.answer(AnswerQuery(QUESTION))
    pictures = [figure_of(published, part.figure_id) for part in answer.parts if part.type == "figure"]
    hits = [(hit.evidence_id, hit.score) for hit in published.search(Query(QUESTION)).hits]
    published.close()
    assert pictures
    return answer, hits, pictures


@pytest.mark.parametrize("store_kind", ["folder", "s3"])
def test_a_copy_answers_alike_and_outlives_its_first_store(
    published: Workspace, tmp_path: Path, store_kind: str, request: pytest.FixtureRequest
) -> None:
    first_store, live = Path(published.store.root), read_pointer(published.store)
    before = _answer(published)
    assert live is not None
    if store_kind == "folder":
        copy_corpus(first_store, tmp_path / "elsewhere" / "store" / "manuals")
        copied = _elsewhere(published, "store")
    else:
        bucket = str(request.getfixturevalue("s3_bucket"))
        _upload(first_store, bucket)
        copied = _elsewhere(published, f"s3://{bucket}/inset")
    shutil.rmtree(first_store)
    assert _answer(copied) == before
    assert not refresh(copied).published, "there is nothing to do"

    write_manual(tmp_path / "pdfs" / "crane.pdf", "tower crane", seed=3)
    after = refresh(copied)
    assert (after.published, after.counts.documents, after.plan.to_parse) == (True, 3, 1)
    assert read_notes(copied.store, str(after.version), (Stage.PARSE,))[Stage.PARSE].counts["parsed"] == 1
    assert roll_back(copied.store, "manuals").version == live.version
    assert _answer(copied) == before
    findings = diagnose([str(copied.file)], deep=True).findings
    assert [finding.message for finding in findings if not finding.ok and finding.subject.startswith("corpus")] == []
