"""A refresh as a scheduler runs it."""

import logging
from pathlib import Path

import pytest

from pipeline import steps
from pipeline.corpus.workspace import Workspace
from pipeline.refresh import refresh
from pipeline.stages.publish import make_live


def test_a_version_that_an_operator_let_pass_is_no_refusal(published: Workspace) -> None:
    page, corpus = Path(published.corpus.source) / "page.pdf", str(published.file)
    page.write_bytes(b"<html>")
    refused = refresh(published).version or ""
    make_live(published, refused, override="nobody needs that page")
    planned = steps.plan(corpus, "run-1")
    assert (planned.version, planned.outcome) == (refused, "unchanged")
    assert steps.publish_version(corpus, "run-1", planned).live
    steps.release(corpus, "run-1")
    page.unlink()
    assert refresh(published).published
    page.write_bytes(b"<html>")
    assert steps.plan(corpus, "run-2").outcome == "ready", "as its list of versions says"


def test_what_a_log_says_of_a_file_is_one_line(published: Workspace, caplog: pytest.LogCaptureFixture) -> None:
    pdfs, corpus = Path(published.corpus.source), str(published.file)
    (pdfs / "a\nERROR forged\x1b[31m.pdf").symlink_to("nowhere")
    (pdfs / "b\nERROR forged.pdf").write_bytes(b"<html>")
    with caplog.at_level(logging.INFO):
        planned = steps.plan(corpus, "run-1")
        steps.parse_shards(corpus, "run-1", planned.version, [0])
    steps.release(corpus, "run-1")
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [message[:30] for message in warned] == [r"quarantine: a\nERROR forged\x1", r"quarantine: b\nERROR forged.pd"]
    assert not [message for message in caplog.messages if "\n" in message or "\x1b" in message]
