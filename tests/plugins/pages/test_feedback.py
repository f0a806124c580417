"""What readers said of answers, as operators see it and decide on it."""

import html
import re
from datetime import UTC, datetime
from urllib.parse import urljoin

from fastapi.testclient import TestClient

from pipeline.corpus.workspace import Workspace
from pipeline.operations.feedback import decide, page_figures
from pipeline.records.feedback import add_feedback, write_asked
from pipeline.records.ledger import indexed_sources, read_ledger
from pipeline.records.publication import read_pointer
from schemas.asked import AskedOfDay, UnansweredQuestion
from schemas.feedback import Feedback, FeedbackRegion, Reason
from tests.pipeline.conftest import published, refreshed_once
from tests.plugins.pages.conftest import Rights

__all__ = ["published", "refreshed_once"]

TAB = "/inset/dags/refresh_manuals/feedback"


def test_a_complaint_becomes_a_golden_question_by_its_page_or_figure(
    client: TestClient, rights: Rights, published: Workspace
) -> None:
    store = published.store
    pointer = read_pointer(store)
    assert pointer is not None
    assert "No feedback waits for a decision." in client.get(TAB).text
    sources = indexed_sources(read_ledger(store, pointer.version))
    doc_id = next(doc_id for doc_id, names in sources.items() if names == ("winch.pdf",))
    (figure,) = page_figures(store, pointer.version, doc_id, 1)
    region = FeedbackRegion(doc_id=doc_id, source="winch.pdf", page=1, bbox=figure.bbox)
    complaint = Feedback(
        at=datetime.now(UTC),
        version=pointer.version,
        question="Which <screws> hold the winch?",
        helpful=False,
        reason=Reason.WRONG_FIGURE,
        comment="<b>that is</b> the pump",
        regions=[region],
    )
    add_feedback(store, complaint)
    page = client.get(TAB).text
    assert "&lt;b&gt;that is&lt;/b&gt; the pump" in page
    assert "wrong figure" in page
    values = r'data-entry="(\w+)" data-source="([^"]*)" data-page="(\d*)" data-figure_id="(\w*)"'
    opened = re.findall(f'data-open="question" {values}', page)
    assert opened == [
        (complaint.id, "winch.pdf", "1", ""),
        (complaint.id, "winch.pdf", "1", figure.figure_id),
        (complaint.id, "", "", ""),
    ]
    assert set(re.findall(r'<form data-dag="(\w+)"', page)) == {"inset_feedback"}
    (address,) = re.findall(r'href="([^"]+)">Correct this page', page)
    page_to_correct = client.get(urljoin(TAB, html.unescape(address))).text
    assert 'data-part="' in page_to_correct, "its figures and blocks can be corrected"
    rights.starts = set()
    assert client.get(TAB).text.count("Your role may not start this.") == 4

    decide(store, "manuals", complaint.id, "question", by="ada", figure_id=figure.figure_id)
    assert "No feedback waits for a decision." in client.get(TAB).text
    everything = client.get(TAB, params={"every": "true"}).text
    assert "A golden question by ada" in everything
    assert "winch.pdf, page 1, with its figure" in everything


def test_what_was_asked_and_not_found_is_shown(client: TestClient, published: Workspace) -> None:
    assert "not found" not in client.get(TAB).text
    pointer = read_pointer(published.store)
    assert pointer is not None
    texts = {"Where is the <b>horn</b>?": [1.0, 0.0], "Where's the horn?": [0.9, 0.4], "Who sings?": [0.0, 1.0]}
    unanswered = [
        UnansweredQuestion(text=text, vector=vector, times=3 - at) for at, (text, vector) in enumerate(texts.items())
    ]
    sources = indexed_sources(read_ledger(published.store, pointer.version))
    cited = next(doc_id for doc_id, names in sources.items() if names == ("winch.pdf",))
    counts = {"asked": 9, "abstained": 4, "unsure": 2, "cited": {cited: 3}, "opened": {cited: 1}}
    day = datetime.now(UTC).date()
    asked = AskedOfDay.model_validate({"day": day, "version": pointer.version, "unanswered": unanswered, **counts})
    write_asked(published.store, "aa", asked)
    write_asked(published.store, "bb", asked)
    page = client.get(TAB).text
    rows = re.findall(r'<td class="number">(\d+)</td>', page)
    assert rows == ["18", "8", "4"]
    assert "10 × Where is the &lt;b&gt;horn&lt;/b&gt;? <small>(also: Where&#39;s the horn?)</small>" in page
    assert "2 × Who sings?" in page
    assert "nobody opens: 1</h3>" in page
    assert "<li>pump.pdf</li>" in page
